# What a session does outside of a batch, and not at all while it has I/O started on a buffer: others
# that wait for it may have locked the page that it needs, and no cancel ends a wait for that lock.
use TestAio;
use TestAio::Waits;

my $others_before = qr/in a transaction that may have called functions of other extensions before/;

for_each_io_method('worker; long: all', sub {
	my ($no_pages, $sync) = ($aio->lacks('pageinspect'), $aio->method eq 'sync');

	# the function is looked up before the I/O is started
	$aio->scenario('a function of another extension where I/O is started', with('alice bob', 4, sub ($alice, $bob, $t) {
		my ($b, $page) = ($alice->sql("SELECT buffer_create_toy('$t', 2)"), "get_raw_page('$t', 1) IS NULL");
		my $refused = qr/cannot call function "get_raw_page" while this session has started I\/O on a buffer/;
		$alice->fails("SELECT buffer_call_start_io($b, true, false), $page", '55006', $refused, 'in the same statement');
		$alice->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)");
		# bob has not used the library
		$bob->fails("SELECT $page, buffer_call_start_io($b, true, false)", '55000', $others_before, 'before, in the first statement of a session');
		$bob->gives("SELECT $page, buffer_call_start_io($b, true, false)", 'f|t', 'before, in the next');
		$bob->fails("SELECT $page", '55006', $refused, 'afterwards');
		$bob->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)");
		# the server asks no hook whether to call such a function by way of it
		my $carol = $aio->sessions('carol');
		$aio->sql('ALTER FUNCTION buffer_call_start_io(int, bool, bool) SECURITY DEFINER');
		$carol->sql("SELECT buffer_call_start_io($b, true, false)");
		$carol->fails("SELECT $page", '55006', $refused, 'by a function that runs as its owner');
		$carol->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)");
		$aio->sql('ALTER FUNCTION buffer_call_start_io(int, bool, bool) SECURITY INVOKER');
		$aio->end_session($carol);
	}), skip => $no_pages);

	# bob has a page of the index locked while he waits for what alice has staged
	$aio->scenario('a function of another extension in a batch', with('alice bob carol', 20, sub ($alice, $bob, $carol, $t) {
		$aio->sql("CREATE UNIQUE INDEX i ON $t (blk)");
		# opens the relation, so that the batch reads no catalogs
		$aio->evict($t, $alice);
		$alice->starts("SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$t', 5, wait_complete => false)::text UNION ALL"
			  . " ${\$aio->pause}::text UNION ALL SELECT length(get_raw_page('scenario.i', 1))::text UNION ALL"
			  . " SELECT read_rel_block_ll('$t', 6, wait_complete => false)::text UNION ALL SELECT batch_end()::text");
		$alice->waits_on('advisory');
		$bob->starts("INSERT INTO $t (blk) VALUES (5)");
		$bob->waits_on('AioIoCompletion') if !$sync;
		$aio->resume;
		$alice->returns("\n\n\n8192\n\n", 'it runs outside of the batch, which goes on');
		$bob->raises('23505', qr/duplicate key/, 'and he has got his read');
		$carol->fails("BEGIN; SELECT get_raw_page('$t', 1) IS NULL; SELECT batch_start()", '55000', $others_before, 'before, in the first transaction');
		$carol->sql('ROLLBACK');
		$carol->gives('SELECT batch_start() UNION ALL SELECT batch_end()', "\n", 'in the next');
		$aio->end_session($alice);
	}), skip => $no_pages);

	# simple expressions of PL/pgSQL pass no hook
	$aio->scenario('what comes before a page is locked', with('alice', 20, sub ($alice, $t, $what, $define, $sql) {
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 5)");
		for my $call ('batch_start()', "buffer_call_start_io($b, true, false)")
		{
			$aio->sql("CREATE OR REPLACE FUNCTION scenario.f() RETURNS int STABLE LANGUAGE plpgsql AS \$\$ BEGIN IF $call IS NULL THEN END IF; RETURN 1000; END \$\$");
			$aio->sql("CREATE OR REPLACE FUNCTION scenario.g() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF scenario.f() IS NULL THEN END IF; RETURN NULL; END \$\$");
			$aio->sql($define =~ s/TABLE/$t/gr) if $define && $call eq 'batch_start()';
			$alice->fails($sql =~ s/TABLE/$t/gr, '55000', qr/cannot (?:start|execute)/, $call);
		}
	}), each => [
		[ 'a plan', '', 'EXPLAIN SELECT FROM TABLE WHERE blk > scenario.f()' ],
		[ 'a trigger', 'CREATE TRIGGER g AFTER UPDATE ON TABLE FOR EACH ROW EXECUTE FUNCTION scenario.g()', 'UPDATE TABLE SET gen = 0 WHERE blk = 7' ],
		[ 'a commit', 'CREATE CONSTRAINT TRIGGER g AFTER UPDATE ON TABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION scenario.g()', 'UPDATE TABLE SET gen = 0 WHERE blk = 7' ] ]);

	# nothing tells when the session needs a page of these next
	$aio->scenario('what is left staged: reads of tables', with('alice', 20, sub ($alice, $t) {
		$aio->sql("CREATE INDEX i ON $t (blk); CREATE SEQUENCE scenario.s");
		$alice->sql("SELECT evict_rel('$t'), evict_rel('scenario.i'), evict_rel('scenario.s')");
		my $staged = "SELECT count(*)::text FROM pg_aios WHERE pid = pg_backend_pid() AND state = 'STAGED'";
		for my $rel ('pg_conversion', 'scenario.i', 'scenario.s', $t)
		{
			my $expected = $sync || $rel ne $t ? 0 : 1;
			$alice->gives("SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$rel', 0, wait_complete => false)::text UNION ALL $staged UNION ALL SELECT batch_end()::text",
				"\n\n$expected\n", $rel);
		}
		$alice->sql("SELECT evict_rel('pg_conversion')");
		$alice->gives("SELECT batch_start()::text UNION ALL SELECT concat_ws('', io_reqd) FROM start_read_buffers('pg_conversion', 0, 1) UNION ALL $staged UNION ALL SELECT batch_end()::text", "\nt\n0\n", 'by start_read_buffers()');
		$aio->end_session($alice);
	}));

	# bob has a page of the index locked, which the planner looks into
	$aio->scenario('a plan in a batch', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->sql("CREATE UNIQUE INDEX i ON $t (blk); ANALYZE $t; CREATE FUNCTION scenario.plans() RETURNS text LANGUAGE plpgsql AS"
			  . " 'BEGIN PERFORM FROM $t WHERE blk > 100; RETURN NULL; END'");
		$aio->evict($t, $alice);
		$alice->starts("SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$t', 5, wait_complete => false)::text UNION ALL"
			  . " ${\$aio->pause}::text UNION ALL SELECT scenario.plans() UNION ALL SELECT batch_end()::text");
		$alice->waits_on('advisory');
		$bob->starts("INSERT INTO $t (blk) VALUES (5)");
		$bob->waits_on('AioIoCompletion') if !$sync;
		$aio->resume;
		$alice->ends('what is staged is submitted before');
		$bob->raises('23505', qr/duplicate key/, 'he has got his read');
		$aio->end_session($alice);
	}));

	$aio->scenario('a filter that is kept, while the extension is being dropped', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->evict($t, $alice);
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 7)");
		my $holds = "io_hold('$t', keep => true)";
		$bob->sql('BEGIN; DROP EXTENSION test_aio');
		$alice->sql("SELECT buffer_call_start_io($b, true, false)");
		$alice->fails("SELECT $holds", '55006', qr/cannot wait for a lock on the extension/, 'with I/O started: is refused');
		$alice->sql("SELECT buffer_call_terminate_io($b, true, false, false, true)");
		$alice->waits("SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$t', 5, wait_complete => false)::text UNION ALL SELECT $holds\::text UNION ALL SELECT batch_end()::text", 'object');
		$aio->gives("SELECT count(*) FROM pg_aios WHERE state = 'STAGED'", 0, 'in a batch: what is staged is submitted before');
		$bob->sql('ROLLBACK');
		$alice->ends;
		$alice->sql('SELECT io_hold_end()');
		$aio->end_session($alice);
	}), skip => $aio->lacks('gate'));

	# planned before, since a plan is made outside of the batch
	$aio->scenario('a parallel query in a batch', with('alice', 20, sub ($alice, $t) {
		$aio->sql("CREATE FUNCTION scenario.g() RETURNS bigint PARALLEL SAFE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM $t WHERE ctid = ''(5,1)''); END'");
		$aio->sql("CREATE FUNCTION scenario.f() RETURNS text LANGUAGE plpgsql AS 'BEGIN IF read_rel_block_ll(''$t'', 5, wait_complete => false) IS NULL THEN END IF;"
			  . " PERFORM sum(scenario.g()) FROM generate_series(1, 3); RETURN 3; END'");
		$alice->sql('SET debug_parallel_query = on; SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off; SELECT scenario.f()');
		$aio->evict($t, $alice);
		$alice->gives('SELECT batch_start()::text UNION ALL SELECT scenario.f() UNION ALL SELECT batch_end()::text', "\n3\n", 'the workers need what the leader has staged');
		$aio->end_session($alice);
	}));

	# what runs next, as the check of a key, may lock a page where no hook tells
	$aio->scenario('nothing stays staged in %s', with('alice', 20, sub ($alice, $t, $what, $define, $sql) {
		my $calls = "read_rel_block_ll('$t', 5, wait_complete => false) IS NULL OR ${\($aio->pause =~ s/SELECT //r)} IS NULL";
		$aio->sql("CREATE TABLE scenario.u (i int); CREATE FUNCTION scenario.g() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF $calls THEN END IF; RETURN NULL; END \$\$; $define");
		$aio->evict($t, $alice);
		$alice->sql('BEGIN; SELECT batch_start()');
		$alice->waits($sql =~ s/CALLS/$calls/r, 'advisory');
		$aio->gives("SELECT count(*) FROM pg_aios WHERE state = 'STAGED'", 0);
		$aio->resume;
		$alice->ends;
		$alice->sql('ROLLBACK');
		$alice->forget_warnings;
		$aio->end_session($alice);
	}), each => [
		[ 'a trigger', 'CREATE TRIGGER g AFTER INSERT ON scenario.u FOR EACH ROW EXECUTE FUNCTION scenario.g()', 'INSERT INTO scenario.u VALUES (1)' ],
		[ 'a commit', 'CREATE CONSTRAINT TRIGGER g AFTER INSERT ON scenario.u INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION scenario.g()', 'INSERT INTO scenario.u VALUES (1); COMMIT' ],
		[ 'a block', '', 'DO $$ BEGIN IF CALLS THEN END IF; END $$' ],
		[ 'a query in it', '', 'DO $$ BEGIN PERFORM CALLS; END $$' ] ],
		log => qr/WARNING:  open AIO batch/);

	# with io_uring it comes while the session waits for what bob waits for, else in the function
	$aio->scenario('a cancel before a function of another extension', with('alice', 20, sub ($alice, $t) {
		$aio->evict($t, $alice);
		$aio->sql("SELECT io_hold('$t')");
		my $bob = $aio->sessions('bob');
		$alice->starts("SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$t', 5, wait_complete => false)::text UNION ALL ${\$aio->pause}::text"
			  . " UNION ALL SELECT length(get_raw_page('$t', 1))::text UNION ALL SELECT batch_end()::text");
		$alice->waits_on('advisory');
		$bob->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
		$bob->waits_on('AioIoCompletion') if !$sync;
		$aio->resume;
		$alice->waits_on('IoGateHeld');
		$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
		$alice->raises('57014', qr/canceling statement/, 'is cancelled');
		$aio->gate_release;
		$bob->wait_for_end;
		$alice->gives('SELECT batch_start() UNION ALL SELECT batch_end()', "\n", 'a batch can begin again');
		$aio->end_session($alice);
	}), skip => $no_pages || $aio->lacks('gate'));

	# what changes a table may lock it, and its pages, later
	$aio->scenario('no I/O is started in a command that changes something', with('alice', 20, sub ($alice, $t) {
		$aio->sql("CREATE TABLE scenario.u (i int); CREATE FUNCTION scenario.start(b int) RETURNS int IMMUTABLE LANGUAGE plpgsql SET search_path FROM CURRENT AS 'BEGIN PERFORM buffer_call_start_io(b, true, false); RETURN 1; END'");
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
		my $refused = qr/cannot start I\/O on a buffer in a command that changes something/;
		$alice->fails($_, '55000', $refused)
		  for "INSERT INTO scenario.u SELECT buffer_call_start_io($b, true, false)::int", "WITH d AS (DELETE FROM scenario.u) SELECT buffer_call_start_io($b, true, false)";
		$alice->sql('INSERT INTO scenario.u VALUES (1)');
		$alice->fails("CREATE INDEX ON scenario.u ((i + scenario.start($b)))", '55000', $refused);
	}));

	# REPACK (CONCURRENTLY) takes back what the server has registered for the exit of the session, as the last
	$aio->scenario('a filter in a function that REPACK calls', with('alice', 4, sub ($alice, $t) {
		$aio->sql("CREATE FUNCTION scenario.f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql SET search_path FROM CURRENT AS 'BEGIN IF current_query() ~ ''REPACK'' THEN PERFORM io_hold(''$t''); END IF; RETURN \$1; END'");
		$aio->sql("CREATE INDEX ON $t (scenario.f(blk))");
		$alice->fails("REPACK $t", '55000', qr/cannot execute this function in REPACK/);
		$alice->sql('SELECT io_hold_end()');
		$aio->end_session($alice);
	}), skip => $aio->lacks('gate') // ($aio->major < 19 ? 'REPACK is new in 19' : undef));

	# it deletes pages of the index, and looks for their parents with a page locked
	$aio->scenario('a function of an operator class that VACUUM calls', with('alice', 4, sub ($alice, $t) {
		$aio->sql("CREATE FUNCTION scenario.cmp(int, int) RETURNS int IMMUTABLE LANGUAGE plpgsql SET search_path FROM CURRENT AS"
			  . " 'BEGIN IF current_query() ~ ''VACUUM'' THEN RAISE NOTICE ''%'', repeat(''x'', 5000); PERFORM io_hold(''$t''); END IF; RETURN btint4cmp(\$1, \$2); END'");
		$aio->sql('CREATE OPERATOR CLASS scenario.ops FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 scenario.cmp(int, int)');
		$aio->sql('CREATE TABLE scenario.u AS SELECT generate_series(1, 2000) i; CREATE INDEX ON scenario.u (i scenario.ops); DELETE FROM scenario.u WHERE i BETWEEN 10 AND 1990');
		$alice->sql('SELECT io_hold_end()');
		$alice->fails('VACUUM (INDEX_CLEANUP on) scenario.u', '55000', qr/cannot execute this function in REPACK or VACUUM/, 'makes no filter');
		is(scalar(grep { /x{5000}/ } $alice->notices), 1, 'but says what it has to say');
	}), skip => $aio->lacks('gate'));

	$aio->scenario('no parallel query while I/O is started', with('alice', 20, sub ($alice, $t) {
		my $u = $aio->table('u', 20);
		my $b = starts_io($alice, $t);
		$alice->sql('SET debug_parallel_query = on; SET max_parallel_workers_per_gather = 2');
		$alice->fails("SELECT count(*) FROM $u", '55006', qr/cannot execute a parallel query/);
		$alice->sql('RESET debug_parallel_query; RESET max_parallel_workers_per_gather');
		$alice->gives("SELECT count(*) FROM $u", 20, 'others can be executed');
		$alice->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)");
	}));

	$aio->scenario('a wait for the lock of a relation', with('alice bob', 20, sub ($alice, $bob, $t) {
		my $u = $aio->table('u', 4);
		$aio->evict($t, $alice);
		my $of_u = $alice->sql("SELECT buffer_create_toy('$u', 2)");
		$bob->sql("BEGIN; LOCK $u");
		$alice->starts($aio->batch("SELECT read_rel_block_ll('$t', 5, wait_complete => false)", $aio->pause, "SELECT grow_rel('$u', 1)"));
		$alice->waits_on('advisory');
		$bob->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
		$bob->waits_on('AioIoCompletion') if !$sync;
		$aio->resume;
		$bob->returns(1, 'what is staged is submitted before');
		my $b = starts_io(my $carol = $aio->sessions('carol'), $t);
		$carol->fails("SELECT $_", '55006', qr/cannot wait for a lock on relation \d+ while this session has started I\/O/) for "evict_rel('$u')", "buffer_call_start_io($of_u, true, false)";
		$carol->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)");
		$bob->sql('COMMIT');
		$alice->ends('gets the lock');
		$aio->end_session($alice);
	}));

	# so much is unread already that nothing more fits in
	$aio->scenario('the client does not read %s', with('alice', 20, sub ($alice, $t, $what) {
		starts_io($alice, $t);
		my $pause = $aio->pause =~ s/SELECT //r;
		$alice->stops_reading(notices_until_full($aio));
		# the server warns of the open batch in the middle of the commit
		my ($statement, $event) = $what =~ /warning/ ? ('SELECT batch_start()', 'ClientWrite') : ("SELECT $pause", 'advisory');
		$alice->waits($statement, $event);
		$aio->sql("SELECT pg_terminate_backend(${\$alice->pid})");
		ok($aio->poll(sub { $aio->activity($alice->pid) eq '' }), 'it can be terminated');
		$aio->gives('SELECT count(*) FROM buffers_in_progress()', 0, 'and what it has started ends');
		$aio->resume;
		$aio->end_session($alice);
	}), each => [ 'a warning while interrupts are held', 'the last word of a session' ],
		log => qr/FATAL:  (?:terminating connection due to administrator command|connection to client lost)|WARNING:  open AIO batch/);

	$aio->scenario('a session that leaves with a temporary function of a trigger', with('alice bob', 20, changes => 1, sub ($alice, $bob, $t) {
		$aio->sql("CREATE UNIQUE INDEX i ON $t (blk)");
		$alice->sql("SELECT buffer_call_terminate_io(${\starts_io($alice, $t)}, true, false, true, true)");
		$alice->sql("CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER g AFTER UPDATE ON $t FOR EACH ROW EXECUTE FUNCTION pg_temp.f()");
		starts_io($alice, $t, 5);
		$bob->waits("INSERT INTO $t (blk) VALUES (5)", 'BufferIo');
		$aio->end_session($alice);
		$bob->raises('23505', qr/duplicate key/, 'ends its I/O before it waits for the lock of the table');
	}));

	# interrupts are held where an error is sent, too
	$aio->scenario('a client that reads late gets its error, %s', with('alice', 20, sub ($alice, $t, $how, $statement) {
		my $staged = $how eq 'not logged';
		$aio->sql("CREATE FUNCTION scenario.too_long() RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE division_by_zero USING COLUMN = repeat(''x'', 4000000); END'");
		$aio->sql("CREATE FUNCTION scenario.not_logged() RETURNS int LANGUAGE sql SET log_min_messages = panic AS 'SELECT 1 / 0'");
		$staged ? $alice->sql("SELECT read_rel_block_ll('$t', 9), evict_rel('$t')") : starts_io($alice, $t);
		my $notices = notices_until_full($aio);
		$alice->stops_reading($how eq 'too long' ? 1 : $notices);
		$alice->waits($staged ? "SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$t', 5, wait_complete => false)::text UNION ALL $statement\::text" : $statement, 'ClientWrite');
		# with io_uring, somebody who waits would complete the read
		$aio->comes_to_give('SELECT count(*) FROM ' . ($staged ? "pg_aios WHERE state = 'STAGED'" : 'buffers_in_progress()'), 0,
			'nothing is started or staged any more, since nobody could end it now');
		$alice->reads_again->raises('22012', qr/division.by.zero/, 'in full');
		$aio->end_session($alice);
	}), each => [ [ 'logged', 'SELECT 1 / 0' ], [ 'not logged', 'SELECT scenario.not_logged()' ], [ 'too long', 'SELECT scenario.too_long()' ] ],
		log => qr/flood FATAL:  (?:terminating connection due to administrator command|connection to client lost)/);
}, leaves => 'nothing');
