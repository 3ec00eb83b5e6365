# Holds end, whatever happens to the sessions and in critical sections too: no session is left waiting.
use TestAio;
use Time::HiRes qw(time);

# No session is left waiting for a held read.  The hold ends with the session that asked for it, with the session that
# issued the read, with time, and with the server.  The same holds for inj_io_completion_wait(), whatever provides it.
with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('the session that holds exits', with('', 20, sub ($t) {
		my ($controller, $issuer, $waiter) = $aio->controller_issuer_waiter($t);
		$aio->end_session($controller);
		$issuer->returns('', 'reads');
		$waiter->returns('1', 'gets it');
		$aio->gives('SELECT count(*) FROM io_filters', 0, 'the filter is gone');
	}), leaves => 'nothing');

	$aio->scenario('the session that holds is terminated, but keeps the hold', with('', 20, sub ($t) {
		my ($controller, $issuer, $waiter) = $aio->controller_issuer_waiter($t, "io_hold('$t', keep => true)");
		$aio->sql("SELECT pg_terminate_backend(${\$controller->pid}, 10000)");
		$aio->io_held_count(1, 'still held');
		$aio->gives('SELECT holder IS NULL FROM io_filters', 't', 'nobody holds the filter');
		$aio->end_filters;
		$issuer->returns('', 'reads');
		$waiter->returns('1', 'gets it');
	}), leaves => 'nothing', log => $aio->terminated('controller'));

	$aio->scenario('cancel and timeout', with('', 20, sub ($t) {
		my ($controller, $issuer, $waiter) = $aio->controller_issuer_waiter($t);
		$aio->cancels($issuer);
		$aio->io_held_count(1, 'and its read is still held');
		$aio->cancels($waiter);
		$waiter->sql("SET statement_timeout = '50ms'");
		$waiter->fails("SELECT count(*) FROM read_buffers('$t', 4, 1)", '57014', qr/statement timeout/, 'times out');
		$aio->gives('SELECT io_hold_end(everybody => true), io_release_all()', '1|1', 'released');
		$waiter->gives("SELECT count(*) FROM read_buffers('$t', 4, 1)", 1, 'gets the block');
	}));

	$aio->scenario('the issuer is terminated', with('', 20, sub ($t) {
		my ($controller, $issuer, $waiter) = $aio->controller_issuer_waiter($t);
		$aio->sql("SELECT pg_terminate_backend(${\$issuer->pid}, 10000)");
		$waiter->returns('1', 'gets what the other has read at its exit');
		$aio->io_held_count(0);
		$aio->end_filters;
	}), leaves => 'nothing', log => $aio->terminated('issuer'));

	$aio->scenario('the hold timeout', with('controller issuer', 20, sub ($controller, $issuer, $t) {
		$controller->sql("SET test_aio.hold_timeout = '100ms'");
		$controller->io_hold($t, times => 2);
		$issuer->gives("SELECT read_rel_block_ll('$t', 9, wait_complete => false)", '', 'does not wait for this one');
		# whose handle is the next that is used
		$issuer->gives("SELECT read_rel_block_ll('$t', 3, nblocks => 4)", '', 'reads at last');
		$aio->io_held_count(0, 'both end');
		$controller->sql("SET test_aio.hold_timeout = '60s'; SELECT io_hold('$t')");
		for my $block (15, 16)
		{
			$issuer->waits("SELECT read_rel_block_ll('$t', $block)", 'IoGateHeld');
			$aio->io_release_all;
			$issuer->returns('', 'reads');
		}
		$controller->io_hold_end;
		$aio->logs(qr/LOG:  read of blocks \d+\.\.\d+ .* was held for too long/, 2, 'both are logged, and no later read of these handles');
	}), log => $aio->hold_expired);

	# A session that checks a unique key has the index page locked, so that no interrupt can end its wait for the
	# heap block; others wait for the page.
	my $set = 'SET test_aio.uninterruptible_timeout = ';
	$aio->scenario('a waiter that has a page locked: %s', with('alice', sub ($alice, $what, $calls) {
		$aio->sql("CREATE TABLE scenario.k (n int UNIQUE, body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
		my $insert = "INSERT INTO scenario.k SELECT i, repeat('x', 7000) FROM generate_series(0, %d) i";
		$alice->sql(sprintf $insert, 4);
		$aio->evict('scenario.k');
		$aio->sql($_) for @$calls;
		my $began = time;
		$alice->starts(sprintf $insert, 0);
		if ($what =~ /wakeup/)
		{
			$alice->waits_on('IoGateHeld');
			$aio->io_release_all;
		}
		$alice->raises('23505', qr/duplicate key/, 'goes on');
		cmp_ok(time - $began, '>=', 0.3, 'after the time that it waits at the most');
		$aio->gives('SELECT matched, bypassed, why_bypassed FROM io_filters', '1|1|a process that cannot be interrupted waits for it', 'the filter says why')
		  if $what !~ /wakeup/;
		$aio->sql('SELECT io_hold_wakeups(false); RESET test_aio.uninterruptible_timeout');
		$aio->end_filters;
	}), each => [
		[ 'a hold', ["${set}300; SELECT io_hold('scenario.k', 0, 'main')"] ],
		[ 'a device', ["${set}300; SELECT io_device('scenario.k', '50 s', blockno => 0, fork => 'main')"] ],
		[ 'a held wakeup', [ "${set}300000; SELECT io_hold('scenario.k', 0, 'main')", "${set}300; SELECT io_hold_wakeups(true)" ] ] ]);

	# others queue behind its page, and would wait as long, one after the other
	$aio->scenario('waiters that have the same page locked, one after the other', with('alice bob carl', sub ($alice, @others) {
		$aio->sql("CREATE TABLE scenario.k (n int UNIQUE, body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
		my $insert = "INSERT INTO scenario.k SELECT i, repeat('x', 7000) FROM generate_series(%d, %d) i";
		$aio->sql(sprintf $insert, 0, 4);
		$aio->evict('scenario.k');
		$aio->gives("SELECT n FROM scenario.k WHERE ctid = '(4,1)'", 4, 'reads the last block, where rows are added');
		# the first one waits for a second, the others would for minutes
		$aio->sql("${set}1000; SELECT io_hold('scenario.k', 0, 'main'); ${set}300000; SELECT io_hold('scenario.k', b, 'main') FROM generate_series(1, 2) b");
		$alice->waits((sprintf $insert, 0, 0), 'IoGateHeld');
		$others[ $_ - 1 ]->starts(sprintf $insert, $_, $_) for 1, 2;
		$_->raises('23505', qr/duplicate key/, 'goes on') for $alice, @others;
		$aio->gives('SELECT sum(bypassed) FROM io_filters', 3, 'each has performed its read');
		$aio->sql('RESET test_aio.uninterruptible_timeout');
		$aio->end_filters;
	}));

	$aio->scenario('a waiter that can be interrupted: %s', with('alice', 20, sub ($alice, $t, $call) {
		$aio->sql("${set}100; SELECT $call; RESET test_aio.uninterruptible_timeout");
		$alice->waits("SELECT read_rel_block_ll('$t', 3)", $call =~ /device/ ? 'IoDevice' : 'IoGateHeld');
		$aio->wait_seconds(0.3);
		$aio->gives('SELECT fired, bypassed FROM io_filters', '1|0', 'still waits when that time is over');
		$aio->cancels($alice);
		$aio->end_filters;
	}), each => [ "io_hold('scenario.t')", "io_device('scenario.t', '50 s')" ]);

	$aio->scenario('DROP TABLE of a table with a held read', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->io_hold($t, 3);
		$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
		$aio->io_held_count(1);
		my $began = time;
		$bob->gives("DROP TABLE $t", '', 'is dropped');
		cmp_ok(time - $began, '>=', 1, 'a second later');
		$aio->gives('SELECT bypassed, why_bypassed FROM io_filters', '1|a process that cannot be interrupted waits for it', 'the filter says why');
		$aio->end_filters;
	}));

	# the last takes the place of the first in the list of what is held
	$aio->scenario('a hold ends by itself after the release of others', with('alice', 20, sub ($alice, $t) {
		$aio->sql("SET test_aio.hold_timeout = '1s'; SELECT io_hold('$t')");
		$alice->sql("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 4, 2) b");
		# perhaps one has ended already
		$aio->io_release_block($_) for 0, 4;
		$aio->io_held_count(0);
		$aio->sql('SELECT io_hold_end(); RESET test_aio.hold_timeout');
		$aio->end_session($alice);
	}), log => $aio->hold_expired, skip => $aio->method eq 'sync' && 'with sync the session waits for each read');

	$aio->scenario('%s shutdown', with('', [ t => 20 ], [ u => 20 ], [ v => 120 ], sub ($t, $u, $v, $mode) {
		my (undef, @readers) = $aio->controller_issuer_waiter($t, "io_hold('$t', keep => true)");
		# due in a minute
		$aio->read_waits_for("io_device('$u', '1ms', bytes_per_second => 1, keep => true)",
			$aio->sessions('dora'), "SELECT read_rel_block_ll('$u', 3, nblocks => 4)") if $mode ne 'smart';
		if ($mode ne 'immediate' && !$aio->no_faults)
		{
			push @readers, $aio->sessions('eve');
			# many reads at their completion: a second for each of them would be longer than the test waits
			$readers[-1]->sql('SET io_combine_limit = 1; SET effective_io_concurrency = 1');
			$aio->read_at_completion_wait($readers[-1], "SELECT count(*) FROM $v", relation => $v);
		}
		# a smart shutdown waits for the sessions, which must not wait for the hold
		my $read = sub { $_->ends('reads') for @readers };
		if ($mode eq 'smart') { ok($aio->smart_stop($read), 'stops') }
		else { ok($aio->node->stop($mode, fail_ok => 1), 'stops') }
		$aio->start_with_sessions;
		$aio->gives('SELECT count(*) FROM io_filters', 0, 'nothing is left of the filter');
	}), each => [qw(smart fast immediate)], skip => sub ($mode) { $mode eq 'immediate' ? only_long() : undef }, leaves => 'nothing', dies => 1, log => $aio->terminated(qw(controller issuer waiter dora eve)));

	$aio->scenario('the hold timeout of a completion', with('alice bob', 20, sub ($alice, $bob, $t) {
		$bob->sql("SET test_aio.hold_timeout = '200ms'; SELECT inj_io_completion_wait(relfilenode => pg_relation_filenode('$t'))");
		$alice->gives("SELECT read_rel_block_ll('$t', 3, nblocks => 4)", '', 'reads at last');
		$aio->logs(qr/LOG:  read of blocks 3\.\.6 .* was held for too long/, 1, 'which is logged');
		$bob->sql('SELECT inj_io_completion_continue()');
		$alice->wait_for_end->forget_warnings;
	}), leaves => 'nothing', log => $aio->hold_expired, skip => $aio->no_faults);

	$aio->scenario('what is kept outlives its extension and its database', sub {
		# it has the extension
		$aio->sql('CREATE DATABASE elsewhere TEMPLATE postgres STRATEGY file_copy');
		my $bob = TestAio::Session->new($aio, 'bob', dbname => 'elsewhere');
		$bob->sql("CREATE TABLE here (); SELECT io_hold('here', keep => true), io_fail('here', 0, keep => true), io_device('here', '50 s', keep => true); DROP EXTENSION test_aio");
		$bob->quit;
		$aio->sql('DROP DATABASE elsewhere');
		my $all = 'SELECT count(*), count(holder) FROM io_filters';
		$aio->gives($all, '3|0', 'all filters are still there');
		$aio->gives('SELECT io_hold_end(), io_fail_end(), io_device_end()', '0|0|0', 'they are not of this session');
		$aio->gives("SELECT kind, CASE kind WHEN 'hold' THEN io_hold_end(filter) WHEN 'fail' THEN io_fail_end(filter) ELSE io_device_end(filter) END FROM io_filters ORDER BY filter",
			"hold|1\nfail|1\ndevice|1", 'each ends by its number');
	}, leaves => 'nothing');

	$aio->scenario('everybody', with('alice', 4, sub ($alice, $t) {
		for my $kind ([ 'io_hold', "'$t'" ], [ 'io_fail', "'$t', 0" ], [ 'io_device', "'$t', '0'" ])
		{
			my ($name, $arguments) = @$kind;
			$alice->sql("SELECT $name($arguments)");
			$aio->gives("SELECT ${name}_end()", 0, "$name: another session's filter stays");
			$aio->gives('SELECT count(*), min(holder) FROM io_filters', '1|' . $alice->pid, 'and is shown');
			$aio->gives("SELECT ${name}_end(everybody => true)", 1, 'it ends with those of all');
			$alice->sql("SELECT $name($arguments, keep => true)");
			$alice->gives("SELECT ${name}_end()", 1, 'a kept one ends with those of its session');
		}
	}));

	$aio->scenario('a session that waits for a completion is terminated', with('owner alice bob', 20, sub ($owner, $alice, $bob, $t) {
		$aio->completion_wait(relation => $t);
		$owner->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
		my $wants = "SELECT count(*) FROM read_buffers('$t', 3, 1)";
		$alice->starts($wants);
		$aio->at_completion_wait(1);
		$bob->waits($wants, 'AioIoCompletion');
		$aio->sql("SELECT pg_terminate_backend(${\$alice->pid}, 10000)");
		$bob->waits_on('AioIoCompletion', 'another still waits');
		$aio->at_completion_wait(1);
		$aio->completion_continue;
		$bob->returns('1', 'gets the block');
	}), log => $aio->terminated('alice'),
		skip => $aio->no_faults // ($aio->method eq 'sync' ? 'with io_method=sync the owner waits for each read' : undef));
}, needs => 'gate');

