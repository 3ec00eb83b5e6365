# Statements, transactions and sessions that end while reads are under way: cancel,
# statement_timeout, pg_terminate_backend(), subtransactions, at each place where
# one may wait.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my ($sync, $worker) = ($aio->method eq 'sync', $aio->method eq 'worker');

		# who wants what, and what happens then
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
					$aio->hold(relation => $t, pid => ($others ? $bob : $alice)->pid);
					# after the session has got to where it waits
					$alice->sql('SET statement_timeout = 300') if $end eq 'statement_timeout';
					$waits{$wait}->($alice, $bob, $t);
					if ($end eq 'statement_timeout') { }
					else
					{
						$alice->waits_on('AioIoCompletion');
						$aio->sql("SELECT $end(${\$alice->pid})");
					}
					if ($end eq 'pg_terminate_backend' && !$others)
					{
						# its reads must have ended before it goes
						$aio->wait_for("SELECT count(*) > 0 FROM pg_aios WHERE pid = ${\$alice->pid}");
						$aio->release;
					}
					$alice->raises(@{ $ends{$end} }, $end);
					$aio->release if $aio->{holding};
					$bob->wait_for_end;
					is($bob->error, undef, 'the other has no error');
					$end eq 'pg_terminate_backend' ? $alice->quit : $alice->sql('RESET statement_timeout');
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 40)", 40, 'reads later') if $end ne 'pg_terminate_backend';
					$aio->proves($t);
				}, leaves => 'COMPLETED_SHARED', log => qr/FATAL: .*terminating connection/,
				skip => !$worker ? 'needs I/O workers, which hold reads while their owner can be interrupted' : $aio->no_faults);
			}
		}

		# without faults, at whatever point it happens
		$aio->scenario('cancelled at any time', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 120);
			my $ended = 0;
			for my $round (1 .. 15)
			{
				$aio->evict($t);
				$alice->starts("SELECT count(*) FROM generate_series(1, 2000) i, LATERAL (SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7 + j * 13) % 120 FROM generate_series(0, 59) j)), evict_rel('$t')) r");
				$aio->poll(sub { $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid}") > 0 || $sync || $round % 3 == 0 }, 2);
				$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
				$alice->wait_for_end;
				$ended++ if $alice->error && $alice->error->{sqlstate} eq '57014';
			}
			cmp_ok($ended, '>', 0, 'cancelled');
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119)))", 120, 'reads');
			$aio->proves($t);
		}, leaves => 'COMPLETED_SHARED');

		for my $how ('ROLLBACK TO s', 'ROLLBACK', 'COMMIT', 'RELEASE s')
		{
			$aio->scenario("$how with reads under way", sub {
				my ($alice) = $aio->sessions('alice');
				for my $kind ('', 'TEMP')
				{
					my $t = $aio->table("t$kind", 40, kind => $kind, session => $alice);
					$alice->sql('BEGIN; SAVEPOINT s');
					$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
					$alice->sql($how);
					$alice->sql('COMMIT') if $how =~ / s/;
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 40)", 40, 'reads');
					$aio->proves($t, session => $alice);
				}
			}, leaves => 'COMPLETED_SHARED');
		}

		# a temporary table cannot be dropped while its session still writes to its memory
		$aio->scenario('exit with reads of a temporary table', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40, kind => 'TEMP', session => $alice);
			$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
			$aio->end_session($alice);
			my ($bob) = $aio->sessions('bob');
			my $u = $aio->table('u', 40, kind => 'TEMP', session => $bob);
			$bob->sql("SELECT read_rel_block_ll('$u', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b; DROP TABLE u");
			$bob->gives('SELECT 1', 1, 'lives');
		}, leaves => 'COMPLETED_SHARED');
	});
