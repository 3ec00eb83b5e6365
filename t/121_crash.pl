# A crash while reads are under way: the server restarts, data is as it was, and
# what io_uring had of descriptors and mappings is not there twice (a gap that
# server developers have stated).
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Descriptors and mappings of the postmaster, by kind.
sub resources
{
	my ($aio) = @_;
	my ($postmaster) = $aio->{postmaster} =~ /^postmaster (\d+)/;
	my @fds = map { readlink($_) // '' } glob "/proc/$postmaster/fd/*";
	open my $maps, '<', "/proc/$postmaster/maps" or return;
	my @maps = <$maps>;
	close $maps;
	open my $status, '<', "/proc/$postmaster/status" or return;
	my ($locked) = map { /^VmLck:\s*(\d+)/ ? $1 : () } <$status>;
	close $status;
	return {
		'io_uring descriptors' => scalar(grep { /io_uring/ } @fds),
		'other descriptors' => scalar(grep { !/io_uring|^$/ } @fds),
		'io_uring mappings' => scalar(grep { /io_uring/ } @maps),
		'locked memory' => $locked // 0 };
}

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
				kill 'KILL', $pid;
				my $path = $aio->node->data_dir . '/postmaster.pid';
				$aio->poll(sub { !kill 0, $alice->pid });
				$_->disconnect for $alice, $bob, $aio->{observer};
				# the status file says "ready" when connections are taken again
				$aio->poll(sub { my $log = $aio->log_text; $log =~ /ready to accept connections/ }) or die "no restart\n";
				$aio->observe;
				$aio->gives('SELECT count(*) FROM pg_aios', 0, 'nothing under way');
				my $carol = $aio->session('carol');
				$carol->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))", 40, 'reads');
				$aio->proves($t);
				$aio->note_state;
				push @seen, resources($aio);
			}, dies => 1, log => [ qr/terminated by signal 9/, qr/FATAL:/, qr/could not/, qr/exited with exit code/ ]);
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
			# 18.6 and 19rc1 keep the rings of their earlier lives, one set for each crash
			for my $what ('io_uring descriptors', 'io_uring mappings')
			{
				my $growth = $second->{$what} - $first->{$what};
				cmp_ok($growth, '<=', $before->{$what}, $aio->method . ": $what grow by one set at most");
			}
		}
	}, conf => { restart_after_crash => 'on' });
