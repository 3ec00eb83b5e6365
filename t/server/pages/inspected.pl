# Functions that show what is on pages: what they make of the bytes of files, of pages of zeroes, and of pages of another kind.
use TestAio;
use List::Util qw(max sum0);
use TestAio::Pages;

# The functions below return queries about a relation (%1$s), each with the rows that the bytes of its file make.

sub of_headers ($fork, @pages)
{
	return [ "SELECT lsn - '0/0', checksum, flags, lower, upper, special, pagesize + version, prune_xid FROM generate_series(0, $#pages) b, page_header(get_raw_page('%1\$s', '$fork', b))", map { join '|', header($_) } @pages ];
}

sub of_heap (@pages)
{
	my @rows;
	for my $page (@pages)
	{
		my $number = 0;
		for my $item (items($page))
		{
			my @tuple = $item->[1] == 1 ? tuple($page, $item) : (('') x 9);
			my ($mask2, $mask, $hoff) = @tuple[ 6 .. 8 ];
			my $ctid = $hoff && "($tuple[4],$tuple[5])";
			my $bits = $hoff && $mask & 1 ? unpack 'b' . 8 * int((($mask2 & 0x7ff) + 7) / 8), substr $page, $item->[0] + 23 : '';
			push @rows, join '|', ++$number, @$item, @tuple[ 0 .. 2 ], $ctid, $mask2, $mask, $hoff, $bits, $hoff && unpack 'H*', substr $page, $item->[0] + $hoff, $item->[2] - $hoff;
		}
	}
	return [ "SELECT lp, lp_off, lp_flags, lp_len, t_xmin, t_xmax, t_field3, t_ctid, t_infomask2, t_infomask, t_hoff, t_bits, encode(t_data, 'hex') FROM generate_series(0, $#pages) b, heap_page_items(get_raw_page('%1\$s', b))", @rows ];
}

sub of_revmap ($page)
{
	my @numbers = unpack "x24 v${\(3 * 1360)}", $page;
	my @rows;
	while (my ($high, $low, $item) = splice @numbers, 0, 3) { push @rows, "(${\($high << 16 | $low)},$item)" }
	return [ q{SELECT pages FROM brin_revmap_data(get_raw_page('%1$s', 1))}, @rows ];
}

# Functions that count the same pages and entries of an index (%1$s): each row of a query has the same twice.  "page" is
# its pages but the first one, with what functions say of a page of its kind.
my $page = q{WITH page AS (SELECT * FROM generate_series(1, pg_relation_size('%1$s') / 8192 - 1) n, get_raw_page('%1$s', n) p, page_header(p), %2$s)};
my %of_page = (
	btree => q{bt_page_stats('%1$s', n)},
	hash => q{hash_page_type(p) kind CROSS JOIN LATERAL hash_page_stats(CASE WHEN kind IN ('bucket', 'overflow') THEN p END) s},
	gist => q{gist_page_opaque_info(p) o, LATERAL (SELECT count(*) AS items, count(*) FILTER (WHERE dead) AS dead FROM gist_page_items_bytea(p)) i, LATERAL (SELECT 'leaf' = ANY (o.flags) AS is_leaf) l},
	gin => q{gin_page_opaque_info(p) o, LATERAL (SELECT 'list' = ANY (o.flags) AS is_list) l});
