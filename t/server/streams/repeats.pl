# Blocks that a stream wants again while they are being read: 19 joins its own I/O (server
# commit 999dec9ec6), 18 waits for it.  Streams that are given up before their end and begun
# again: read_stream_reset() must forget what was read ahead, and the one block for which
# there was no room.
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

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			$aio->scenario("blocks that repeat, $kind", sub {
				my ($reader) = $aio->sessions('reader');
				my $t = $aio->table('t', 40, kind => $kind, session => $reader);

				$reader->gives("SELECT string_agg(blockoff || ':' || blocknum, ' ' ORDER BY blockoff)"
					  . " FROM read_stream_for_blocks('$t', ARRAY[7, 7, 7, 8, 9, 8, 7, 9, 0, 39, 0, 39])",
					'0:7 1:7 2:7 3:8 4:9 5:8 6:7 7:9 8:0 9:39 10:0 11:39', 'each where it is wanted');
				$aio->proves($t, session => $reader);
				$aio->evict($t, $reader);
				$reader->gives("SELECT count(*), count(DISTINCT buf), min(blocknum), max(blocknum) FROM"
					  . " read_stream_for_blocks('$t', ARRAY(SELECT i + generate_series(0, 3) FROM generate_series(0, 36) i))",
					'148|40|0|39', 'a sliding window');
			});
		}

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("rescans, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 120, kind => $kind, session => $alice);
				$alice->sql("CREATE INDEX ON $t (blk) WHERE blk % 2 = 0; SET enable_indexscan = off; SET enable_indexonlyscan = off");
				# each query gives up its scan of the table after some blocks
				my %queries = (
					'sequential scans' => [ 'off', "SELECT string_agg(g || ':' || blk, ' ' ORDER BY g, blk) FROM generate_series(1, 6) g, LATERAL (SELECT blk FROM $t WHERE blk >= g LIMIT g % 3 + 1) s",
						'1:1 1:2 2:2 2:3 2:4 3:3 4:4 4:5 5:5 5:6 5:7 6:6' ],
					# blocks that are not adjacent are not combined
					'bitmap scans' => [ 'on', "SELECT string_agg(g || ':' || blk, ' ' ORDER BY g, blk) FROM generate_series(1, 6) g, LATERAL (SELECT blk FROM $t WHERE blk % 2 = 0 AND blk >= 2 * g LIMIT g % 3 + 1) s",
						'1:2 1:4 2:4 2:6 2:8 3:6 4:8 4:10 5:10 5:12 5:14 6:12' ],
					'to the end' => [ 'on', "SELECT sum(n) FROM generate_series(1, 4) g, LATERAL (SELECT count(*) AS n FROM $t WHERE blk % 2 = 0 AND blk >= 20 * g AND body = proof(rel, blk, 0)) s", '140' ]);
				for my $limits ('effective_io_concurrency = 16, io_combine_limit = 16', 'effective_io_concurrency = 1, io_combine_limit = 1',
					'effective_io_concurrency = 2, io_combine_limit = 4', 'effective_io_concurrency = 0, io_combine_limit = 16')
				{
					$alice->sql("SET $_") for split /, /, $limits;
					for my $what (sort keys %queries)
					{
						my ($bitmap, $query, $expected) = @{ $queries{$what} };
						$alice->sql("SET enable_bitmapscan = $bitmap; SET enable_seqscan = " . ($bitmap eq 'on' ? 'off' : 'on'));
						# with none, some and all of the blocks cached
						$aio->evict($t, $alice);
						$alice->gives($query, $expected, "$what, $limits");
						$alice->gives($query, $expected, 'some of it there');
						$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119)))");
						$alice->gives($query, $expected, 'all of it there');
					}
				}
				$aio->proves($t, session => $alice);
			});
		}

		# a cached block ends the read before it, and stays pinned for the next one
		for my $kind ('', 'TEMP')
		{
			$aio->scenario("given up with blocks kept for the next read, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 60, kind => $kind, session => $alice);
				for my $rows (1 .. 24)
				{
					$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(4, 59, 5)))");
					$alice->gives("SELECT count(*) FROM (SELECT blk FROM $t LIMIT $rows) s", $rows, "$rows rows");
					$alice->gives("SELECT count(*) FROM generate_series(0, 59) b, buffer_state('$t', b) WHERE refcount > 0", 0, 'no pin is left');
					$aio->evict($t, $alice);
				}
				$aio->proves($t, session => $alice);
			});
		}

		# a stream that has read nothing uses one place of its queue
		$aio->scenario('rescans of a table that is evicted between two of them', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			for my $limits ('effective_io_concurrency = 1, io_combine_limit = 1', 'effective_io_concurrency = 4, io_combine_limit = 2')
			{
				$alice->sql("SET $_") for split /, /, $limits;
				$alice->sql("SELECT count(*) FROM $t");
				$alice->gives("SELECT string_agg(n::text, ' ' ORDER BY g) FROM generate_series(1, 3) g,"
					  . " LATERAL (SELECT CASE WHEN g % 3 = 0 THEN evict_rel('$t')::text END AS evicted OFFSET 0) e,"
					  . " LATERAL (SELECT count(*) AS n FROM $t WHERE blk >= g AND body = proof('$t', blk, 0) AND evicted IS DISTINCT FROM 'never') s",
					'39 38 37', $limits);
			}
		});

		$aio->scenario('nothing is looked at after the last row wanted', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 120);
			$alice->sql("SELECT count(*) FROM $t");
			for my $rows (1, 30, 119)
			{
				# the blocks are cached; the scan looks at one more than was wanted
				my $query = "SELECT count(*) FROM (SELECT blk FROM $t LIMIT $rows) s";
				$alice->sql($query);
				my ($hits) = $aio->blocks_during($t, sub { $alice->gives($query, $rows, "$rows rows") }, $alice) =~ /(\d+)$/;
				cmp_ok($hits, '>=', $rows, 'hits');
				cmp_ok($hits, '<=', $rows + 1, 'not many more');
			}
		});
	}, leaves => 'nothing', conf => { shared_buffers => '4MB' });
