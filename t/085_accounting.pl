# What reads are counted as: hits and reads in EXPLAIN (BUFFERS), blocks and bytes
# and operations in pg_stat_io for each object and context, time only when asked.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

sub buffers_of
{
	my ($session, $query) = @_;
	my $plan = $session->sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
	my ($top) = $plan =~ /"Plan": (\{.*)/s;
	my %count = map { my ($n) = $top =~ /"\Q$_\E": (\d+)/; $_ => $n // 0 } 'Shared Hit Blocks', 'Shared Read Blocks', 'Local Hit Blocks', 'Local Read Blocks';
	return join '/', @count{ 'Shared Hit Blocks', 'Shared Read Blocks', 'Local Hit Blocks', 'Local Read Blocks' };
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			$aio->scenario("hits and reads, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 40, kind => $kind, session => $alice);
				my $object = $kind eq 'TEMP' ? 'temp relation/normal' : 'relation/normal';
				my $counts = sub { my ($hit, $read) = @_; return $kind eq 'TEMP' ? "0/0/$hit/$read" : "$hit/$read/0/0" };
				my $stream = "SELECT * FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))";
				buffers_of($alice, $_) for $stream, "SELECT blk FROM $t";
				for my $case ([ 0 => 40 ], [ 10 => 30 ], [ 40 => 0 ])
				{
					my ($hit, $read) = @$case;
					for my $query ($stream, "SELECT blk FROM $t")
					{
						$aio->evict($t, $alice);
						$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(5, 4 + $hit) % 40))");
						my $io = $aio->io_during($alice, $object, sub {
								is(buffers_of($alice, $query), $counts->($hit, $read), "$hit hit, $read read: $query");
							});
						is($io =~ s{.*/}{}r, $read * 8192, 'bytes in pg_stat_io');
					}
				}
				# a block that repeats is read once and hit after that
				$aio->evict($t, $alice);
				is(buffers_of($alice, "SELECT * FROM read_stream_for_blocks('$t', ARRAY[7, 7, 7, 9, 7])"), $counts->(3, 2), 'repeats');
				$aio->proves($t, session => $alice);
			});
		}

		# a scan of a large table, and VACUUM, have contexts of their own
		$aio->scenario('contexts', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 600);
			$alice->sql('SET vacuum_buffer_usage_limit = 0');
			$alice->gives("SELECT count(*) FROM $t", 600, 'warm-up');
			my %bytes = (
				'relation/bulkread' => "SELECT count(*) FROM $t",
				'relation/normal' => "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 599)))",
				'relation/vacuum' => "SET vacuum_buffer_usage_limit = '256kB'; VACUUM (FREEZE, DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			for my $context (sort keys %bytes)
			{
				$aio->evict($t);
				my $io = $aio->io_during($alice, $context, sub { $alice->sql($bytes{$context}) });
				my ($reads, $read_bytes) = split m{/}, $io;
				# VACUUM reads the visibility map too, and once more what it has marked
				cmp_ok($read_bytes, '>=', 600 * 8192, "$context: bytes");
				cmp_ok($read_bytes, '<=', 610 * 8192, "$context: not many more");
				cmp_ok($reads, '<', 120, "$context: combined");
			}
			$aio->proves($t);
		});

		$aio->scenario('time', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			my $time = "SELECT sum(read_time) FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation' AND context = 'normal'";
			my $spent = sub {
				my $before;
				for my $query ('SELECT pg_stat_force_next_flush()', 'SELECT pg_stat_clear_snapshot()') { $alice->sql($query) }
				$aio->sql('SELECT pg_stat_clear_snapshot()');
				return $aio->sql($time) || 0;
			};
			$alice->sql('SET track_io_timing = off');
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[0])");
			my $before = $spent->();
			$aio->evict($t);
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))");
			is($spent->() - $before, 0, 'none when it is not asked for');
			$aio->evict($t);
			$alice->sql('SET track_io_timing = on');
			$aio->hold(pid => $alice->pid);
			$alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))");
			$aio->holds(1);
			# until it has been held so long by the server's own clock
			my $held_since = $aio->sql('SELECT extract(epoch FROM clock_timestamp())');
			$aio->wait_for("SELECT extract(epoch FROM clock_timestamp()) > $held_since + 0.05");
			$aio->release;
			$alice->ends;
			my $ms = $spent->() - $before;
			# 19 asks io_uring for completions before it begins to wait, and is held there
			cmp_ok($ms, '>=', $aio->method eq 'io_uring' && $aio->major >= 19 ? 0 : 50, 'the time that a read was waited for');
			cmp_ok($ms, '<', 10000, 'in milliseconds');
		}, skip => $aio->no_faults);

		$aio->scenario('EXPLAIN (IO)', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
			$alice->sql("SET io_combine_limit = 8; SET effective_io_concurrency = 4; SELECT count(*) FROM $t");
			$aio->evict($t);
			my $plan = $alice->sql("EXPLAIN (ANALYZE, IO, FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT blk FROM $t");
			my %io = $plan =~ /"([^"]*)": ([\d.]+)/g;
			diag($plan) if !defined $io{'I/O Count'};
			cmp_ok($io{'I/O Count'}, '>=', 8, 'number of reads');
			cmp_ok($io{'I/O Count'}, '<=', 12, 'not many more');
			cmp_ok($io{'I/O Waits'}, '<=', $io{'I/O Count'}, 'waits');
			cmp_ok($io{'Max Prefetch Distance'} // 1, '<=', 40, 'distance');
			$plan = $alice->sql("EXPLAIN (ANALYZE, IO, FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT blk FROM $t");
			is(($plan =~ /"I\/O Count": (\d+)/)[0] // 0, 0, 'none when all is there');
		}, skip => $aio->major < 19 ? 'EXPLAIN has the option IO since 19' : undef);
	}, conf => { shared_buffers => '16MB' });
