# The wait events of sessions that wait for a read, their own or another session's, and none once
# the wait is over.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a read that is held', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 40);
			my %queries = (
				'a scan' => "SELECT count(*) FROM $t",
				'a stream' => "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[0, 5, 9])",
				'read_buffers()' => "SELECT count(*) FROM read_buffers('$t', 0, 40)");
			for my $what (sort keys %queries)
			{
				$aio->evict($t);
				$aio->hold(relation => $t);
				$alice->starts($queries{$what});
				ok($alice->gets_to_wait(qr/^(?:AioIoCompletion|AioIoUringExecution|completion_wait|IoGateHeld)$/), "$what: a session waits for its read")
				  || diag($aio->activity($alice->pid));
				$bob->starts("SELECT count(*) FROM read_buffers('$t', 0, 1)");
				ok($bob->gets_to_wait(qr/^(?:AioIoCompletion|AioUringCompletion|AioIoUringExecution|IoGateHeld)$/), 'another session waits for that read')
				  || diag($aio->activity($bob->pid));
				$aio->release;
				$alice->ends($what);
				$bob->returns(1, 'the other session gets the block');
				ok($aio->poll(sub { $aio->wait_event($alice->pid) eq 'ClientRead' }), 'the first session no longer waits for a read');
			}
			$aio->proves($t);
		}, skip => $aio->no_faults);

		$aio->scenario('no wait event after a read', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			my $now = '(SELECT coalesce(wait_event, \'none\') FROM pg_stat_activity WHERE pid = pg_backend_pid() AND found > 0)';
			$alice->gives("SELECT found, $now FROM (SELECT count(*) AS found FROM $t WHERE ctid = '($_,1)' OFFSET 0) read", '1|none', "block $_") for 3, 4;
		}, leaves => 'nothing');

		# an insertion that splits a leaf of a B-tree reads its neighbour under an exclusive lock
		$aio->scenario('a lock on a buffer', sub {
			my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
			$aio->sql('CREATE TABLE scenario.l (n int); CREATE INDEX l_n ON scenario.l (n); INSERT INTO scenario.l SELECT i * 1000 FROM generate_series(1, 2000) i; CHECKPOINT');
			$aio->sql("SELECT invalidate_rel_block('scenario.l_n', 2)");
			$aio->hold(relation => 'scenario.l_n', pid => $alice->pid);
			$alice->starts('INSERT INTO scenario.l SELECT 50000 + i FROM generate_series(1, 300) i');
			$aio->holds(1, 'the read of the neighbour is held');
			$bob->starts('CHECKPOINT');
			$carol->starts('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM scenario.l WHERE n = 20000');
			my ($checkpointer) = $aio->pids_of_type('checkpointer');
			$carol->waits_on($aio->major < 19 ? 'BufferContent' : 'BufferShared');
			my $event = $aio->major < 19 ? 'BufferContent' : 'BufferShareExclusive';
			ok($aio->poll(sub { $aio->wait_event($checkpointer) eq $event }), "the checkpointer waits to write the leaf: $event") || diag($aio->activity($checkpointer));
			$aio->release;
			$alice->ends;
			$bob->ends;
			$carol->returns(1, 'the row');
		}, skip => $aio->no_faults);

		# whatever the last call was
		$aio->scenario('no wait event after other calls', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			my $prewarm = !$aio->lacks('pg_prewarm');
			my @calls = (($prewarm ? map { [ $_, "pg_prewarm('$t', '$_')" ] } qw(prefetch read buffer) : ()),
				[ 'a write', "evict_rel('$t')" ], [ 'an extension', "grow_rel('$t', 4)" ], [ 'the size', "pg_relation_size('$t')" ]);
			my $now = "(SELECT coalesce(wait_event, 'none') FROM pg_stat_activity WHERE pid = pg_backend_pid() AND calls > 0)";
			# the first time looks at catalogs
			for my $time (1, 2)
			{
				for my $call (@calls)
				{
					my ($what, $function) = @$call;
					$aio->evict($t) if $what =~ /prefetch|read|buffer/;
					$aio->sql("UPDATE $t SET gen = gen WHERE blk = 3") if $what eq 'a write';
					my $found = $alice->sql("SELECT $now FROM (SELECT count(*) AS calls FROM (SELECT $function OFFSET 0) call OFFSET 0) counted");
					is($found, 'none', $what) if $time == 2;
				}
			}
		}, leaves => 'nothing');
	# a B-tree's pages are read synchronously
	}, conf => { 'test_aio.reach_synchronous_reads' => 'on' });
