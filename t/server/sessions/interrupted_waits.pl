# A session is cancelled, runs into statement_timeout, or is terminated, at each place where
# it may wait for a read.  I/O workers hold the read, so that its owner can be interrupted.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# statements that wait, by what they wait for
		my %waits = (
			'its own read' => sub { my ($alice, $bob, $t) = @_; $alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)") },
			'its own stream' => sub { my ($alice, $bob, $t) = @_; $alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 38, 2)))") },
			'its own scan' => sub { my ($alice, $bob, $t) = @_; $alice->starts("SELECT count(*) FROM $t") },
			'the read of another' => sub {
				my ($alice, $bob, $t) = @_;
				$bob->starts("SELECT read_rel_block_ll('$t', 0, nblocks => 16)");
				$aio->holds(1, 'the other is held');
				$alice->starts("SELECT count(*) FROM read_buffers('$t', 0, 20)");
			});
		my %ends = (
			'pg_cancel_backend' => [ '57014', qr/canceling statement due to user request/ ],
			'statement_timeout' => [ '57014', qr/canceling statement due to statement timeout/ ],
			'pg_terminate_backend' => [ '57P01', qr/terminating connection due to administrator command/ ]);

		for my $wait (sort keys %waits)
		{
			for my $end (sort keys %ends)
			{
				my $others = $wait =~ /another/;
				$aio->scenario("$end while it waits for $wait", sub {
					my ($alice, $bob) = $aio->sessions(qw(alice bob));
					my $t = $aio->table('t', 40);
					$alice->sql('SELECT count(*) FROM pg_class');
					# a longer timeout is tried if it comes before the wait
					for my $limit ($end eq 'statement_timeout' ? (300, 3000, 30_000) : 0)
					{
						$alice->sql("SET statement_timeout = $limit");
						$aio->hold_in_workers($t, { relation => $t, pid => ($others ? $bob : $alice)->pid }, sub { $waits{$wait}->($alice, $bob, $t); return ($alice, $bob) });
						last if $alice->gets_to_wait('AioIoCompletion');
						$aio->release;
						$_->wait_for_end for $alice, $bob;
						$aio->evict($t);
					}
					ok(!$alice->has_ended, 'waits');
					$aio->sql("SELECT $end(${\$alice->pid})") if $end ne 'statement_timeout';
					if ($end eq 'pg_terminate_backend' && !$others)
					{
						# a session exits after its reads have ended
						$aio->wait_for("SELECT count(*) > 0 FROM pg_aios WHERE pid = ${\$alice->pid}");
						$aio->release;
					}
					$alice->raises(@{ $ends{$end} }, $end);
					$aio->release;
					$bob->wait_for_end;
					is($bob->error, undef, 'the other has no error');
					$end eq 'pg_terminate_backend' ? $alice->quit : $alice->sql('RESET statement_timeout');
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 40)", 40, 'reads later') if $end ne 'pg_terminate_backend';
					$aio->proves($t);
				}, log => $aio->terminated('alice'),
				skip => $aio->no_faults);
			}
		}
	});
