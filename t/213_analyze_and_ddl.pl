# ANALYZE, CREATE INDEX, ALTER DATABASE SET TABLESPACE, TRUNCATE and ON COMMIT DELETE ROWS:
# commands that read a whole table, or after which blocks that were read are others.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('ANALYZE', sub {
			my ($alice) = $aio->sessions('alice');
			# two rows a page; a page of ten has no row any more, and a row of each page of seven is dead
			my $t = 'scenario.a';
			$aio->sql("CREATE UNLOGGED TABLE $t (n int, ten int, maybe int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
				  . "INSERT INTO $t SELECT i, i % 10, CASE WHEN i % 4 = 0 THEN i END, repeat('x', 3900) FROM generate_series(0, 2399) i;"
				  . "DELETE FROM $t WHERE (n / 2) % 7 = 3 AND n % 2 = 1");
			my $live = 2400 - $aio->sql('SELECT count(*) FROM generate_series(0, 2399) n WHERE (n / 2) % 7 = 3 AND n % 2 = 1');
			my $dead = 2400 - $live;
			for my $target (100, 2)
			{
				my $sample = $target * 300;
				my $pages = $sample < 1200 ? $sample : 1200;
				$alice->sql("SET default_statistics_target = $target");
				$aio->evict($t);
				$alice->notices;
				my ($reads, $bytes) = split m{/}, $aio->io_during($alice, 'relation/vacuum', sub { $alice->sql("ANALYZE (VERBOSE) $t") });
				my ($found) = grep { /scanned/ } $alice->notices;
				is($bytes, $pages * 8192, "$target: blocks of the sample, each read once");
				like($found, qr/scanned $pages of 1200 pages/, 'it says so, too');
				if ($pages == 1200)
				{
					like($found, qr/containing $live live rows and $dead dead rows; $live rows in sample, $live estimated total rows/, 'all rows');
					$aio->gives("SELECT reltuples, relpages FROM pg_class WHERE oid = '$t'::regclass", "$live|1200", 'reltuples');
					$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", "$live|$dead", 'and the statistics');
					$aio->gives("SELECT n_distinct, correlation > 0.99 FROM pg_stats WHERE tablename = 'a' AND attname = 'n'", '-1|t', 'n: distinct, in order');
					$aio->gives("SELECT n_distinct FROM pg_stats WHERE tablename = 'a' AND attname = 'ten'", 10, 'ten values');
					$aio->gives("SELECT abs(null_frac - 0.75) < 0.03 FROM pg_stats WHERE tablename = 'a' AND attname = 'maybe'", 't', 'three of four are null');
				}
				else
				{
					my ($seen, $seen_dead, $in_sample, $estimated) = $found =~ /containing (\d+) live rows and (\d+) dead rows; (\d+) rows in sample, (\d+) estimated/;
					is($seen + $seen_dead, 2 * $pages, 'the rows of the sample');
					cmp_ok($in_sample, '<=', $sample, 'no more than asked for');
					cmp_ok(abs($estimated - $live), '<', 0.05 * $live, 'the estimate is near the truth');
					is($estimated, int($seen / $pages * 1200 + 0.5), 'and follows from what was seen');
				}
			}
			$alice->gives("SELECT count(*), sum(n) FROM $t", $aio->sql('SELECT count(*), sum(n) FROM generate_series(0, 2399) n WHERE NOT ((n / 2) % 7 = 3 AND n % 2 = 1)'), 'the rows');
		});

		for my $workers (0, 2)
		{
			$aio->scenario("CREATE INDEX, $workers workers", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = 'scenario.c';
				$aio->sql("CREATE TABLE $t (n int, k int, p point, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
					  . "INSERT INTO $t SELECT i, (i * 7919) % 1600, point(i, 0), repeat('x', 1800) FROM generate_series(0, 1599) i; DELETE FROM $t WHERE n % 16 = 5");
				$alice->sql("SET max_parallel_maintenance_workers = $workers; SET min_parallel_table_scan_size = 0; SET maintenance_work_mem = '128MB'");
				my @indexes = (
					[ btree => 'k', 'k = i' ], [ brin => 'n', 'n = i' ], [ gin => '(ARRAY[k])', 'ARRAY[k] @> ARRAY[i]' ],
					[ hash => 'k', 'k = i' ], [ gist => 'p', 'p ~= point(i, 0)' ], [ spgist => 'p', 'p ~= point(i, 0)' ]);
				# the first three are made by workers
				splice @indexes, 3 if $workers;
				for my $index (@indexes)
				{
					my ($am, $column, $condition) = @$index;
					$aio->evict($t);
					my $fetched = $aio->blocks_during($t, sub { $alice->sql("CREATE INDEX c_$am ON $t USING $am ($column)") }, $alice) =~ s{/.*}{}r;
					cmp_ok($fetched, '>=', 400, "$am: reads all of the table");
					cmp_ok($fetched, '<=', 405, 'and each block once') if !$workers;
					# BRIN counts ranges, and 18 and 19 count for GIN what one of the processes has found
					my $counts = $am ne 'brin' && !($am eq 'gin' && $workers);
					$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.c_$am'::regclass", 1500, 'counts its rows') if $counts;
					$aio->sql("SELECT evict_rel('scenario.c_$am')");
					$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
					# a search by BRIN reads a hundred pages
					my ($step, $found) = $am eq 'brin' ? (53, 29) : (1, 1500);
					$alice->gives("SELECT count(*), sum(s.found) FROM generate_series(0, 1599, $step) i, LATERAL (SELECT count(*) AS found FROM $t WHERE $condition) s WHERE s.found > 0",
						"$found|$found", "$am: each key is found once");
					$aio->gives("SELECT count(*) FROM (SELECT bt_index_check('scenario.c_btree', true)) c", 1, 'amcheck finds nothing') if $am eq 'btree' && !$aio->lacks('amcheck');
					$aio->sql("DROP INDEX scenario.c_$am");
				}
			});
		}

		$aio->scenario('CREATE INDEX CONCURRENTLY under a writer', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 200);
			$bob->sql("BEGIN; INSERT INTO $t SELECT '$t', i, 0, proof('$t', i, 0) FROM generate_series(200, 209) i");
			$alice->starts("CREATE INDEX CONCURRENTLY t_i ON $t (blk)");
			$alice->waits_on('virtualxid');
			$aio->evict($t);
			$bob->sql('COMMIT');
			$alice->ends;
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
			$alice->gives("SELECT count(*), sum(blk) FROM (SELECT blk FROM $t ORDER BY blk OFFSET 0) s", '210|21945', 'the rows of before and after');
			$aio->proves($t, blocks => 210);
		});

		$aio->scenario('ALTER DATABASE SET TABLESPACE', sub {
			my ($alice) = $aio->sessions('alice');
			my $directory = $aio->node->basedir . '/elsewhere';
			mkdir $directory or die "$directory: $!";
			$aio->sql("CREATE TABLESPACE elsewhere LOCATION '$directory'");
			for my $strategy ('wal_log', 'file_copy')
			{
				# a template nobody is connected to
				my $bob = $aio->session('bob', dbname => 'other');
				$bob->sql("CREATE TABLE t AS SELECT i AS n, repeat('x', 1800) AS body FROM generate_series(0, 399) i");
				my $sum = $bob->sql('SELECT count(*), sum(n), sum(length(body)) FROM t');
				$aio->end_session($bob);
				$aio->sql("CREATE DATABASE moves TEMPLATE other STRATEGY $strategy");
				my $read = sub { my ($name) = @_;
					my $carol = $aio->session('carol', dbname => 'moves');
					$carol->gives('SELECT count(*), sum(n), sum(length(body)) FROM t', $sum, "$strategy: $name");
					my $path = $carol->sql("SELECT pg_relation_filepath('t')");
					$carol->sql('UPDATE t SET n = n + 400');
					$sum = $carol->sql('SELECT count(*), sum(n), sum(length(body)) FROM t');
					$aio->end_session($carol);
					return $path;
				};
				like($read->('as copied'), qr{^base/}, 'in the default tablespace');
				$aio->sql('ALTER DATABASE moves SET TABLESPACE elsewhere');
				like($read->('moved, with pages that were dirty'), qr{^pg_tblspc/}, 'in the other');
				$aio->sql('ALTER DATABASE moves SET TABLESPACE pg_default');
				like($read->('and back'), qr{^base/}, 'in the default tablespace');
				$aio->sql('DROP DATABASE moves');
				$bob = $aio->session('bob', dbname => 'other');
				$bob->sql('DROP TABLE t');
				$aio->end_session($bob);
			}
			$aio->sql('DROP TABLESPACE elsewhere');
		});

		for my $way ('TRUNCATE', 'TRUNCATE in the transaction of CREATE', 'ON COMMIT DELETE ROWS', 'DELETE and VACUUM')
		{
			$aio->scenario("$way, and new rows", sub {
				my ($alice) = $aio->sessions('alice');
				my $t;
				if ($way eq 'ON COMMIT DELETE ROWS')
				{
					$t = 'o';
					$alice->{temporary} = 1;
					$alice->sql('CREATE TEMP TABLE o (rel text STORAGE PLAIN, blk int, gen int, body text STORAGE PLAIN) ON COMMIT DELETE ROWS');
				}
				else
				{
					$t = $aio->table('t', 60);
				}
				for my $gen (1 .. 3)
				{
					my $blocks = 20 + 10 * $gen;
					my $insert = "INSERT INTO $t SELECT '$t', i, $gen, proof('$t', i, $gen) FROM generate_series(0, $blocks - 1) i";
					# a reader that looks ahead is left in the middle
					$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; MOVE 3 FROM c; CLOSE c; COMMIT");
					if ($way eq 'TRUNCATE') { $alice->sql("TRUNCATE $t"); $alice->sql($insert) }
					elsif ($way =~ /CREATE/)
					{
						$alice->sql("DROP TABLE $t; BEGIN; CREATE TABLE $t (rel text STORAGE PLAIN, blk int, gen int, body text STORAGE PLAIN); $insert; SELECT count(*) FROM $t; TRUNCATE $t; $insert; COMMIT");
					}
					elsif ($way =~ /ON COMMIT/)
					{
						$alice->gives("SELECT count(*), pg_relation_size('$t') FROM $t", '0|0', 'empty');
						$alice->sql("BEGIN; $insert");
						$alice->gives("SELECT problems('$t', $gen, $blocks)", '', 'in the transaction');
						$alice->sql("SELECT evict_rel('$t')");
						$alice->gives("SELECT problems('$t', $gen, $blocks)", '', 'from disk');
						$alice->sql('COMMIT');
						next;
					}
					else { $alice->sql("DELETE FROM $t; VACUUM (TRUNCATE on) $t; $insert") }
					$aio->proves($t, gen => $gen, blocks => $blocks);
					$aio->evict($t);
					$aio->proves($t, gen => $gen, blocks => $blocks, name => 'from disk');
				}
			});
		}
	}, long => [qw(sync io_uring)], conf => { shared_buffers => '16MB', max_worker_processes => 8, max_parallel_workers => 4 },
	prepare => sub { my ($aio) = @_; $aio->sql('CREATE DATABASE other TEMPLATE postgres') });
