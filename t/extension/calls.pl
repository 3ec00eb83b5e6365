# What calls of the extension do with blocks that others use.
use TestAio;

# Eviction waits half a second for pins of other sessions, then reports the block as in use.
my %calls = (
	'evict_rel' => "SELECT evict_rel('%s')",
	'invalidate_rel_block' => "SELECT invalidate_rel_block('%s', 0)",
	'read_rel_block_ll' => "SELECT read_rel_block_ll('%s', 0)",
);

# Bob makes the call while Alice has the block pinned.  She unpins it as soon as he waits.
# His call waits half a second, and she may be slower.
sub waits_for_pin ($aio, $call, $t)
{
	my ($alice, $bob) = $aio->sessions(qw(alice bob));
	for (1 .. 9)
	{
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT ctid FROM $t; FETCH c");
		$bob->waits(sprintf($call, $t), 'PgSleep');
		$alice->sql('COMMIT');
		$bob->wait_for_end;
		return 1 if !$bob->error && !$bob->warnings;
		$bob->forget_warnings;
	}
	return 0;
}

# modify_rel_block() reads a block and writes it, below the buffer manager.  Nobody may change the
# block in between: the change would be lost, even if it is committed and a checkpoint has written it.
for_each_io_method('worker; long: all', sub {
	$aio->scenario('waits for a transaction', with('alice bob', 4, changes => 1, sub ($alice, $bob, $t, $use) {
		$bob->sql('BEGIN; ' . sprintf $use, $t);
		$alice->waits("SELECT modify_rel_block('$t', 2)", 'relation');
		$bob->sql('COMMIT');
		$alice->ends('goes on');
		$aio->sql('CHECKPOINT');
		$aio->evict($t);
		$aio->gives("SELECT count(*), max(gen) FROM $t WHERE blk = 2", $use =~ /UPDATE/ ? '1|1' : '1|0', 'one version of the row');
	}), each => [ "UPDATE %s SET gen = 1 WHERE blk = 2", "SELECT FROM %s WHERE blk = 2" ]);

	$aio->scenario('a dirty block, and no copy afterwards', with_kind('alice', 4, changes => 1, sub ($alice, $t, $) {
		$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
		$alice->gives("SELECT 'DIRTY' = ANY (flags) FROM buffer_state('$t', 2)", 't', 'is dirty');
		my $locked = $alice->sql("SELECT xmax FROM $t WHERE blk = 2");
		$alice->sql("SELECT modify_rel_block('$t', 2)");
		$alice->gives("SELECT count(buffer) FROM buffer_state('$t', 2)", 0, 'is in no buffer');
		$alice->gives("SELECT xmax FROM $t WHERE blk = 2", $locked, 'has been written before');
		$alice->sql("SELECT modify_rel_block('$t', 2, zero => true)");
		$alice->gives("SELECT count(*) FROM $t WHERE blk = 2", 0, 'and is zeroed');
	}), each => [ '', 'TEMP' ]);

	$aio->scenario('%s, a pin that passes', with('', 4, sub ($t, $name) {
		ok(waits_for_pin($aio, $calls{$name}, $t), 'gets the block');
		$aio->evict($t);
	}), each => [ sort keys %calls ]);

	$aio->scenario('a pin that stays', with_kind('alice bob', 4, sub ($alice, $bob, $t, $kind) {
		my $evicts = $kind ? $alice : $bob;
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT ctid FROM $t; FETCH c");
		$evicts->sql("SELECT evict_rel('$t')");
		$evicts->warns(qr/blocks? of relation "\w+" (?:is|are) pinned and stay/);
		$alice->fails("SELECT modify_rel_block('$t', 0)", '55006', qr/block 0 of relation "\w+" is in use/, 'is in use, even if by the same session');
		$alice->sql('ROLLBACK');
	}), each => [ '', 'TEMP' ], leaves => 'COMPLETED_SHARED');
}, leaves => 'nothing');
