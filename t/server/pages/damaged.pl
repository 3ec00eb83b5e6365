# What amcheck and pg_visibility say of damaged tables, indexes and maps.
use TestAio;
use PostgreSQL::Test::Utils qw(slurp_file);

for_each_io_method('worker', sub {
	# the first line pointer of a page: where it points to, its flags (2: redirected) and a length
	$aio->scenario('what amcheck says of line pointers and transactions', with('alice', sub ($alice) {
		my $t = 'scenario.l';
		$aio->sql($_) for "CREATE TABLE $t (n int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT generate_series(1, 5); CREATE INDEX ON $t (n); DELETE FROM $t WHERE n = 3", "VACUUM (INDEX_CLEANUP on) $t",
		  "DELETE FROM $t WHERE n = 2", "VACUUM (INDEX_CLEANUP off) $t", "CREATE TABLE scenario.u AS SELECT 1 AS n", "BEGIN; UPDATE scenario.u SET n = 2; ROLLBACK";
		# SELECT sets the hint that it was rolled back
		$alice->gives("SELECT count(*) FROM verify_heapam('scenario.u'); SELECT count(*) FROM scenario.u", "0\n1", 'nothing of an update that was rolled back') for 1, 2;
		$aio->sql("SELECT evict_rel('$t')");
		my $file = $aio->file_of($t);
		for my $case ([ 0, 2, 0, 'precedes minimum offset 1' ], [ 4, 2, 0, 'points to a non-heap-only tuple at offset 4' ], [ 9, 2, 0, 'offset 9 exceeds maximum offset 5' ], [ 3, 2, 0, 'points to an unused item' ], [ 2, 2, 0, 'points to a dead item' ], [ 1, 2, 0, 'points to another redirected' ],
			[ 8180, 1, 28, 'not maximally aligned' ], [ 8160, 1, 23, 'less than the minimum' ], [ 8160, 1, 33, 'ends beyond maximum page offset 8192' ])
		{
			my ($offset, $flags, $length, $what) = @$case;
			$aio->overwrite($file, 24, pack 'V', $offset | $flags << 15 | $length << 17);
			$aio->sql("SELECT modify_rel_block('$t', 0)");
			like($alice->sql("SELECT string_agg(msg, ',') FROM verify_heapam('$t') WHERE offnum = 1"), qr/$what/, $what);
		}
		# transactions are older or younger than another one modulo 2^32
		for my $case ([ 4026531839, 'precedes oldest valid transaction ID' ], [ 1000000000, 'equals or exceeds next valid transaction ID' ])
		{
			my ($xmin, $what) = @$case;
			$aio->overwrite($file, 24, pack 'V', 8160 | 1 << 15 | 28 << 17);
			$aio->overwrite($file, 8160, pack 'V', $xmin);
			$aio->sql("SELECT modify_rel_block('$t', 0)");
			like($alice->sql("SELECT string_agg(msg, ',') FROM verify_heapam('$t') WHERE offnum = 1"), qr/xmin $xmin $what/, "xmin $xmin $what");
		}
	}), skip => $aio->lacks('amcheck'));

	# Damaged: a chunk's line pointer (4 bytes), its number, or its length.  The first value has three chunks.
	$aio->scenario('what amcheck says of TOAST', with('alice', sub ($alice) {
		my $t = 'scenario.v';
		$alice->sql("CREATE TABLE $t (n int, body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat(i::text, 5000) FROM generate_series(1, 3) i");
		my $toast = $aio->sql("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = '$t'::regclass");
		my ($value, @at) = split / /, $aio->sql("SELECT (SELECT min(chunk_id) FROM $toast) || ' ' || string_agg(lp_off::text, ' ' ORDER BY lp) FROM heap_page_items(get_raw_page('$toast', 0)) WHERE lp <= 3");
		my $check = sub ($toasted) { return $alice->sql("SELECT string_agg(blkno || ' ' || offnum || ' ' || attnum || ': ' || msg, ', ') FROM verify_heapam('$t', check_toast => $toasted)") };
		is($check->('true'), '', 'as it should be');
		# the search notes in the index what it does not find in the table
		my @pages = map {
			my ($relation, $block) = @$_;
			$aio->evict($relation);
			my $file = $aio->file_of($relation);
			[ $relation, $block, $file, substr slurp_file($file), 8192 * $block, 8192 ]
		} [ $toast, 0 ], [ "${toast}_index", 1 ];
		my $write = sub (@damage) {
			for (@pages)
			{
				my ($relation, $block, $file, $page) = @$_;
				$aio->evict($relation);
				$aio->overwrite($file, 8192 * $block, $page);
				$aio->overwrite($file, @damage) if @damage && $block == 0;
				$aio->sql("SELECT modify_rel_block('$relation', $block)");
			}
		};
		my $gone = pack 'V', 0;
		for my $case ([ [ 28 => $gone ], 'index scan returned chunk 2 when expecting chunk 1' ],
			[ [ 32 => $gone ], 'was expected to end at chunk 2, but ended while expecting chunk 2' ],
			[ [ 24 => $gone x 3 ], 'not found in toast table' ],
			[ [ $at[0] + 32 => pack 'V', 1990 * 4 ], 'chunk 0 has size 1986, but expected size 1996' ],
			[ [ $at[2] + 28 => pack 'V', 7 ], "index scan returned chunk 7 when expecting chunk 2, 0 1 1: toast value $value chunk 7 follows last expected chunk 2" ])
		{
			my ($damage, $what) = @$case;
			$write->(@$damage);
			is($check->('true'), "0 1 1: toast value $value $what", $what);
			is($check->('false'), '', 'it looks at TOAST if it is asked to');
		}
		$write->();
		$alice->gives("SELECT count(*), sum(length(body)) FROM $t", '3|15000', 'as it was');
		# the pointer to the first value: compressed, since fewer bytes are stored (5000) than it has (5005 - 4), by a method that does not exist
		my $pointer = 24 + 4 + 2 + $aio->sql("SELECT lp_off FROM heap_page_items(get_raw_page('$t', 0)) WHERE lp = 1");
		$aio->evict($t);
		$aio->overwrite($aio->file_of($t), $pointer, pack 'VV', 5005, 5000 | 3 << 30);
		$aio->sql("SELECT modify_rel_block('$t', 0)");
		is($check->('false'), "0 1 1: toast value $value has invalid compression method id 3", 'what method compressed it');
	}), skip => $aio->lacks('amcheck') // $aio->lacks('pageinspect'));

	# the table compresses a short value if its row is long, the index does not
	$aio->scenario('what amcheck says of a value that is compressed only in the table', with('alice', sub ($alice) {
		$alice->sql("CREATE TABLE scenario.c (body text, other text STORAGE PLAIN); CREATE INDEX c_body ON scenario.c (body); INSERT INTO scenario.c VALUES (repeat('x', 400), repeat('y', 1900))");
		$alice->gives('SELECT pg_column_size(body) < 100 FROM scenario.c', 't', 'the table compresses it');
		$alice->gives("SELECT $_('scenario.c_body', heapallindexed => true)", '', $_) for qw(bt_index_check bt_index_parent_check);
	}), skip => $aio->lacks('amcheck'));

	# two rows may have the same key if one of them is dead
	$aio->scenario('what amcheck says of a key that is there twice', with('alice', sub ($alice) {
		my $t = 'scenario.k';
		$alice->sql("CREATE TABLE $t (n int, body text) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT generate_series(1, 900); CREATE INDEX k_n ON $t (n); CREATE INDEX ON $t (body)");
		$alice->sql("SET allow_system_table_mods = on; UPDATE pg_index SET indisunique = true WHERE indexrelid = 'scenario.k_n'::regclass");
		$alice->sql("UPDATE $t SET body = 'x'");
		my $check = sub ($function, $unique) { return "SELECT $function('scenario.k_n', true, ${\($function =~ /parent/ ? 'true,' : '')} checkunique => $unique)" };
		$alice->gives($check->($_, 'true'), '', "$_: dead versions are none") for qw(bt_index_check bt_index_parent_check);
		$alice->sql("UPDATE pg_index SET indisunique = false WHERE indexrelid = 'scenario.k_n'::regclass; INSERT INTO $t VALUES (400)");
		$alice->sql("UPDATE pg_index SET indisunique = true WHERE indexrelid = 'scenario.k_n'::regclass");
		$alice->gives($check->($_, 'false'), '', "$_ does not look") for qw(bt_index_check bt_index_parent_check);
		$alice->fails($check->($_, 'true'), 'XX002', qr/index uniqueness is violated for index "k_n"/, $_) for qw(bt_index_check bt_index_parent_check);
		$alice->sql('RESET allow_system_table_mods');
	}), skip => $aio->lacks('amcheck'));

	# a map from before rows were deleted
	$aio->scenario('what pg_visibility says of a wrong map', with('alice', 40, changes => 1, sub ($alice, $t) {
		my $map = $aio->file_of($t) . '_vm';
		my $before = slurp_file($map);
		$alice->gives("SELECT (SELECT count(*) FROM pg_check_visible('$t')), (SELECT count(*) FROM pg_check_frozen('$t'))", '0|0', 'a right map: nothing');
		$alice->sql("DELETE FROM $t WHERE blk IN (3, 33)");
		$aio->evict($t);
		$aio->overwrite($map, 0, $before);
		$alice->gives("SELECT string_agg(t_ctid::text, ' ') FROM $_('$t') t_ctid", '(3,1) (33,1)', $_) for qw(pg_check_visible pg_check_frozen);
	}), skip => $aio->lacks('pg_visibility'));

	# a stream that is left before its end; guards server commit 54a3615f15
	$aio->scenario('amcheck ends at the first corruption', with('alice', 60, changes => 1, sub ($alice, $t, $first, @bad) {
		my $file = $aio->file_of($t);
		# the first line pointer points behind the page
		$aio->overwrite($file, $_ * 8192 + 24, pack('V', 0x7ff0 | 1 << 15 | 100 << 17)) for @bad;
		# which gets its checksum
		$aio->sql("SELECT modify_rel_block('$t', $_)") for @bad;
		$alice->gives("SELECT DISTINCT blkno FROM verify_heapam('$t', on_error_stop => true)", $first, "block $first");
	}), each => [ [ 0, 0 ], [ 7, 7, 30 ], [ 59, 59 ] ], skip => $aio->lacks('amcheck'));
}, leaves => 'nothing');
