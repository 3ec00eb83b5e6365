# What a session cannot do while it has I/O started on a buffer, since it would wait for itself, or
# for a session that waits for it, without a way to interrupt it; and where it cannot start I/O.
use TestAio;

my $in_use = qr/cannot use relation "t" while this session has started I\/O on one of its buffers/;

for_each_io_method('worker; long: all', sub {
	# commands that remove or write buffers, and what they are called
	my %commands = (
		'DROP TABLE' => 'DROP TABLE %s', 'TRUNCATE TABLE' => 'TRUNCATE %s', 'VACUUM' => 'VACUUM %s',
		'ALTER TABLE' => 'ALTER TABLE %s ADD n int DEFAULT random()', 'REINDEX' => 'REINDEX TABLE %s',
		'UPDATE' => 'UPDATE %s SET gen = 1', 'SELECT' => 'WITH d AS (DELETE FROM %s RETURNING gen) SELECT FROM d', 'COPY' => "COPY %s FROM '/dev/null'",
		'COMMIT PREPARED' => "COMMIT PREPARED 'p'", 'ROLLBACK PREPARED' => "ROLLBACK PREPARED 'p'",
	);
	$aio->scenario('commands', with('alice', [ t => 4 ], [ u => 4 ], sub ($alice, $t, $u, $direction) {
		my $in = $direction eq 'input' ? 'true' : 'false';
		$alice->sql("UPDATE $t SET gen = gen");
		my $b = $alice->sql($direction eq 'input' ? "SELECT buffer_create_toy('$t', 2)" : "SELECT buffer FROM buffer_state('$t', 2)");
		$alice->gives("SELECT buffer_call_start_io($b, $in, true)", 't', 'starts');
		for my $name (sort keys %commands)
		{
			my $refused = qr/cannot execute $name while this session has started I\/O on a buffer|$in_use/;
			$alice->fails($commands{$name} =~ s/%s/$_/r, '55006', $refused, "$name $_") for $t, $u;
		}
		$alice->fails("DO 'BEGIN EXECUTE ''DROP TABLE $t''; END'", '55006', qr/cannot execute DROP TABLE/, 'inside DO');
		$alice->gives("BEGIN; SET LOCAL work_mem = '1MB'; SHOW work_mem; COMMIT", '1MB', 'others can be executed');
		$alice->gives("SELECT count(*) FROM $u", 4, 'another table can be read');
		$alice->sql("SELECT buffer_call_terminate_io($b, $in, false, false, true)");
		$alice->gives("DROP TABLE $t", '', 'when the I/O has ended, the table can be dropped');
	}), each => [qw(input output)]);

	# each way to a plan
	$aio->scenario('queries', with('alice', 4, sub ($alice, $t) {
		$aio->sql("ALTER TABLE $t ADD UNIQUE (blk); CREATE VIEW scenario.v AS SELECT * FROM $t");
		$aio->sql("CREATE TABLE scenario.child (blk int REFERENCES $t (blk)); CREATE FUNCTION scenario.f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM $t'");
		# of which the planner looks into the index of the last
		$aio->sql("CREATE TABLE scenario.parent (LIKE $t); ALTER TABLE $t INHERIT scenario.parent");
		$alice->sql("PREPARE p AS SELECT count(*) FROM $t; EXECUTE p");
		$alice->sql('INSERT INTO scenario.child VALUES (1)');
		my $b = starts_io($alice, $t);
		$alice->fails($_, '55006', $in_use, $_)
		  for "SELECT count(*) FROM $t", 'SELECT count(*) FROM scenario.v', "DECLARE c CURSOR WITH HOLD FOR SELECT FROM $t",
		  'SELECT count(*) FROM scenario.parent WHERE blk > 1', 'EXECUTE p', 'SELECT scenario.f()', "EXPLAIN SELECT FROM $t";
		# from 19 on the trigger looks into the table without a query
		$alice->fails('INSERT INTO scenario.child VALUES (2)', '55006', qr/cannot execute INSERT/, 'a foreign key');
		$alice->gives("SELECT refcount FROM buffer_state('$t', 2)", 1, 'functions of this extension can be called');
		# it would lock pages of an index, for which the owner of such a lock may wait for this session
		$alice->fails("SELECT $_ IS NULL", '55006', qr/cannot call function "get_raw_page"/, $_) for $aio->lacks('pageinspect') ? () : "get_raw_page('scenario.t_blk_key', 0)";
		$alice->sql("SELECT buffer_call_terminate_io($b, true, false, false, true)");
		$alice->gives('EXECUTE p', 4, 'and all when the I/O has ended');
	}));

	# an INSERT looks for a duplicate with a page of the index locked, and a wait for that lock cannot be interrupted;
	# the planner looks into that index, too
	$aio->scenario('another session waits with a page locked', with('alice bob', 4, sub ($alice, $bob, $t) {
		$aio->sql("CREATE UNIQUE INDEX ON $t (blk); CREATE TABLE scenario.parent (LIKE $t); ALTER TABLE $t INHERIT scenario.parent; ANALYZE $t");
		my $b = starts_io($alice, $t);
		$bob->waits("INSERT INTO $t (blk) VALUES (2)", 'BufferIo');
		$alice->fails("SET enable_seqscan = off; SELECT count(*) FROM $t WHERE blk = 3", '55006', $in_use, 'does not wait');
		$alice->fails('SELECT count(*) FROM scenario.parent WHERE blk > 100', '55006', $in_use, 'nor does the planner');
		$alice->sql("SELECT buffer_call_terminate_io($b, true, false, false, true)");
		$bob->raises('23505', qr/duplicate key/, 'goes on');
	}));

	# its commands pass the hooks that keep the rules, as what other background processes do
	$aio->scenario('a replication connection', sub {
		my $sender = $aio->session('sender', replication => 'database');
		my $t = $aio->table('t', 4);
		my $b = $aio->sql("SELECT buffer_create_toy('$t', 2)");
		$sender->fails("SELECT buffer_call_start_io($b, true, true)", '0A000', qr/cannot execute buffer_call_start_io\(\) in a "walsender" process/, 'is refused');
		$sender->fails("SELECT read_rel_block_ll('$t', 2, batchmode_enter => true)", '0A000', qr/cannot execute read_rel_block_ll\(\) in a "walsender" process/, 'and so is a batch');
		# reads like any other session
		if (!$aio->lacks('gate'))
		{
			$aio->evict($t);
			$aio->sql("SELECT io_hold('$t')");
			$sender->waits("SELECT count(*) FROM $t", 'IoGateHeld');
			$aio->gate_release;
			$sender->returns('4', 'its read is held');
		}
		$aio->end_session($sender);
	}, log => qr/walsender sender ERROR:  cannot execute \w+\(\) in a "walsender" process/);

	$aio->scenario('what the transaction has done', with('alice', 4, sub ($alice, $t) {
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
		my ($used, $changed) = ([ '55006', qr/relation "t" is in use in this transaction/ ], [ '55000', qr/in a transaction that has changed something/ ]);
		my %refused = (
			"SELECT FROM $t LIMIT 1" => $used, "LOCK $t IN ACCESS SHARE MODE" => $used, "DECLARE c CURSOR FOR SELECT FROM $t" => $used,
			"DROP TABLE $t" => $changed, 'CREATE TABLE scenario.n (i int)' => $changed, 'CREATE TABLE scenario.n (i int); SAVEPOINT s' => $changed,
		);
		for my $use (sort keys %refused)
		{
			$alice->sql("BEGIN; $use");
			$alice->fails("SELECT buffer_call_start_io($b, true, false)", @{ $refused{$use} }, $use);
			$alice->sql('ROLLBACK');
		}
		$alice->fails("SELECT buffer_call_start_io($b, true, false) FROM $t", @$used, 'the same query');
		$alice->fails("CREATE TABLE scenario.n AS SELECT buffer_call_start_io($b, true, false)", @$changed, 'the same command');
		$aio->gives('SELECT sum(pinned) FROM pg_buffercache_usage_counts()', 0, 'nothing is pinned') if !$aio->lacks('pg_buffercache');
	}));

	$aio->scenario('what is not the main fork of a table', with('alice', 4, sub ($alice, $t) {
		$aio->sql("CREATE SEQUENCE scenario.s; SELECT grow_rel('scenario.s', 1); CREATE INDEX i ON $t (blk); VACUUM $t");
		for my $rel (qw(pg_depend pg_depend_reference_index pg_toast.pg_toast_2619 scenario.s scenario.i))
		{
			$alice->sql("SELECT grow_rel('$rel', 1)") if $rel =~ /toast/;
			$alice->fails("SELECT buffer_call_start_io(buffer_create_toy('$rel', 0), true, false)", '55000', qr/does not hold a block of a user's table/, $rel);
		}
		$alice->fails("SELECT buffer_call_start_io(buffer, true, false) FROM buffers_in_file(pg_relation_filenode('$t')) WHERE fork = 'vm'",
			'55000', qr/It holds block 0 of fork "vm" of file/, 'the visibility map');
	}));

	# the relation's lock is waited for; meanwhile the buffer gets another relation's block
	$aio->scenario('the buffer gets another block', with('alice bob', 4, sub ($alice, $bob, $t) {
		my $u = $aio->table('u', 300);
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
		$bob->sql("BEGIN; LOCK $t");
		$alice->waits("SELECT buffer_call_start_io($b, false, true)", 'relation');
		$bob->sql("SELECT evict_rel('$t')");
		$aio->poll(sub {
			$aio->sql("UPDATE $u SET gen = gen");
			return $aio->sql("SELECT EXISTS (SELECT FROM buffers_in_file(pg_relation_filenode('$u')) WHERE buffer = $b AND 'DIRTY' = ANY (flags))") eq 't';
		}) or fail('the buffer gets a block of another table');
		$bob->sql('COMMIT');
		$alice->raises('55000', qr/buffer $b has been given to another block/, 'is refused');
		$aio->gives("DROP TABLE $u", '', 'the other table can be dropped');
	}));

	# the buffer must keep the reference of the read
	$aio->scenario('a read into a local buffer', with('alice', 4, kind => 'TEMP', sub ($alice, $t) {
		my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
		$alice->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'starts');
		$alice->sql("SELECT io_hold('$t')");
		$alice->sql("SELECT FROM start_read_buffers('$t', 2, 1)");
		$aio->gate_holds(1);
		for my $release_aio (qw(true false))
		{
			$alice->fails("SELECT buffer_call_terminate_io($b, true, true, false, $release_aio)", '55006', qr/buffer $b is being read/, 'cannot end the I/O');
		}
		$aio->gate_release;
		$aio->proves($t, session => $alice);
		$alice->gives("DROP TABLE $t", '', 'the table can be dropped');
	}), skip => $aio->method eq 'sync' ? 'with sync a read is begun when it is waited for' : $aio->lacks('gate'));
}, leaves => 'nothing', conf => { shared_buffers => '2MB', max_prepared_transactions => 2, wal_level => 'replica', max_wal_senders => 1 });
