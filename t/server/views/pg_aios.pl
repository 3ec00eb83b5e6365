# pg_aios, and all views while sessions poll them.
use TestAio;

# Queries that find contradictions in the rows of each view.
my %contradictions = (
	pg_aios => q{
		SELECT 'pg_aios: ' || a FROM pg_aios a
		WHERE state NOT IN ('HANDED_OUT', 'DEFINED', 'STAGED', 'SUBMITTED', 'COMPLETED_IO', 'COMPLETED_SHARED', 'COMPLETED_LOCAL')
			OR io_id IS NULL OR pid IS NULL OR io_generation IS NULL OR pid <= 0
			OR operation NOT IN ('readv', 'writev', 'invalid')
			OR state IN ('STAGED', 'SUBMITTED', 'COMPLETED_IO', 'COMPLETED_SHARED', 'COMPLETED_LOCAL')
				AND (operation IS DISTINCT FROM 'readv' OR off < 0 OR length <= 0 OR length > 16 * 8192 OR length % 8192 <> 0 OR off % 8192 <> 0
					OR target IS DISTINCT FROM 'smgr' OR target_desc !~ '^blocks? \d+(\.\.\d+)? in file "base/\d+/t?\d*_?\d+"$' AND target_desc !~ '^blocks? \d+(\.\.\d+)? in file "(base|global|pg_tblspc)/')
			OR state IN ('HANDED_OUT', 'DEFINED', 'STAGED', 'SUBMITTED') AND raw_result IS NOT NULL
			OR state IN ('COMPLETED_SHARED', 'COMPLETED_LOCAL') AND (raw_result IS NULL OR result IS NULL OR result = 'UNKNOWN')
			OR result = 'OK' AND raw_result <> length},
	pg_stat_io => q{
		SELECT 'pg_stat_io: ' || s FROM pg_stat_io s
		WHERE reads < 0 OR reads = 0 AND read_bytes > 0
			OR object <> 'wal' AND (read_bytes < reads * 8192 OR read_bytes % 8192 <> 0) OR extend_bytes % 8192 <> 0 OR hits < 0 OR evictions < 0},
	pg_stat_activity => q{
		SELECT 'pg_stat_activity: ' || s FROM pg_stat_activity s
		WHERE (wait_event IS NULL) <> (wait_event_type IS NULL) OR wait_event = '???'},
	pg_buffercache => q{
		SELECT 'pg_buffercache: ' || b FROM pg_buffercache b WHERE pinning_backends < 0 OR usagecount NOT BETWEEN 0 AND 5},
);

# Has a session poll views until $aio->resume.  Its sequence scenario.polled counts the polls; at
# the end scenario.found has contradictions, and scenario.polls has the number of rows.
sub starts_to_poll ($aio, $poller, @views)
{
	my ($contradictions, $rows) = (join(' UNION ALL ', @contradictions{@views}), join ' + ', map { "(SELECT count(*) FROM $_)" } @views);
	$aio->sql('CREATE UNLOGGED TABLE scenario.found (what text); CREATE UNLOGGED TABLE scenario.polls (rows int); CREATE SEQUENCE scenario.polled');
	$aio->pause;
	$poller->starts(<<"END");
DO \$\$
DECLARE
	seen bigint := 0;
	wrong text[];
	all_wrong text[] := '{}';
BEGIN
	WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP
		SELECT array_agg(c) INTO wrong FROM ($contradictions) v(c);
		IF wrong IS NOT NULL AND cardinality(all_wrong) < 5 THEN all_wrong := all_wrong || wrong; END IF;
		seen := seen + $rows;
		PERFORM nextval('scenario.polled');
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
	INSERT INTO scenario.found SELECT DISTINCT unnest(all_wrong);
	INSERT INTO scenario.polls VALUES (seen);
END \$\$
END
	return;
}

