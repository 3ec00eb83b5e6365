# Reads that return with a wrong byte in memory: io_corrupt().
use TestAio;

my $log = qr/LOG:  (?:invalid page in block|page verification failed|ignoring checksum failure in block|could not read blocks) ?/;

for_each_io_method('worker; long: all', sub {
	$aio->scenario('one block of a wide read, once', with('alice bob', 20, sub ($alice, $bob, $t) {
		my $filter = $aio->io_corrupt($t, 4, 8191, times => 1);
		$alice->fails("SELECT read_rel_block_ll('$t', 2, nblocks => 5)", 'XX001', qr/invalid page in block 4 of relation/, 'the page is invalid');
		$aio->gives("SELECT kind, blockno, result, matched, fired FROM io_filters", 'corrupt|4|8191|1|1');
		$bob->gives("SELECT count(*) FROM $t", 20, 'the next read is right');
		$aio->gives("SELECT io_fail_end(everybody => true), io_filter_end($filter), io_filter_end(everybody => true)", '0|1|0', 'ends');
	}), log => $log);

	$aio->scenario('exactly one byte', with('alice', 20, sub ($alice, $t) {
		my $byte = sub ($block, $offset) { return "get_byte(get_raw_page('$t', $block), $offset)" };
		my $pages = join ' || ', map { "md5(set_byte(get_raw_page('$t', $_), 100 + $_, 0))" } 2 .. 6;
		my $bytes = join ', ', map { $byte->($_, 100 + $_) } 2 .. 6;
		my @before = map { $aio->sql($_) } "SELECT $pages", "SELECT $bytes";
		$aio->evict($t);
		$aio->io_corrupt($t, $_, 100 + $_) for 3, 5;
		$alice->sql("SET ignore_checksum_failure = on; SELECT read_rel_block_ll('$t', 3, nblocks => 1), read_rel_block_ll('$t', 4, nblocks => 3)");
		$alice->warns(qr/ignoring checksum failure in block $_ /) for 3, 5;
		$aio->gives("SELECT $pages", $before[0], 'all others are right');
		$aio->gives("SELECT $bytes", join('|', map { /#(.*)/ ? 255 - $1 : $_ } do { my $n = 1; map { $n++ % 2 ? $_ : "#$_" } split /\|/, $before[1] }), 'two are inverted');
		$aio->io_filter_end;
		$aio->evict($t);
	}), skip => $aio->lacks('pageinspect'), log => $log);

	$aio->scenario('zero_damaged_pages', with('alice', 20, sub ($alice, $t) {
		$aio->io_corrupt($t, 3, 0);
		$alice->gives("SET zero_damaged_pages = on; SELECT count(*) FROM $t", 19, 'reads an empty page');
		$alice->warns(qr/invalid page in block 3 of relation .*; zeroing out page/);
		$aio->io_filter_end;
		$aio->evict($t);
	}), log => $log);

	$aio->scenario('of reads that are held, fail or are short', with('alice bob', 20, sub ($alice, $bob, $t) {
		$bob->sql("SELECT io_corrupt('$t', 7, 50), io_hold('$t')");
		my @reads = ([ 'NULL', 'XX001', qr/invalid page in block 7/ ], [ '-5', '58030', qr/could not read blocks 7\.\.8/ ], [ '8192', 'XX001', qr/invalid page in block 7/ ]);
		for my $read (@reads)
		{
			$alice->waits("SELECT read_rel_block_ll('$t', 7, nblocks => 2)", 'IoGateHeld');
			$bob->sql("SELECT io_release(pid, io_id, $read->[0]) FROM io_held");
			$alice->raises($read->[1], $read->[2], "released with $read->[0]");
		}
		$bob->sql('SELECT io_hold_end()');
		$bob->io_fail($t, -5);
		$alice->fails("SELECT read_rel_block_ll('$t', 7)", 'XX001', qr/invalid page/, 'the older filter comes first');
		$alice->fails("SELECT read_rel_block_ll('$t', 6)", '58030', qr/could not read/, 'other blocks fail');
		$bob->sql("SELECT io_filter_end(), io_corrupt('$t', 7, 50)");
		$bob->gives('SELECT io_filter_end()', 1);
	}), log => $log);

	$aio->scenario('a temporary table', with('alice', 8, kind => 'TEMP', sub ($alice, $t) {
		$alice->io_corrupt($t, 3, 30);
		$alice->fails("SELECT count(*) FROM $t", 'XX001', qr/invalid page in block 3/, 'too');
		$alice->io_filter_end;
		$alice->gives("SELECT count(*) FROM $t", 8, 'reads');
	}), log => $log);

	$aio->scenario('bad input', with('alice', 2, sub ($alice, $t) {
		for my $case ([ "'$t', 0, 8192", '22023', qr/offset must be between 0 and 8191/ ], [ "'$t', 0, -1", '22023', qr/offset must be/ ],
			[ "'$t', NULL, 0", '22004', qr/blockno and offset must not be null/ ], [ "'$t', -1, 0", '22023', qr/blockno must be between/ ],
			[ 'NULL, 0, 0', '22023', qr/neither a relation/ ])
		{
			$alice->fails("SELECT io_corrupt($case->[0])", $case->[1], $case->[2], $case->[0]);
		}
		$alice->fails('SELECT io_filter_end(0)', '22023', qr/filter must be between 1/, 'no number');
	}));
}, leaves => 'nothing', needs => 'gate');
