# How many blocks become one read: io_combine_limit, io_max_combine_limit, blocks that are
# cached already, segment boundaries (mdmaxcombine), the end of a relation.
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

		$aio->scenario('io_combine_limit', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 41);
			$alice->gives('SHOW io_max_combine_limit', '256kB', 'io_max_combine_limit');
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', '{}')");
			for my $case ([ 1 => 41 ], [ 7 => 6 ], [ 16 => 3 ], [ 31 => 2 ], [ 32 => 2 ], [ 128 => 2 ])
			{
				my ($limit, $reads) = @$case;
				$alice->sql("SET io_combine_limit = $limit");
				$aio->evict($t);
				is($aio->io_during($alice, 'relation/normal', sub {
							$alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 40)))",
								'41|820', "limit $limit, stream");
						}), $reads . '/' . 41 * 8192, 'reads and bytes');
				$aio->proves($t);
				$aio->evict($t);
				is($aio->io_during($alice, 'relation/normal', sub {
							$alice->gives("SELECT count(*), max(nblocks) FROM read_buffers('$t', 0, 41)",
								"$reads|" . ($limit > 32 ? 32 : $limit), "limit $limit, StartReadBuffers");
						}), $reads . '/' . 41 * 8192, 'reads and bytes');
				$aio->evict($t);
				is($aio->io_during($alice, 'relation/normal', sub { $alice->gives("SELECT count(*) FROM $t", 41, "limit $limit, scan") }) =~ s{.*/}{}r,
					41 * 8192, 'bytes');
				$aio->proves($t);
			}
		}, leaves => 'nothing');

		# the vectors of handles are adjacent in shared memory
		$aio->scenario('several of the longest in a batch', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 64);
			$alice->sql('SET io_combine_limit = 32');
			# reads the catalogs that the batch needs
			$aio->evict($t, $alice);
			$alice->sql($aio->batch(map { "SELECT read_rel_block_ll('$t', $_ * 32, nblocks => 32, wait_complete => false)" } 0, 1));
			$aio->proves($t);
		});

		$aio->scenario('what may not be combined', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 41);
			for my $case (
				[ 'a hit' => [5], '0,1,2,3,4,5,6,7,8,9', 2, 9 ],
				[ 'two hits' => [ 5, 7 ], '0,1,2,3,4,5,6,7,8,9', 3, 8 ],
				[ 'a hit in front' => [0], '0,1,2,3', 1, 3 ],
				[ 'a hit at the end' => [3], '0,1,2,3', 1, 3 ],
				[ 'gaps' => [], '0,1,3,4,5,9', 3, 6 ],
				[ 'backward' => [], '5,4,3,2', 4, 4 ],
				[ 'the same' => [], '5,5,5', 1, 1 ],
				[ 'back to front' => [], '3,4,5,0,1,2', 2, 6 ],
				[ 'the end' => [], '39,40,0', 2, 3 ])
			{
				my ($what, $there, $blocks, $reads, $read) = @$case;
				$aio->evict($t);
				$aio->warm($t, @$there);
				is($aio->io_during($alice, 'relation/normal', sub {
							$alice->gives("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff) FROM read_stream_for_blocks('$t', ARRAY[$blocks])", $blocks, $what);
						}), $reads . '/' . $read * 8192, 'reads and bytes');
				is($aio->cached($t), join(',', sort { $a <=> $b } keys %{ { map { $_ => 1 } @$there, split /,/, $blocks } }),
					'these and no others are in the buffer pool');
				$aio->proves($t);
			}
		}, leaves => 'nothing');

		# the blocks before are a hole in the file
		$aio->scenario('a segment boundary', sub {
			my ($alice) = $aio->sessions('alice');
			my $segment = $aio->sql("SELECT setting FROM pg_settings WHERE name = 'segment_size'");
			$aio->sql('CREATE TABLE scenario.long (rel text, blk int, gen int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off)');
			truncate($aio->file_of('scenario.long'), ($segment - 3) * 8192)
			  or die "cannot make a hole: $!";
			$aio->sql("CALL add_pages('scenario.long', $segment - 4, $segment + 3); SELECT evict_rel('scenario.long')");
			$aio->gives("SELECT pg_relation_size('scenario.long') / 8192 - $segment", 4, 'blocks in the second segment');
			$alice->sql('SET io_combine_limit = 32');
			my $first = $segment - 4;
			for my $read ("read_stream_for_blocks('scenario.long', ARRAY(SELECT generate_series($first, $first + 7)))", "read_buffers('scenario.long', $first, 8)")
			{
				$aio->evict('scenario.long');
				is($aio->io_during($alice, 'relation/normal', sub {
							$alice->sql("SELECT count(*) FROM $read");
						}), '2/65536', 'one read for each segment');
				$alice->gives("SELECT count(*) FROM scenario.long WHERE ctid >= '($first,0)' AND ctid = format('(%s,1)', blk)::tid AND body = proof('scenario.long', blk, 0)",
					8, 'the right blocks');
			}
			# reads of each size that begin at each block before the boundary
			my @wrong;
			for my $size (2 .. 8)
			{
				for my $begin ($segment - ($size <= 4 ? $size - 1 : 4) .. $segment - 1)
				{
					next if $begin + $size > $segment + 4;
					my $before = $segment - $begin;
					my $expected = "$begin:$before,$segment:" . ($size - $before);
					$aio->evict('scenario.long');
					my $parts = $alice->starts("SELECT string_agg(blocknum || ':' || nblocks, ',' ORDER BY blocknum) FROM read_buffers('scenario.long', $begin, $size)")->wait_for_end;
					my $found = $parts->error ? $parts->error->{message} : $parts->result;
					push @wrong, "$size from $begin: $found" if $found ne $expected;
				}
			}
			is(join("\n", @wrong), '', 'a read of each size is split at the boundary');
			$aio->evict('scenario.long');
			$alice->fails("SELECT read_rel_block_ll('scenario.long', $segment - 2, nblocks => 4)", '22023', qr/cannot be read by one I\/O/, 'not in one read');
			$alice->gives("SELECT read_rel_block_ll('scenario.long', $segment - 1)", '', 'the last block of the first segment');
			$alice->gives("SELECT read_rel_block_ll('scenario.long', $segment, nblocks => 4)", '', 'first blocks of the second segment');
			$alice->gives("SELECT count(*) FROM scenario.long WHERE ctid >= format('(%s,0)', $segment - 1)::tid AND ctid = format('(%s,1)', blk)::tid AND body = proof('scenario.long', blk, 0)", 5, 'are right');

			# a read must not make the missing segment
			my $second = $aio->file_of('scenario.long') . '.1';
			$aio->evict('scenario.long');
			$alice->sql("SET effective_io_concurrency = 0; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM scenario.long WHERE ctid >= '($first,0)'; FETCH 1 FROM c");
			$alice->sql("SELECT read_rel_block_ll('scenario.long', $segment - 1, smgrreleaseall => true)");
			rename $second, "$second.away" or die "$second: $!";
			$alice->fails('MOVE ALL FROM c', '58P01', qr/could not open file "\S+\.1"/, 'a segment that is gone');
			ok(!-e $second, 'stays so');
			rename "$second.away", $second or die "$second: $!";
			$alice->sql('ROLLBACK');
		}, leaves => 'nothing');
	}, conf => { io_max_combine_limit => '256kB', io_combine_limit => '128kB', shared_buffers => '64MB' });
