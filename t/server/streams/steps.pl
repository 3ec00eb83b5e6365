# A read stream whose steps are statements: FETCH 1 of read_stream_for_blocks() is one read_stream_next_buffer().
use TestAio;

# Returns how many buffers of a table are pinned.
sub pinned ($t) { return $aio->sql("SELECT count(*) FROM buffers_in_file(pg_relation_filenode('$t')) WHERE refcount > 0") }

# Returns the declaration of a cursor, whose rows are numbers of blocks.
sub declare ($t, $hold = 'WITHOUT HOLD', $blocks = 'ARRAY(SELECT generate_series(0, 199))')
{
	return "DECLARE c CURSOR $hold FOR SELECT (s).blocknum FROM (SELECT read_stream_for_blocks('$t', $blocks) AS s OFFSET 0) AS steps";
}

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('what is ahead between two steps', with('alice', 200, sub ($alice, $t) {
		$alice->sql('BEGIN; ' . declare($t));
		is(pinned($t), 0, 'DECLARE reads nothing');
		$alice->gives('FETCH 1 FROM c', 0, 'the first step');
		cmp_ok(my $ahead = pinned($t), '>=', 15, 'the rest of the first read is pinned');
		$alice->gives("SELECT pg_stat_get_xact_blocks_fetched('$t'::regclass)", $ahead + 1, 'no other block was asked for');
		$aio->gives("SELECT refcount FROM buffer_state('$t', 0)", 0, 'the block that was returned is not pinned');
		$alice->gives('CLOSE c', '', 'CLOSE');
		is(pinned($t), 0, 'drops all pins');
		$alice->gives("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = '$t'::regclass", 0, 'and the lock');
		$alice->sql('COMMIT');
	}));

	$aio->scenario('subtransactions', with('alice', 200, sub ($alice, $t) {
		$alice->sql('BEGIN; ' . declare($t));
		$alice->gives('FETCH 2 FROM c', "0\n1", 'steps');
		$alice->sql('SAVEPOINT s');
		$alice->gives('FETCH 20 FROM c', join("\n", 2 .. 21), 'steps after a savepoint');
		$alice->fails("TRUNCATE $t", '55006', qr/cannot TRUNCATE "\w+" because it is being used by active queries/, 'the table is in use');
		$alice->sql('ROLLBACK TO s');
		cmp_ok(pinned($t), '>', 0, 'pins stay, as the cursor does');
		$alice->gives('FETCH 1 FROM c', 22, 'it goes on');
		$alice->sql('CLOSE c; SAVEPOINT s; ' . declare($t));
		$alice->gives('FETCH 1 FROM c', 0, 'a cursor of a subtransaction');
		$alice->sql('ROLLBACK TO s');
		is(pinned($t), 0, 'ends with it');
		$alice->sql(declare($t));
		$alice->gives('FETCH 1 FROM c', 0, 'an open cursor');
		$alice->sql('ROLLBACK');
		is(pinned($t), 0, 'ends with the transaction');
	}));

	$aio->scenario('other ends', with('alice', 200, sub ($alice, $t) {
		$alice->sql('BEGIN; ' . declare($t, 'WITH HOLD', q('{5,5,7}')));
		$alice->gives('FETCH 1 FROM c', 5, 'a step of a cursor WITH HOLD');
		$alice->sql('COMMIT');
		is(pinned($t), 0, 'COMMIT reads all of it');
		$alice->gives('FETCH ALL FROM c', "5\n7", 'and returns it');
		$alice->sql('CLOSE c');
		$alice->gives("SELECT (read_stream_for_blocks('$t', '{8,9}')).blocknum, (read_stream_for_blocks('$t', '{9,8,7}')).blocknum", "8|9\n9|8\n|7", 'two streams at a time');
		$alice->gives("SELECT s.* FROM (VALUES ('{3,4}'::int[]), ('{}'), ('{5}')) a (blocks), LATERAL (SELECT (read_stream_for_blocks('$t', blocks)).blocknum LIMIT 1) s", "3\n5", 'a stream for each array, ended after a row');
		$alice->sql('BEGIN; ' . declare($t));
		$alice->gives('FETCH 1 FROM c', 0, 'a step before a batch');
		$alice->sql('SELECT batch_start()');
		$alice->gives('FETCH 40 FROM c', join("\n", 1 .. 40), 'steps within');
		$alice->sql('CLOSE c; SELECT batch_end(); COMMIT');
		is(pinned($t), 0, 'nothing is left');
	}));

	# the reads that the first steps have started are held; the next ones do not want them yet
	$aio->scenario('held reads', with('alice', 200, sub ($alice, $t) {
		$alice->sql('SET io_combine_limit = 4; SET effective_io_concurrency = 8; BEGIN; ' . declare($t));
		$aio->io_hold($t, skip => 1);
		$alice->gives('FETCH 4 FROM c', join("\n", 0 .. 3), 'the first read');
		$aio->gives("SELECT min(blockno), sum(cardinality(waiters)), sum(nblocks) = ${\pinned($t)}, count(*) = (SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid} AND state = 'SUBMITTED') FROM io_held",
			'4|0|t|t', 'the stream is ahead by these, in handles and pins');
		$alice->waits('FETCH 1 FROM c', 'IoGateHeld');
		$aio->end_holds;
		$alice->returns(4, 'the next step');
		$alice->sql('ROLLBACK');
	}), skip => $aio->lacks('gate') // ($aio->method eq 'sync' ? 'with sync, nothing is read ahead' : undef));
}, conf => { shared_buffers => '64MB' });
done_testing();
