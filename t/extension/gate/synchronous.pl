# Synchronous reads: without test_aio.reach_synchronous_reads they pass by the gate, and
# io_gate says so; with it, which is the default, the gate holds them, too, and counts what escapes.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

# statements whose reads are synchronous with every io_method
my %reads = (
	'by TID' => ["SELECT count(*) FROM %s WHERE ctid = '(3,1)'", 1],
	'without look-ahead' => ["SET effective_io_concurrency = 0; SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY[3])", 1],
);

with_each_io_method(
	sub {
		my ($aio) = @_;
		for my $what (sort keys %reads)
		{
			my ($sql, $result) = @{ $reads{$what} };
			$aio->scenario("$what, not reached", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				my ($bob) = $aio->sessions('bob');
				for my $made ("io_hold('$t')", "io_fail('$t', -5)", "io_device('50 s', rel => '$t')")
				{
					$bob->sql("SELECT $made");
					is_deeply([ $bob->notices ], ['the I/O gate does not see synchronous reads on this server'], "$made: the session is told");
				}
				$alice->gives(sprintf($sql, $t), $result, 'is not held');
				$aio->gives('SELECT cannot_hold::text LIKE \'%synchronous%reach_synchronous_reads%\' FROM io_gate', 't', 'as io_gate says');
				$aio->end_gate;
			}, leaves => 'nothing');
		}
	}, suffix => 'off', needs => 'gate', conf => { 'test_aio.reach_synchronous_reads' => 'off' });

for_each_io_method(
	sub {
		my ($aio) = @_;
		for my $what (sort keys %reads)
		{
			my ($sql, $result) = @{ $reads{$what} };
			$aio->scenario("$what, reached", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 20);
				$aio->sql("SELECT io_hold('$t')");
				$alice->starts(sprintf $sql, $t);
				$alice->waits_on('IoGateHeld');
				$bob->starts(sprintf $sql, $t);
				$bob->waits_on('IoGateHeld');
				$aio->gate_shows('pid, blockno, cardinality(waiters)', $alice->pid . '|3|2');
				$aio->gate_release;
				$_->returns($result, 'reads') for $alice, $bob;
				$aio->proves($t);
			}, leaves => 'nothing');
		}

		$aio->scenario('an index, which fails and is held', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql("CREATE INDEX ti ON $t (blk)");
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
			my $query = "SELECT count(*) FROM $t WHERE blk = 7";
			$alice->sql($query);
			$aio->evict('scenario.ti');
			$aio->sql("SELECT io_fail('scenario.ti', -5, times => 1)");
			$alice->fails($query, '58030', qr/could not read blocks \d+\.\.\d+ in file/, 'fails');
			$aio->sql("SELECT io_fail_end(), io_hold('scenario.ti', max_reads => 1)");
			$alice->starts($query);
			$alice->waits_on('IoGateHeld');
			$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
			$alice->raises('57014', qr/user request/, 'is cancelled');
			$aio->end_gate;
			$alice->gives($query, 1, 'finds it');
		}, log => qr/LOG:  could not read blocks/);

		# a result longer than the read changes nothing
		for my $escape (
			[ 'an exiting session', 'pg_depend_reference_index', 'the process exits', sub { $aio->end_session($_[0]) } ],
			[ 'the autovacuum launcher', 'pg_database', 'a process on which others depend reads it', sub { } ])
		{
			my ($who, $rel, $why, $do) = @$escape;
			$aio->scenario("reads of $who escape", sub {
				my ($alice) = $aio->sessions('alice');
				$alice->sql('CREATE TEMP TABLE own (i int)');
				$aio->sql("SELECT io_fail('$rel', 100000), io_device('0 s', rel => '$rel'), evict_rel('$rel')");
				$do->($alice);
				$aio->wait_for("SELECT min(escaped) > 0 FROM (SELECT relation, escaped FROM io_filters UNION ALL SELECT relation, escaped FROM io_devices) e");
				$aio->gives('SELECT f.why_escaped, d.why_escaped FROM io_filters f, io_devices d', "$why|$why", 'with the reason');
				$aio->end_gate;
			}, leaves => 'nothing');
		}

		$aio->scenario('connecting while catalogs are held', sub {
			my $t = $aio->table('t', 2);
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET test_aio.hold_timeout = 100');
			$alice->sql("SELECT io_hold(fork => NULL, max_reads => 3), evict_rel('pg_amproc'), evict_rel('pg_proc'), evict_rel('pg_type')");
			$aio->sessions('bob')->gives("SELECT count(*) FROM $t WHERE body LIKE 'x%'", 0, 'gets on after a while');
			$alice->gives("SELECT count(*) FROM pg_operator WHERE oprname = '~~~'", 0, 'nor is the one held that holds');
			$aio->end_gate;
		}, leaves => 'nothing', log => $aio->hold_expired);

		$aio->scenario('a hold of all reads, kept, does not hold the session that has made it', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql("SET test_aio.hold_timeout = '10min'; SELECT evict_rel('pg_aggregate'), evict_rel('pg_aggregate_fnoid_index')");
			$alice->sql('SELECT io_hold(keep => true)');
			$alice->gives('SELECT sum(i) FROM generate_series(1, 3) i', 6, 'reads catalogs');
			$alice->sql('SELECT io_hold_end(), io_release_all()');
		}, leaves => 'nothing');

		$aio->scenario('a synchronous read in a batch', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u) = ($aio->table('t', 20), $aio->table('u', 20));
			$aio->evict($t, $alice);
			$aio->evict($u, $alice);
			$aio->sql("SELECT io_hold('$u')");
			$alice->starts("SELECT batch_start(), read_rel_block_ll('$t', 5, wait_complete => false),"
				  . " (SELECT count(*) FROM $u WHERE ctid = '(3,1)'), batch_end()");
			$aio->gate_holds(1);
			$aio->gate_release;
			$alice->returns('||1|', 'and the batch goes on');
			$alice->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'to its end');
			$aio->proves($u);
		});
	}, suffix => 'on', needs => 'gate', conf => { autovacuum => 'on', autovacuum_naptime => '1s' });
