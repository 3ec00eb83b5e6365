# Simulated storage: how long reads take on it, and that they are right.
use TestAio;
use Time::HiRes qw(time);

# Times are compared as the device settles them, in the view io_device_reads.  What the clock says
# is never compared, because the machine may be busy.

# Returns the times in seconds between submission and the moment when the reads in hand are due.
sub service_times ($aio)
{
	return $aio->sql("SELECT string_agg(round((service_time / 1000)::numeric, 6)::float8::text, ' ' ORDER BY relation::text, blockno) FROM io_device_reads");
}

# A session submits reads together, and waits for none: "table block" or "table block count".
sub submits ($aio, $session, @reads)
{
	my %tables = map { (split)[0] => 1 } @reads;
	# looks the tables up, since a batch must not scan catalogs
	$session->sql("SELECT pg_relation_size('$_')") for sort keys %tables;
	$session->sql($aio->batch(map { my ($table, $block, $count) = split; $count //= 1; "SELECT read_rel_block_ll('$table', $block, $count, wait_complete => false)" } @reads));
	return;
}

# A session stages a read of block 3, on a device of this latency, and pauses.  The function is called, and the session
# submits the read.  Test: no device has served it.
sub staged_without_device ($aio, $alice, $t, $latency, $meanwhile)
{
	my $no_trace = $aio->lacks('trace');
	$aio->evict($t, $alice);
	$aio->io_trace_restart($t) if !$no_trace;
	$aio->io_device($t, $latency);
	$aio->stages($alice, $t, 3);
	$meanwhile->();
	$aio->resume;
	$alice->ends('submits the staged read');
	$alice->gives("SELECT count(*) FROM read_buffers('$t', 3, 1)", 1, 'reads it at once');
	return if $no_trace;
	$aio->io_trace_shows('held', 'f', 'no device has held it, says the trace');
	$aio->io_trace_stop;
	return;
}

# Waits until the gate has another worker.
sub until_another_worker ($aio, $worker)
{
	return $aio->wait_for("SELECT worker <> $worker FROM io_gate WHERE worker IS NOT NULL UNION ALL SELECT false LIMIT 1");
}

# Ends the devices, and what sessions have read in hand is performed.
sub end_devices ($aio)
{
	$aio->io_device_end(everybody => 'true');
	$aio->wait_for('SELECT count(*) = 0 FROM io_device_reads');
	return;
}

for_each_io_method('worker; long: all', sub {
	$aio->scenario('latency and queue depth', with('alice bob', 64, sub ($alice, $bob, $t) {
		$aio->io_device($t, '10 s', 2);
		submits($aio, $alice, map { "$t $_" } 0 .. 4);
		is(service_times($aio), '10 10 20 20 30', 'two at once, the others after them');
		$aio->gives('SELECT in_progress, queued, reads FROM io_devices', '2|3|0');
		$aio->gives("SELECT bool_and(pid = ${\$alice->pid}), bool_and(relation = '$t'::regclass), string_agg(DISTINCT fork, ''), sum(nblocks), bool_and(due_in BETWEEN 0 AND service_time) FROM io_device_reads", 't|t|main|5|t', 'the view shows them');
		submits($aio, $bob, "$t 5", "$t 6");
		$aio->gives("SELECT (max(due_in) FILTER (WHERE blockno = 5))::numeric(20, 3) = (max(due_in) FILTER (WHERE blockno = 4))::numeric(20, 3), (max(due_in) FILTER (WHERE blockno = 6) - max(due_in) FILTER (WHERE blockno = 5))::numeric(20, 3) FROM io_device_reads",
			't|10000.000', 'a later one goes to the place that is free first, whoever submits it');
		end_devices($aio);
		$aio->io_device($t, '10 s');
		submits($aio, $alice, map { "$t $_" } 10 .. 17);
		is(service_times($aio), join(' ', (10) x 8), 'a deep queue serves all at once');
		$aio->gives('SELECT latency, queue_depth, in_progress, queued FROM io_devices', '10000|32|8|0');
		end_devices($aio);
		$aio->io_device($t, '1 ms', 2);
		submits($aio, $alice, map { "$t $_ 2" } 20, 30, 40);
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 20, 2)", 2, 'a read that is waited for');
		$aio->wait_for('SELECT reads = 3 FROM io_devices');
		$aio->gives('SELECT read_bytes, in_progress, queued FROM io_devices', '49152|0|0', 'all are counted');
		$aio->gives('SELECT io_device_end(), io_device_end()', '1|0');
		my @order = ("io_device(NULL, '5 ms', everybody => true)", "io_device('$t', '10 s')");
		for my $calls (\@order, [ reverse @order ])
		{
			$aio->sql("SELECT $_") for @$calls;
			submits($aio, $alice, "$t 50");
			is(service_times($aio), '10', 'the device of a table comes before that of all');
			end_devices($aio);
		}
	}));

	$aio->scenario('bandwidth', with('alice', 64, sub ($alice, $t) {
		# one block a second
		$aio->io_device($t, '10 s', bytes_per_second => 8192);
		submits($aio, $alice, "$t 0", "$t 1", "$t 8 16");
		is(service_times($aio), '10 10 18', 'reads follow each other on the bus, and the latency is at least what it is');
		submits($aio, $alice, "$t 30");
		$aio->gives("SELECT (max(due_in) FILTER (WHERE blockno = 30) - max(due_in) FILTER (WHERE blockno = 8))::numeric(20, 3) FROM io_device_reads", '1000.000', 'so do later ones');
		end_devices($aio);
		$aio->evict($t);
		$aio->io_device($t, '10 s', 1, bytes_per_second => 8192);
		submits($aio, $alice, "$t 0", "$t 1", "$t 8 16");
		is(service_times($aio), '10 20 36', 'one at a time: the next begins when the one before is due');
		end_devices($aio);
	}));

	# the seconds between which all are, and those before and after which some are: 32 random numbers are all on one
	# side of a third once in 400,000 runs
	$aio->scenario('%s goes to both sides', with('alice', 64, sub ($alice, $t, $what, $size, $least, $most, $early, $late) {
		$aio->io_device($t, '10 s', 1000, $what => $size);
		submits($aio, $alice, map { "$t $_" } $_ .. $_ + 7) for 0, 8, 16, 24;
		my @times = sort { $a <=> $b } split / /, service_times($aio);
		ok($times[0] >= $least && $times[-1] <= $most, "between $least and $most s") or diag("@times");
		cmp_ok($times[0], '<', $early, 'some are earlier');
		cmp_ok($times[-1], '>', $late, 'some are later');
		end_devices($aio);
	}), each => [ [ jitter => 0.5, 5, 15, 10 - 5 / 3, 10 + 5 / 3 ], [ spread => 4, 2, 40, 7, 15 ] ]);

	$aio->scenario('so many operations a second', with('alice', 64, sub ($alice, $t) {
		$aio->io_device($t, '0 ms', iops => 1, bytes_per_second => 1_000_000);
		submits($aio, $alice, map { "$t $_" } 2, 6, 8);
		is(service_times($aio), '1 2 3', 'whatever their size is');
		end_devices($aio);
	}));

	$aio->scenario('percentiles of the latency', with('alice', 64, sub ($alice, $t) {
		my $latencies = 'p50_latency >= 80, p50_latency < p99_latency, p99_latency >= 120, p99_latency <= max_latency';
		# on a busy machine the three reads may end at the same time
		for (1 .. 5)
		{
			$aio->io_device($t, '40 ms', 1);
			submits($aio, $alice, map { "$t $_" } 0 .. 2);
			$aio->wait_for('SELECT reads = 3 FROM io_devices');
			last if $aio->sql("SELECT $latencies FROM io_devices") eq 't|t|t|t';
		}
		$aio->gives("SELECT $latencies FROM io_devices", 't|t|t|t', 'of 40, 80 and 120 ms');
		end_devices($aio);
	}));

	$aio->scenario('a tail', with('alice', 64, sub ($alice, $t) {
		$aio->io_device($t, '10 s', 64, tail => 0.5, tail_latency => '50 s');
		$aio->gives('SELECT latency, tail, tail_latency FROM io_devices', '10000|0.5|50000');
		submits($aio, $alice, map { "$t $_" } 0 .. 59);
		my %reads = map { split /\|/ } split /\n/, $aio->sql('SELECT round(service_time / 1000), count(*) FROM io_device_reads GROUP BY 1');
		is(join(' ', sort keys %reads), '10 50', 'two latencies');
		is_between($reads{50}, 10, 50, 'of 60 reads, about half take long');
		end_devices($aio);
		$aio->io_device($t, '10 s', 64, tail => 1, tail_latency => '0 ms');
		$aio->evict($t);
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[1, 2, 3])", 3, 'all of them');
		end_devices($aio);
	}));

	$aio->scenario('lateness', with('alice', 64, sub ($alice, $t) {
		$aio->io_device($t, '1 ms');
		$aio->gives('SELECT mean_lateness IS NULL, max_lateness IS NULL FROM io_devices', 't|t', 'none yet');
		while_still($aio->sql('SELECT worker FROM io_gate'), sub {
			submits($aio, $alice, "$t 0");
			$aio->wait_for('SELECT due_in < -300 FROM io_device_reads');
		});
		$aio->wait_for('SELECT max_lateness >= 300000 FROM io_devices');
		my $late = $aio->sql('SELECT max_lateness FROM io_devices');
		$aio->gives('SELECT mean_lateness FROM io_devices', $late, 'one read was late, that is the mean, too');
		# performed by the worker, since nobody waits
		for my $block (1 .. 3)
		{
			submits($aio, $alice, "$t $block");
			$aio->wait_for("SELECT reads = $block + 1 FROM io_devices");
		}
		$aio->wait_for("SELECT mean_lateness < $late FROM io_devices");
		$aio->gives("SELECT max_lateness >= $late, mean_lateness >= $late / 4 FROM io_devices", 't|t', 'the greatest stays, the mean is over all reads');
		end_devices($aio);
	}));

	$aio->scenario('whatever the order of submission, what is due goes first', with('alice', [ short => 64 ], [ long => 64 ], sub ($alice, $s, $l) {
		$aio->io_device($s, '1 ms');
		my ($wrong, $count) = ('', 7);
		for my $order (0 .. 2**$count - 1)
		{
			# seven of all are enough, chosen so that each place is taken by both
			next if $order % 21;
			my @tables = map { $order >> $_ & 1 ? $l : $s } 0 .. $count - 1;
			my $long = grep { $_ eq $l } @tables;
			$aio->evict($_) for $s, $l;
			$aio->io_device($l, '50 s', 100, 0.1);
			my $read = 0;
			submits($aio, $alice, map { my $block = $read++; "$_ $block" } @tables);
			$aio->poll(sub { $aio->sql("SELECT count(*) FROM io_device_reads WHERE relation = '$s'::regclass") eq '0' })
			  or $wrong .= "in the order @tables a read stays; ";
			my $left = $aio->sql('SELECT count(*) FROM io_device_reads');
			$wrong .= "of @tables $left are left; " if $left != $long;
			last if $wrong;
			$aio->sql("SELECT (SELECT io_device_end(filter) FROM io_devices WHERE relation = '$l'::regclass)");
			$aio->wait_for('SELECT count(*) = 0 FROM io_device_reads');
		}
		is($wrong, '', 'short reads are performed, long ones stay');
		end_devices($aio);
	}));

	$aio->scenario('a device that ends hurries its own reads only', with('alice', [ t => 64 ], [ u => 64 ], sub ($alice, $t, $u) {
		# a read that stays is the first in the worker's queue
		$aio->io_device($t, '60 s', 100);
		$aio->io_device($u, '40 s', 100, 0.4);
		submits($aio, $alice, map { ("$t $_", "$u $_") } 0 .. 3);
		submits($aio, $alice, map { ("$u $_", "$t $_") } 4 .. 6);
		$aio->sql("SELECT (SELECT io_device_end(filter) FROM io_devices WHERE relation = '$t'::regclass)");
		$aio->wait_for("SELECT count(*) = 7 FROM io_device_reads");
		$aio->gives("SELECT count(*) FROM io_device_reads WHERE relation = '$u'::regclass AND service_time >= 20000", 7, 'those of the other stay');
		end_devices($aio);
	}));

	# A process that cannot be interrupted does not wait until its read is due.  The read's entry in the
	# worker's queue does not stay behind: when its time comes, the handle is in use for another read.
	$aio->scenario('a read that its owner has performed leaves nothing to another read of its handle', with('alice bob', [ t => 8 ], [ u => 8 ], sub ($alice, $bob, $t, $u) {
		my ($first, $second) = (0, 1);
		$alice->sql("SET test_aio.uninterruptible_timeout = 0; SELECT pg_relation_size('$t')");
		# longer and longer, until nothing is due before the second read is submitted
		for my $seconds (1 .. 10)
		{
			my $begin = time;
			$aio->evict($t);
			$aio->sql("SELECT io_device_end(everybody => true), io_device('$u', '$seconds s', keep => true), io_device('$t', '60 s', keep => true)");
			($first) = $alice->sql("BEGIN; CREATE TABLE own (i int); SELECT grow_rel('own', 2); SELECT evict_rel('own'); SELECT io_device('own', '$seconds s', keep => true);"
				  . " SELECT read_rel_block_ll('own', 0, wait_complete => false); SELECT io_id FROM io_device_reads WHERE pid = pg_backend_pid(); TRUNCATE own; ROLLBACK") =~ /(\d+)$/;
			$alice->sql("SELECT read_rel_block_ll('$t', 0, wait_complete => false)");
			$second = $aio->sql("SELECT io_id FROM io_device_reads WHERE relation = '$t'::regclass");
			last if $first eq $second && time - $begin < $seconds;
			$aio->io_device_end(everybody => 'true');
		}
		is($second, $first, 'another read has the same handle');
		# this one is due later than the first was
		$bob->sql("SELECT read_rel_block_ll('$u', 0, wait_complete => false)");
		$aio->wait_for("SELECT count(*) = 0 FROM io_device_reads WHERE relation = '$u'::regclass");
		$aio->gives('SELECT count(*), min(service_time) FROM io_device_reads', '1|60000', 'its read is still in hand');
		end_devices($aio);
	}));

	$aio->scenario('failing reads take their time as well, temporary tables too', with('alice', 20, kind => 'TEMP', sub ($alice, $t) {
		$aio->read_waits_for("io_device(NULL, '50 s', keep => true, everybody => true)", $alice, "SELECT read_rel_block_ll('$t', 3)");
		$aio->gives("SELECT service_time, due_in > 0 FROM io_device_reads WHERE pid = ${\$alice->pid}", '50000|t', 'is in hand');
		$aio->io_device_end;
		$alice->returns('', 'reads when the device ends');
		$alice->io_device(undef, '1 ms', everybody => 'true');
		$alice->gives("SELECT count(*) FROM read_buffers('$t', 8, 2)", 1, 'reads when that is due');
		$alice->gives('SELECT reads, read_bytes, mean_lateness IS NULL FROM io_devices', '1|16384|t', 'by itself');
		$alice->io_fail($t, -5);
		$aio->read_waits_for("io_device(NULL, '50 s', keep => true, everybody => true)", $alice, "SELECT read_rel_block_ll('$t', 4)");
		$aio->gives("SELECT service_time FROM io_device_reads WHERE pid = ${\$alice->pid}", 50000, 'one that is to fail, too');
		$aio->io_device_end;
		$alice->raises('58030', qr/blocks 4\.\.4/, 'fails');
		$alice->io_fail_end;
	}), leaves => 'nothing', log => qr/LOG:  could not read blocks/);

	$aio->scenario('the device ends with its session', with('controller alice bob other', [ t => 20 ], [ u => 20 ], sub ($controller, $alice, $bob, $other, $t, $u) {
		$controller->io_device($t, '50s');
		$other->io_device($u, '50s');
		$alice->waits("SELECT read_rel_block_ll('$t', 3)", 'IoDevice');
		$bob->waits("SELECT count(*) FROM read_buffers('$t', 3, 1)", 'IoDevice');
		$aio->wait_for("SELECT wait_event = 'IoDevice' FROM io_gate, pg_stat_get_activity(worker)");
		$aio->end_session($controller);
		$alice->returns('', 'reads at once');
		$bob->returns('1', 'who wants the block, too');
		$aio->gives('SELECT relation FROM io_devices', $u, 'that of another session stays');
		$other->gives('SELECT io_device_end()', 1);
	}), leaves => 'nothing');

	# Her trigger, of a function that she removes as she exits, is on a table that he has locked.  What she holds ends
	# after that, so he goes on when the hold timeout is over.
	$aio->scenario('the session that exits waits for one that waits for its device', with('alice bob', 20, sub ($alice, $bob, $t) {
		$alice->sql("SET test_aio.hold_timeout = '1s'");
		$alice->sql("CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; CREATE TRIGGER f BEFORE INSERT ON $t FOR EACH ROW EXECUTE FUNCTION pg_temp.f()");
		$alice->io_device($t, '50s');
		$bob->sql('BEGIN');
		$bob->starts("SELECT count(*) FROM $t WHERE ctid = '(3,1)'")->reaches_wait_event('IoDevice');
		$alice->disconnect;
		$bob->returns(1, 'reads');
		$bob->sql('COMMIT');
		$aio->end_session($alice);
	}), leaves => 'nothing');

	$aio->scenario('a device that is replaced', with('alice bob', 20, sub ($alice, $bob, $t) {
		$alice->io_device($t, '50s');
		$bob->waits("SELECT read_rel_block_ll('$t', 3)", 'IoDevice');
		$aio->io_device($t, '1 ms');
		$bob->returns('', 'reads at once');
		$aio->gives('SELECT reads, in_progress FROM io_devices', '0|0', 'which the new device has not served');
		$aio->end_filters;
	}));

	# of the session that has made the device
	$aio->scenario('no read is due later than the hold timeout', with('alice bob', 20, sub ($alice, $bob, $t) {
		$bob->sql("SET test_aio.hold_timeout = '100ms'; SELECT io_device('$t', '0', bytes_per_second => 1)");
		$alice->gives("SELECT read_rel_block_ll('$t', 3)", '', 'reads now, not in hours');
		$aio->gives('SELECT reads FROM io_devices', 1, 'from the device');
		$aio->stages($alice, $t, 9);
		$bob->waits("SELECT count(*) FROM read_buffers('$t', 9, 1)", 'AioIoCompletion');
		$aio->resume;
		$bob->returns(1, 'nor does it wait for hours for a read that was still staged when it came');
		$alice->ends;
		$bob->sql("SET test_aio.hold_timeout = '20s'; SELECT io_device('$t', '15 s', 1, bytes_per_second => 1)");
		submits($aio, $alice, "$t 5", "$t 7");
		is(service_times($aio), '20 20', 'nor in the queue');
		$aio->end_filters;
	}));

	$aio->scenario('a relation that is rewritten', with('', 4, changes => 1, sub ($t) {
		$aio->sql("SELECT io_device('$t', '1ms'), io_hold('$t'); TRUNCATE $t");
		$aio->gives('SELECT kind, relation FROM io_filters ORDER BY filter', "device|-\nhold|-", 'both are for a relation that is gone');
		$aio->gives("SELECT (SELECT io_device_end(filter) FROM io_devices WHERE relation = '$t'::regclass), io_device_end(), io_hold_end()", '|1|1', 'and end with all others of the session');
		$aio->sql("SELECT io_device('$t', '1ms'); TRUNCATE $t");
		$aio->gives('SELECT io_device_end(filter) FROM io_filters', 1, 'the device of a file that is gone ends by its number');
	}));

	$aio->scenario('its worker is terminated and comes back', with('alice', 20, sub ($alice, $t) {
		my $worker = $aio->sql('SELECT worker FROM io_gate');
		# on a slow machine a read may have ended before anybody sees it wait
		my $latency;
		for (200, 2000, 20_000)
		{
			$latency = $_;
			$aio->sql("SELECT io_device_end(), io_device('$t', '$latency ms', keep => true)");
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
			last if $alice->reaches_wait_event('IoDevice');
			$alice->wait_for_end;
			$aio->evict($t);
		}
		$aio->sql("SELECT pg_terminate_backend($worker)");
		$alice->returns('', 'reads');
		until_another_worker($aio, $worker);
		$aio->io_device($t, '50 s', keep => 'true');
		$alice->sql("SELECT read_rel_block_ll('$t', 9, wait_complete => false)");
		is(service_times($aio), 50, 'the device is back');
		$aio->sql("SELECT io_device_end(), io_device('$t', '1 ms', keep => true)");
		$alice->sql("SELECT read_rel_block_ll('$t', 10)");
		$aio->gives('SELECT reads FROM io_devices', 1, 'and served by the new worker');
		$aio->end_filters;
	}), log => $aio->gate_worker_ended);

	$aio->scenario('its worker is terminated with a read that is due in hours', with('alice bob', [ t => 20 ], [ u => 20 ], sub ($alice, $bob, $t, $u) {
		$aio->sql("SET test_aio.hold_timeout = '3h'; SELECT io_device('$t', '1ms', bytes_per_second => 1); RESET test_aio.hold_timeout");
		$alice->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
		my $worker = $aio->sql('SELECT worker FROM io_gate');
		$aio->sql("SELECT pg_terminate_backend($worker)");
		until_another_worker($aio, $worker);
		$aio->io_device($u, '1 ms');
		$bob->sql("SELECT read_rel_block_ll('$u', 9, wait_complete => false)");
		$aio->wait_for("SELECT reads = 1 FROM io_devices WHERE relation = '$u'::regclass");
		$aio->gives("SELECT in_progress, service_time FROM io_devices JOIN io_device_reads USING (relation) WHERE relation = '$t'::regclass", '1|8192000', 'the read is still in progress');
		$aio->end_filters;
	}), log => $aio->gate_worker_ended, skip => only_long());

	$aio->scenario('a device that ends, and another that takes its place, while a read is staged', with('alice', [ t => 20 ], [ u => 20 ], sub ($alice, $t, $u) {
		staged_without_device($aio, $alice, $t, '1ms', sub { $aio->sql("SELECT (SELECT io_device_end(filter) FROM io_devices WHERE relation = '$t'::regclass); SELECT io_device('$u', '50s')") });
		$aio->gives('SELECT reads, in_progress FROM io_devices', '0|0', 'the other device has not served it');
		$aio->end_filters;
	}));

	$aio->scenario('the reads of a device that has ended are not those of the next one', with('alice', [ t => 20 ], [ u => 20 ], sub ($alice, $t, $u) {
		$aio->io_device($t, '10 s');
		submits($aio, $alice, "$t 3", "$t 5");
		while_still($aio->sql('SELECT worker FROM io_gate'), sub {
			$aio->sql("SELECT (SELECT io_device_end(filter) FROM io_devices WHERE relation = '$t'::regclass)");
			$aio->io_device($u, '10 s');
			$aio->gives("SELECT relation = '$u'::regclass, in_progress, queued FROM io_devices", 't|0|0', 'while two are still in hand');
		});
		end_devices($aio);
	}));

	$aio->scenario('the worker goes while a read is staged', with('alice', 20, sub ($alice, $t) {
		my $worker = $aio->sql('SELECT worker FROM io_gate');
		staged_without_device($aio, $alice, $t, '50 s', sub {
			# would start another one
			while_still($aio->postmaster_pid, sub {
				$aio->sql("SELECT pg_terminate_backend($worker)");
				$aio->wait_for('SELECT worker IS NULL FROM io_gate');
			});
		});
		$aio->gives('SELECT reads, in_progress FROM io_devices', '0|0', 'the device has not served it');
		$aio->end_filters;
		until_another_worker($aio, $worker);
	}), log => $aio->gate_worker_ended);
}, needs => 'gate', conf => { io_max_concurrency => 64 });
