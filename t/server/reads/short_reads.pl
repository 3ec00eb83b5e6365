# Short reads of every length.  md_readv_complete() counts whole blocks, WaitReadBuffers()
# reads the rest, and the pages that have come are verified (buffer_readv_complete).
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Plan;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $path = 'base/\d+/(?:t\d+_)?\d+';

		for my $kind ('', 'TEMP')
		{
			# bytes read of 4 blocks, whole blocks
			my @cases = ([ 8192 => 1 ], [ 8193 => 1 ], [ 16383 => 1 ], [ 16384 => 2 ], [ 20000 => 2 ], [ 32767 => 3 ], [ 32768 => 4 ], [ 'NULL' => 4 ]);
			for my $case ($kind ? @cases[ 1, 4, 5 ] : @cases)
			{
				my ($bytes, $blocks) = @$case;
				$aio->scenario("$bytes bytes of four blocks, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 10, kind => $kind, session => $alice);
					$aio->falsify($bytes, pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
					$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 4)");
					$alice->warns(qr/XX001: could not read blocks 2\.\.5 in file "$path": read only @{[ $blocks * 8192 ]} of 32768 bytes/) if $blocks < 4;

					# each short read leaves fewer blocks
					$aio->evict($t, $alice);
					my ($reads, $sum, $left) = (0, 0, 4);
					while ($left > 0)
					{
						$reads++;
						$sum += $left;
						$left -= $blocks;
					}
					$alice->sql('SET client_min_messages = debug1');
					$alice->notices;
					is($aio->io_during($alice, $kind ? 'temp relation/normal' : 'relation/normal', sub {
								$alice->gives("SELECT sum(nblocks), count(*) FROM read_buffers('$t', 2, 4)", '4|1', 'StartReadBuffers');
							}), $reads . '/' . $sum * 8192, 'reads and bytes');
					is(scalar grep({ /could not read blocks \d+\.\.5 in file "$path": read only \d+ of \d+ bytes/ } $alice->notices), $reads - 1, 'DEBUG1 tells of each that was short');
					$alice->sql('RESET client_min_messages');
					$aio->evict($t, $alice);
					is($aio->io_during($alice, $kind ? 'temp relation/normal' : 'relation/normal', sub {
								$alice->gives("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff) FROM read_stream_for_blocks('$t', ARRAY[2, 3, 4, 5])", '2,3,4,5', 'stream');
							}), $reads . '/' . $sum * 8192, 'reads and bytes');
					$aio->evict($t, $alice);
					my $plan = explained($alice, 'BUFFERS', "SELECT * FROM read_stream_for_blocks('$t', ARRAY[2, 3, 4, 5])");
					is($plan->{ ($kind ? 'Local' : 'Shared') . ' Read Blocks' }, $sum, 'EXPLAIN (BUFFERS) counts the blocks that each read asks for');
					$aio->proves($t, session => $alice);
					$aio->tell_truth;
					$aio->evict($t, $alice);
					$aio->proves($t, session => $alice);
				}, leaves => 'nothing', skip => $aio->no_faults);
			}

			# a short read, and a bad page
			$aio->scenario("a bad page among what has come, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 10, kind => $kind, session => $alice);
				$alice->sql("SELECT modify_rel_block('$t', 3, corrupt_header => true)");
				$aio->falsify(16384, pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
				$alice->fails("SELECT * FROM read_buffers('$t', 2, 4)", 'XX001', qr/invalid page in block 3 of relation "$path"/);
				$alice->sql('SET zero_damaged_pages = on');
				$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 4)", 4, 'all blocks');
				$alice->warns(qr/invalid page in block 3 of relation "$path"; zeroing out page/);
				$aio->tell_truth;
				$aio->proves($t, session => $alice, except => 'block 3 has no row');
			}, skip => $aio->no_faults, log => qr/LOG:  invalid page in block 3 /);

			for my $bytes (0, 4096, 8191)
			{
				$aio->scenario("not even a block: $bytes bytes, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 10, kind => $kind, session => $alice);
					$aio->falsify($bytes, pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
					my $message = qr/XX001: could not read blocks 2\.\.5 in file "$path": read only 0 of 32768 bytes/;
					$alice->fails("SELECT read_rel_block_ll('$t', 2, nblocks => 4)", 'XX001', $message);
					$alice->fails("SELECT * FROM read_buffers('$t', 2, 4)", 'XX001', $message);
					$aio->logs(qr/LOG: .*could not read blocks 2\.\.5 in file "$path": read only 0 of 32768 bytes/, 2, 'logged when it happens');
					$alice->fails("SELECT * FROM read_stream_for_blocks('$t', ARRAY[0, 2, 3, 4, 5])", 'XX001', qr/could not read blocks 0\.\.0 in file/);
					$alice->fails("SELECT count(*) FROM $t", 'XX001', qr/could not read blocks 0\.\.0 in file "$path": read only 0 of 8192 bytes/, 'scan');
					$aio->tell_truth;
					$alice->gives("SELECT sum(nblocks), bool_and(io_reqd) FROM read_buffers('$t', 2, 4)", '4|t', 'nothing was taken for valid');
					$aio->proves($t, session => $alice);
				}, skip => $aio->no_faults, log => qr/LOG:  could not read blocks/);
			}
		}
	});
