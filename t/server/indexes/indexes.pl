# Indexes: scans of them, how they are built and grow.
use TestAio;

# Index scans and index-only scans: their rows, the order of the rows, and the heap blocks that they
# read.  Scans of bloom indexes, which read the whole index.
with_each_io_method('sync; long: all', sub {
	$aio->scenario('index scans', with('alice', sub ($alice) {
		my $t = indexed_table($aio, 100);
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off');
		for my $column ('n', 'k')
		{
			my $expected = $alice->sql("SELECT string_agg(i::text, E'\\n' ORDER BY CASE '$column' WHEN 'n' THEN i ELSE (i * 7919) % 400 END) FROM generate_series(0, 399) i");
			$aio->evict($t);
			$alice->gives("SELECT n FROM $t ORDER BY $column", $expected, "by $column");
			$aio->evict($t);
			$alice->gives("SELECT n FROM $t ORDER BY $column DESC", join("\n", reverse split /\n/, $expected), 'descending');
		}
		# a scan looks at a heap block once for each run of rows in that block
		$aio->evict($t);
		is($aio->blocks_during($t, sub { $alice->sql("SELECT sum(n) FROM (SELECT n FROM $t ORDER BY n OFFSET 0) s") }, $alice), '100/0', 'by n: each heap block once');
		$aio->evict($t);
		is($aio->blocks_during($t, sub { $alice->sql("SELECT sum(n) FROM (SELECT n FROM $t ORDER BY k OFFSET 0) s") }, $alice), '400/300', 'by k: once for each row, of which one has to be read');
	}));

	# with a ring, but for the metapage
	$aio->scenario('bloom indexes', with('alice', sub ($alice) {
		$aio->sql('CREATE TABLE scenario.b (n int, k int) WITH (autovacuum_enabled = off); INSERT INTO scenario.b SELECT i, -i FROM generate_series(1, 8000) i; CREATE INDEX b_i ON scenario.b USING bloom (n, k)');
		$alice->sql('SET enable_seqscan = off; SET track_io_timing = off');
		$alice->gives("SELECT count(*) FROM scenario.b WHERE n = $_ AND k = -$_", 1, "row $_") for 1, 777, 8000;
		my $pages = $aio->sql("SELECT pg_relation_size('scenario.b_i') / 8192");
		$alice->sql('SELECT pg_stat_force_next_flush()');
		$aio->gives("SELECT idx_scan FROM pg_stat_all_indexes WHERE indexrelname = 'b_i'", 3, 'three scans are counted');
		$aio->evict('scenario.b_i');
		is($aio->io_counts_during($alice, 'relation/bulkread', sub { $alice->sql('SELECT count(*) FROM scenario.b WHERE n = 7 AND k = -7') })->{read_bytes}, ($pages - 1) * 8192, "all $pages pages but one, in context bulkread");
	}), skip => $aio->lacks('bloom'));

	$aio->scenario('index-only scans', with('alice', sub ($alice) {
		my $t = indexed_table($aio, 100);
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off');
		my $fetches = sub { my $plan = $alice->sql("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT n FROM $t WHERE n < 300"); return $plan =~ /Heap Fetches: (\d+)/ ? $1 : $plan };
		is($fetches->(), 0, 'no heap fetch on all-visible pages');
		$aio->evict($t);
		is($aio->blocks_during($t, sub { $alice->gives("SELECT count(*) FROM $t WHERE n < 300", 300, 'rows') }, $alice) =~ s{/.*}{}r, 1, 'one block, that of the visibility map');
		# a dead row on each of two pages, which are no longer all-visible
		$aio->sql("DELETE FROM $t WHERE n IN (40, 80)");
		is($fetches->(), 8, 'a heap fetch for each of the eight rows of these pages');
		$alice->gives("SELECT count(*), sum(n) FROM $t WHERE n < 300", '298|44730', 'no dead row');
		$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t");
		is($fetches->(), 0, 'all-visible again');
		$alice->gives("SELECT count(*), sum(n) FROM $t WHERE n < 300", '298|44730', 'the same rows');
	}));

	# vacuum.pl has indexes that a single process builds
	$aio->scenario('indexes that workers build: %s', with('alice', sub ($alice, $am, $column, $condition) {
		my $t = 'scenario.c';
		$aio->sql("CREATE TABLE $t (n int, k int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
			  . "INSERT INTO $t SELECT i, (i * 7919) % 800, repeat('x', 1800) FROM generate_series(0, 799) i; DELETE FROM $t WHERE n % 16 = 5; SELECT evict_rel('$t')");
		$alice->sql("SET max_parallel_maintenance_workers = 2; SET min_parallel_table_scan_size = 0; SET maintenance_work_mem = '128MB'");
		my ($fetched) = split m{/}, $aio->blocks_during($t, sub { $alice->sql("CREATE INDEX c_i ON $t USING $am ($column)") }, $alice);
		is_between($fetched, 200, 205, 'CREATE INDEX looks at each block once, whichever process does');
		# BRIN counts ranges; for a parallel GIN build, 18 and 19 count the rows of one process only
		$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.c_i'::regclass", 750, 'reltuples') if $am eq 'btree';
		$aio->sql("SELECT evict_rel('scenario.c_i')");
		$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
		# a search by BRIN reads a hundred pages
		my ($step, $found) = $am eq 'brin' ? (53, 15) : (1, 750);
		$alice->gives("SELECT count(*), sum(s.found) FROM generate_series(0, 799, $step) i, LATERAL (SELECT count(*) AS found FROM $t WHERE $condition) s WHERE s.found > 0",
			"$found|$found", 'each key is found once');
		$aio->sql("SELECT bt_index_check('scenario.c_i', true)") if $am eq 'btree' && !$aio->lacks('amcheck');
	}), each => [ [ btree => 'k', 'k = i' ], [ brin => 'n', 'n = i' ], [ gin => '(ARRAY[k])', 'ARRAY[k] @> ARRAY[i]' ] ]);

	# rows that are not committed belong to a range, too
	$aio->scenario('a range of a BRIN index', with('alice bob', 40, changes => 1, sub ($alice, $bob, $t) {
		$aio->sql("CREATE INDEX t_i ON $t USING brin (blk) WITH (pages_per_range = 16); SELECT brin_desummarize_range('scenario.t_i', 16 * i) FROM generate_series(0, 2) i");
		$bob->sql("BEGIN; CALL add_pages('$t', 40, 43)");
		$alice->gives("SELECT brin_summarize_range('scenario.t_i', 15), brin_summarize_new_values('scenario.t_i')", '1|2', 'is summarized, and no other one; then all that are left');
		$alice->gives("SELECT string_agg(value::text, ' ' ORDER BY blknum) FROM brin_page_items(get_raw_page('scenario.t_i', 2), 'scenario.t_i')", '{0 .. 15} {16 .. 31} {32 .. 43}', 'the values of each, of the last one that is shorter, too') if !$aio->lacks('pageinspect');
		$bob->sql('ROLLBACK');
	}));

	# A scan without the index tells what is right.  Blocks and ranges have NULLs alone, values alone, and both;
	# row 1050 is the first value of a range of NULLs.
	my @indexes = ('btree (n)', 'btree (a DESC, b) WITH (fillfactor = 10, deduplicate_items = off)', 'btree (b DESC NULLS LAST, a)', 'btree ((-a)) INCLUDE (b)', 'hash (b)', 'brin (n) WITH (pages_per_range = 8)', 'brin (b, a) WITH (pages_per_range = 32)',
		'brin (n int4_bloom_ops, b int4_bloom_ops) WITH (pages_per_range = 64)', 'brin (b int4_minmax_multi_ops) WITH (pages_per_range = 8)', 'gin ((ARRAY[a, b]))', 'gist (p) INCLUDE (b)', 'spgist (p)');
	my @conditions = ('n = 5', 'n BETWEEN 900 AND 1100', 'a < 10 AND b = 5', 'a > 30 AND b < 3', 'b IS NULL', 'b IS NULL AND a = 7', 'b IS NOT NULL', 'b = 5', 'b > 6 AND a IN (3, 4, 21)', '-a = -7', 'ARRAY[a, b] @> ARRAY[5]', "p <@ box '((0,0),(300,300))'");
	my $plans = 'SET enable_bitmapscan = %1$s; SET enable_indexscan = %1$s; SET enable_indexonlyscan = %1$s; SET enable_seqscan = %2$s; SET enable_hashjoin = %2$s; SET enable_nestloop = %2$s; SET enable_sort = %2$s; SET enable_material = %2$s';
	$aio->scenario('indexes that are %s', with('alice', sub ($alice, $built, $workers, $before, $memory) {
		my $t = 'scenario.t';
		my $rows = sub ($from, $to) { $alice->sql("INSERT INTO $t SELECT i, i % 40, CASE WHEN i % 300 >= CASE WHEN i % 300 < 160 THEN 150 WHEN i % 4 = 0 THEN 250 WHEN i / 3 % 3 = 0 THEN 220 ELSE 150 END THEN i % 11 END, point(i, i), repeat('x', 2600) FROM generate_series($from, $to) i") };
		$alice->sql("SET synchronize_seqscans = on; SET min_parallel_table_scan_size = 0; SET max_parallel_maintenance_workers = $workers; SET maintenance_work_mem = '$memory'; CREATE TABLE $t (n int, a int, b int, p point, body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
		$rows->(0, $before - 1);
		my @queries = map { "SELECT count(*), sum(n) FROM $t WHERE $_" } @conditions;
		my $join = "SELECT count(*), sum(y.n) FROM $t x LEFT JOIN $t y ON x.a = y.a AND y.a IN (3, 4, 21) WHERE x.n < 100";
		$alice->sql(sprintf $plans, 'off', 'on');
		my @right;
		for my $index (grep { !$workers || /^(?:btree|brin|gin )/ } @indexes)
		{
			# the next scan of so large a table begins in the middle
			$alice->sql("SELECT n FROM $t OFFSET $before / 3 LIMIT 1; SET client_min_messages = debug1; CREATE INDEX t_i ON $t USING $index; RESET client_min_messages");
			like(join(' ', $alice->notices), $workers ? qr/with request for $workers parallel workers/ : qr/serially/, "$index: who builds it");
			$rows->($before, 1999);
			$alice->sql("ANALYZE $t");
			# the rows are the same for each
			@right = map { $alice->sql($_) } @queries, $join if !@right;
			$alice->sql(sprintf $plans, 'on', 'off');
			is(join(' ', map { $alice->sql($_) } @queries), "@right[ 0 .. $#queries ]", $index);
			# it goes back in the index, by several pages
			if ($index =~ /btree \(a/)
			{
				like($alice->sql("EXPLAIN (COSTS off) $join"), qr/Merge Left Join(?!.*Sort)/s, 'a join by merge');
				$alice->gives($join, $right[-1], 'its rows');
			}
			$alice->sql("DROP INDEX scenario.t_i; DELETE FROM $t WHERE n >= $before; VACUUM $t");
		}
	}), each => [ [ 'built by one process', 0, 2000, '64kB' ], [ 'built by workers', 2, 2000, '128MB' ], [ 'there when rows come', 0, 1050, '128MB' ] ]);

	$aio->scenario('CLUSTER by %s', with('alice', sub ($alice, $columns) {
		$alice->sql("CREATE TABLE scenario.t (s text COLLATE \"C\", n int); INSERT INTO scenario.t SELECT md5(i::text), i FROM generate_series(1, 2000) i; CREATE INDEX t_i ON scenario.t ($columns); SET enable_indexscan = off; CLUSTER scenario.t USING t_i");
		my ($key) = split /, /, $columns;
		$alice->gives("SELECT count(*), count(*) FILTER (WHERE before > k) FROM (SELECT $key AS k, lag($key) OVER (ORDER BY ctid) AS before FROM scenario.t) s", '2000|0', 'no row comes before a smaller one');
	}), each => [ 's, n', 'lower(s), n', '(-n), s' ]);

	# rows that are deleted, but not for each snapshot, have their entries
	$aio->scenario('a snapshot that is older than the index: %s', with('bob', 40, changes => 1, sub ($bob, $t, $am) {
		$bob->sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $t; SET enable_seqscan = off; SET enable_bitmapscan = off");
		$aio->sql("DELETE FROM $t WHERE blk % 4 = 1; CREATE INDEX t_i ON $t USING $am (blk)");
		my $query = "SELECT count(*), sum(s.gen + i) FROM generate_series(0, 39) i, LATERAL (SELECT gen FROM $t WHERE blk = i) s";
		like($bob->sql("EXPLAIN (COSTS off) $query"), qr/Index Scan using t_i/, 'the index is used');
		$bob->gives($query, '40|780', 'all rows');
		$bob->sql('COMMIT');
		$bob->gives($query, '30|590', 'the rows that are left');
	}), each => [ 'btree', 'hash' ]);

	$aio->scenario('CREATE INDEX CONCURRENTLY while another session inserts', with('alice bob', 50, sub ($alice, $bob, $t) {
		$bob->sql("BEGIN; CALL add_pages('$t', 50, 59)");
		$alice->waits("CREATE INDEX CONCURRENTLY t_i ON $t (blk)", 'virtualxid');
		$aio->evict($t);
		$bob->sql('COMMIT');
		$alice->ends;
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
		$alice->gives("SELECT count(*), sum(blk) FROM (SELECT blk FROM $t ORDER BY blk OFFSET 0) s", '60|1770', 'the rows, by the index');
		$aio->is_as_written($t, blocks => 60);
	}));
});

# VACUUM of indexes that other sessions make grow, before it or while it scans them: it comes to the new
# pages, too, and ends.
with_each_io_method('io_uring; long: all', sub {
	# hashbulkdelete() begins with the copy of the metapage that the session has
	$aio->scenario('a hash index that another session has split', with('alice bob', sub ($alice, $bob) {
		my $t = 'scenario.h';
		$aio->sql("CREATE TABLE $t (k int) WITH (autovacuum_enabled = off); CREATE INDEX h_i ON $t USING hash (k); INSERT INTO $t SELECT generate_series(0, 199)");
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
		$alice->gives("SELECT count(*) FROM $t WHERE k = 7", 1, 'the session has the metapage');
		my $pages = $aio->sql("SELECT pg_relation_size('scenario.h_i') / 8192");
		$bob->sql("INSERT INTO $t SELECT generate_series(200, 5999); DELETE FROM $t WHERE k % 3 = 0");
		$aio->gives("SELECT pg_relation_size('scenario.h_i') / 8192 > 2 * $pages", 't', 'there are more buckets now');
		is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t), qr/tuples: (\d+) removed/), 2000, 'rows removed');
		$aio->gives("SELECT reltuples FROM pg_class WHERE oid = 'scenario.h_i'::regclass", 4000, 'entries that remain in the index');
		$bob->sql("INSERT INTO $t SELECT generate_series(10000, 11999)");
		$alice->gives("SELECT count(*) FILTER (WHERE s.found <> (i % 3 <> 0 OR i >= 10000)::int), sum(s.found) FROM (SELECT generate_series(0, 5999) UNION ALL SELECT generate_series(10000, 11999)) g(i), LATERAL (SELECT count(*) AS found FROM $t WHERE k = i) s",
			'0|6000', 'each key has its row, and deleted keys have none');
	}));

	$aio->scenario('a B-tree that grows meanwhile', with('alice bob', sub ($alice, $bob) {
		my $t = 'scenario.g';
		$aio->sql("CREATE TABLE $t (k int) WITH (autovacuum_enabled = off); CREATE INDEX g_i ON $t (k); INSERT INTO $t SELECT i * 10 FROM generate_series(0, 1499) i; DELETE FROM $t WHERE k % 30 = 0");
		my $pages = $aio->sql("SELECT pg_relation_size('scenario.g_i') / 8192");
		$aio->sql("SELECT evict_rel('scenario.g_i')");
		$bob->sql("SELECT read_rel_block_ll('scenario.g_i', 0, nblocks => $pages - 1)");
		# it has come to the last page
		$aio->read_at_completion_wait($alice, "VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t", relation => 'scenario.g_i', blockno => $pages - 1, pid => $alice->pid);
		# not into the last page, which has the largest keys
		$bob->sql("INSERT INTO $t SELECT i FROM generate_series(1, 4000) i WHERE i % 10 <> 0");
		$aio->gives("SELECT pg_relation_size('scenario.g_i') / 8192 > 2 * $pages", 't', 'the index has more pages now');
		$aio->completion_continue;
		$alice->ends('VACUUM');
		$alice->sql('SET enable_seqscan = off; SET enable_indexonlyscan = off');
		$alice->gives("SELECT count(*), sum(k) FROM $t WHERE k >= 0", '4600|14700000', 'the rows by the index');
		$aio->gives("SELECT count(*) FROM (SELECT bt_index_check('scenario.g_i', true)) c", 1, 'amcheck finds nothing') if !$aio->lacks('amcheck');
	}), skip => $aio->no_faults);
});

