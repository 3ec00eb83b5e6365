# Other forks and other relations than tables: each block is that of its fork.
# Pages that may be made anew, those of the free space and visibility maps, are read
# with RBM_ZERO_ON_ERROR: a bad one is zeroed with a warning, whatever the settings.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('forks', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40, kind => 'UNLOGGED');
			# many pages and little on them, for free space and visibility maps of some size
			for my $fork (qw(main fsm vm init))
			{
				my $blocks = $aio->sql("SELECT pg_relation_size('$t', '$fork') / 8192");
				next if !$blocks;
				my $number = { main => 0, fsm => 1, vm => 2, init => 3 }->{$fork};
				for my $kind (qw(read buffer))
				{
					$aio->evict($t);
					is($alice->sql("SELECT pg_prewarm('$t', '$kind', '$fork')"), $blocks, "$fork: $kind");
					$aio->gives("SELECT count(DISTINCT relblocknumber), count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = $number",
						$kind eq 'buffer' ? "$blocks|$blocks" : '0|0', "$fork: in the buffer pool");
				}
				$aio->proves($t);
			}
			# the message names the fork
			$aio->evict($t);
			$aio->overwrite($aio->file_of($t) . "_fsm", 100, 'broken');
			$alice->fails("SELECT pg_prewarm('$t', 'buffer', 'fsm')", 'XX001', qr/invalid page in block 0 of relation "base\/\d+\/\d+_fsm"/, 'the fork by its name');
		}, log => qr/LOG:  (?:invalid page in block 0|page verification failed, calculated checksum) /, skip => $aio->lacks('pg_prewarm'));

		for my $fork (qw(vm fsm))
		{
			$aio->scenario("a bad page of the $fork", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 40);
				$aio->evict($t);
				$aio->overwrite($aio->file_of($t) . "_$fork", 100, 'broken');
				my $before = $aio->checksum_failures('postgres');
				$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t; INSERT INTO $t VALUES ('$t', 40, 0, proof('$t', 40, 0))");
				$alice->warns(qr/XX001: invalid page in block 0 of relation "base\/\d+\/\d+_$fork"; zeroing out page/);
				$alice->sql('SELECT pg_stat_force_next_flush()');
				is($aio->checksum_failures('postgres') - $before, 1, 'counted once');
				$aio->proves($t, blocks => 41);
				$aio->evict($t);
				$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
				$aio->proves($t, blocks => 41);
			}, log => qr/LOG:  (?:invalid page in block 0|page verification failed, calculated checksum) /);
		}

		$aio->scenario('indexes', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 300);
			my %methods = (btree => 'blk', hash => 'blk', gist => 'int4range(blk, blk + 1)', gin => 'array[blk]', brin => 'blk', spgist => 'rel');
			for my $method (sort keys %methods)
			{
				$aio->sql("CREATE INDEX i_$method ON $t USING $method (($methods{$method}))");
				my $index = "scenario.i_$method";
				$aio->evict($index);
				my $blocks = $aio->sql("SELECT pg_relation_size('$index') / 8192");
				$alice->gives("SELECT count(*), count(DISTINCT buf) FROM read_stream_for_blocks('$index', ARRAY(SELECT generate_series(0, $blocks - 1)))", "$blocks|$blocks", $method);
				$alice->sql('SET enable_seqscan = off');
				$aio->evict($index);
				my $condition = { btree => 'blk = 77', hash => 'blk = 77', brin => 'blk = 77', gist => 'int4range(blk, blk + 1) @> 77', gin => 'array[blk] @> array[77]', spgist => "rel = '$t' AND blk = 77" }->{$method};
				$alice->gives("SELECT blk FROM $t WHERE $condition", 77, "$method finds it");
				$aio->evict($index);
				$alice->sql("VACUUM $t");
				$aio->sql("DROP INDEX $index");
			}
			$aio->proves($t);
		});

		$aio->scenario('a bitmap scan, a TID range, ANALYZE', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 300);
			$aio->sql("CREATE INDEX ON $t (blk)");
			$alice->sql('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');
			for my $eic (0, 1, 16)
			{
				$alice->sql("SET effective_io_concurrency = $eic");
				$aio->evict($t);
				is($aio->io_during($alice, 'relation/normal', sub {
							$alice->gives("SELECT count(*), sum(blk), bool_and(body = proof(rel, blk, 0)) FROM $t WHERE blk % 10 = 3 AND blk BETWEEN 0 AND 299 OR blk = 100", '31|4540|t', "bitmap, $eic");
						}) =~ s{.*/}{}r >= 31 * 8192, 1, 'read');
				$aio->evict($t);
				$alice->gives("SELECT count(*), min(blk), bool_and(body = proof(rel, blk, 0)) FROM $t WHERE ctid >= '(200,0)' AND ctid < '(250,0)'", '50|200|t', "TID range, $eic");
			}
			$aio->evict($t);
			$alice->sql("ANALYZE $t");
			$aio->proves($t);
		});
	}, leaves => 'nothing');
