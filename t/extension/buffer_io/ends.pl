# Buffer I/O that is started and that no call ends.  It ends with its session, however the
# session ends, and every wait for it ends, too.  And a toy of a block that cannot be read.
use TestAio;
use PostgreSQL::Test::Utils;
use TestAio::Neighbours;

# Returns a dirty buffer on which a session has started I/O for output.
sub started_output ($session, $t)
{
	$session->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
	my $b = $session->sql("SELECT buffer FROM buffer_state('$t', 2)");
	$session->gives("SELECT buffer_call_start_io($b, false, true)", 't', 'starts output');
	return $b;
}

sub end_io ($session, $b, $in = 'true') { return $session->sql("SELECT buffer_call_terminate_io($b, $in, false, true, true)") }

# How the I/O of a session ends, and what the log says.
my %ends = (
	'ends it' => sub ($aio, $alice, $b, $in) { end_io($alice, $b, $in) },
	'exits' => sub ($aio, $alice, @) { $aio->end_session($alice) },
	'is terminated' => sub ($aio, $alice, @) { $aio->sql("SELECT pg_terminate_backend(${\$alice->pid}, 10000)") },
	'is terminated in a transaction that has failed' => sub ($aio, $alice, @) {
		$alice->sql('BEGIN');
		$alice->fails('SELECT 1 / 0', '22012', qr/division/, 'fails');
		$aio->sql("SELECT pg_terminate_backend(${\$alice->pid}, 10000)");
	},
);

# What waits for I/O, and on what: a statement of another session, and whether the I/O is for output.
my @waits = ([ 'DROP TABLE', 'DROP TABLE %s', 0 ], [ 'a truncation by VACUUM', 'VACUUM %s', 1 ], [ 'CHECKPOINT', 'CHECKPOINT', 1 ], [ 'a read', "SELECT sum(nblocks) FROM read_buffers('%s', 0, 4)", 0 ]);

with_each_io_method('io_uring; long: all', sub {
	# the session is idle
	$aio->scenario('started for too long, and %s waits', with('alice bob', 4, changes => 1, sub ($alice, $bob, $t, $what, $statement, $output) {
		$alice->sql("SET test_aio.hold_timeout = '500ms'");
		my $b = $output ? started_output($alice, $t) : starts_io($alice, $t);
		$bob->gives($statement =~ s/%s/$t/r, $what eq 'a read' ? 4 : '', 'goes on');
		$aio->gives('SELECT count(*) FROM buffers_in_progress()', 0, 'no I/O is left');
		$alice->fails("SELECT buffer_call_terminate_io($b, ${\($output ? 'false' : 'true')}, false, true, true)", '55000', qr/no I\/O on buffer $b has been started by this session/, 'nor is its entry');
		$aio->end_session($alice);
	}), each => [ @waits[ 0, 2, 3 ] ],
		skip => $aio->lacks('gate'), log => qr/LOG:  I\/O on buffer \d+ was started for too long by process \d+/);

	$aio->scenario('the owner of the I/O %s, and %s waits', with('alice bob', 4, changes => 1, sub ($alice, $bob, $t, $how, $what, $statement, $output) {
		my $b;
		if ($statement =~ /VACUUM/)
		{
			$aio->sql("DELETE FROM $t WHERE blk > 0");
			$aio->sql("VACUUM (TRUNCATE off) $t");
			$b = $aio->sql("SELECT buffer FROM buffer_state('$t', 2) WHERE 'DIRTY' = ANY (flags)");
			$alice->gives("SELECT buffer_call_start_io($b, false, true)", 't', 'starts output of an empty page, not written yet');
		}
		$b //= $output ? started_output($alice, $t) : starts_io($alice, $t);
		$bob->starts($statement =~ s/%s/$t/r);
		$what eq 'CHECKPOINT'
		  ? $aio->wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'checkpointer' AND wait_event = 'BufferIo')")
		  : $bob->waits_on('BufferIo');
		$ends{$how}->($aio, $alice, $b, $output ? 'false' : 'true');
		$bob->returns($what eq 'a read' ? 4 : '', 'goes on');
		$aio->gives('SELECT count(*) FROM buffers_in_progress()', 0, 'no I/O is left');
	}), each => [ combined([ sort keys %ends ], \@waits) ], log => $aio->terminated('alice'));

	$aio->scenario('output, and a fast shutdown', with('alice', 4, sub ($alice, $t) {
		started_output($alice, $t);
		ok($aio->stop_with_sessions('INT'), 'the server stops');
		$aio->start_with_sessions;
	}), dies => 1, log => [ $aio->terminated('alice'), qr/LOG:  I\/O on buffer \d+ was started for too long/ ], skip => only_long());

	$aio->scenario('later transactions', with('alice bob', 4, sub ($alice, $bob, $t) {
		$alice->sql('BEGIN; SAVEPOINT s');
		my $b = starts_io($alice, $t);
		$alice->fails('SELECT 1 / 0', '22012', qr/division/, 'fails');
		$alice->sql('ROLLBACK TO s; ROLLBACK');
		$aio->gives("SELECT 'IO_IN_PROGRESS' = ANY (flags), refcount FROM buffer_state('$t', 2)", 't|1', 'the I/O goes on');
		$bob->fails("SELECT buffer_call_terminate_io($b, true, false, true, true)", '55000', qr/no I\/O on buffer $b has been started by this session/, 'is not the owner');
		$bob->gives("SELECT buffer_start_io($b, true, false)", 'IN_PROGRESS', 'hears who is');
		end_io($alice, $b);
		$bob->gives("SELECT buffer_start_io($b, true, false)", 'READY_FOR_IO', 'is the next one');
		$bob->sql("SELECT buffer_call_terminate_io($b, true, true, false, true)");
		$bob->gives("SELECT buffer_start_io($b, true, $_)", 'ALREADY_DONE', "hears that all is done, with wait $_") for qw(false true);
	}));

	$aio->scenario('a local buffer that is being read', with('alice', 4, kind => 'TEMP', sub ($alice, $own) {
		my $b = $alice->sql("SELECT io_hold('$own'), evict_rel('$own')") && $alice->sql("SELECT buf[1] FROM start_read_buffers('$own', 0, 1)");
		$alice->gives("SELECT buffer_start_io($b, true, false)", 'IN_PROGRESS', 'hears of it');
		$alice->sql('SELECT io_hold_end(), io_release_all()');
	}), skip => $aio->lacks('gate') // ($aio->method eq 'sync' ? 'with sync, StartReadBuffers() starts nothing' : undef));

	$aio->scenario('as many as there may be', with('alice', 300, sub ($alice, $t) {
		$alice->gives("SELECT count(*) FROM generate_series(0, 63) n WHERE buffer_call_start_io(buffer_create_toy('$t', n), true, true)", 64, 'starts');
		$alice->fails("SELECT buffer_call_start_io(buffer_create_toy('$t', 64), true, true)", '53400', qr/at most 64/i, 'no more');
		$aio->end_session($alice);
		$aio->gives('SELECT count(*) FROM buffers_in_progress()', 0, 'all have ended');
	}));

	$aio->scenario('the session exits, with I/O on shared and local buffers', with('alice', 4, sub ($alice, $t) {
		my $own = $aio->table('own', 4, kind => 'TEMP', session => $alice);
		starts_io($alice, $t);
		starts_io($alice, $own);
		$aio->end_session($alice);
		$aio->gives("SELECT refcount, 'IO_IN_PROGRESS' = ANY (flags) FROM buffer_state('$t', 2)", '0|f', 'they have ended');
		$aio->gives("DROP TABLE $t", '', 'the table can be dropped');
	}));

	$aio->scenario('a temporary table: %s', with('alice', sub ($alice, $what, $option, $sql) {
		$alice->sql("CREATE TEMP TABLE own (i int) $option");
		$alice->sql("BEGIN; SELECT grow_rel('own', 4)");
		my $b = starts_io($alice, 'own');
		$alice->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'a second time');
		$alice->gives("COMMIT; $sql", '', $what);
		$alice->fails("SELECT buffer_call_terminate_io($b, true, false, true, true)", '55000', qr/no I\/O on buffer/, 'it is forgotten');
		$alice->gives('SELECT 1', 1, 'and the session goes on');
	}), each => [
		[ 'DROP', '', 'DROP TABLE own' ],
		[ 'TRUNCATE', '', 'TRUNCATE own' ],
		[ 'ON COMMIT DELETE ROWS', 'ON COMMIT DELETE ROWS', 'BEGIN; INSERT INTO own VALUES (1); COMMIT' ],
		[ 'DISCARD TEMP', '', 'DISCARD TEMP' ] ]);
}, leaves => 'nothing');

