# A standby that reads while it replays.  The startup process and the sessions share the
# buffer pool, and replay drops and truncates what sessions read.  Sessions wait for held
# reads.  Replay waits only if it needs the very blocks that are held; then the hold timeout
# or a shutdown ends the wait.  The trace records replay's reads.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;
use TestAio::Trace;

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->node->backup('b');
		my $standby = TestAio::Server->of_backup($aio, 'b');

		# Makes a table that both servers have and neither has cached.
		my $table = sub {
			my ($nblocks) = @_;
			my $t = $aio->table('t', $nblocks // 40);
			$aio->replayed_by($standby);
			$standby->evict($t);
			return $t;
		};

		$aio->scenario('the same on both', sub {
			my $t = $table->(100);
			my ($reader) = $standby->sessions('reader');
			$standby->is_method($aio->method);
			$reader->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 100 FROM generate_series(0, 399) i))", 400, 'stream');
			is($reader->sql("SELECT problems('$t')"), '', 'as written');
			$reader->fails("SELECT grow_rel('$t', 1)", '25006', qr/cannot execute grow_rel\(\) during recovery/, 'but not written');

			# replay goes on and reads evicted blocks
			$standby->evict($t);
			$aio->sql("UPDATE $t SET gen = 1, body = proof(rel, blk, 1) WHERE blk < 50; VACUUM $t");
			for (1 .. 3)
			{
				$standby->evict($t);
				$reader->sql("SELECT count(*) FROM $t");
			}
			$aio->replayed_by($standby);
			$standby->evict($t);
			$reader->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)), sum(gen) FROM $t", '100|100|50', 'the replayed rows');
			$reader->sql("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 40) b");
			$aio->sql("DROP TABLE $t");
			$aio->replayed_by($standby);
			$reader->fails("SELECT count(*) FROM $t", '42P01', qr/does not exist/, 'dropped while reads were under way');
			$standby->end_session($reader);
			$standby->gives('SELECT count(*) FROM pg_aios', 0, 'nothing is left');
		});

		# replay copies files, after it has written what its own buffers have of them
		$aio->scenario('a database that is copied', sub {
			$aio->sql('CREATE DATABASE original TEMPLATE postgres STRATEGY file_copy');
			my $bob = $aio->session('bob', dbname => 'original');
			$bob->sql("CREATE TABLE c AS SELECT i, repeat('x', 1900) AS body FROM generate_series(0, 399) i; CREATE INDEX c_i ON c (i); UPDATE c SET i = i + 1000 WHERE i % 4 = 0; DELETE FROM c WHERE i % 4 = 1 AND i < 1000");
			my $look = 'SELECT count(*), sum(i), sum(length(body)) FROM c';
			my $expected = $bob->sql($look);
			$aio->end_session($bob);
			$aio->sql('CREATE DATABASE copy TEMPLATE original STRATEGY file_copy');
			$aio->replayed_by($standby);
			my $reader = $standby->session('reader', dbname => 'copy');
			$reader->gives($look, $expected, 'the rows');
			$reader->gives('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(body), sum(i) FROM c WHERE i >= 1000', '100|119800', 'by the index');
			$standby->end_session($reader);
			$aio->sql("DROP DATABASE $_") for qw(copy original);
			# or the standby replays that once more when it is restarted, and warns
			$aio->sql('CHECKPOINT');
			$aio->replayed_by($standby);
		});

		$aio->scenario('sessions wait, replay does not', sub {
			my $t = $table->();
			my ($startup) = $standby->pids_of_type('startup');
			my ($controller, $issuer, $waiter) = $standby->gate_hold_read($t);
			$standby->trace("'$t', $startup");
			$aio->sql("UPDATE $t SET gen = 1, body = proof(rel, blk, 1) WHERE blk BETWEEN 20 AND 29");
			$aio->replayed_by($standby);
			$standby->end_trace;
			$standby->gives('SELECT io_hold_end(), io_release_all()', '1|1', 'all is replayed, and the read is still held');
			$standby->traced("count(*) FILTER (WHERE blockno BETWEEN 20 AND 29 AND nblocks = 1 AND f_sync AND result = 'OK'), "
				  . "bool_and(pid = $startup AND backend_type = 'startup' AND executed_by = $startup AND completed_by = $startup)", '10|t', 'the startup process has read what it changes');
			$issuer->returns('', 'reads');
			$waiter->returns('1', 'gets it');
			$standby->end_session($_) for $controller, $issuer, $waiter;
			$standby->evict($t);
			$standby->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)), sum(gen) FROM $t", '40|40|10', 'the replayed rows');
		});

		for my $end ('the hold timeout', 'a release', 'fast shutdown')
		{
			$aio->scenario("replay of DROP TABLE, until $end", sub {
				my $t = $table->();
				my ($issuer) = $standby->sessions('issuer');
				$standby->sql("SET test_aio.hold_timeout = '" . ($end =~ /timeout/ ? '500ms' : '1min') . "'");
				$standby->sql("SELECT io_hold('$t', max_reads => 1)");
				$issuer->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
				$aio->sql("DROP TABLE $t");
				my $replays = "SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'startup'";
				$standby->wait_for("SELECT ($replays) = 'IoGateHeld'") if $end !~ /timeout/;
				$standby->sql('SELECT io_release_all()') if $end eq 'a release';
				if ($end eq 'fast shutdown')
				{
					ok($standby->stop, 'stops');
					$standby->start_again;
				}
				$aio->replayed_by($standby);
				$standby->gives("SELECT to_regclass('$t') IS NULL", 't', 'goes on');
				$standby->sql('SELECT io_hold_end()');
			});
		}

	},
	# replay does not read a page whose whole image is in the WAL
	leaves => 'nothing', needs => 'gate trace', streaming => 1, conf => { autovacuum_worker_slots => 1, full_page_writes => 'off',
		'test_aio.reach_synchronous_reads' => 'on' });