# Reads a table by sessions that end well, leave, do not wait, fail, and are cancelled.
sub reads_of_all_kinds ($aio, $t, $round)
{
	my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
	my $stream = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 60 FROM generate_series(0, 59) i))";
	$aio->evict($t);
	$_->starts($stream) for $alice, $bob;
	my $guest = $aio->session("guest_$round");
	$guest->sql("SELECT count(*) FROM read_buffers('$t', 0, 60)");
	$guest->disconnect;
	$_->ends("round $round") for $alice, $bob;
	$aio->evict($t);
	$carol->sql("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 19) b");
	my $polls = $aio->sql('SELECT last_value FROM scenario.polled');
	$aio->wait_for("SELECT last_value > $polls + 1 FROM scenario.polled");
	if (!$aio->no_faults)
	{
		$aio->evict($t);
		$aio->short_read_attach('EIO', relation => $t, pid => $alice->pid);
		$alice->starts($stream)->raises('58030', qr/could not read blocks/, 'a read fails');
		$aio->short_read_detach;
	}
	$aio->evict($t);
	$bob->starts("SELECT count(*) FROM generate_series(1, 1000000) g, LATERAL (SELECT count(*) + g FROM $t) s")->wait_until_active;
	$aio->cancels($bob, 'a statement is cancelled');
	return;
}

# The contents of pg_aios while reads are staged, in flight, held and done.  The server's own
# tests do not look at them.
my $columns = 'state, operation, off, length, target, handle_data_len, coalesce(raw_result::text, \'-\'), result, target_desc, f_sync, f_localmem, f_buffered';

