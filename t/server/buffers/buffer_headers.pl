# What a buffer's header says before, during and after a read: its pins, and BM_IO_ERROR,
# which a failed read sets and the next successful read clears (TerminateBufferIO).
# LockBufferForCleanup() waits for the pins of all others, a read's included: if the read's
# pin goes last, TerminateBufferIO() must wake the waiter.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Returns flags and pins of these blocks.
sub headers
{
	my ($session, $t, @blocks) = @_;
	return $session->sql("SELECT string_agg(coalesce(array_to_string(flags, '+') || ' ' || refcount, '-'), ', ' ORDER BY n)"
		  . " FROM unnest(ARRAY[" . join(',', @blocks) . "]) WITH ORDINALITY b (blk, n), buffer_state('$t', blk)");
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $forgotten = $aio->setting('server_version') =~ /^19beta1\b/ ? '19beta1 unsets BM_IO_ERROR when it sets it (server commit c787c952bc)' : undef;
		my $cleanup_wait = $aio->major >= 19 ? 'BufferCleanup' : 'BufferPin';

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			my $permanent = $kind ? '' : '+PERMANENT';
			my ($valid, $failed) = ("VALID$permanent 0", "IO_ERROR$permanent 0");

			$aio->scenario("a read fails, and the next does not, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 10, kind => $kind, session => $alice);
				is(headers($alice, $t, 2, 3), '-, -', 'not read yet');
				$aio->falsify('EIO', relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
				$alice->fails("SELECT * FROM read_buffers('$t', 2, 2)", '58030', qr/blocks 2\.\.3/) for 1, 2;
				is(headers($alice, $t, 1, 2, 3, 4), "-, $failed, $failed, -", 'both blocks have failed');
				$aio->tell_truth;
				$alice->sql("SELECT * FROM read_buffers('$t', 5, 2)");
				is(headers($alice, $t, 2, 3, 5), "$failed, $failed, $valid", 'still, when others are read');
				$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 3, 1)", 1, 'one is read again');
				is(headers($alice, $t, 2, 3), "$failed, $valid", 'and has not failed any more');
				$aio->proves($t, session => $alice);
				is(headers($alice, $t, 2, 3), "$valid, $valid", 'nor has any when all are read');
			}, skip => $aio->no_faults // $forgotten, log => qr/LOG:  could not read blocks 2\.\.3 /);

			$aio->scenario("a bad page among good ones, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 10, kind => $kind, session => $alice);
				$alice->sql("SELECT modify_rel_block('$t', 4, corrupt_header => true)");
				$aio->evict($t, $alice);
				$alice->fails("SELECT * FROM read_buffers('$t', 3, 3)", 'XX001', qr/invalid page in block 4 of relation/, 'fails');
				is(headers($alice, $t, 3, 4, 5), "$valid, $failed, $valid", 'only the bad one has failed');
				$alice->sql("SET zero_damaged_pages = on; SELECT * FROM read_buffers('$t', 3, 3)");
				$alice->warns(qr/invalid page in block 4 of relation \S+; zeroing out page/);
				is(headers($alice, $t, 3, 4, 5), "$valid, $valid, $valid", 'zeroed, it is valid');
				$alice->sql("SELECT modify_rel_block('$t', 4, zero => true)");
			}, skip => $forgotten, log => qr/LOG:  invalid page in block 4 /);
		}

		$aio->scenario('pins of a read under way', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 10);
			$aio->hold(relation => $t);
			$alice->starts("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)");
			$aio->holds(1);
			my $in_progress = 'IO_IN_PROGRESS+PERMANENT';
			is(headers($aio, $t, 1 .. 5), "-, $in_progress 2, $in_progress 2, $in_progress 2, -", 'a pin of the reader and a pin of the I/O');
			$bob->starts("SELECT sum(nblocks) FROM read_buffers('$t', 4, 1)");
			$bob->waits_on('AioIoCompletion');
			is(headers($aio, $t, 3, 4), "$in_progress 2, $in_progress 3", 'one more waits');
			$aio->release;
			$alice->returns(3, 'reads');
			$bob->returns(1, 'gets it');
			is(headers($aio, $t, 2, 4), 'VALID+PERMANENT 0, VALID+PERMANENT 0', 'none any more');
			$aio->proves($t);
		}, skip => $aio->no_faults);

		# by its resource owner from 19 on
		$aio->scenario('the lock of a page ends with an error', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			# btree compares with a page locked
			$aio->sql(<<"END");
CREATE FUNCTION scenario.compare(int, int) RETURNS int LANGUAGE plpgsql AS \$\$
BEGIN
	IF current_setting('regress.fail', true) = 'yes' THEN RAISE 'cannot compare'; END IF;
	RETURN btint4cmp(\$1, \$2);
END \$\$;
CREATE OPERATOR CLASS scenario.fails FOR TYPE int USING btree AS OPERATOR 3 =, FUNCTION 1 scenario.compare(int, int);
CREATE INDEX ON $t (blk scenario.fails)
END
			$alice->sql('SET enable_seqscan = off; SET regress.fail = yes');
			$alice->fails("SELECT gen FROM $t WHERE blk = 2", 'P0001', qr/cannot compare/, 'fails');
			$bob->starts("INSERT INTO $t VALUES ('$t', 4, 0, proof('$t', 4, 0))");
			$bob->ends('writes to the page');
			$alice->sql('RESET regress.fail');
			$alice->gives("SELECT count(*) FROM $t WHERE blk = 4", 1, 'the row is there');
			$aio->proves($t, blocks => 5);
		});

		$aio->scenario('vacuum waits for the pin of an I/O', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			my $b = $alice->sql("SELECT buf FROM read_stream_for_blocks('$t', ARRAY[2])");
			$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
			$alice->gives("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 't', 'starts to write');
			$bob->starts("VACUUM (FREEZE) $t");
			$bob->waits_on($cleanup_wait);
			$alice->sql("SELECT buffer_call_terminate_io($b, false, succeed => false, io_error => false, release_aio => true)");
			$bob->ends('is woken');
			$aio->proves($t);
		});

		# the wait goes on after a wake-up for another reason
		$aio->scenario('vacuum waits for a pin, and is woken meanwhile', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(0,1)' FOR UPDATE) dirtied");
			$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 1 FROM c");
			$bob->starts("VACUUM (FREEZE) $t");
			for my $time (1, 2)
			{
				$bob->waits_on($cleanup_wait);
				$aio->sql("SELECT pg_log_backend_memory_contexts(${\$bob->pid})");
				ok($aio->poll(sub { (() = $aio->log_text =~ /logging memory contexts of PID ${\$bob->pid}\b/g) == $time }), 'is woken');
			}
			$bob->waits_on($cleanup_wait, 'waits again');
			$alice->sql('COMMIT');
			$bob->ends('gets the lock');
			$aio->proves($t);
		});

		# one process at a time may wait
		$aio->scenario('vacuum waits for a pin, and is canceled', sub {
			my ($alice, $bob, $carol, $dave) = $aio->sessions(qw(alice bob carol dave));
			my $t = $aio->table('t', 4);
			$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(0,1)' FOR UPDATE) dirtied");
			# with one pin, the end of the waiter's own would wake it, and take its request back
			$_->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 1 FROM c") for $alice, $dave;
			$bob->starts("VACUUM (FREEZE) $t");
			$bob->waits_on($cleanup_wait);
			$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
			$bob->raises('57014', qr/canceling statement due to user request/, 'is canceled');
			$carol->starts("VACUUM (FREEZE) $t");
			$carol->waits_on($cleanup_wait, 'waits in its place');
			$_->sql('COMMIT') for $alice, $dave;
			$carol->ends('gets the lock');
			$aio->proves($t);
		});

		# a deletion keeps a pin while it waits for another transaction, and releases it together with its lock
		$aio->scenario('vacuum waits for a pin that is released with a lock', sub {
			my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
			my $t = 'scenario.d';
			$aio->sql("CREATE TABLE $t (n int, gen int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, 0 FROM generate_series(0, 2) i");
			# the scan, and its pin, end before the deletion
			my $delete = "DELETE FROM $t USING generate_series(1, 9999) g WHERE n = g AND n < 2";
			$bob->sql('SET enable_nestloop = off; SET enable_mergejoin = off; BEGIN ISOLATION LEVEL REPEATABLE READ');
			like($bob->sql("EXPLAIN (COSTS OFF) $delete"), qr/->  Hash\n +->  Seq Scan on d$/m, 'the plan');
			$alice->sql("BEGIN; UPDATE $t SET gen = 1 WHERE n = 1");
			$bob->starts($delete);
			$bob->waits_on('transactionid');
			$carol->starts("VACUUM (FREEZE) $t");
			$carol->waits_on($cleanup_wait);
			$alice->sql('COMMIT');
			$bob->raises('40001', qr/could not serialize access due to concurrent update/, 'gives the page back');
			$carol->ends('gets the lock');
			$bob->sql('ROLLBACK');
			$aio->gives("SELECT string_agg(gen::text, '' ORDER BY n) FROM $t", '010', 'the rows');
		});
	}, leaves => 'nothing');
