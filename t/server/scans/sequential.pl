# Sequential scans of one session: their rows, the order of the rows, and the blocks that they
# read.  Forward and backward, ended early, of a range of TIDs, rescanned, of a sample.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Rows;

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('cold', 'cached')
		{
			$aio->scenario("forward and backward, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = numbered_table($aio, 'r', 50, 4);
				my $prepare = sub { $kind eq 'cold' ? $aio->evict($t) : $alice->sql("SELECT count(*) FROM $t") };
				$prepare->();
				$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t");
				$alice->gives('FETCH ALL FROM c', numbers(0, 199), 'forward');
				$prepare->();
				$alice->gives('FETCH BACKWARD ALL FROM c', numbers(199, 0), 'backward');
				$prepare->();
				# changes of direction within a page and at its edges
				my $at = -1;
				for my $step (3, -2, 1, 7, -4, 100, -100, 90, 9, -1, -60, 200, -3, 1, -300)
				{
					my ($first, $last) = $step > 0 ? ($at + 1, $at + $step) : ($at - 1, $at + $step);
					$last = 199 if $last > 199;
					$last = 0 if $last < 0;
					$at = $at + $step > 199 ? 200 : $at + $step < 0 ? -1 : $last;
					$alice->gives(($step > 0 ? "FETCH FORWARD $step" : "FETCH BACKWARD ${\-$step}") . ' FROM c', numbers($first, $last), "on by $step");
				}
				$alice->sql('COMMIT');
			});
		}

		$aio->scenario('each block is read once', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered_table($aio, 'r', 50, 4);
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
			is($aio->blocks_during($t, sub { $alice->sql("SELECT count(*) FROM $t") }, $alice), '50/50', 'a second scan finds all blocks cached');
		});

		$aio->scenario('a scan that ends early', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered_table($aio, 'r', 50, 4);
			for my $rows (1, 4, 5, 60)
			{
				$aio->evict($t);
				$alice->gives("SELECT n FROM $t LIMIT $rows", numbers(0, $rows - 1), "LIMIT $rows");
			}
			# the look-ahead begins with one block, so the scan reads few blocks in vain
			$aio->evict($t);
			my ($reads, $bytes) = split m{/}, $aio->io_during($alice, 'relation/normal', sub { $alice->sql("SELECT n FROM $t LIMIT 1") });
			cmp_ok($bytes, '<=', 16 * 8192, 'LIMIT 1 reads a small part of the table');
		});

		$aio->scenario('a range of TIDs', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered_table($aio, 'r', 50, 4);
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
				# a bound within a page: the scan has to look at that page, too
				like($fetched, qr{^(?:$pages|${\($pages + 1)})/0$}, "$range: blocks") || diag($fetched);
				$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT n FROM $t WHERE $range; MOVE ALL FROM c");
				$aio->evict($t);
				$alice->gives('FETCH BACKWARD ALL FROM c', numbers($last, $first), "$range, backward");
				$alice->sql('COMMIT');
			}
			$alice->gives("SELECT count(*) FROM $t WHERE ctid >= '(50,0)'", 0, 'no rows beyond the end');
		});

		$aio->scenario('rescans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered_table($aio, 'r', 50, 4);
			$alice->sql('SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off');
			for (1 .. 2)
			{
				$alice->gives("SELECT g, count(*), sum(n), min(n), max(n) FROM generate_series(1, 3) g JOIN $t ON n >= 0 * g GROUP BY g ORDER BY g",
					join("\n", map { "$_|200|19900|0|199" } 1 .. 3), 'each scan of the inner side returns all rows');
			}
			# LIMIT ends each scan in the middle
			$aio->evict($t);
			$alice->gives("SELECT string_agg((SELECT n FROM $t WHERE n >= g * 37 LIMIT 1)::text, ',') FROM generate_series(0, 5) g", '0,37,74,111,148,185', 'scans that end in the middle');
		});

		$aio->scenario('TABLESAMPLE', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = numbered_table($aio, 'r', 200, 2);
			# SYSTEM takes whole blocks: both rows of a block or none
			$aio->evict($t);
			my $rows = $alice->sql("SELECT string_agg(n::text, ',') FROM $t TABLESAMPLE SYSTEM (40) REPEATABLE (7)");
			my @rows = split /,/, $rows;
			cmp_ok(scalar @rows, '>', 80, 'SYSTEM (40): not too few rows');
			cmp_ok(scalar @rows, '<', 240, 'and not too many');
			is(join(',', grep { !($_ % 2) } @rows), join(',', map { $_ - 1 } grep { $_ % 2 } @rows), 'both rows of each page, in order');
			$alice->gives("SELECT string_agg(n::text, ',') FROM $t TABLESAMPLE SYSTEM (40) REPEATABLE (7)", $rows, 'the same rows from cached blocks');
			$aio->evict($t);
			$alice->gives("SELECT count(*), sum(n) FROM $t TABLESAMPLE SYSTEM (100)", '400|79800', 'SYSTEM (100): all rows');
			$alice->gives("SELECT count(*), sum(n) FROM $t TABLESAMPLE BERNOULLI (100)", '400|79800', 'BERNOULLI (100): all rows');
			$aio->sql('CREATE TABLE scenario.e (n int)');
			for my $method ('SYSTEM', 'BERNOULLI')
			{
				$alice->gives("SELECT count(*) FROM scenario.e TABLESAMPLE $method (100)", 0, "$method: no rows of an empty table");
			}
		});
	});