# Waits for held and delayed reads that cannot be interrupted: in critical sections
# (truncation), with temporary tables, without the gate's worker.  Each wait ends at once,
# and no checkpoint waits for it.  Also the longest times that can be asked for.

# Tables of which COMMIT truncates the file: the name, and what comes before and after a read that COMMIT waits for.
my @truncated = (
	[ 'a temporary table truncated by COMMIT', 'own', 'CREATE TEMP TABLE own (i int) ON COMMIT DELETE ROWS; BEGIN', 'COMMIT' ],
	[ 'a table truncated by the transaction that made it', 'scenario.t', 'BEGIN; CREATE TABLE scenario.t (i int)', 'TRUNCATE scenario.t; COMMIT' ],
);

sub scenarios ($aio)
{
	my $has_worker = $aio->sql('SELECT worker IS NOT NULL FROM io_gate') eq 't';

	# an injection point holds the process that completes a read
	my @how = ('io_hold(everybody => true)', $has_worker ? "io_device(NULL, '50 s', everybody => true)" : (), $aio->no_faults || !$aio->no_injection_points ? () : 'inj_io_completion_wait()');
	$aio->scenario('%s, %s', with('controller alice', sub ($controller, $alice, $how, $, $t, $before, $after) {
		$controller->sql("SELECT $how");
		$alice->starts("$before; SELECT grow_rel('$t', 20); SELECT evict_rel('$t');"
			  . " SELECT read_rel_block_ll('$t', 3, nblocks => 4, wait_complete => false); $after");
		$alice->ends('commits');
		$aio->gives('CHECKPOINT', '', 'checkpoint');
		$alice->gives("SELECT count(*) FROM $t", 0, 'and goes on');
		$aio->end_filters;
		$aio->sql('SELECT inj_io_completion_continue()') if $how =~ /inj/;
	}), each => [ combined(\@how, \@truncated) ]);
	return if !$has_worker;

	$aio->scenario('the hold timeout of all', with('controller alice', 20, sub ($controller, $alice, $t) {
		$controller->sql("SET test_aio.hold_timeout = 2147483647; SELECT io_hold('$t')");
		$alice->waits("SELECT read_rel_block_ll('$t', 3)", 'IoGateHeld');
		$aio->end_holds;
		$alice->returns('', 'reads');
		$controller->io_device($t, '1 ms', bytes_per_second => 1);
		$alice->waits("SELECT read_rel_block_ll('$t', 3)", 'IoDevice');
		$controller->io_device_end;
		$alice->returns('', 'reads');
	}));
	return;
}

# holds of all relations are not to hold what sessions read of the catalogs
my %conf = ('test_aio.reach_synchronous_reads' => 'off');

with_each_io_method('io_uring; long: all', \&scenarios, leaves => 'nothing', needs => 'gate', suffix => 'worker', conf => {%conf});
for_each_io_method('worker; long: all', \&scenarios, leaves => 'nothing', needs => 'gate', suffix => 'alone', conf => { %conf, max_worker_processes => 0 });