# buffer_create_toy() for a block that another session wants at the same moment, and that can no
# longer be read.  A toy consists of zeroes.  If another session has pinned the buffer meanwhile,
# the function reads the block back.  If that fails, the zeroes must not stay in the buffer pool.
my $unreadable = $ENV{TEST_AIO_UNREADABLE} = PostgreSQL::Test::Utils::tempdir_short() . '/unreadable';

# Makes functions for two sessions that use a block until they meet there, or for so long.
use constant UNTIL_THEY_MEET => <<~'SQL';
	CREATE FUNCTION scenario.makes_toys(rel regclass, how_long interval) RETURNS bool LANGUAGE plpgsql AS $$
	DECLARE
		latest timestamptz := clock_timestamp() + how_long;
	BEGIN
		WHILE clock_timestamp() < latest LOOP
			BEGIN
				PERFORM buffer_create_toy(rel, 3);
			EXCEPTION
				WHEN object_in_use THEN NULL;
				-- buffer_create_toy() reads the block only if it has met the other session
				WHEN io_error THEN RETURN true;
			END;
		END LOOP;
		RETURN false;
	END $$;
	CREATE FUNCTION scenario.wants_block(rel regclass) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		WHILE NOT pg_try_advisory_lock(18) LOOP
			BEGIN
				EXECUTE format($q$SELECT FROM %s WHERE ctid = '(3,1)'$q$, rel);
			EXCEPTION
				WHEN io_error THEN NULL;
			END;
		END LOOP;
	END $$;
	SQL

my $cannot_preload = only_long() // cannot_preload();
for_each_io_method('long: sync worker', sub {
	$aio->scenario('a toy of a block that cannot be read back', with('alice bob carol', 8, sub ($alice, $bob, $carol, $t) {
		$aio->sql(UNTIL_THEY_MEET);
		$carol->sql('SELECT pg_advisory_lock(18)');
		$aio->evict($t);
		symlink $aio->file_of($t), $unreadable or die "$unreadable: $!";
		$bob->starts("SELECT scenario.wants_block('$t')");
		my $how_long = $PostgreSQL::Test::Utils::timeout_default / 2 . ' s';
		$alice->gives("SELECT scenario.makes_toys('$t', '$how_long')", 't', 'meets the other session, and cannot read the block back');
		$carol->sql('SELECT pg_advisory_unlock(18)');
		$bob->ends;
		$carol->fails("SELECT FROM $t WHERE ctid = '(3,1)'", '58030', qr/could not read blocks 3\.\.3/, 'later sessions get the error');
		unlink $unreadable or die "$unreadable: $!";
	}), log => qr/LOG:  could not read blocks 3\.\.3 /, skip => $cannot_preload);
}, own => 1);

unlink $unreadable;
