# A crash while reads are in flight: the server restarts, the data is as before, and the
# postmaster's io_uring descriptors and mappings do not pile up; the server's own tests do not look
# at these.  No hold and no simulated device is left, whichever process was killed.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Descriptors;
use TestAio::Gate;

# Returns the number of the postmaster's descriptors and mappings by kind.
sub resources
{
	my ($aio) = @_;
	my $postmaster = $aio->postmaster_pid;
	my @rings = descriptors($postmaster, qr/^anon_inode:\[io_uring\]/);
	my @others = descriptors($postmaster, qr/^(?!anon_inode:\[io_uring\])./);
	open my $maps, '<', "/proc/$postmaster/maps" or return;
	my @maps = <$maps>;
	close $maps;
	open my $status, '<', "/proc/$postmaster/status" or return;
	my ($locked) = map { /^VmLck:\s*(\d+)/ ? $1 : () } <$status>;
	close $status;
	return {
		'io_uring descriptors' => scalar @rings,
		'other descriptors' => scalar @others,
		'io_uring mappings' => scalar(grep { /io_uring/ } @maps),
		'locked memory' => $locked // 0 };
}

# process that is killed => SQL that delays the read; undef for a hold
my %killed = (
	controller => undef,
	issuer => undef,
	waiter => undef,
	gate => undef,
	'gate while it serves' => "io_device('30s', keep => true)",
	'io worker' => undef);

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $before = resources($aio);
		my @seen;

		for my $victim ('the reader', 'another backend', 'an I/O worker or the checkpointer')
		{
			$aio->scenario("$victim is killed", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 40);
				$aio->sql('CHECKPOINT');
				$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
				my $pid = $victim eq 'the reader' ? $alice->pid : $victim eq 'another backend' ? $bob->pid
				  : ($aio->pids_of_type($aio->method eq 'worker' ? 'io worker' : 'checkpointer'))[0];
				$aio->kill_process($pid);
				$aio->poll(sub { !kill 0, $alice->pid });
				$_->disconnect for $alice, $bob;
				# the status file still says "ready" before the restart
				$aio->poll(sub { my $log = $aio->log_text; $log =~ /ready to accept connections/ }) or die "no restart\n";
				$aio->observe;
				$aio->gives('SELECT count(*) FROM pg_aios', 0, 'nothing under way');
				my $carol = $aio->session('carol');
				$carol->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))", 40, 'reads');
				$aio->proves($t);
				$aio->note_state;
				push @seen, resources($aio);
			}, dies => 1);
		}
	  SKIP: {
			skip 'no /proc to look at', 1 if grep { !defined } @seen;
			my ($first, $second, $third) = @seen;
			for my $what (sort keys %$first)
			{
				is($second->{$what} - $first->{$what}, $third->{$what} - $second->{$what}, $aio->method . ": $what grow by the same from crash to crash");
				next if $what =~ /io_uring/;
				is($second->{$what}, $first->{$what}, $aio->method . ": $what do not grow");
			}
			# 18.6 and 19rc1 keep one set of rings for each crash
			for my $what ('io_uring descriptors', 'io_uring mappings')
			{
				my $growth = $second->{$what} - $first->{$what};
				cmp_ok($growth, '<=', $before->{$what}, $aio->method . ": $what grow by one set at most");
			}
		}

		for my $who (sort keys %killed)
		{
			next if $who eq 'io worker' && $aio->method ne 'worker';
			$aio->scenario("kill -9: $who", sub {
				my $t = $aio->table('t', 20);
				my %pid;
				@pid{qw(controller issuer waiter)} = map { $_->pid } $aio->gate_hold_read($t, $killed{$who});
				$pid{gate} = $pid{'gate while it serves'} = $aio->sql('SELECT worker FROM io_gate');
				($pid{'io worker'}) = $aio->pids_of_type('io worker');
				$aio->kill_process($pid{$who});
				$aio->sessions($_)->wait_for_end for qw(issuer waiter);
				$aio->restarted;
				$aio->gives('SELECT (SELECT count(*) FROM io_held), (SELECT count(*) FROM io_filters), (SELECT count(*) FROM io_devices)',
					'0|0|0', 'nothing is held, and nothing in force');
				$aio->proves($t);
			}, dies => 1,
				skip => $aio->lacks('gate'));
		}
	}, leaves => 'nothing', # each crash leaves rings behind, one for each possible process
	# the device for all relations is not to delay what sessions read of the catalogs
	conf => { restart_after_crash => 'on', 'test_aio.reach_synchronous_reads' => 'off', max_connections => 10, max_worker_processes => 2, autovacuum_worker_slots => 1, max_wal_senders => 0 });
