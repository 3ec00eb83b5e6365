# Forks and relations other than a table's main fork: each block belongs to its fork.
# Pages of the free space and visibility maps can be made anew; the server reads them with
# RBM_ZERO_ON_ERROR and zeroes a bad one with a warning, whatever the settings.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('forks', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40, kind => 'UNLOGGED');
			# the init fork of a heap is empty, that of an index is not
			$aio->sql("CREATE INDEX i ON $t (blk)");
			my $number = 0;
			for my $fork (qw(main fsm vm init))
			{
				my $relation = $fork eq 'init' ? 'scenario.i' : $t;
				my $blocks = $aio->sql("SELECT pg_relation_size('$relation', '$fork') / 8192");
				cmp_ok($blocks, '>', 0, "$fork: has blocks");
				for my $kind (qw(read buffer))
				{
					$aio->evict($relation);
					is($alice->sql("SELECT pg_prewarm('$relation', '$kind', '$fork')"), $blocks, "$fork: $kind");
					$aio->gives("SELECT count(DISTINCT relblocknumber), count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$relation') AND relforknumber = $number",
						$kind eq 'buffer' ? "$blocks|$blocks" : '0|0', "$fork: in the buffer pool");
				}
				$aio->proves($t);
				$number++;
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
				is($aio->checksum_failures_during(sub {
							$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t; INSERT INTO $t VALUES ('$t', 40, 0, proof('$t', 40, 0))");
						}, $alice), '1/0/0', 'counted once');
				$alice->warns(qr/XX001: invalid page in block 0 of relation "base\/\d+\/\d+_$fork"; zeroing out page/);
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
			my @gone;
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
				# VACUUM reads the index if there are dead entries; a BRIN index has none
				my $dead = 100 + @gone;
				push @gone, "block $dead has no row";
				$aio->sql("DELETE FROM $t WHERE blk = $dead");
				$aio->evict($_) for $t, $index;
				$alice->notices;
				isnt($aio->io_during($alice, 'relation/vacuum', sub { $alice->sql("VACUUM (VERBOSE, INDEX_CLEANUP on, TRUNCATE off) $t") }), '0/0', "$method: VACUUM reads");
				my $said = join "\n", $alice->notices;
				like($said, qr/1 dead item identifiers removed/, "$method: and removes the dead row");
				like($said, qr/index "i_$method": pages: /, "$method: from the index, too") if $method ne 'brin';
				$alice->gives("SELECT count(*) FROM $t WHERE $condition", 1, "$method: finds another row");
				$aio->sql("DROP INDEX $index");
			}
			$aio->proves($t, except => join "\n", @gone);
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
				my ($reads, $bytes) = split m{/}, $aio->io_during($alice, 'relation/normal', sub {
					$alice->gives("SELECT count(*), sum(blk), bool_and(body = proof(rel, blk, 0)) FROM $t WHERE blk % 10 = 3 AND blk BETWEEN 0 AND 299 OR blk = 100", '31|4540|t', "bitmap, $eic");
				});
				cmp_ok($bytes, '>=', 31 * 8192, 'read');
				$aio->evict($t);
				$alice->gives("SELECT count(*), min(blk), bool_and(body = proof(rel, blk, 0)) FROM $t WHERE ctid >= '(200,0)' AND ctid < '(250,0)'", '50|200|t', "TID range, $eic");
			}
			$aio->evict($t);
			$alice->sql("ANALYZE $t");
			$alice->gives("SELECT n_distinct, array_length(histogram_bounds, 1), (histogram_bounds::text::int[])[1] FROM pg_stats WHERE schemaname = 'scenario' AND tablename = 't' AND attname = 'blk'",
				'-1|101|0', 'ANALYZE has seen each block');
			$aio->proves($t);
		});
	}, leaves => 'nothing');
