# Sequential scans: which rows they return, in which order, and how many blocks they read.
# Forward and backward, from the middle (synchronized), of a range of TIDs, rescanned, and
# in parallel by chunks of several blocks.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Makes a table whose rows are numbered from 0 in physical order, a fixed number to a page.
sub numbered
{
	my ($aio, $name, $pages, $per_page) = @_;
	my $length = int(8000 / $per_page) - 60;
	my $rows = $pages * $per_page;
	$aio->sql("CREATE UNLOGGED TABLE scenario.$name (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
		  . "INSERT INTO scenario.$name SELECT i, repeat('x', $length) FROM generate_series(0, $rows - 1) i;"
		  . "VACUUM (FREEZE, ANALYZE, TRUNCATE off) scenario.$name; SELECT evict_rel('scenario.$name')");
	$aio->gives("SELECT pg_relation_size('scenario.$name') / 8192", $pages, "$name has $pages pages");
	return "scenario.$name";
}

sub numbers { my ($from, $to) = @_; return join "\n", $from <= $to ? $from .. $to : reverse $to .. $from }

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('cold', 'cached')
		{
			$aio->scenario("forward and backward, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = numbered($aio, 'r', 50, 4);
				my $prepare = sub { $kind eq 'cold' ? $aio->evict($t) : $alice->sql("SELECT count(*) FROM $t") };
				$prepare->();
				$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t");
				$alice->gives('FETCH ALL FROM c', numbers(0, 199), 'forward');
				$prepare->();
				$alice->gives('FETCH BACKWARD ALL FROM c', numbers(199, 0), 'backward');
				$prepare->();
				# each change of direction, inside a page and at its edge
				my $at = -1;
				for my $step (3, -2, 1, 7, -4, 100, -100, 90, 9, -1, -60, 200, -3, 1, -300)
				{
					my ($first, $last) = $step > 0 ? ($at + 1, $at + $step) : ($at - 1, $at + $step);
					$last = 199 if $last > 199;
					$last = 0 if $last < 0;
					$at = $at + $step > 199 ? 200 : $at + $step < 0 ? -1 : $last;
					$alice->gives(($step > 0 ? "FETCH FORWARD $step" : "FETCH BACKWARD ${\-$step}") . ' FROM c', numbers($first, $last), "by $step");
				}
				$alice->sql('COMMIT');
			});
		}

		$aio->scenario('each block is read once', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered($aio, 'r', 50, 4);
			$alice->sql("SELECT count(*) FROM $t");
			for my $direction ('FORWARD', 'BACKWARD')
			{
				my $io = $aio->io_during($alice, 'relation/normal', sub {
						$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t");
						$alice->sql('MOVE FORWARD ALL FROM c') if $direction eq 'BACKWARD';
						$aio->evict($t);
						# MOVE BACKWARD ALL would rewind the cursor instead
						$alice->sql("FETCH $direction ALL FROM c; COMMIT");
					});
				is($io =~ s{.*/}{}r, 50 * 8192, "$direction: bytes");
			}
			is($aio->blocks_during($t, sub { $alice->sql("SELECT count(*) FROM $t") }, $alice), '50/50', 'all hits afterwards');
		});

		$aio->scenario('a scan that ends early leaves nothing', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered($aio, 'r', 50, 4);
			for my $rows (1, 4, 5, 60)
			{
				$aio->evict($t);
				$alice->gives("SELECT n FROM $t LIMIT $rows", numbers(0, $rows - 1), "LIMIT $rows");
			}
			# the look-ahead begins with one block, so few are read in vain
			$aio->evict($t);
			my ($reads, $bytes) = split m{/}, $aio->io_during($alice, 'relation/normal', sub { $alice->sql("SELECT n FROM $t LIMIT 1") });
			cmp_ok($bytes, '<=', 16 * 8192, 'one row: not the whole table');
		});

		$aio->scenario('a range of TIDs', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered($aio, 'r', 50, 4);
			$alice->sql("SELECT count(*) FROM $t");
			my %ranges = (
				"ctid >= '(10,0)' AND ctid < '(20,0)'" => [ 40, 79, 10 ],
				"ctid > '(10,4)' AND ctid <= '(20,1)'" => [ 44, 80, 11 ],
				"ctid >= '(49,1)'" => [ 196, 199, 1 ],
				"ctid <= '(0,2)'" => [ 0, 1, 1 ],
				"ctid >= '(0,0)' AND ctid < '(9999,0)'" => [ 0, 199, 50 ]);
			for my $range (sort keys %ranges)
			{
				my ($first, $last, $pages) = @{ $ranges{$range} };
				$aio->evict($t);
				my $fetched = $aio->blocks_during($t, sub { $alice->gives("SELECT n FROM $t WHERE $range", numbers($first, $last), $range) }, $alice);
				# a bound inside the page before is known only once this has been looked at
				like($fetched, qr{^(?:$pages|${\($pages + 1)})/0$}, "$range: blocks") || diag($fetched);
				$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t WHERE $range; MOVE ALL FROM c");
				$aio->evict($t);
				$alice->gives('FETCH BACKWARD ALL FROM c', numbers($last, $first), "$range, backward");
				$alice->sql('COMMIT');
			}
			$alice->gives("SELECT count(*) FROM $t WHERE ctid >= '(50,0)'", 0, 'nothing behind the end');
		});

		$aio->scenario('rescans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered($aio, 'r', 50, 4);
			$alice->sql('SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off');
			for (1 .. 2)
			{
				$alice->gives("SELECT g, count(*), sum(n), min(n), max(n) FROM generate_series(1, 3) g JOIN $t ON n >= 0 * g GROUP BY g ORDER BY g",
					join("\n", map { "$_|200|19900|0|199" } 1 .. 3), 'three times the same');
			}
			# each scan is left in the middle
			$aio->evict($t);
			$alice->gives("SELECT string_agg((SELECT n FROM $t WHERE n >= g * 37 LIMIT 1)::text, ',') FROM generate_series(0, 5) g", '0,37,74,111,148,185', 'left in the middle');
		});

		$aio->scenario('TABLESAMPLE', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered($aio, 'r', 200, 2);
			# by blocks: both rows of a block or none
			$aio->evict($t);
			my $rows = $alice->sql("SELECT string_agg(n::text, ',') FROM $t TABLESAMPLE SYSTEM (40) REPEATABLE (7)");
			my @rows = split /,/, $rows;
			cmp_ok(scalar @rows, '>', 80, 'about a half');
			cmp_ok(scalar @rows, '<', 240, 'and no more');
			is(join(',', grep { !($_ % 2) } @rows), join(',', map { $_ - 1 } grep { $_ % 2 } @rows), 'whole pages, in order');
			$alice->gives("SELECT string_agg(n::text, ',') FROM $t TABLESAMPLE SYSTEM (40) REPEATABLE (7)", $rows, 'the same when cached');
			$aio->evict($t);
			$alice->gives("SELECT count(*), sum(n) FROM $t TABLESAMPLE SYSTEM (100)", '400|79800', 'all of it');
			$alice->gives("SELECT count(*), sum(n) FROM $t TABLESAMPLE BERNOULLI (100)", '400|79800', 'row by row');
		});

		# a table of more than a quarter of the buffer pool
		$aio->scenario('synchronized', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = numbered($aio, 'r', 600, 1);
			$_->sql('SET synchronize_seqscans = on') for $alice, $bob;
			$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t; MOVE 300 FROM c");
			$aio->evict($t);
			my @rows = split /\n/, $bob->sql("SELECT n FROM $t");
			my $start = $rows[0];
			# the position is reported every 16 blocks
			ok($start > 0 && $start % 16 == 0 && $start < 320, "begins where the other is, at $start");
			is(join(',', @rows), join(',', $start .. 599, 0 .. $start - 1), 'goes on from there, around the end');
			is(join(',', split /\n/, $alice->sql('FETCH ALL FROM c')), join(',', 300 .. 599), 'the other goes on, too');
			# now the position is at the end; a scan reported to be there begins anew
			$alice->sql('MOVE BACKWARD ALL FROM c; MOVE 100 FROM c; COMMIT');
			my $middle = $bob->sql("SELECT n FROM $t LIMIT 1");
			$bob->sql('BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM ' . $t);
			my @forward = split /\n/, $bob->sql('FETCH ALL FROM c');
			is(join(',', sort { $a <=> $b } @forward), join(',', 0 .. 599), 'each row once');
			$aio->evict($t);
			is($bob->sql('FETCH BACKWARD ALL FROM c'), join("\n", reverse @forward), 'and backward the same way');
			$bob->sql('COMMIT');
			$bob->sql('SET synchronize_seqscans = off');
			$bob->gives("SELECT n FROM $t LIMIT 1", 0, 'switched off, from the beginning');
			$bob->sql('SET synchronize_seqscans = on');
			my $small = numbered($aio, 's', 500, 1);
			$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $small; MOVE 300 FROM c");
			$bob->gives("SELECT n FROM $small LIMIT 1", 0, 'a smaller table from its beginning');
			$alice->sql('COMMIT');
		});

		# 6200 / 2048 blocks, rounded up to a power of two, are a chunk of 4
		$aio->scenario('parallel', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = numbered($aio, 'r', 6200, 1);
			$aio->sql("CREATE FUNCTION scenario.me() RETURNS int LANGUAGE plpgsql PARALLEL SAFE VOLATILE AS 'BEGIN RETURN pg_backend_pid(); END'");
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
			for my $sync ('off', 'on')
			{
				$_->sql("SET synchronize_seqscans = $sync") for $alice, $bob;
				$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t; MOVE 1000 FROM c");
				$alice->gives("SELECT count(*), count(DISTINCT n), sum(n), min(n), max(n) FROM $t", '6200|6200|19216900|0|6199', "each row once, synchronized $sync");
				$bob->sql('COMMIT');
			}
			$_->sql('SET synchronize_seqscans = off') for $alice;
			my $plan = $alice->sql("EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT me, n FROM (SELECT scenario.me(), n FROM $t) s");
			my ($launched) = $plan =~ /Workers Launched: (\d+)/;
			cmp_ok($launched // 0, '>', 0, 'has workers') || diag($plan);
			my ($hit) = $plan =~ /Buffers: shared.*? hit=(\d+)/;
			my ($read) = $plan =~ /Buffers: shared.*? read=(\d+)/;
			my $blocks = ($hit // 0) + ($read // 0);
			# workers look at some catalogs as well
			ok($blocks >= 6200 && $blocks < 6600, "the blocks of all participants are counted once: $blocks");
			# the last 64 chunks of each size are smaller
			$alice->gives("SELECT count(*) FILTER (WHERE pids > 1), count(*) FILTER (WHERE rows <> 4)"
				  . " FROM (SELECT n / 4, count(DISTINCT me) AS pids, count(*) AS rows FROM (SELECT scenario.me(), n FROM $t) s WHERE n < 5600 GROUP BY 1) c",
				'0|0', 'each chunk of four blocks belongs to one process');
			# in the end, single blocks
			$alice->gives("SELECT count(*), count(DISTINCT n) FROM (SELECT scenario.me(), n FROM $t WHERE n >= 5600) s", '600|600', 'and each row of the last chunks once');
			$alice->gives("SELECT count(*) FROM generate_series(1, 2) g, LATERAL (SELECT count(*) AS c FROM $t WHERE n % 2 < g OFFSET 0) s", 2, 'rescanned');
		});
	}, long => [qw(sync)], conf => { shared_buffers => '16MB', max_worker_processes => 8, max_parallel_workers => 4, autovacuum => 'off' });
