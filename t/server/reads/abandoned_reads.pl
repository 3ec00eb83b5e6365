# Reads that nobody waits for (start_read_buffers): they complete, leave nothing behind, and
# do not hinder other sessions.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

my $columns = 'blockoff, blocknum, io_reqd, foreign_io, nblocks, cardinality(buf)';

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			$aio->scenario("several operations, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 4');
				$alice->gives("SELECT $columns FROM start_read_buffers('$t', 3, 10)", "0|3|t|f|4|4\n4|7|t|f|4|4\n8|11|t|f|2|2", 'three operations');
				$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 20)", '20', 'all can be read');
				$alice->gives("SELECT $columns FROM start_read_buffers('$t', 3, 2)", "0|3|f|f|1|1\n1|4|f|f|1|1", 'cached blocks need no I/O');
				$aio->proves($t, session => $alice);
				$alice->sql("SELECT evict_rel('$t')");
				$alice->sql("SELECT count(*) FROM start_read_buffers('$t', 0, 20)");
				$alice->gives("SELECT evict_rel('$t')", '', 'the blocks can be evicted');
				$aio->proves($t, session => $alice);
			});

			$aio->scenario("more reads than handles, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 120, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 1');
				$alice->gives("SELECT count(*), sum(n) FROM generate_series(0, 100, 20) b, LATERAL (SELECT sum(nblocks) AS n FROM start_read_buffers('$t', b, 20)) s", '6|120', 'in one statement');
				$aio->proves($t, session => $alice);
			});

			$aio->scenario("the statement fails after it has started reads, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20, kind => $kind, session => $alice);
				$alice->fails("SELECT 1 / (sum(nblocks) - 10) FROM start_read_buffers('$t', 0, 10)", '22012', qr/division by zero/, 'the error is that of the statement');
				$alice->sql("DO \$\$ BEGIN PERFORM start_read_buffers('$t', 10, 10); PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$");
				$aio->proves($t, session => $alice);
			});

			$aio->scenario("the table is dropped after reads of it have started, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20, kind => $kind, session => $alice);
				$alice->gives("BEGIN; SELECT sum(nblocks) FROM start_read_buffers('$t', 0, 20); DROP TABLE $t; COMMIT", '20', 'in one transaction');
			});
		}

		$aio->scenario('in a batch', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			# opens the relation, so that the batch reads no catalogs
			$alice->sql("SELECT count(*) FROM start_read_buffers('$t', 19, 1)");
			$alice->gives("SELECT batch_start()::text UNION ALL SELECT concat_ws('|', nblocks) FROM start_read_buffers('$t', 0, 4) UNION ALL SELECT batch_end()::text", "\n4\n", 'the end of the batch submits the read');
			$aio->proves($t);
		});

		$aio->scenario('the session ends', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$alice->sql("SELECT count(*) FROM start_read_buffers('$t', 0, 20)");
			$aio->end_session($alice);
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 20)", '20', 'reads the blocks');
			$aio->proves($t);
		});

		$aio->scenario('the function does not wait', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$aio->hold(relation => $t);
			$alice->gives("SELECT count(*) FROM start_read_buffers('$t', 3, 1)", 1, 'returns while the read is held');
			$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid}", 1, 'its read is in progress');
			$bob->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
			# alice does not reap her ring; bob reaps it and is held at the completion
			my $waits = $aio->poll(sub { $aio->wait_event($bob->pid) =~ /^(?:AioIoCompletion|completion_wait)$/ }, 10);
			ok($waits, 'another session waits') || diag($aio->activity($bob->pid));
			$aio->release;
			$bob->returns('1', 'gets the block');
			$aio->proves($t);
		}, skip => $aio->no_faults // ($aio->method eq 'io_uring' ? undef : 'with this method the hold stops a worker or the session itself'));

		# 19 joins a read of its own that is in flight, and looks further ahead; 18 waits for it at once
		for my $kind ('', 'TEMP')
		{
			$aio->scenario("a stream of the same session meets it, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20, kind => $kind, session => $alice);
				$aio->hold(pid => $alice->pid);
				$alice->sql("SELECT count(*) FROM start_read_buffers('$t', 3, 1)");
				$alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[3,5,7,9])");
				$alice->gets_to_wait(qr/^(?:AioIoCompletion|completion_wait|IoGateHeld)$/);
				$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv'", $aio->major < 19 ? 1 : 4, 'reads in progress');
				$aio->release;
				$alice->returns(4, 'all blocks');
				$aio->proves($t, session => $alice);
			}, skip => $aio->no_faults // ($aio->method eq 'io_uring' ? undef : 'with this method the hold stops a worker or the session itself'));
		}

		$aio->scenario('a read that fails', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->falsify('EIO', relation => $t);
			$alice->gives("SELECT sum(nblocks) FROM start_read_buffers('$t', 0, 4)", '4', 'the session that has started the read gets no error');
			$aio->wait_for("SELECT NOT EXISTS (SELECT FROM pg_aios WHERE pid = ${\$alice->pid} AND state <> 'COMPLETED_SHARED')") if $aio->method ne 'io_uring';
			$alice->fails("SELECT count(*) FROM read_buffers('$t', 0, 4)", '58030', qr/could not read blocks 0\.\.[0-3]/, 'the next reader gets the error');
			$aio->tell_truth;
			$aio->proves($t);
		}, skip => $aio->no_faults, log => qr/LOG:  could not read blocks 0\.\.[0-3]/);

		$aio->scenario('arguments', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			$aio->table('mine', 10, kind => 'TEMP', session => $alice);
			my $schema = $alice->sql('SELECT pg_my_temp_schema()::regnamespace');
			$bob->fails("SELECT * FROM start_read_buffers('$schema.mine', 1, 1)", '0A000', qr/cannot access temporary tables of other sessions/);
			$bob->fails("SELECT * FROM read_stream_run('$schema.mine', ARRAY[1])", '0A000', qr/cannot access temporary tables of other sessions/);
			$alice->fails("SELECT * FROM start_read_buffers('mine', 9, 2)", '22023', qr/out of range/);
			$alice->fails("SELECT * FROM start_read_buffers('mine', 0, 0)", '22023', qr/nblocks must be between 1 and/);
			$aio->proves('mine', session => $alice);
		});
	});