# Hash indexes whose pages come and go.  After a split that could not clean up its old bucket, since a scan was there,
# VACUUM's copy of the metapage is older than the split, and VACUUM, which reads by a stream since 19, has to begin
# anew after this bucket (hashbulkdelete).  Overflow pages that VACUUM has freed are used again.
for_each_io_method('worker; long: all', sub {
	$aio->scenario('a scan in the bucket that is split', with('alice bob carol', sub ($alice, $bob, $carol) {
		my ($t, $i) = ('scenario.h', 'scenario.h_i');
		# a key of bucket 1, before and after the split, with more entries than a page holds
		my $key = $aio->sql('SELECT min(k) FROM generate_series(1, 1000) k WHERE hashint4(k) & 7 = 1');
		$aio->sql("CREATE TABLE $t (k int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT $key FROM generate_series(1, 1500); ANALYZE $t; CREATE INDEX h_i ON $t USING hash (k)");
		$aio->gives("SELECT maxbucket FROM hash_metapage_info(get_raw_page('$i', 0))", 4, 'five buckets');
		$_->sql('SET enable_seqscan = off; SET enable_bitmapscan = off') for $alice, $carol;
		$alice->gives("SELECT count(*) FROM $t WHERE k = 0", 0, 'the session has the metapage');
		my @pages = split /,/, $aio->sql("SELECT string_agg(b::text, ',') FROM generate_series(0, pg_relation_size('$i')::int / 8192 - 1) b WHERE hash_page_type(get_raw_page('$i', b)) <> 'overflow'");
		$aio->evict($i);
		$aio->warm($i, @pages);

		# bucket 1 is the first to be split, into 1 and 5; the split reads the bucket's second page
		my $other_keys = "FROM generate_series(1001, 9000) k WHERE hashint4(k) & 3 <> 1";
		$aio->read_at_completion_wait($bob, "INSERT INTO $t SELECT k $other_keys LIMIT 300", relation => $i, pid => $bob->pid);
		$carol->sql("BEGIN; DECLARE c CURSOR FOR SELECT k FROM $t WHERE k = $key; MOVE 1 FROM c");
		$aio->completion_continue;
		$bob->returns('', 'the split goes on');
		$aio->gives("SELECT count(*) FROM generate_series(1, pg_relation_size('$i')::int / 8192 - 1) b, get_raw_page('$i', b) p, hash_page_stats(p) s WHERE hash_page_type(p) = 'bucket' AND s.hasho_bucket = 1 AND s.hasho_flag & 64 <> 0",
			1, 'and leaves its cleanup to others');
		$carol->sql('COMMIT');

		$bob->sql("DELETE FROM $t WHERE k <> $key");
		is(reported(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE off', $t), qr/tuples: (\d+) removed/), 300, 'rows removed');
		$aio->gives("SELECT reltuples FROM pg_class WHERE oid = '$i'::regclass", 1500, 'entries that remain in the index');
		$bob->sql("INSERT INTO $t SELECT -i FROM generate_series(1, 300) i");
		$alice->gives("SELECT count(*) FILTER (WHERE s.found > 0) FROM (SELECT k $other_keys LIMIT 300) g, LATERAL (SELECT count(*) AS found FROM $t WHERE h.k = g.k) s", 0, 'deleted keys have no row');
		$alice->gives("SELECT count(*) FROM $t WHERE k = $key", 1500, 'the rows of the key');
	}), skip => $aio->no_faults // $aio->lacks('pageinspect'));

	# pages that the index has freed are used again without being read
	$aio->scenario('overflow pages that are used again %s', with('alice', sub ($alice, $kind) {
		my $insert = 'INSERT INTO h SELECT i % 2 FROM generate_series(1, 4000) i';
		$alice->sql(($kind ? '' : 'SET search_path = scenario, public; ') . "CREATE $kind TABLE h (k int); CREATE INDEX h_i ON h USING hash (k); $insert; DELETE FROM h; VACUUM h");
		my $size = $alice->sql("SELECT pg_relation_size('h_i') / 8192");
		cmp_ok($size, '>', 12, 'the index has overflow pages');
		$aio->evict('h_i', $alice);
		$alice->sql("$insert; SET enable_seqscan = off; SET enable_bitmapscan = off");
		$alice->gives('SELECT count(*) FROM h WHERE k = ' . $_, 2000, "rows of key $_") for 0, 1;
		$aio->evict('h_i', $alice);
		$alice->gives('SELECT count(*) FROM h WHERE k = ' . $_, 2000, "rows of key $_, from disk") for 0, 1;
		$alice->gives("SELECT pg_relation_size('h_i') / 8192", $size, 'the index has not grown');
	}), each => [ '', 'TEMP' ]);

	# a worker looks for the new table in the new index
	$aio->scenario('parallel workers, and indexes of catalogs that the transaction has rebuilt', with('alice', sub ($alice) {
		$alice->sql('SET max_parallel_workers_per_gather = 1; SET enable_seqscan = off');
		my $tables = "SELECT count(*) FROM pg_class WHERE relname = 'm' AND relnamespace = 'scenario'::regnamespace";
		# at once, since others wait for its locks
		$alice->gives("BEGIN; REINDEX TABLE pg_class; CREATE TABLE scenario.m (n int); SET LOCAL debug_parallel_query = on; $tables; EXPLAIN (ANALYZE, COSTS off, BUFFERS off) $tables; ROLLBACK", qr/^1\n(?s:.*)Workers Launched: 1\n(?s:.*)pg_class_relname_nsp_index/, 'a worker finds the new table');
		$aio->gives($tables, 0, 'it is gone');
	}));

	# Indexes with pages that have never been written, as after a crash that followed an extension: they
	# count as free space, VACUUM takes them, and nothing else stumbles over them.  Guards server commit
	# 684a745f55.
	# access method, column, condition, number of rows, whether pgstattuple knows it
	my @methods = (
		[ 'btree', 'n', 'n < 100', 100, 1 ], [ 'hash', 'n', 'n = 7', 1, 1 ], [ 'gist', 'p', "p <@ box '((0,0),(99,99))'", 100, 1 ],
		[ 'spgist', 'p', "p <@ box '((0,0),(99,99))'", 100 ], [ 'gin', 'a', 'a @> ARRAY[7]', 1 ], [ 'brin', 'n', 'n < 100', 100 ]);

	$aio->scenario('%s', with('alice', sub ($alice, $am, $column, $condition, $rows, $known = undef) {
		$aio->sql("CREATE TABLE scenario.t (n int, p point, a int[]) WITH (autovacuum_enabled = off); INSERT INTO scenario.t SELECT i, point(i, i), ARRAY[i] FROM generate_series(0, 1999) i; CREATE INDEX t_i ON scenario.t USING $am ($column)");
		my $query = "SET enable_seqscan = off; SELECT count(*) FROM scenario.t WHERE $condition";
		my $free = sub { return $aio->sql("SELECT free_space FROM pgstattuple('scenario.t_i')") };
		my $pgstattuple = $known && !$aio->lacks('pgstattuple');
		my $before = $pgstattuple && $free->();
		$aio->sql("SELECT grow_rel('scenario.t_i', 3)");
		is($free->() - $before, 3 * 8192, 'they count as free space') if $pgstattuple;
		$alice->gives($query, $rows, 'a query');
		$aio->sql("SELECT evict_rel('scenario.t_i'); DELETE FROM scenario.t WHERE n % 2 = 1 AND n > 1000");
		$aio->sql('VACUUM (INDEX_CLEANUP on) scenario.t');
		$alice->gives($query, $rows, 'after VACUUM');
		$aio->sql('INSERT INTO scenario.t SELECT i, point(i, i), ARRAY[i] FROM generate_series(2000, 5000) i');
		$alice->gives($query, $rows, 'after many more rows');
		$aio->sql("SELECT bt_index_check('scenario.t_i', true)") if $am eq 'btree' && !$aio->lacks('amcheck');
		$aio->sql("SELECT gin_index_check('scenario.t_i')") if $am eq 'gin' && !$aio->lacks('amcheck');
		$alice->gives("SET enable_seqscan = off; SELECT count(*) FROM scenario.t WHERE ${\($condition =~ s/\b99\b/4999/gr =~ s/< 100/< 5000/r)}", $rows == 1 ? 1 : 4500, 'all rows');
	}), each => \@methods);
}, leaves => 'nothing');
