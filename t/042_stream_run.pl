# read_stream_run: streams with all flags, per-buffer data, pauses, resets, early ends,
# rings and forks.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# name, blocks as SQL, on a table of 120 blocks
my @shapes = (
	[ 'nothing' => 'SELECT 1 WHERE false' ],
	[ 'one block many times' => 'SELECT 5 FROM generate_series(1, 300)' ],
	[ 'all' => 'SELECT generate_series(0, 119)' ],
	[ 'backward' => 'SELECT generate_series(119, 0, -1)' ],
	[ 'every other' => 'SELECT generate_series(0, 118, 2)' ],
	[ 'at random' => 'SELECT (i * 7919 + i / 120) % 120 FROM generate_series(0, 600) i ORDER BY i' ],
	[ 'runs and jumps' => 'SELECT (i * 11 + j) % 120 FROM generate_series(0, 40) i, generate_series(0, 16) j ORDER BY i, j' ]);

my @flags = ('', 'maintenance => true', 'sequential => true', '"full" => true', 'use_batching => true',
	'maintenance => true, sequential => true, "full" => true, use_batching => true');

# Blocks 0 to 15 at once: the first read has them all.
my $ahead = "ARRAY(SELECT generate_series(0, 15)), \"full\" => true";

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $can_pause = $aio->major >= 19;

		for my $kind ('', 'TEMP')
		{
			for my $data (0, 1, 7, 8, 100, 1024)
			{
				$aio->scenario("shapes and flags, $data bytes of data, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 120, kind => $kind, session => $alice);
					for my $shape (@shapes)
					{
						my ($name, $blocks) = @$shape;
						my $calls = join "\nUNION ALL ", map {
							# evicted before, so that there is something to read
							"SELECT r.blocks, r.read_bytes FROM (SELECT evict_rel('$t') IS NULL AS x OFFSET 0) e,"
							  . " LATERAL read_stream_run('$t', ARRAY($blocks), per_buffer_data => $data, nruns => CASE WHEN x THEN 2 ELSE 2 END"
							  . ($_ ? ", $_" : '') . ($data % 2 ? ", reset_at => '{0}'" : '') . ') r'
						} @flags;
						$alice->gives("SELECT count(*), bool_and(blocks = 2 * n), bool_and(read_bytes = 8192 * d) FROM ($calls) c, (SELECT count(*) AS n, count(DISTINCT b) AS d FROM ($blocks) b(b)) n",
							@flags . '|t|t', $name);
					}
					$aio->proves($t, session => $alice);
				});
			}

			$aio->scenario("what is counted, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 16, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 16');
				my $counts = 'runs, blocks, hits, reads, read_bytes';
				$aio->evict($t, $alice);
				$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead)", '1|16|0|1|131072', 'full: one read');
				$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead, nruns => 3)", '3|48|48|0|0', 'hits, in three runs');
				$aio->evict($t, $alice);
				$alice->gives("SELECT blocks, read_bytes, reads > 1 FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 15)))", '16|131072|t', 'not full: begins with small reads');
				$aio->evict($t, $alice);
				$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead, nruns => 2)", '2|32|16|1|131072', 'read in the first run, hit in the second');
				$alice->gives("SELECT $counts FROM read_stream_run('$t', '{}')", '1|0|0|0|0', 'nothing');
				$alice->gives("SELECT elapsed > 0, user_time + system_time > 0, elapsed < 60000, read_time FROM read_stream_run('$t', $ahead, nruns => 1000)", 't|t|t|0', 'times');
				$aio->evict($t, $alice);
				$alice->gives("SET track_io_timing = on; SELECT read_time > 0, read_time < elapsed FROM read_stream_run('$t', $ahead)", 't|t', 'time of reads');
				$aio->evict($t, $alice);
				$alice->gives("SELECT CASE WHEN waits IS NULL THEN 'unknown' WHEN waits <= reads THEN 'as many as reads at most' END FROM read_stream_run('$t', $ahead)",
					$can_pause ? 'as many as reads at most' : 'unknown', 'waits');
				$aio->proves($t, session => $alice);
			});

			$aio->scenario("reset, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 16, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 16');
				my $counts = 'blocks, hits, read_bytes';
				my %resets = ('{4}' => '16|12|131072', '{0}' => '16|0|131072', '{16}' => '16|0|131072', '{4,8}' => '16|', '{0,1,2,3,15,16}' => '16|');
				for my $at (sort keys %resets)
				{
					$aio->evict($t, $alice);
					$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead, reset_at => '$at', per_buffer_data => 20)", qr/^\Q$resets{$at}\E/, "at $at: what was read ahead is asked for again");
				}
				$aio->proves($t, session => $alice);
			});

			$aio->scenario("ended early, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 120, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 16; SET effective_io_concurrency = 32');
				$alice->gives("SELECT blocks, hits, read_bytes FROM read_stream_run('$t', $ahead, end_at => 3)", '3|0|131072', 'has read more than it has returned');
				$alice->gives("SELECT blocks, hits, read_bytes FROM read_stream_run('$t', $ahead, end_at => 0)", '0|0|0', 'at once');
				$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, end_at => 16)", '16', 'at its end');
				for my $end (0, 1, 2, 17)
				{
					$aio->evict($t, $alice);
					$alice->gives("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 118, 2)), \"full\" => true, nruns => 3, end_at => $end)", 3 * $end, "many reads in flight, at $end");
				}
				$aio->proves($t, session => $alice);
			});
		}

		$aio->scenario('paused', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 16);
			$alice->sql('SET io_combine_limit = 16');
			if (!$can_pause)
			{
				$alice->fails("SELECT * FROM read_stream_run('$t', $ahead, pause_at => '{4}')", '0A000', qr/cannot pause/, 'the server has no such thing');
				return;
			}
			$alice->gives("SELECT blocks, reads, read_bytes FROM read_stream_run('$t', $ahead, pause_at => '{4,8}')", '16|3|131072', 'no read crosses a pause');
			for my $at ('{0}', '{16}', '{0,1,2,15,16}', '{' . join(',', 0 .. 16) . '}')
			{
				$aio->evict($t);
				$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', $ahead, pause_at => '$at', per_buffer_data => 9)", '16|131072', "cold, $at");
				$alice->gives("SELECT blocks, hits FROM read_stream_run('$t', $ahead, pause_at => '$at')", '16|16', "cached, $at");
				$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, pause_at => '$at', reset_at => '{0,2,8,16}', nruns => 2, per_buffer_data => 9)", '32', "reset, $at");
				$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, pause_at => '$at', end_at => 5)", '5', "ended, $at");
			}
			$aio->proves($t);
		});

		$aio->scenario('a ring of buffers', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 300);
			my $all = 'ARRAY(SELECT generate_series(0, 299))';
			for my $context (qw(bulkread bulkwrite vacuum))
			{
				$aio->evict($t);
				my $io = $aio->io_during($alice, "relation/$context", sub {
						$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', $all, context => '$context', ring_size => 128)", '300|2457600', $context);
					});
				is($io =~ s{.*/}{}r, 300 * 8192, "all bytes in the context $context");
				next if !$aio->{has_buffercache};
				my @kept = split /,/, $aio->cached($t);
				cmp_ok(scalar @kept, '<=', 32, 'in few buffers') if $context ne 'bulkread';
			}
			$alice->gives("SELECT blocks FROM read_stream_run('$t', $all, context => 'vacuum')", '300', 'the usual size');
			$aio->proves($t);
		});

		$aio->scenario('forks', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$alice->sql("VACUUM $t");
			$aio->evict($t);
			$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', '{0}', fork => 'vm')", '1|8192', 'visibility map');
			$alice->fails("SELECT * FROM read_stream_run('$t', '{1000}', fork => 'vm')", '22023', qr/block number 1000 is out of range for fork "vm"/, 'and not more');
			$alice->fails("SELECT * FROM read_stream_run('$t', '{}', fork => 'init')", '22023', qr/has no fork "init"/, 'none');
			$alice->fails("SELECT * FROM read_stream_run('$t', '{}', fork => 'x')", '22023', qr/invalid fork name/, 'no such fork');
			$aio->proves($t);
		});

		$aio->scenario('in a batch', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 16);
			# opens the relation, so that the batch reads no catalogs
			$alice->sql("SELECT read_stream_run('$t', '{15}')");
			$alice->gives("SELECT batch_start()::text UNION ALL SELECT concat_ws('|', blocks) FROM read_stream_run('$t', $ahead, use_batching => true) UNION ALL SELECT batch_end()::text", "\n16\n", 'which it leaves and enters again');
			$aio->proves($t);
		});

		$aio->scenario('maintenance_io_concurrency', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$alice->sql('SET effective_io_concurrency = 2; SET maintenance_io_concurrency = 5');
			for my $case ([ 'false' => 2 ], [ 'true' => 5 ])
			{
				my ($maintenance, $expected) = @$case;
				$aio->hold(relation => $t);
				$alice->starts("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 38, 2)), \"full\" => true, maintenance => $maintenance)");
				$aio->poll(sub { $aio->wait_event($alice->pid) =~ /^(?:AioIoCompletion|completion_wait|IoGateHeld)$/ });
				$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid}", $expected, "maintenance $maintenance: reads in progress");
				$aio->release;
				$alice->returns(20, 'all blocks');
				$aio->evict($t);
			}
			$aio->proves($t);
		}, skip => $aio->no_faults // ($aio->method eq 'io_uring' ? undef : 'sessions may read by themselves'));

		$aio->scenario('errors and interrupts', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			my $all = 'ARRAY(SELECT generate_series(0, 39))';
			$alice->sql("SELECT modify_rel_block('$t', 30, corrupt_header => true)");
			$alice->fails("SELECT * FROM read_stream_run('$t', $all, \"full\" => true, per_buffer_data => 100, context => 'vacuum')", 'XX001', qr/invalid page in block 30/, 'a bad page');
			$alice->gives("SELECT count(*) FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 29)))", 1, 'the session goes on');
			$alice->fails("SET statement_timeout = '100ms'; SELECT * FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 29)), nruns => 1000000)", '57014', qr/statement timeout/, 'can be cancelled');
			$alice->sql('RESET statement_timeout');
		}, leaves => 'COMPLETED_SHARED', log => qr/LOG:  invalid page in block 30/);
	}, conf => { shared_buffers => '64MB' });
