# Reads that the I/O gate holds, on any server: which reads, who waits for them, and their
# release in any order, whole, short or failed.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('held, seen, released', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
			$alice->waits_on('IoGateHeld');
			$bob->starts("SELECT count(*) FROM read_buffers('$t', 4, 1)");
			$bob->waits_on('IoGateHeld');
			$aio->gate_shows('pid, relation, fork, blockno, nblocks, off, length, waiters @> ARRAY[pid], cardinality(waiters)',
				$alice->pid . "|$t|main|3|4|24576|32768|t|2", 'one read, two waiters');
			$aio->gives('SELECT state, off, length FROM pg_aios JOIN io_held USING (pid, io_id, io_generation, off, length)',
				'SUBMITTED|24576|32768', 'and pg_aios says the same');
			$aio->gives('SELECT io_release(pid, io_id) FROM io_held', 't', 'released');
			$alice->returns('', 'reads');
			$bob->returns('1', 'gets its block');
			$aio->gives('SELECT io_hold_end(), io_hold_end()', '1|0', 'the filter ends once');
			$aio->proves($t);
		});

		$aio->scenario('several at once, last first', sub {
			my @readers = $aio->sessions(qw(r0 r1 r2 r3));
			my $t = $aio->table('t', 40);
			$aio->sql("SELECT io_hold('$t')");
			$readers[$_]->starts("SELECT read_rel_block_ll('$t', 10 * $_, nblocks => 2)") for 0 .. 3;
			$aio->gate_holds(4);
			for my $i (2, 0, 3, 1)
			{
				is($aio->gate_release_block(10 * $i), 't', "read of block ${\(10 * $i)} is released");
				$readers[$i]->returns('', 'reads');
			}
			$aio->sql('SELECT io_hold_end()');
			$aio->proves($t);
		});

		$aio->scenario('results', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql("SELECT io_hold('$t')");
			for my $case ([-5, qr/blocks 3\.\.6 in file .*Input\/output error/], [0, qr/read only 0 of 32768 bytes/],
				[8191, qr/read only 0 of 32768 bytes/])
			{
				$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
				$aio->gate_holds(1);
				$aio->gate_release_block(3, $case->[0]);
				$alice->raises($case->[0] == -5 ? '58030' : 'XX001', $case->[1], "result $case->[0]");
			}
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
			$aio->gate_holds(1);
			$aio->gate_release_block(3, 16384);
			$alice->returns('', 'result 16384');
			$alice->warns(qr/read only 16384 of 32768 bytes/);
			is($aio->cached($t), '3,4', 'two of four blocks came');
			$aio->sql('SELECT io_hold_end()');
			$aio->proves($t);
		}, log => qr/LOG:  could not read blocks/);

		$aio->scenario('which reads', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = ($aio->table('t', 20), $aio->table('u', 20));
			$aio->sql("SELECT io_hold('$t', 5), io_hold('$u', pid => ${\$bob->pid}, max_reads => 1)");
			$alice->gives("SELECT read_rel_block_ll('$t', 6, nblocks => 4)", '', 'another block');
			$alice->gives("SELECT read_rel_block_ll('$u', 5)", '', 'another process');
			$alice->starts("SELECT read_rel_block_ll('$t', 2, nblocks => 4)");
			$bob->starts("SELECT read_rel_block_ll('$u', 9); SELECT read_rel_block_ll('$u', 10)");
			$aio->gate_shows('relation, blockno', "$t|2\n$u|9");
			$aio->gives('SELECT relation, blockno, pid, times, fired FROM io_filters ORDER BY filter', "$t|5|||1\n$u||${\$bob->pid}|1|1");
			$aio->gives('SELECT io_release_all()', 2, 'both are released');
			$alice->returns('', 'reads');
			$bob->returns("\n", 'reads, and the second is not held');
			$aio->sql('SELECT io_hold_end()');
		});

		$aio->scenario('an ended filter lets go of nothing', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$aio->gate_holds(1);
			$aio->gives('SELECT io_hold_end()', 1);
			$aio->gate_holds(1, 'still held');
			$aio->gives("SELECT io_release(${\$alice->pid} + 1, io_id) FROM io_held", 'f', 'not of another process');
			$aio->gives('SELECT io_release_all()', 1);
			$alice->returns('', 'reads');
			$aio->gives("SELECT io_release(${\$alice->pid}, 0)", 'f', 'nothing is held there');
		});

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
		}, log => qr/LOG:  could not read blocks/);

		$aio->scenario('a temporary table whose owner does not wait', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('own', 20, kind => 'TEMP', session => $alice);
			$alice->sql("SELECT io_hold('$t')");
			$alice->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
			$aio->gate_holds(1);
			$aio->gives('SELECT io_release_all()', 1, 'is released');
			$aio->gate_holds(1, 'and stays, since nobody else can perform it');
			$alice->gives("SELECT count(*) FROM read_buffers('$t', 3, 1)", 1, 'performs it when she waits');
			$aio->gate_holds(0);
		});
	}, leaves => 'nothing', needs => 'gate');
