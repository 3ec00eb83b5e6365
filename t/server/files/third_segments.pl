# Tables of three segments: reads that end at a boundary of segments, begin there and would
# cross it (mdmaxcombine, mdstartreadv, mdfd).
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Segments;
use TestAio::Trace;

# Returns the reads that a range of blocks takes: first block, number of blocks and offset in the
# file of each.
sub reads_of
{
	my ($first, $count, $limit, $segment) = @_;
	my ($end, @reads) = $first + $count;
	while ($first < $end)
	{
		my $offset = $first % $segment;
		my ($blocks) = sort { $a <=> $b } $limit, $end - $first, $segment - $offset;
		push @reads, "$first+$blocks at " . $offset * 8192;
		$first += $blocks;
	}
	return @reads;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my @boundaries = boundaries($aio);
		my $segment = $boundaries[0];
		my $size = 2 * $segment + SIDE;

		# DROP DATABASE has all processes close their files
		$aio->scenario('a process that begins with the third segment', sub {
			$aio->sql('CREATE DATABASE dropped TEMPLATE postgres');
			my ($alice) = $aio->sessions('alice');
			my ($t) = long_table($aio, 't');
			$aio->evict($t);
			$aio->sql('DROP DATABASE dropped');
			$alice->sql("SELECT read_rel_block_ll('$t', 2 * $segment + 1)");
			is(right_rows($alice, $t, 2 * $segment, SIDE), SIDE, 'the rows');
		}, skip => $aio->method eq 'worker' ? undef : 'only a worker reads without asking for the length, which opens all segments');

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("at the boundaries, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my ($t, $file) = long_table($aio, 't', kind => $kind, session => $alice);
				$alice->gives("SELECT pg_relation_size('$t') / 8192", $size, 'two segments and a bit');
				is(file_sizes($file), "$segment $segment " . SIDE, 'the files');
				$aio->evict($t, $alice);
				for my $boundary (@boundaries)
				{
					# distance of the first block from the boundary, blocks
					for my $case ([ -4, 4 ], [ 0, 4 ], [ -4, 8 ], [ -1, 1 ], [ 0, 1 ], [ -1, 2 ], [ -SIDE, SIDE + 1 ])
					{
						my ($distance, $count) = @$case;
						my $first = $boundary + $distance;
						my $last = $first + $count - 1;
						for my $way ([ 16, "read_stream_for_blocks('$t', ARRAY(SELECT generate_series($first, $last)))" ],
							[ 3, "read_stream_for_blocks('$t', ARRAY(SELECT generate_series($first, $last)))" ],
							[ 16, "read_buffers('$t', $first, $count)" ])
						{
							my ($limit, $read) = @$way;
							my @reads = reads_of($first, $count, $limit, $segment);
							my $name = "$first to $last, at most $limit, " . $read =~ s/\(.*//sr;
							$alice->sql("SET io_combine_limit = $limit");
							$aio->evict($t, $alice);
							$aio->trace("pid => ${\$alice->pid}") if !$aio->lacks('trace');
							is($aio->io_during($alice, ($kind ? 'temp relation' : 'relation') . '/normal', sub { $alice->sql("SELECT count(*) FROM $read") }),
								@reads . '/' . $count * 8192, "$name: reads and bytes");
							if (!$aio->lacks('trace'))
							{
								$aio->end_trace;
								# the catalogs and the index are short
								$aio->traced("string_agg(blockno || '+' || nblocks || ' at ' || off, ', ' ORDER BY seq) FILTER (WHERE blockno >= $segment - ${\SIDE})",
									join(', ', @reads), "$name: where");
							}
							is(right_rows($alice, $t, $first, $count), $count, "$name: the rows");
						}
					}
					$alice->fails("SELECT read_rel_block_ll('$t', $boundary - 1, nblocks => 2)", '22023', qr/cannot be read by one I\/O/, 'not in one read');
					for my $block ($boundary - 1, $boundary)
					{
						$aio->evict($t, $alice);
						$alice->sql("SELECT read_rel_block_ll('$t', $block, smgrreleaseall => true)");
						is(right_rows($alice, $t, $block, 1), 1, "block $block, when no file is open");
					}
				}
				$alice->fails("SELECT read_rel_block_ll('$t', $size)", '22023', qr/block number $size is out of range/, 'the end');
			}, leaves => 'nothing');

			$aio->scenario("scans, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my ($t) = long_table($aio, 't', kind => $kind, session => $alice);
				my @blocks = map { my $boundary = $_; map { $boundary + $_ } -SIDE .. SIDE - 1 } @boundaries;
				my $columns = "CASE WHEN ctid = format('(%s,1)', blk)::tid AND body = proof('$t', blk, 0) THEN blk END";
				for my $boundary (@boundaries)
				{
					my $range = "SELECT $columns FROM $t WHERE ctid >= '(${\($boundary - SIDE)},0)' AND ctid < '(${\($boundary + SIDE)},0)'";
					my @found = $boundary - SIDE .. $boundary + SIDE - 1;
					$aio->evict($t, $alice);
					$alice->gives($range, join("\n", @found), "TIDs around $boundary");
					$alice->sql("BEGIN; DECLARE c SCROLL CURSOR FOR $range; MOVE ALL FROM c");
					$aio->evict($t, $alice);
					$alice->gives('FETCH BACKWARD ALL FROM c', join("\n", reverse @found), 'and backward');
					$alice->sql('COMMIT');
				}
				$alice->sql('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');
				$aio->evict($t, $alice);
				$alice->gives("SELECT $columns FROM $t WHERE blk >= 0", join("\n", @blocks), 'a bitmap scan');
				$alice->sql('SET enable_indexscan = on; SET enable_bitmapscan = off');
				$aio->evict($t, $alice);
				$alice->gives("SELECT $columns FROM $t WHERE blk >= 0 ORDER BY blk DESC", join("\n", reverse @blocks), 'an index scan backward');
				# each block is in another segment than the block before
				my @jumps = map { (2 * $segment + $_, $segment - 1 - $_, $segment + $_, 2 * $segment - 1 - $_, $_) } 0 .. SIDE - 1;
				$aio->evict($t, $alice);
				$alice->gives("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff) FROM read_stream_for_blocks('$t', ARRAY[" . join(',', @jumps) . '])', join(',', @jumps), 'blocks of the three segments in turn');
				is(right_rows($alice, $t, $_ - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $_") for @boundaries;
				is(right_rows($alice, $t, 0, SIDE), 0, 'none in a hole');
			});
		}
	});
