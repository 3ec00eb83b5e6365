# Rows that statistics count: those of each kind of scan; inserts, updates and deletes of transactions,
# savepoints and prepared transactions; dead rows, and line pointers that pruning has left of them.
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

		$aio->scenario('kinds of scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$aio->sql("CREATE INDEX t_i ON $t (blk); ANALYZE $t");
			my $counts = "SELECT seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM pg_stat_all_tables WHERE relid = '$t'::regclass";
			my $index = "SELECT idx_scan, idx_tup_read, idx_tup_fetch FROM pg_stat_all_indexes WHERE indexrelid = 'scenario.t_i'::regclass";
			# settings, query, and the counts of the table and of the index
			my %scans = (
				'sequential' => [ 'enable_indexscan = off, enable_bitmapscan = off', 'SELECT count(gen) FROM %s WHERE blk BETWEEN 10 AND 19', '1/60/0/0', '0/0/0' ],
				'index' => [ 'enable_seqscan = off, enable_bitmapscan = off', 'SELECT count(gen) FROM %s WHERE blk BETWEEN 10 AND 19', '0/0/1/10', '1/10/10' ],
				'bitmap' => [ 'enable_seqscan = off, enable_indexscan = off', 'SELECT count(gen) FROM %s WHERE blk BETWEEN 10 AND 19', '0/0/1/10', '1/10/0' ],
				'index only' => [ 'enable_seqscan = off, enable_bitmapscan = off', 'SELECT count(blk) FROM %s WHERE blk BETWEEN 10 AND 19', '0/0/1/0', '1/10/0' ],
				'sample' => [ 'enable_seqscan = on', 'SELECT count(gen) FROM %s TABLESAMPLE SYSTEM (100)', '0/60/0/0', '0/0/0' ],
				'range of TIDs' => [ 'enable_seqscan = on', "SELECT count(gen) FROM %s WHERE ctid >= '(10,0)' AND ctid < '(20,0)'", '0/10/0/0', '0/0/0' ]);
			for my $scan (sort keys %scans)
			{
				my ($settings, $query, $of_table, $of_index) = @{ $scans{$scan} };
				for my $how ('cold', 'cached')
				{
					$alice->sql('RESET ALL; ' . join '; ', map { "SET $_" } split /, /, $settings);
					my $run = sub { $alice->sql(sprintf $query, $t) };
					$aio->evict($t) if $how eq 'cold';
					is($aio->change_during($counts, $run, $alice, $aio), $of_table, "$scan, $how: the table");
					is($aio->change_during($index, $run, $alice, $aio), $of_index, 'and the index');
				}
			}
		});

		$aio->scenario('a transaction in progress', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			my $counts = "SELECT seq_scan, seq_tup_read, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_all_tables WHERE relid = '$t'::regclass";
			# what has not been flushed counts here, too
			my $flush = 'SELECT pg_stat_force_next_flush()';
			$alice->sql($flush);
			$alice->sql("BEGIN; SELECT count(*) FROM $t; CALL add_pages('$t', 60, 69)");
			$alice->gives($counts, '1|60|10|0|0', 'a scan and inserts');
			$alice->sql("SAVEPOINT a; DELETE FROM $t WHERE ctid = '(3,1)'; UPDATE $t SET gen = 1 WHERE ctid IN ('(5,1)', '(6,1)')");
			$alice->gives($counts, '1|60|10|2|1', 'and those of a savepoint');
			$alice->sql('ROLLBACK TO a');
			$alice->gives($counts, '1|60|10|2|1', 'rolled back or not');
			$alice->sql("ROLLBACK; $flush");
			$alice->gives($counts, '0|0|0|0|0', 'nothing in the next transaction');
			$aio->proves($t);
		});

		$aio->scenario('savepoints', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.s';
			my $counts = "SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass";
			# an aborted subtransaction's rows count as inserted, and as dead
			my $change = sub { my ($n) = @_; return "INSERT INTO $t SELECT generate_series(1, 10) + $n; UPDATE $t SET n = -n WHERE n BETWEEN 1 + $n AND 3 + $n; DELETE FROM $t WHERE n = 4 + $n" };
			for my $case ([ 'RELEASE a', '20|6|2|18|8' ], [ 'ROLLBACK TO a', '20|6|2|9|17' ])
			{
				my ($end, $wanted) = @$case;
				$alice->sql("DROP TABLE IF EXISTS $t; CREATE TABLE $t (n int) WITH (autovacuum_enabled = off)");
				$alice->sql("BEGIN; ${\$change->(100)}; SAVEPOINT a; ${\$change->(200)}; $end; COMMIT");
				$alice->sql('SELECT pg_stat_force_next_flush()');
				$aio->gives($counts, $wanted, $end);
			}
		});

		# what a transaction has changed before it truncates the table counts if it is rolled back only
		$aio->scenario('TRUNCATE', sub {
			my ($alice) = $aio->sessions('alice');
			my $change = sub { my ($t) = @_; return "BEGIN; INSERT INTO $t SELECT generate_series(11, 13); UPDATE $t SET n = -n WHERE n < 3; DELETE FROM $t WHERE n = 3; TRUNCATE $t; INSERT INTO $t SELECT generate_series(1, 5)" };
			for my $case ([ 'COMMIT', '15|0|0|5|0' ], [ 'ROLLBACK', '13|2|1|10|5' ])
			{
				my ($end, $wanted) = @$case;
				for my $prepared (0, 1)
				{
					my $t = "scenario.\L${end}_$prepared";
					my $counts = "SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass";
					$alice->sql("CREATE TABLE $t (n int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT generate_series(1, 10)");
					$alice->sql($change->($t));
					if ($prepared)
					{
						$alice->sql("PREPARE TRANSACTION 'p'");
						$alice->sql("$end PREPARED 'p'");
					}
					else { $alice->sql($end) }
					$alice->sql('SELECT pg_stat_force_next_flush()');
					$aio->gives($counts, $wanted, $end . ($prepared ? ' PREPARED' : ''));
				}
			}
		});

		# the counts of its transaction stay; new rows are dead after ROLLBACK, and live after ROLLBACK TO
		$aio->scenario('DROP that is rolled back', sub {
			my ($alice) = $aio->sessions('alice');
			for my $case ([ 'ROLLBACK', '13|2|1|10|5' ], [ 'ROLLBACK TO a; COMMIT', '13|2|1|12|3' ])
			{
				my ($end, $wanted) = @$case;
				my $t = 'scenario.d';
				$alice->sql("DROP TABLE IF EXISTS $t; CREATE TABLE $t (n int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT generate_series(1, 10)");
				$alice->sql("BEGIN; INSERT INTO $t SELECT generate_series(11, 13); UPDATE $t SET n = -n WHERE n < 3; DELETE FROM $t WHERE n = 3; SAVEPOINT a");
				$alice->sql('RELEASE a') if $end eq 'ROLLBACK';
				$alice->sql("DROP TABLE $t");
				$alice->sql("$end; SELECT pg_stat_force_next_flush()");
				$aio->gives("SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", $wanted, $end);
			}
		});

		$aio->scenario('dead rows', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.d';
			# two rows fill a page
			$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 3900) FROM generate_series(0, 99) i;"
				  . "CREATE INDEX ON $t (n); VACUUM (FREEZE) $t; DELETE FROM $t WHERE n % 4 = 1");
			my $look = sub {
				my ($name) = @_;
				$alice->notices;
				$alice->sql("ANALYZE VERBOSE $t");
				my ($found) = map { /containing (\d+ live rows and \d+ dead rows)/ ? $1 : () } $alice->notices;
				is($found, '75 live rows and 25 dead rows', $name);
				$alice->sql('SELECT pg_stat_force_next_flush()');
				$aio->gives("SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = '$t'::regclass", '75|25', 'and the statistics');
			};
			$look->('ANALYZE');
			# a reader prunes, and leaves the line pointers for VACUUM
			$aio->evict($t);
			$alice->gives("SELECT count(body) FROM $t", 75, 'a reader');
			$aio->gives("SELECT count(*) FILTER (WHERE lp_flags = 3) FROM generate_series(0, 49) b, heap_page_items(get_raw_page('$t', b))", 25, 'has pruned') if !$aio->lacks('pageinspect');
			$look->('ANALYZE of pages that are pruned');
		});
	}, conf => { shared_buffers => '16MB', max_prepared_transactions => 2 });
