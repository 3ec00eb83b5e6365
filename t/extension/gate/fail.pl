# Reads that fail: those that the I/O gate makes fail, and those of a process that cannot open the file.
use TestAio;

# Reads that the I/O gate makes fail.  Each read of a statement in turn fails once, until a
# run in which no filter fires; then each fails for good.
with_each_io_method('worker; long: all', sub {
	$aio->scenario('the n-th read fails once', with('alice', 48, sub ($alice, $t) {
		my $failed = 0;
		for my $n (0 .. 20)
		{
			$aio->evict($t);
			$aio->io_fail($t, 'EIO', skip => $n, times => 1);
			$alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 47)))")->wait_for_end;
			my $fired = $aio->sql('SELECT fired FROM io_filters');
			$aio->io_fail_end;
			last if !$fired;
			$alice->raises('58030', qr/could not read blocks \d+\.\.\d+ in file .*: Input\/output error/, "read $n fails");
			$failed++;
			$aio->gives('SELECT count(*) FROM io_held', 0, 'nothing is held');
			$aio->is_as_written($t);
		}
		$alice->returns('48', 'reads once no filter fires');
		ok($failed >= 3, "$failed reads have failed, one after the other");
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('the third read, of the main fork', with('alice', 20, sub ($alice, $t) {
		$aio->sql("SELECT io_fail('$t', -5, fork => 'vm'), io_fail('$t', -5, skip => 2, times => 1)");
		$aio->gives('SELECT io_hold_end()', 0, 'neither is a filter of io_hold(everybody => true)');
		$alice->gives("SELECT read_rel_block_ll('$t', $_)", '', "reads block $_") for 0, 1;
		$alice->fails("SELECT read_rel_block_ll('$t', 2)", '58030', qr/blocks 2\.\.2/, 'fails to read block 2');
		$alice->gives("SELECT read_rel_block_ll('$t', 2)", '', 'reads it');
		for my $release ('io_release_all()', 'io_release(pid, io_id)')
		{
			$aio->io_fail_end;
			$aio->read_waits_for("io_hold('$t'), io_fail('$t', -5)", $alice, "SELECT read_rel_block_ll('$t', 7)");
			$aio->sql("SELECT io_hold_end(), $release, io_fail_end() FROM io_held");
			$alice->raises('58030', qr/blocks 7\.\.7/, 'a read that was held fails all the same');
		}
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('short reads of a stream are retried', with('alice', 48, sub ($alice, $t) {
		$aio->io_fail($t, 12288, times => 3);
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 47)))", 48, 'reads all the same');
		$aio->gives('SELECT result, times, fired, matched > fired FROM io_filters', '12288|3|3|t', 'three were short');
		$aio->io_fail_end;
	}));

	$aio->scenario('a block, a process, until ended', with('alice bob', 20, sub ($alice, $bob, $t) {
		$bob->sql("SELECT io_fail_end(io_fail('$t', r)) FROM unnest('{-5,0,1,8191,8192}'::int[]) r");
		is_deeply([ $bob->notices ], [ map { "matching I/O ends after $_ bytes" } 1, 8191 ], 'a positive errno is a number of bytes');
		my $filter = $aio->io_fail($t, -5, 7, pid => $alice->pid);
		$alice->gives("SELECT read_rel_block_ll('$t', 3, nblocks => 4)", '', 'another block');
		$alice->fails("SELECT read_rel_block_ll('$t', 4, nblocks => 4)", '58030', qr/blocks 4\.\.7/, 'the block');
		$alice->fails("SELECT read_rel_block_ll('$t', 7)", '58030', qr/blocks 7\.\.7/, 'again');
		$bob->gives("SELECT read_rel_block_ll('$t', 7)", '', 'another process');
		$aio->io_fail($t, -5, 12);
		$aio->gives("SELECT io_fail_end($filter), io_fail_end($filter)", '1|0');
		$alice->fails("SELECT read_rel_block_ll('$t', 12)", '58030', qr/blocks 12\.\.12/, 'another filter is still there');
		$alice->gives("SELECT read_rel_block_ll('$t', 7)", '', 'no more');
		$alice->fails("SELECT io_fail('$t', -5, times => 1), read_rel_block_ll('$t', 8)", '58030', qr/blocks 8\.\.8/, 'once more');
		$aio->evict($t);
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT read_rel_block_ll('$t', 9)");
		$aio->sql('SELECT io_hold_end(), io_release_all()');
		$alice->returns('', 'the next read of the handle has a result of its own');
		$aio->io_fail_end;
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('a process without a free descriptor closes a file to perform a read', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT read_rel_block_ll('$t', 3)");
		$bob->sql('SELECT count(*) FROM pg_class');
		my $limit = 0;
		$limit++ while -l "/proc/${\$bob->pid}/fd/$limit";
		system 'prlimit', "--pid=${\$bob->pid}", "--nofile=$limit:$limit" and die "prlimit: $?\n";
		$bob->gives('SELECT io_release_all()', 1);
		$alice->returns('', 'reads');
		$aio->end_holds;
	}));

	$aio->scenario('bad input', with('alice', 2, sub ($alice, $t) {
		$alice->sql('CREATE TEMP VIEW v AS SELECT 1');
		for my $case ([ "io_fail('$t', -4096)", '22023', qr/smallest errno is -4095/ ],
			[ "io_fail('$t', NULL)", '22004', qr/result must not be null/ ], [ "io_fail('v', -5)", '42809', qr/has no storage/ ],
			[ "io_fail('$t', -5, -1)", '22023', qr/blockno must be between/ ], [ "io_fail('$t', -5, times => 0)", '22023', qr/times must be between 1 and/ ],
			[ "io_fail('$t', -5, skip => -1)", '22023', qr/skip must be between 0 and/ ], [ "io_hold('$t', fork => 'x')", '22023', qr/invalid fork name/ ],
			[ "io_hold('$t', pid => 0)", '22023', qr/pid must be between 1 and/ ], [ "io_hold('$t', 4294967295)", '22023', qr/between 0 and 4294967294/ ],
			[ 'io_hold(times => 0, everybody => true)', '22023', qr/times must be between 1 and/ ], [ 'io_hold_end(0)', '22023', qr/filter must be between 1 and/ ],
			[ 'io_release(1, -1)', '22023', qr/io_id must be between/ ], [ 'io_release(NULL, 1)', '22004', qr/must not be null/ ],
			[ 'io_release_all(-5000)', '22023', qr/smallest errno/ ], [ "io_device(NULL, NULL, everybody => true)", '22004', qr/latency must not be null/ ],
			[ "io_device(NULL, '-1ms', everybody => true)", '22023', qr/between 0 and 60/ ], [ "io_device('$t', '2 min')", '22023', qr/between 0 and 60/ ],
			(map { [ "io_device('$t', '$_')", '22023', qr/latency "$_" is not a time with a unit\nHINT:  For example "100us"/ ] } '5', '5 mon', ''),
			(map { [ $_, '22023', qr/neither a relation nor a process is named\nHINT:  Set "everybody" to true/ ] } 'io_hold()', 'io_hold(blockno => 1, keep => true)',
				"io_hold(fork => 'fsm')", 'io_fail(NULL, -5)', "io_device(NULL, '1 ms')"),
			[ "io_device(NULL, '1ms', 0, everybody => true)", '22023', qr/between 1 and 1024/ ], (map { [ "io_device(NULL, '1ms', $_, everybody => true)", '22023', qr/between 0 and 1/ ] } "jitter => 'NaN'", 'tail => 1.1'), [ "io_device(NULL, '1ms', tail => 0.5, everybody => true)", '22004', qr/latency must not be null/ ],
			[ "io_device(NULL, '1ms', bytes_per_second => 0, everybody => true)", '22023', qr/between 1 and/ ])
		{
			$alice->fails("SELECT $case->[0]", $case->[1], $case->[2], $case->[0]);
		}
		$alice->gives('SELECT (SELECT count(*) FROM io_filters), (SELECT count(*) FROM io_devices)', '0|0', 'and nothing is left behind');
		$alice->gives("SELECT io_hold('$t', 4294967294) > 0, io_hold_end()", 't|1', 'the last possible block');
		$alice->gives("SELECT count(io_hold('$t', i)) FROM generate_series(1, 64) i", 64, 'as many filters as there may be');
		my $too_many = qr/too many filters already\nDETAIL:  At most 64 filters can be in force at once, 8 of them devices/;
		$alice->fails("SELECT io_hold('$t', 65)", '53400', $too_many, 'one more');
		$alice->gives('SELECT io_hold_end()', 64, 'they end');
		$alice->gives("SELECT count(io_device('$t', '0', blockno => i)) FROM generate_series(1, 8) i", 8, 'as many devices as there may be');
		$alice->fails("SELECT io_device('$t', '0', blockno => 9)", '53400', $too_many, 'one more');
		$alice->io_device($t, '1 ms', blockno => 8);
		$alice->gives('SELECT count(*), sum(latency) FROM io_devices', '8|1', 'another one for the same reads takes the place of the first');
		$alice->gives('SELECT io_device_end()', 8, 'they end');
	}));
}, leaves => 'nothing', needs => 'gate');

# Reads that a process performs for another process although it cannot open the file.  Opening raises an error, as it
# would for lack of memory: the server opens files for reading and writing, and here the file is read-only.
for_each_io_method('io_uring; long: worker', sub {
	# process that performs the read => how the read is delayed
	my @performers = (
		[ 'the session that releases the read', hold => "io_hold('%s')", release => 'SELECT io_release_all()' ],
		[ "the gate's worker, for a device", hold => "io_device('%s', '100 ms')", reads => 'SELECT reads FROM io_devices' ],
		[ "the gate's worker, after the hold timeout", hold => "io_hold('%s')", hold_timeout => '100ms' ]);
	$aio->scenario('performed by %s', with('alice bob carol', 20, sub ($alice, $bob, $carol, $t, $, %its) {
		my $file = $aio->file_of($t);
		# this session has the file open; no other can open it
		$alice->sql("SELECT read_rel_block_ll('$t', 12)");
		chmod 0444, $file or die "$file: $!";
		$carol->fails("SELECT count(*) FROM $t", '42501', qr/could not open file "\S+": Permission denied/, 'the server cannot open the file');
		$aio->sql("SET test_aio.hold_timeout = '$its{hold_timeout}'") if $its{hold_timeout};
		$aio->sql('SELECT ' . sprintf $its{hold}, $t);
		$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
		if ($its{release})
		{
			$alice->waits_on('IoGateHeld');
			$bob->sql($its{release});
		}
		$alice->returns('', 'gets its blocks');
		$aio->gives($its{reads}, 1, 'from the device') if $its{reads};
		$aio->logs(qr/read of blocks 3\.\.6 .* was held for too long/, 1, 'when the hold is over') if $its{hold_timeout};
		$aio->sql('RESET test_aio.hold_timeout');
		chmod 0644, $file or die "$file: $!";
		$aio->end_filters;
		$carol->gives("SELECT count(*) FROM read_buffers('$t', 3, 4) WHERE NOT io_reqd", 4, 'the four blocks are cached');
	}), each => \@performers, log => $aio->hold_expired, skip => $< ? undef : 'root may write to any file');
}, needs => 'gate');
