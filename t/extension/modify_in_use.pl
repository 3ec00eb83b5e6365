# modify_rel_block() reads a block and writes it, below the buffer manager.  Nobody may change the
# block in between: the change would be lost, even if it is committed and a checkpoint has written it.
#
# io_methods: worker; long: all
use FindBin; use lib "$FindBin::RealBin/..";
use TestAio;

for_each_io_method(sub {
	for my $use ("UPDATE %s SET gen = 1 WHERE blk = 2", "SELECT FROM %s WHERE blk = 2")
	{
		$aio->scenario("waits for a transaction with $use", sub {
			my ($alice, $bob, $t) = $aio->sessions_and_table('alice bob', 4, changes => 1);
			$bob->sql('BEGIN; ' . sprintf $use, $t);
			$alice->starts("SELECT modify_rel_block('$t', 2)");
			$alice->waits_on('relation');
			$bob->sql('COMMIT');
			$alice->ends('goes on');
			$aio->sql('CHECKPOINT');
			$aio->evict($t);
			$aio->gives("SELECT count(*), max(gen) FROM $t WHERE blk = 2", $use =~ /UPDATE/ ? '1|1' : '1|0', 'one version of the row');
		});
	}

	for my $kind ('', 'TEMP')
	{
		$aio->scenario("a dirty block, and no copy afterwards, $kind", sub {
			my ($alice, $t) = $aio->sessions_and_table('alice', 4, kind => $kind, changes => 1);
			$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
			$alice->gives("SELECT 'DIRTY' = ANY (flags) FROM buffer_state('$t', 2)", 't', 'is dirty');
			my $locked = $alice->sql("SELECT xmax FROM $t WHERE blk = 2");
			$alice->sql("SELECT modify_rel_block('$t', 2)");
			$alice->gives("SELECT count(buffer) FROM buffer_state('$t', 2)", 0, 'is in no buffer');
			$alice->gives("SELECT xmax FROM $t WHERE blk = 2", $locked, 'has been written before');
			$alice->sql("SELECT modify_rel_block('$t', 2, zero => true)");
			$alice->gives("SELECT count(*) FROM $t WHERE blk = 2", 0, 'and is zeroed');
		});
	}
}, leaves => 'nothing');