my %same = (
	btree => [
		q{SELECT ROW(i.*), (SELECT ROW(m.version, m.level, 8192 * (1 + count(*)), m.root, count(*) FILTER (WHERE type IN ('i', 'r')), count(*) FILTER (WHERE type = 'l'), count(*) FILTER (WHERE type = 'e'), count(*) FILTER (WHERE lower(type::text) = 'd'),
			round(100 - 100.0 * sum(upper - lower) FILTER (WHERE type = 'l') / sum(special - 24) FILTER (WHERE type = 'l'), 2)::float8, round(100.0 * count(*) FILTER (WHERE type = 'l' AND btpo_next BETWEEN 1 AND blkno) / count(*) FILTER (WHERE type = 'l'), 2)::float8)
			FROM page CROSS JOIN bt_metap('%1$s') m GROUP BY m.version, m.level, m.root) FROM pgstatindex('%1$s') i},
		q{SELECT ROW(tuple_count, dead_tuple_count, free_space), (SELECT ROW(sum(live_items - (btpo_next <> 0)::int) FILTER (WHERE type = 'l'), sum(dead_items) FILTER (WHERE type = 'l'), sum(CASE WHEN type = 'l' THEN upper - lower WHEN type IN ('i', 'r') THEN 0 ELSE 8192 END)) FROM page) FROM pgstattuple('%1$s')},
		q{SELECT ROW(live_items + dead_items, avg_item_size, free_size, page_size), ROW(i.count, i.length / nullif(i.count, 0), greatest(upper - lower - 4, 0), pagesize) FROM page, LATERAL (SELECT count(*), sum(itemlen) AS length FROM bt_page_items(p)) i WHERE lower(type::text) <> 'd'} ],
	hash => [
		q{SELECT ROW(bucket_pages, overflow_pages, bitmap_pages, unused_pages, live_items, dead_items, round(free_percent::numeric, 6)), (SELECT ROW(count(*) FILTER (WHERE kind = 'bucket'), count(*) FILTER (WHERE kind = 'overflow'), count(*) FILTER (WHERE kind = 'bitmap'), count(*) FILTER (WHERE kind = 'unused'), sum(live_items), sum(dead_items),
			round(100.0 * sum(CASE kind WHEN 'unused' THEN 8152 WHEN 'bitmap' THEN 0 ELSE upper - lower END) / 8152 / count(*) FILTER (WHERE kind <> 'bitmap'), 6)) FROM page) FROM pgstathashindex('%1$s')},
		q{SELECT ROW(tuple_count, dead_tuple_count, free_space), (SELECT ROW(sum(live_items), sum(dead_items), sum(CASE kind WHEN 'unused' THEN 8192 WHEN 'bitmap' THEN 0 ELSE upper - lower END)) FROM page) FROM pgstattuple('%1$s')},
		q{SELECT ROW(live_items + dead_items, free_size), ROW((SELECT count(*) FROM hash_page_items(p)), greatest(upper - lower - 4, 0)) FROM page WHERE kind IN ('bucket', 'overflow')},
		q{SELECT ROW(bitstatus, hash_page_type(get_raw_page('%1$s', bitmapblkno))), ROW(true, 'bitmap') FROM page, hash_bitmap_info('%1$s', n) WHERE kind = 'overflow'} ],
	gist => [q{SELECT ROW(tuple_count + dead_tuple_count, dead_tuple_count, free_space), (SELECT ROW(sum(items), sum(dead), sum(upper - lower)) FROM page WHERE is_leaf) FROM pgstattuple('%1$s')}],
	gin => [q{SELECT ROW(s.*, m.n_pending_pages), ROW(m.version, m.n_pending_pages, m.n_pending_tuples, (SELECT count(*) FROM page WHERE is_list)) FROM pgstatginindex('%1$s') s, gin_metapage_info(get_raw_page('%1$s', 0)) m}]);

