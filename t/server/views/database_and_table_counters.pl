# What reads add to pg_stat_database, pg_statio_all_tables and pg_stat_all_tables.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# a database in which no other session works
		$aio->scenario('pg_stat_database', sub {
			$aio->sql('CREATE DATABASE other TEMPLATE postgres');
			my $bob = $aio->session('bob', dbname => 'other');
			$bob->sql("CREATE TABLE o (i int); INSERT INTO o SELECT generate_series(1, 30); SELECT grow_rel('o', 40); VACUUM (FREEZE, TRUNCATE off) o; SELECT count(*) FROM o");
			my $pages = $bob->sql("SELECT pg_relation_size('o') / 8192");
			my $scans = sub {
				my ($number) = @_;
				return split m{/}, $aio->change_during("SELECT blks_read, blks_hit, tup_returned FROM pg_stat_database WHERE datname = 'other'",
					sub { $bob->sql('SELECT count(*) FROM o') for 1 .. $number }, $bob);
			};
			$bob->sql("SELECT evict_rel('o')");
			my ($read, $hit, $returned) = $scans->(1);
			is($read, $pages, "a scan: blks_read, of $pages blocks");
			cmp_ok($hit, '<', 100, 'blks_hit, of catalogs');
			is_between($returned, 30, 199, 'tup_returned, of the table and of catalogs');
			($read, $hit) = $scans->(3);
			is($read, 0, 'three scans of cached blocks: blks_read');
			cmp_ok($hit, '>=', 3 * $pages, 'blks_hit');
			# no statement changes a catalog, but each looks up some of its rows
			$bob->sql('CREATE INDEX o_i ON o (i); SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off');
			my ($inserted, $updated, $deleted, $fetched) = split m{/}, $aio->change_during("SELECT tup_inserted, tup_updated, tup_deleted, tup_fetched FROM pg_stat_database WHERE datname = 'other'", sub {
					$bob->sql('INSERT INTO o SELECT generate_series(31, 537); UPDATE o SET i = -i WHERE i BETWEEN 1 AND 20; DELETE FROM o WHERE i BETWEEN 500 AND 510');
					$bob->sql('SELECT sum(i) FROM o WHERE i BETWEEN 100 AND 399');
				}, $bob);
			is("$inserted/$updated/$deleted", '507/20/11', 'rows that are inserted, updated and deleted');
			is_between($fetched, 331, 600, 'tup_fetched, of the table and of catalogs');
		});

		$aio->scenario('a reset of one session', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$_->sql("SELECT count(*) FROM $t; SELECT pg_stat_force_next_flush()"), $aio->evict($t) for $alice, $bob;
			my $reset = sub { return $aio->sql("SELECT bool_and(stats_reset > pg_postmaster_start_time()), sum(reads) FROM pg_stat_get_backend_io(${\$_[0]->pid})") };
			like($reset->($_), qr/^\|[1-9]/, 'never reset') for $alice, $bob;
			$aio->sql("SELECT pg_stat_reset_backend_stats(${\$alice->pid})");
			is($reset->($alice), 't|0', 'the time of the reset');
			like($reset->($bob), qr/^\|[1-9]/, 'and not of the other session');
		});

		$aio->scenario('WAL of one session', sub {
			my ($alice) = $aio->sessions('alice');
			my $counts = "SELECT wal_records, wal_bytes FROM pg_stat_get_backend_wal(${\$alice->pid})";
			my $change = sub {
				my ($n) = @_;
				my $messages = "SELECT count(*) FROM generate_series(1, $n) i, pg_logical_emit_message(false, 'x', repeat('y', 1000 + i))";
				return split m{/}, $aio->change_during($counts, sub { $alice->sql($messages) }, $alice, $aio);
			};
			# the session's own catalog reads may write hint bits the first time
			$change->(1);
			for my $n (10, 20, 5)
			{
				my ($records, $bytes) = $change->($n);
				is($records, $n, "$n records");
				is_between($bytes, $n * 1000, $n * 1200, 'their bytes');
			}
		});

		$aio->scenario('processes that have statistics of their own', sub {
			my %has = ('walwriter' => 1, 'client backend' => 1, map { $_ => 0 } 'checkpointer', 'background writer', 'autovacuum launcher', 'io worker');
			my ($alice) = $aio->sessions('alice');
			my $types = join ', ', map { "'$_'" } keys %has;
			for my $row (split /\n/, $aio->sql("SELECT a.backend_type, a.pid, count(io.*), count(*) FILTER (WHERE io.backend_type = a.backend_type) FROM pg_stat_activity a LEFT JOIN LATERAL pg_stat_get_backend_io(a.pid) io ON true WHERE a.backend_type IN ($types) GROUP BY 1, 2"))
			{
				my ($type, $pid, $rows, $of_type) = split /\|/, $row;
				is($rows > 0 ? 1 : 0, $has{$type}, "$type, process $pid");
				is($of_type, $rows, 'which the rows name') if $rows;
			}
			$aio->gives('SELECT count(*) FROM pg_stat_get_backend_io(0)', 0, 'none without a process');
		});

		$aio->scenario('a reset of pg_stat_io', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			my $counts = sub {
				my ($since) = @_;
				return $aio->sql(qq{SELECT sum(reads), sum(read_bytes), sum(read_time), sum(hits), bool_and(stats_reset > '$since') FROM pg_stat_io
					WHERE backend_type = 'client backend' AND context = 'vacuum' AND object = 'relation'});
			};
			$alice->sql("SET track_io_timing = on; VACUUM (DISABLE_PAGE_SKIPPING) $t");
			$aio->evict($t);
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING) $t; SELECT pg_stat_force_next_flush()");
			my $now = $aio->sql('SELECT clock_timestamp()');
			my @before = split /\|/, $counts->($now);
			is(scalar(grep { $_ > 0 } @before[0 .. 3]), 4, 'reads, bytes, time and hits') || diag("@before");
			is($before[4], 'f', 'no reset yet');
			$aio->sql("SELECT pg_stat_reset_shared('io')");
			is($counts->($now), '0|0|0|0|t', 'after the reset: none, and its time');
		});

		# the place that has been free for the longest time is given out next
		$aio->scenario('a session in the place of another one', sub {
			my $t = $aio->table('t', 20);
			my $reads = "SELECT sum(reads) FROM pg_stat_get_backend_io(pg_backend_pid()) WHERE context = 'vacuum'";
			my $alice = $aio->session('first');
			$aio->evict($t);
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING) $t; SELECT pg_stat_force_next_flush()");
			cmp_ok($alice->sql($reads), '>', 0, 'reads of VACUUM');
			$aio->end_session($alice);
			my $inherited = 0;
			for my $place (1 .. $aio->setting('max_connections'))
			{
				my $next = $aio->session("next_$place");
				$inherited += $next->sql($reads);
				$aio->end_session($next);
			}
			is($inherited, 0, 'no later session has them');
		}, leaves => 'nothing');

		$aio->scenario('a reset of one table and of one index', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u) = map { $aio->table($_, 20) } qw(t u);
			$aio->sql("CREATE INDEX t_i ON $t (blk); CREATE INDEX u_i ON $u (blk)");
			$alice->sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(gen) FROM $_ WHERE blk > 3; RESET enable_seqscan; SELECT count(*) FROM $_; SELECT pg_stat_force_next_flush()") for $t, $u;
			$aio->sql('SELECT pg_stat_force_next_flush()');
			# in 20 there is a function for indexes
			my $of_index = $aio->sql("SELECT proname FROM pg_proc WHERE proname ~ '^pg_stat_reset_single_(table|index)_counters\$' ORDER BY 1 LIMIT 1");
			my $since = $aio->sql("SELECT clock_timestamp() FROM pg_stat_reset_single_table_counters('$t'::regclass) a, $of_index('scenario.u_i'::regclass) b");
			# since 19 the views say when
			my $dated = sub { my ($is) = @_; return $aio->major >= 19 ? ", bool_and(coalesce(stats_reset > timestamptz '$since' - interval '1s', false)) IS $is" : '' };
			my $all = $aio->major >= 19 ? '|t' : '';
			for my $case ([ $t, $u, 'relid', [ pg_stat_all_tables => 'seq_scan + seq_tup_read' ], [ pg_statio_all_tables => 'heap_blks_read + heap_blks_hit' ] ],
				[ 'scenario.u_i', 'scenario.t_i', 'indexrelid', [ pg_stat_all_indexes => 'idx_scan + idx_tup_read' ], [ pg_statio_all_indexes => 'idx_blks_read + idx_blks_hit' ] ])
			{
				my ($reset, $other, $column, @views) = @$case;
				for my $view (@views)
				{
					my ($name, $sum) = @$view;
					$aio->gives("SELECT sum($sum) ${\$dated->('true')} FROM $name WHERE $column = '$reset'::regclass", "0$all", "$name: $reset");
					$aio->gives("SELECT sum($sum) > 0 ${\$dated->('false')} FROM $name WHERE $column = '$other'::regclass", "t$all", "$name: $other");
				}
			}
		});

		$aio->scenario('pg_statio_all_tables and pg_stat_all_tables', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			my ($by_index, $scan) = ("SELECT gen FROM $t WHERE blk = 17", "SELECT count(body) FROM $t");
			my $added = sub {
				my ($view, $columns, $sql) = @_;
				return $aio->change_during("SELECT $columns FROM $view WHERE relid = '$t'::regclass", sub { $alice->sql($sql) }, $alice, $aio);
			};
			my @blocks = (pg_statio_all_tables => 'heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit');
			$aio->sql("CREATE INDEX t_i ON $t (blk)");
			# from here on the session has the metapage in its relation cache
			$alice->sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM $t; SELECT count(gen) FROM $t WHERE blk < 0");
			$aio->sql("SELECT evict_rel('$t'), evict_rel('scenario.t_i')");
			is($added->(@blocks, $by_index), '1/0/1/0', 'a row by the index: one block of each is read');
			is($added->(@blocks, $by_index), '0/1/0/1', 'the same row again: one block of each is hit');
			$alice->sql('RESET enable_seqscan');
			$aio->evict($t);
			is($added->(@blocks, $scan), '40/0/0/0', 'a scan');
			is($added->(pg_stat_all_tables => 'seq_scan, seq_tup_read, idx_scan, idx_tup_fetch', $scan), '1/40/0/0', 'scans and rows');
			my $own = $aio->table('o', 40, kind => 'TEMP', session => $alice);
			$aio->evict($own, $alice);
			my $oid = $alice->sql("SELECT '$own'::regclass::oid");
			my $blocks_of_own = sub {
				return $aio->change_during("SELECT heap_blks_read, heap_blks_hit FROM pg_statio_all_tables WHERE relid = $oid", sub { $alice->sql("SELECT count(body) FROM $own") }, $alice, $aio);
			};
			is($blocks_of_own->(), '40/0', 'blocks of a temporary table are read');
			is($blocks_of_own->(), '0/40', 'then hit');
		});
	}, leaves => 'nothing');
