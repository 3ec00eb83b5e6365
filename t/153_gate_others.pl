# Held reads among everything else that a server does: nothing hangs that can be
# interrupted, and nothing is wrong afterwards.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $sync = $aio->method eq 'sync' ? 'with io_method=sync these reads do not reach the gate' : undef;

		# A hold, a read that is held, and what another session does to the table
		my %ddl = (
			'DROP TABLE' => ['DROP TABLE %s', 0],
			'TRUNCATE' => ['TRUNCATE %s', 0],
			'VACUUM' => ['VACUUM (TRUNCATE off) %s', 1],
			'ALTER TABLE SET TABLESPACE' => ["SET allow_in_place_tablespaces = on; CREATE TABLESPACE s153 LOCATION ''; ALTER TABLE %s SET TABLESPACE s153; ALTER TABLE %1\$s SET TABLESPACE pg_default; DROP TABLESPACE s153", 1],
		);
		for my $what (sort keys %ddl)
		{
			my ($sql, $stays) = @{ $ddl{$what} };
			$aio->scenario("$what of a relation with a held read", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 20);
				$aio->sql("SELECT io_hold('$t', 3)");
				# the reader moves on, and its lock goes
				$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
				$aio->gate_holds(1);
				$bob->starts(sprintf $sql, $t);
				$bob->waits_on('IoGateHeld', 'waits for the read') if $what ne 'ALTER TABLE SET TABLESPACE';
				$aio->sql('SELECT io_hold_end(), io_release_all()');
				$bob->returns(qr/^$/, 'and goes on');
				$aio->proves($t) if $stays;
			}, leaves => 'COMPLETED_SHARED', skip => $what eq 'VACUUM' ? $sync : undef);
		}

		$aio->scenario('a DROP TABLE that is cancelled while it cannot be', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$aio->sql("SELECT io_hold('$t', 3)");
			$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
			$bob->starts("DROP TABLE $t");
			$bob->waits_on('IoGateHeld');
			$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
			$bob->wait_for_end;
			$aio->gate_holds(0, 'performs the read itself, to get on');
			$aio->end_gate;
		}, leaves => 'COMPLETED_SHARED');

		$aio->scenario('DROP DATABASE of another database', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql('CREATE DATABASE other153');
			$aio->sql("SELECT io_hold('$t', 3)");
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
			$aio->gate_holds(1);
			$aio->gives('DROP DATABASE other153', '', 'is dropped meanwhile');
			$aio->gives('CHECKPOINT', '', 'and so is a checkpoint');
			$aio->sql('SELECT io_hold_end(), io_release_all()');
			$alice->returns('', 'reads');
			$aio->proves($t);
		});

		$aio->scenario('batch mode, and more reads than handles', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			# a session that opens a relation for the first time reads catalogs, in batches too
			$aio->evict($t, $alice);
			$aio->sql("SELECT io_hold('$t', max_reads => 3)");
			$alice->starts(join ' UNION ALL ', 'SELECT batch_start()',
				(map { "SELECT read_rel_block_ll('$t', 4 * $_, nblocks => 2, wait_complete => false)" } 0 .. 8), 'SELECT batch_end()');
			$aio->gate_holds(3);
			$aio->gives('SELECT io_release_all()', 3);
			$alice->returns(qr/^\n*$/, 'goes on');
			$aio->sql('SELECT io_hold_end()');
			$aio->proves($t);
		}, leaves => 'COMPLETED_SHARED');

		$aio->scenario('temporary tables', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('own', 20, kind => 'TEMP', session => $alice);
			for my $result ('NULL', -5)
			{
				$aio->sql("SELECT io_hold(pid => ${\$alice->pid}, max_reads => 1)");
				$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
				$alice->waits_on('IoGateHeld');
				$aio->gives('SELECT f_localmem, blockno FROM io_held', 't|3', 'held');
				$aio->gives("SELECT io_release_all($result)", 1, "released with $result");
				$result eq 'NULL' ? $alice->returns('', 'reads itself') : $alice->raises('58030', qr/blocks 3\.\.4 in file/, 'fails');
				$aio->sql('SELECT io_hold_end()');
			}
			$aio->proves($t, session => $alice);
		}, log => qr/could not read blocks/);

		$aio->scenario('parallel query', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 400);
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;'
				. 'SET parallel_tuple_cost = 0; SET debug_parallel_query = on');
			$aio->sql("SELECT io_hold('$t', 200)");
			$alice->starts("SELECT count(*) FROM $t");
			$aio->gate_holds(1, 'one read of one of its processes');
			$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
			$alice->raises('57014', qr/user request/, 'is cancelled, workers and all');
			$aio->sql('SELECT io_release_all()');
			$aio->evict($t);
			$alice->starts("SELECT count(*) FROM $t");
			$aio->gate_holds(1);
			$aio->sql('SELECT io_hold_end()');
			$aio->sql('SELECT io_release_all()');
			$alice->returns('400', 'counts');
			$aio->proves($t);
		}, skip => $sync, leaves => 'COMPLETED_SHARED', log => qr/terminating background worker|exited with exit code 1/);

		$aio->scenario('a full queue of the I/O workers', sub {
			my @names = map { "r$_" } 0 .. 11;
			my $t = $aio->table('t', 400);
			$aio->sql("SELECT io_hold('$t', max_reads => 20)");
			$aio->sessions($_)->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 37 % 400)::int FROM generate_series(0, 399) i))") for @names;
			$aio->poll(sub { $aio->sql('SELECT io_release_all()'); !grep { !$aio->sessions($_)->has_ended } @names });
			$aio->sessions($_)->returns('400', 'reads') for @names;
			$aio->sql('SELECT io_hold_end()');
			$aio->proves($t);
		});
	},
	conf => { io_max_concurrency => 4 });