# Test: a session gets these rows.
sub agrees ($aio, $session, $relation, @functions)
{
	for my $function (@functions)
	{
		my ($query, @expected) = @$function;
		my ($name) = $query =~ /((?:pgstat|pg_vis|pg_free)\w+|\w+(?=\((?:get_raw_page|p\)|'%))(?<!get_raw_page))/;
		next if $name =~ /^pgstat/ && $aio->lacks('pgstattuple') || $name =~ /^pg_vis/ && $aio->lacks('pg_visibility') || $name =~ /^pg_free/ && $aio->lacks('pg_freespacemap');
		my @found = split /\n/, $session->sql(sprintf $query, $relation), -1;
		my ($first) = grep { ($found[$_] // '') ne ($expected[$_] // '') } 0 .. max($#found, $#expected);
		ok(!defined $first, "$relation: $name") || diag("row $first of $#expected: " . ($found[$first] // 'none') . "\nby the file: " . ($expected[$first] // 'none'));
	}
	return;
}

# Extensions, their oldest versions, and queries that give the same by the functions of any version.
my %of_any_version = (
	pageinspect => [
		'1.5', q{SELECT p.*, md5(get_raw_page('scenario.t', 0)), md5(get_raw_page('scenario.t', 'fsm', 2)) FROM page_header(get_raw_page('scenario.btree', 1)) p}, q{SELECT * FROM bt_page_stats('scenario.btree', 1)},
		q{SELECT itemoffset, ctid, itemlen, nulls, vars, data FROM bt_page_items('scenario.btree', 1)},
		q{SELECT * FROM gin_metapage_info(get_raw_page('scenario.gin', 0))} ],
	pgstattuple => [ '1.4', map { "SELECT * FROM $_" } map({ ("pgstattuple('$_')", "pg_relpages('$_')", "pg_relpages('$_'::regclass)") } 'scenario.t', 'scenario.hash'), q{pgstattuple_approx('scenario.t')}, q{pgstatindex('scenario.btree')}, q{pgstatindex('scenario.btree'::regclass)}, q{pgstatginindex('scenario.gin')} ]);

# The kinds of indexes, and the column of each.
my %columns = (btree => 'n', hash => 'n', gist => 'p', spgist => 'p', gin => 'a', brin => 'n');

for_each_io_method('sync', sub {
	$aio->scenario('pageinspect', with('alice', sub ($alice) {
		$aio->sql('CREATE TABLE scenario.t (n int, p point, a int[]) WITH (autovacuum_enabled = off); INSERT INTO scenario.t SELECT i, point(i, i), ARRAY[i] FROM generate_series(0, 1999) i');
		$aio->sql("CREATE INDEX $_ ON scenario.t USING $_ ($columns{$_})") for sort keys %columns;
		$aio->sql('CREATE INDEX included ON scenario.t USING gist (p) INCLUDE (n, a); VACUUM scenario.t');
		# calls a function, and returns how many rows are not NULL, or the error
		$aio->sql(<<'END');
CREATE FUNCTION scenario.try(call text, page bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s r WHERE r IS NOT NULL', call) INTO found USING page;
	RETURN found;
EXCEPTION WHEN others THEN
	RETURN sqlstate;
END $$;
CREATE TABLE scenario.pages AS SELECT format('%s %s %s', c, fork, b) AS what, get_raw_page(c, fork, b) AS page
FROM unnest(ARRAY['t', 'btree', 'hash', 'gist', 'spgist', 'gin', 'brin', 'included']) r, concat('scenario.', r) c, unnest(ARRAY['main', 'fsm', 'vm']) fork,
	generate_series(0, least(3, pg_relation_size(c::regclass, fork) / 8192 - 1)) b;
CREATE TABLE scenario.calls AS SELECT DISTINCT proname AS name, format('%s($1%s)', proname, (
	SELECT string_agg(CASE a WHEN 'regclass'::regtype THEN format(', %L::regclass', 'scenario.' || r)
		WHEN 'boolean'::regtype THEN ', true' ELSE ', 0' END, '' ORDER BY i) FROM unnest(proargtypes[1:]::oid[]) WITH ORDINALITY x (a, i))) AS call
FROM pg_proc, unnest(ARRAY['t', 'btree', 'hash', 'gist', 'spgist', 'gin', 'brin', 'included']) r WHERE proargtypes[0] = 'bytea'::regtype AND pronamespace = 'public'::regnamespace AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'c');
END
		cmp_ok($aio->sql('SELECT count(*) FROM scenario.calls'), '>=', 18, 'functions');
		# a page that hash indexes do not use yet has this type; others have none
		$aio->gives(q{SELECT string_agg(DISTINCT name || ' ' || found, ', ') FROM scenario.calls, scenario.try(call, decode(repeat('00', 8192), 'hex')) found WHERE found NOT IN ('0', '42809')},
			'hash_metapage_info 22023, hash_page_items 22023, hash_page_stats 22023, hash_page_type 1, page_header 1', 'a page of zeroes');
		$aio->gives(q{SELECT string_agg(DISTINCT found, ' ') FROM scenario.calls, scenario.pages, scenario.try(call, page) found WHERE found !~ '^\d+$|^22|^42809|^XX00[12]' AND (call !~ 'regclass' OR what !~ 'gist|included' OR call ~ split_part(what, ' ', 1))}, '', 'pages of each kind');
		$alice->gives(q{SELECT bool_and(keys LIKE '(p) INCLUDE (n, a)=("(%") INCLUDE (%, {%})') FROM gist_page_items(get_raw_page('scenario.included', 1), 'scenario.included')}, 't', 'included columns are shown');
		# the build has too little memory, and inserts a key again and again
		$alice->sql("SET maintenance_work_mem = '64kB'; CREATE INDEX keys ON scenario.t USING gin ((ARRAY[n % 10])) WHERE n < 500");
		$alice->gives(q{SELECT n_entries FROM gin_metapage_info(get_raw_page('scenario.keys', 0))}, 10, 'keys');
		$aio->sql('CREATE TABLE scenario.same AS SELECT ARRAY[0] AS a FROM generate_series(1, 9000); CREATE INDEX postings ON scenario.same USING gin (a)');
		$alice->gives(q{SELECT count(DISTINCT tid), count(*) FROM generate_series(1, pg_relation_size('scenario.postings') / 8192 - 1) b, get_raw_page('scenario.postings', b) p, gin_page_opaque_info(p) o, gin_leafpage_items(CASE WHEN o.flags = '{data,leaf,compressed}' THEN p END) i, unnest(tids) tid}, '9000|9000', 'all postings of a key');
		$alice->gives(q{SELECT DISTINCT array_length(tuple_data_split('scenario.t'::regclass, t_data, t_infomask, t_infomask2, t_bits), 1) FROM heap_page_items(get_raw_page('scenario.t', 0))}, 3, 'columns of rows');
		$alice->gives(q{SELECT DISTINCT cardinality(raw_flags) - bit_count(m::bit(16)) - bit_count((m & 57344)::bit(16)) FROM generate_series(1, 65535) m, heap_tuple_infomask_flags(m, m)}, 0, 'each bit has a name');
		$aio->sql('CREATE TABLE scenario.wide (n int, body text STORAGE external); INSERT INTO scenario.wide SELECT n, CASE WHEN n % 4 > 0 THEN repeat(chr(64 + n), n * n) END FROM generate_series(1, 60) n');
		$alice->gives(q{SELECT count(*), bool_and(split[1] = decode(lpad(to_hex(n), 2, '0') || '000000', 'hex') AND split[2] IS NOT DISTINCT FROM convert_to(body, 'UTF8'))
			FROM scenario.wide w, generate_series(0, pg_relation_size('scenario.wide') / 8192 - 1) b, heap_page_items(get_raw_page('scenario.wide', b::int)) i, tuple_data_split('scenario.wide'::regclass, t_data, t_infomask, t_infomask2, t_bits, true) split WHERE w.ctid = format('(%s,%s)', b, lp)::tid}, '60|t', 'values of rows, from their TOAST table as well');
		for my $extension (sort grep { !$aio->lacks($_) } keys %of_any_version)
		{
			my ($oldest, @queries) = @{ $of_any_version{$extension} };
			$alice->sql("BEGIN; DROP EXTENSION $extension; CREATE EXTENSION $extension VERSION '$oldest'");
			my @old = map { $alice->sql($_) } @queries;
			$alice->sql("ALTER EXTENSION $extension UPDATE");
			$alice->gives($queries[$_], $old[$_], "$extension $oldest: $queries[$_]") for 0 .. $#queries;
			$alice->sql('ROLLBACK');
		}
	}));
	$aio->scenario('pages of a GiST index that are deleted', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.t (p point) WITH (autovacuum_enabled = off); CREATE INDEX gist ON scenario.t USING gist (p); INSERT INTO scenario.t SELECT point(i, i) FROM generate_series(1, 2000) i');
		$alice->sql($_) for 'DELETE FROM scenario.t', 'VACUUM scenario.t', 'VACUUM scenario.t';
		$alice->gives("SELECT count(*) > 5, sum((SELECT count(*) FROM gist_page_items_bytea(p))), sum((SELECT count(*) FROM gist_page_items(p, 'scenario.gist'))) FROM generate_series(1, pg_relation_size('scenario.gist') / 8192 - 1) n, get_raw_page('scenario.gist', n) p, gist_page_opaque_info(p) WHERE 'deleted' = ANY (flags)", 't|0|0', 'have no items');
	}));

	$aio->scenario('what pgstattuple and pgstatindex do not know', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.t (n int, p point, a int[])');
		$alice->sql("CREATE INDEX $_ ON scenario.t USING $_ ($columns{$_})") for sort keys %columns;
		$alice->fails("SELECT pgstattuple('scenario.$_->[0]')", '0A000', qr/"$_->[0]" \($_->[1] index\)/, $_->[0]) for [qw(gin gin)], [qw(brin brin)], [qw(spgist spgist)];
		$alice->gives("SELECT avg_leaf_density, leaf_fragmentation FROM pgstatindex('scenario.btree')", 'NaN|NaN', 'shares of nothing');
	}), skip => $aio->lacks('pgstattuple'));

	# with rows of a transaction in progress, dead entries, and pages that are deleted, new, or visible to all
	$aio->scenario('what functions make of the bytes of files: %s', with('alice', sub ($alice, $kind) {
		$alice->note_temporary_tables if $kind eq 'TEMP';
		my $s = $kind eq 'TEMP' ? '' : 'scenario.';
		my $t = "${s}t";
		# eight columns fill a byte of the null bitmap
		$alice->sql("CREATE $kind TABLE $t (n int, p point, a int[], body text, b int, c int, d int, e int)" . ($kind eq 'TEMP' ? '' : ' WITH (autovacuum_enabled = off)'));
		$alice->sql("CREATE INDEX $_ ON $t USING $_ ($columns{$_})") for sort keys %columns;
		my $insert = sub ($from, $to, $n = 'i') { $alice->sql("INSERT INTO $t SELECT $n, point(i, i), ARRAY[i], CASE WHEN i % 3 = 0 THEN repeat('x', 200) END FROM generate_series($from, $to) i") };
		$insert->(0, 2499);
		$insert->(1, 1400, 'CASE WHEN i % 2 = 1 THEN 1 ELSE 2000 - i / 2 END');
		$alice->sql($_) for "DELETE FROM $t WHERE n BETWEEN 500 AND 1299 OR n % 4 = 3", "VACUUM (FREEZE, INDEX_CLEANUP on) $t", "SELECT grow_rel('$t', 2)";
		$insert->(3000, 3009);
		$alice->sql($_) for "UPDATE $t SET body = 'y' WHERE n BETWEEN 100 AND 120", "UPDATE $t SET n = n WHERE n = 200", "DELETE FROM $t WHERE n IN (400, 401, 402)";
		# scans by the indexes note which entries are dead
		$alice->sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(body) FROM $t WHERE $_; RESET ALL") for map({ "n = $_" } 200, 400, 401), 'n BETWEEN 395 AND 405';
		my $rows = sub { return map { $_ => 1 } split ' ', $alice->sql("SELECT string_agg(ctid::text, ' ') FROM $t") };
		my %committed = $rows->();
		$alice->sql('BEGIN');
		$insert->(4000, 4004);
		$alice->sql("DELETE FROM $t WHERE n IN (300, 301)");
		my %seen = $rows->();

		my $heap = TestAio::Pages->of($aio, $alice, $t);
		my @pages = $heap->pages;
		my @visible = grep { $heap->map_bits($_) & 1 } 0 .. $#pages;
		my %is_visible = map { $_ => 1 } @visible;
		is_between(scalar @visible, 3, @pages - 5, 'pages that are visible to all');
		# pgstattuple_approx() takes rows that are being inserted for dead, and asks the maps about pages that are visible to all
		my ($live, $dead, $about_live, $about_dead) = map { { count => 0, length => 0 } } 1 .. 4;
		for my $block (0 .. $#pages)
		{
			my $number = 0;
			for my $item (items($pages[$block]))
			{
				my $ctid = "($block,${\++$number})";
				next if $item->[1] != 1;
				for my $sum ($seen{$ctid} ? $live : $dead, $is_visible{$block} ? () : $committed{$ctid} ? $about_live : $about_dead) { $sum->{count}++; $sum->{length} += $item->[2] }
			}
		}
		my $recorded = sum0(map { $heap->recorded($_) } @visible);
		my ($old_pages, $old_rows) = split /\|/, $alice->sql("SELECT relpages, reltuples FROM pg_class WHERE oid = '$t'::regclass");
		my $about = int $old_rows / $old_pages * @visible + $about_live->{count} + 0.5;
		my $shares = join ' AND ', map { "abs($_->[0] - 100.0 * $_->[1] / table_len) < 0.006" } [qw(tuple_percent tuple_len)], [qw(dead_tuple_percent dead_tuple_len)], [qw(free_percent free_space)];
		agrees($aio, $alice, $t, map({ of_headers($_, $heap->pages($_)) } qw(main fsm vm)), of_heap(@pages),
			[ "SELECT table_len, tuple_count, tuple_len, dead_tuple_count, dead_tuple_len, free_space, $shares FROM pgstattuple('%1\$s')", join '|', 8192 * @pages, map({ @$_{qw(count length)} } $live, $dead), sum0(map { free($_) } @pages), 't' ],
			[ "SELECT round(scanned_percent::numeric, 6), table_len, approx_tuple_count, approx_tuple_len, dead_tuple_count, dead_tuple_len, approx_free_space, ${\($shares =~ s/\b(?=(?:tuple|free)_)/approx_/gr)} FROM pgstattuple_approx('%1\$s')",
				join '|', sprintf('%.6f', 100 * (@pages - @visible) / @pages), 8192 * @pages, $about, $about_live->{length} + 8192 * @visible - $recorded, @$about_dead{qw(count length)}, $recorded + sum0(map { $is_visible{$_} ? 0 : free($pages[$_]) } 0 .. $#pages), 't' ],
			[ "SELECT pg_freespace('%1\$s', b) FROM generate_series(0, $#pages) b", map { $heap->recorded($_) } 0 .. $#pages ]);
		for my $index (sort keys %columns)
		{
			my @of_index = TestAio::Pages->of($aio, $alice, "$s$index")->pages;
			agrees($aio, $alice, "$s$index", of_headers(main => @of_index), $index eq 'brin' ? of_revmap($of_index[1]) : ());
			for my $query ($aio->lacks('pgstattuple') ? () : @{ $same{$index} // [] })
			{
				my $wrong = $alice->sql(sprintf "$page SELECT * FROM ($query) q (found, counted) WHERE found::text <> counted::text" =~ s/%2\$s/$of_page{$index}/r, "$s$index");
				is($wrong, '', "$index: " . join ' ', $query =~ /((?:pgstat|bt_|hash_|gist_|gin_)\w+)\(/g);
			}
		}
		$alice->sql('ROLLBACK');
		# pages know that they are visible to all when the map does not, any more
		for my $truncated ($aio->lacks('pg_visibility') ? () : (0, 1))
		{
			$alice->sql("SELECT pg_truncate_visibility_map('$t')") if $truncated;
			$heap = TestAio::Pages->of($aio, $alice, $t);
			my @bits = map { $heap->map_bits($_) } 0 .. $#pages;
			@pages = $heap->pages;
			agrees($aio, $alice, $t, [ "SELECT all_visible, all_frozen, pd_all_visible FROM pg_visibility('%1\$s')", map { join '|', map { $_ ? 't' : 'f' } $bits[$_] & 1, $bits[$_] & 2, (header($pages[$_]))[2] & 4 } 0 .. $#pages ],
				[ "SELECT * FROM pg_visibility_map_summary('%1\$s')", join '|', map { my $bit = $_; scalar grep { $_ & $bit } @bits } 1, 2 ]);
		}
	}), each => [ '', 'TEMP' ]);
}, needs => 'pageinspect');