with_each_io_method('worker; long: all', sub {
	my ($sync, $worker) = ($aio->method eq 'sync', $aio->method eq 'worker');

	$aio->scenario('reads of other forks', with('alice', 20, sub ($alice, $t, $fork) {
		my $path = $aio->sql("VACUUM $t; SELECT pg_relation_filepath('$t')");
		my $read = "SELECT pg_prewarm('$t', 'buffer', '$fork', 0, 0)";
		$alice->sql($read);
		$aio->evict($t);
		$aio->read_at_completion_wait($alice, $read, pid => $alice->pid);
		$aio->gives("SELECT target_desc FROM pg_aios WHERE pid = ${\$alice->pid}", "block 0 in file \"$path" . ($fork eq 'main' ? '' : "_$fork") . '"', $fork);
		$aio->completion_continue;
		$alice->returns(1, 'is read');
	}), each => [qw(fsm vm main)], skip => $aio->lacks('pg_prewarm') // $aio->no_faults);

	$aio->scenario('a read that has not begun', with('alice', 20, sub ($alice, $t) {
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT read_rel_block_ll('$t', 5, nblocks => 2)");
		$aio->gives("SELECT $columns FROM pg_aios WHERE pid = ${\$alice->pid}", 'SUBMITTED|readv|40960|16384|smgr|2|-|UNKNOWN|blocks 5..6 in file "'
			  . $aio->sql("SELECT pg_relation_filepath('$t')") . '"|f|f|t', 'it has no result yet');
		$aio->end_filters;
		$alice->ends;
	}), leaves => 'nothing', skip => $aio->lacks('gate'));

	$aio->scenario('ended with %s', with('alice', 20, sub ($alice, $t, $result, $status, $raw) {
		$aio->short_read_attach($result, pid => $alice->pid);
		$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 4, wait_complete => false)");
		$aio->wait_for("SELECT EXISTS (SELECT FROM pg_aios WHERE state = 'COMPLETED_SHARED')");
		$aio->gives('SELECT state, raw_result, result FROM pg_aios', "COMPLETED_SHARED|$raw|$status", 'raw and distilled result');
		$aio->short_read_detach;
	}), each => [ [ 'EIO', 'ERROR', -5 ], [ 16384, 'PARTIAL', 16384 ], [ 100, 'ERROR', 100 ], [ 'NULL', 'OK', 32768 ] ], skip => !$worker ? 'only I/O workers complete a read that nobody waits for' : $aio->no_faults, log => qr/LOG:  could not read blocks 3\.\.6 /);

	$aio->scenario('a bad page, zero_damaged_pages = %s', with('alice bob', 20, changes => 1, sub ($alice, $bob, $t, $zero) {
		$aio->sql("SELECT modify_rel_block('$t', 4, corrupt_header => true)");
		$alice->sql("SET zero_damaged_pages = $zero");
		$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 4, wait_complete => false)");
		$bob->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'another session completes the read');
		$aio->wait_for("SELECT EXISTS (SELECT FROM pg_aios WHERE state = 'COMPLETED_SHARED')");
		$aio->gives('SELECT state, raw_result, result FROM pg_aios', 'COMPLETED_SHARED|32768|' . ($zero eq 'on' ? 'WARNING' : 'ERROR'), 'raw and distilled result');
	}), each => [ 'off', 'on' ], skip => $sync ? 'with sync a read has ended when it is started' : undef, log => qr/LOG:  invalid page in block 4 /);

	$aio->scenario('who may read the view', sub {
		$aio->sql('CREATE ROLE regress_nobody LOGIN; CREATE ROLE regress_reader LOGIN IN ROLE pg_read_all_stats');
		my $nobody = $aio->session('nobody', user => 'regress_nobody');
		my $reader = $aio->session('reader', user => 'regress_reader');
		$nobody->fails('SELECT count(*) FROM pg_aios', '42501', qr/permission denied/, 'a role without privileges');
		$reader->gives('SELECT count(*) FROM pg_aios', 0, 'a member of pg_read_all_stats');
		$aio->end_session($_) for $nobody, $reader;
		$aio->sql('DROP ROLE regress_nobody, regress_reader');
	}, leaves => 'nothing');

	# Views that a session polls without a pause while other sessions read, fail, are cancelled and
	# leave: no poll fails, and no row contradicts itself.

	# A session that reads stops at each of its messages in the log, wherever its handles are then.
	$aio->scenario('at each debug message of a session', with('alice', 20, sub ($alice, $t) {
		my $read = "SELECT sum(nblocks) FROM read_buffers('$t', 3, 4)";
		$alice->sql("$read; SET log_min_messages = debug5");
		my ($stops, $rows) = (0, 0);
		do
		{
			$aio->evict($t);
		} while while_stopped_in($aio, $alice, 'write', undef, $read, sub { 1 }, sub {
			$rows += $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid}");
			my $wrong = $aio->sql($contradictions{pg_aios});
			is($wrong, '', "stop $stops: a contradiction") if $wrong;
		}, number => ++$stops) && $alice->ends("stop $stops") && $stops < 200;
		$alice->returns(4, "$stops stops, $rows rows");
		cmp_ok($rows, '>', $aio->method eq 'sync' ? 0 : 5, 'rows');
	}), skip => no_strace());

	$aio->scenario('%s', with('poller', 60, sub ($poller, $t, $what, @views) {
		$_->sql('SET effective_io_concurrency = 16; SET io_combine_limit = 4') for $aio->sessions(qw(alice bob));
		starts_to_poll($aio, $poller, grep { $_ ne 'pg_buffercache' || !$aio->lacks($_) } @views);
		for my $round (1 .. (only_long() ? 2 : 4))
		{
			my $polls = $aio->sql('SELECT last_value FROM scenario.polled');
			reads_of_all_kinds($aio, $t, $round);
			ok($aio->poll(sub { $aio->sql('SELECT last_value FROM scenario.polled') > $polls + 5 }), 'the view has been polled meanwhile');
		}
		$aio->resume;
		$poller->ends('no poll fails');
		$aio->gives('SELECT string_agg(what, chr(10)) FROM scenario.found', '', 'no row contradicts itself');
		my $rows = $aio->sql('SELECT rows FROM scenario.polls');
		cmp_ok($rows, '>', 0, 'the polls have seen rows') if $what ne 'pg_aios' || $aio->method ne 'sync';
	}), each => [ [ pg_aios => 'pg_aios' ], [ 'other views' => sort grep { $_ ne 'pg_aios' } keys %contradictions ] ], skip => sub ($what, @) { $what =~ /other/ ? only_long() : undef }, log => qr/LOG:  could not read blocks \d+\.\.\d+ in file/);
});

# What pg_aios shows of a handle that is used again.  A read into buffers that are not adjacent has one vector for
# each (mdstartreadv); the next read may have fewer.  Flags are those of the present read (pgaio_io_reclaim).

# Makes a table, and frees every other buffer.
sub table_and_free_buffers ($aio)
{
	my ($t, $w) = ($aio->table('t', 20), $aio->table('w', 300));
	# more blocks than the pool holds: no free buffer is left
	$aio->warm($w, 0 .. 299);
	# buffers that were used several times are not taken before the free ones
	my $cached = "FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$w') AND relforknumber = 0";
	$aio->sql("SELECT sum(nblocks) FROM (SELECT relblocknumber::int AS block $cached) b, read_buffers('$w', block, 1)") for 1 .. 4;
	$aio->sql("SELECT invalidate_rel_block('$w', relblocknumber::int) $cached AND bufferid % 2 = 0");
	return $t;
}

