# A standby that reads while it replays: the startup process and sessions share the
# buffer pool, and replay drops and truncates what sessions read.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->node->backup('b');
		my $standby = TestAio::Server->of_backup($aio, 'b');

		$aio->scenario('the same on both', sub {
			my $t = $aio->table('t', 100);
			$aio->replayed_by($standby);
			my ($reader) = $standby->sessions('reader');
			$standby->is_method($aio->method);
			$reader->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 100 FROM generate_series(0, 399) i))", 400, 'stream');
			is($reader->sql("SELECT problems('$t')"), '', 'as written');
			$reader->fails("SELECT grow_rel('$t', 1)", '25006', qr/cannot execute grow_rel\(\) during recovery/, 'but not written');

			# replay goes on, and evicted blocks are read by it
			$reader->sql("SELECT evict_rel('$t')");
			$aio->sql("UPDATE $t SET gen = 1, body = proof(rel, blk, 1) WHERE blk < 50; VACUUM $t");
			for (1 .. 3)
			{
				$reader->sql("SELECT evict_rel('$t')");
				$reader->sql("SELECT count(*) FROM $t");
			}
			$aio->replayed_by($standby);
			$reader->sql("SELECT evict_rel('$t')");
			$reader->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)), sum(gen) FROM $t", '100|100|50', 'what was replayed');
			$reader->sql("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 40) b");
			$aio->sql("DROP TABLE $t");
			$aio->replayed_by($standby);
			$reader->fails("SELECT count(*) FROM $t", '42P01', qr/does not exist/, 'dropped while reads were under way');
			$standby->end_session($reader);
			$standby->gives('SELECT count(*) FROM pg_aios', 0, 'nothing is left');
		});
		$standby->stop;
	}, streaming => 1, conf => { autovacuum_worker_slots => 1, max_connections => 30, shared_buffers => '16MB' });
