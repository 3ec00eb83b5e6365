# Reads that take another way than the server's: io_route().
use TestAio;

for_each_io_method('worker io_uring; long: all', sub {
	my $method = $aio->method;

	$aio->scenario('synchronous', with('alice bob', 60, sub ($alice, $bob, $t) {
		my $pid = $alice->pid;
		$aio->io_route($t, 'synchronous', pid => $pid);
		$aio->io_trace_restart($t);
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))", 40, 'reads');
		$alice->gives($aio->batch(map { "SELECT read_rel_block_ll('$t', $_, 2, wait_complete => false)" } 40, 50), "\n\n\n", 'a batch');
		$aio->gives("SELECT sum(nblocks), bool_and(pid = $pid AND executed_by = pid AND completed_by = pid AND NOT held AND NOT f_sync AND result = 'OK') FROM io_trace", '44|t', 'which it executes itself');
		$aio->gives('SELECT kind, fired = matched AND fired = (SELECT count(*) FROM io_trace) FROM io_filters', 'synchronous|t', 'so says the filter');
		$aio->io_trace_restart($t);
		$aio->io_fail($t, 'EIO', 55);
		$alice->fails("SELECT read_rel_block_ll('$t', 55)", '58030', qr/could not read/, 'one that fails');
		$aio->io_trace_shows("executed_by = $pid", 't', 'too');
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT read_rel_block_ll('$t', 56)");
		$aio->sql('SELECT io_hold_end(), io_release_all()');
		$alice->ends('one that is held is performed when it is released');
		$bob->gives("SELECT read_rel_block_ll('$t', 57)", '', 'another session reads');
		$aio->sql('SELECT io_filter_end(), io_trace_stop()');
	}), log => qr/LOG:  could not read blocks/);

	# by TID: the server reads a single block synchronously
	$aio->scenario('the method', with('alice', 20, sub ($alice, $t) {
		my %way = (
			worker => "executed_by IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker') AND NOT f_sync",
			io_uring => 'executed_by IS NULL AND NOT f_sync', sync => "executed_by = pid AND f_sync");
		my $reads = sub ($block) { return "SELECT count(*) FROM $t WHERE ctid = '($block,1)'" };
		$alice->gives($reads->(0), 1);
		$aio->io_route($t, 'method', skip => 1, times => 2);
		$aio->io_trace_restart($t);
		$alice->gives($reads->($_), 1, "reads block $_") for 3 .. 6;
		$aio->gives("SELECT string_agg((f_sync OR executed_by IS NOT DISTINCT FROM pid)::text, ' ' ORDER BY blockno), count(*) FILTER (WHERE $way{$method} AND result = 'OK' AND NOT held) FROM io_trace",
			$method eq 'sync' ? 'true true true true|4' : 'true false false true|2', 'its way');
		$alice->gives("SELECT read_rel_block_ll('$t', 9)", '', 'another read');
		$aio->gives('SELECT kind, matched, fired FROM io_filters', $method eq 'sync' ? 'method|0|0' : 'method|4|2', 'it matches synchronous reads only');
		$aio->sql('SELECT io_filter_end(), io_trace_stop()');
	}));

	$aio->scenario('the method does not take reads of temporary tables', with('alice', 8, kind => 'TEMP', sub ($alice, $t) {
		$alice->io_route($t, 'method');
		$alice->gives("SELECT count(*) FROM $t WHERE ctid = '(3,1)'", 1, 'reads');
		$aio->gives('SELECT fired FROM io_filters', 0 + ($method eq 'io_uring'), 'if it is I/O workers');
		$alice->io_filter_end;
	}));

	# of a catalog: a query that reads tables runs outside of the batch
	$aio->scenario('the method in a batch', with('alice', 20, sub ($alice, $t) {
		my $oid = $aio->sql("SELECT oid FROM pg_conversion WHERE conname = 'koi8_r_to_utf8'");
		$alice->sql("SELECT pg_relation_size('$t'), pg_conversion_is_visible(1)");
		$aio->sql("SELECT evict_rel('pg_conversion'), evict_rel('pg_conversion_oid_index')");
		$aio->io_route('pg_conversion', 'method', pid => $alice->pid);
		$alice->gives("SELECT batch_start(), read_rel_block_ll('$t', 5, wait_complete => false), pg_conversion_is_visible($oid), read_rel_block_ll('$t', 7, wait_complete => false), batch_end()", '||t||', 'goes on after the read');
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', '{5,7}')", 2, 'to its end');
		$aio->gives('SELECT fired > 0, io_filter_end() FROM io_filters', ($method eq 'sync' ? 'f' : 't') . '|1');
	}), leaves => 'COMPLETED_SHARED');

	$aio->scenario('bad input', with('alice', 2, sub ($alice, $t) {
		$alice->fails("SELECT io_route('$t', 'worker')", '22023', qr/"route" must be "synchronous" or "method"/, 'no such route');
		$alice->fails("SELECT io_route('$t', NULL)", '22004', qr/route must not be null/, 'none');
		$alice->fails("SELECT io_route(NULL, 'method')", '22023', qr/neither a relation/, 'everybody');
	}));
}, leaves => 'nothing', needs => 'gate trace');