# Returns the cached blocks of a table, and whether some of their buffers are not adjacent.
sub layout ($aio, $t)
{
	return $aio->sql('SELECT string_agg(relblocknumber::text, \',\' ORDER BY relblocknumber),'
		  . ' count(*) FILTER (WHERE EXISTS (SELECT FROM pg_buffercache o WHERE o.relfilenode = b.relfilenode AND o.bufferid = b.bufferid + 1)) < 7'
		  . " FROM pg_buffercache b WHERE relfilenode = pg_relation_filenode('$t')");
}

for_each_io_method('io_uring; long: all', sub {
	my $read = "SELECT read_rel_block_ll('%s', 3, nblocks => 8)";

	$aio->scenario('the number of blocks, while the read is held', with('alice', sub ($alice) {
		my $t = table_and_free_buffers($aio);
		$aio->read_waits_for("io_hold('$t')", $alice, sprintf($read, $t));
		$aio->gives('SELECT off, length, handle_data_len FROM pg_aios WHERE state = \'SUBMITTED\'', '24576|65536|8', 'eight blocks');
		$aio->end_filters;
		$alice->ends;
		is(layout($aio, $t), '3,4,5,6,7,8,9,10|t', 'the buffers are not all adjacent');

		# the same handle, now with fewer vectors; 18 takes the buffers that were freed first last
		$aio->evict($t);
		$aio->sql("SELECT invalidate_rel_block('scenario.w', relblocknumber::int) FROM (SELECT relblocknumber FROM pg_buffercache"
			  . " WHERE relfilenode = pg_relation_filenode('scenario.w') AND relforknumber = 0 ORDER BY bufferid DESC) b");
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT sum(nblocks) FROM read_buffers('$t', 3, 8)");
		$aio->gives('SELECT off, length, handle_data_len FROM pg_aios WHERE state = \'SUBMITTED\'', '24576|65536|8', 'eight blocks');
		$aio->end_filters;
		$alice->returns('8', 'reads');
		$aio->gives("SELECT count(*) > 0 FROM pg_buffercache a JOIN pg_buffercache b USING (relfilenode) WHERE relfilenode = pg_relation_filenode('$t')"
			  . " AND b.bufferid = a.bufferid + 1 AND b.relblocknumber = a.relblocknumber + 1", 't', 'some buffers are adjacent');
	}), skip => $aio->lacks('gate'));

	$aio->scenario('a read into buffers that are not adjacent', with('alice', sub ($alice) {
		my $t;
		# another process may take buffers meanwhile, so that only adjacent ones are left
		for (1 .. 9)
		{
			$aio->sql('DROP TABLE IF EXISTS scenario.t, scenario.w');
			$t = table_and_free_buffers($aio);
			$alice->sql(sprintf $read, $t);
			last if layout($aio, $t) =~ /t$/;
		}
		is(layout($aio, $t), '3,4,5,6,7,8,9,10|t', 'the buffers are not all adjacent');
	}));

	$aio->scenario('flags of the present read', with('alice', sub ($alice) {
		my ($t, $u) = ($aio->table('t', 20), $aio->table('u', 20, kind => 'TEMP', session => $alice));
		# local, synchronous, and both
		for my $table ($u, $t)
		{
			$alice->sql("SELECT read_rel_block_ll('$table', 3, nblocks => 8); SET effective_io_concurrency = 0");
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$table', ARRAY[1, 14])");
			$alice->sql('RESET effective_io_concurrency');
		}
		$aio->evict($t);
		$aio->read_waits_for("io_hold('$t')", $alice, "SELECT sum(nblocks) FROM read_buffers('$t', 3, 8)");
		$aio->gives('SELECT f_sync, f_localmem, f_buffered FROM pg_aios WHERE state = \'SUBMITTED\'', 'f|f|t', 'flags of the present read');
		$aio->end_filters;
		$alice->returns('8', 'reads');
	}), skip => $aio->lacks('gate'));
}, leaves => 'nothing', conf => { shared_buffers => '2MB', io_max_concurrency => 1 });
