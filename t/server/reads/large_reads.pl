# Reads of more than 32 blocks, up to the 128 that io_max_combine_limit allows: how many
# blocks become one read, alone and in a batch.  t/server/reads/large_reads_fail.pl has their errors.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			my $counted = ($kind ? 'temp relation' : 'relation') . '/normal';
			# a read that the session performs itself has ended when the session looks
			my $is_listed = $aio->method eq 'io_uring' || $aio->method eq 'worker' && !$kind;

			# limit, sizes of the operations on 128 blocks, reads of a stream and of a scan over 300
			for my $case ([ 33 => '33,33,33,29', 10, 14 ], [ 64 => '64,64', 5, 10 ], [ 127 => '127,1', 3, 9 ], [ 128 => '128', 3, 9 ])
			{
				my ($limit, $sizes, $reads, $scanned) = @$case;
				$aio->scenario("io_combine_limit = $limit, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 300, kind => $kind, session => $alice);
					$alice->sql("SET io_combine_limit = $limit");
					is($aio->io_during($alice, $counted, sub {
								$alice->gives("SELECT string_agg(nblocks::text, ',' ORDER BY blockoff) FROM read_buffers('$t', 127, 128)", $sizes, 'StartReadBuffers');
							}), split(/,/, $sizes) . '/' . 128 * 8192, 'reads and bytes');
					$aio->evict($t, $alice);
					is($aio->io_during($alice, $counted, sub {
								$alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 299)))", '300|44850', 'stream');
							}), $reads . '/' . 300 * 8192, 'reads and bytes');
					$aio->proves($t, session => $alice);
					$aio->evict($t, $alice);
					my $read = $aio->io_during($alice, $counted, sub { $alice->gives("SELECT count(*) FROM $t", 300, 'scan') });
					is($read =~ s{.*/}{}r, 300 * 8192, 'bytes');
					# reads of 1, 2, 4 ... blocks; elsewhere the sizes also depend on time
					is($read =~ s{/.*}{}r, $scanned, 'reads') if $aio->method eq 'sync';
					$aio->proves($t, session => $alice);
				}, leaves => 'nothing');
			}

			$aio->scenario("one I/O, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 300, kind => $kind, session => $alice);
				my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
				$alice->sql("SELECT read_rel_block_ll('$t', 127, nblocks => 128)");
				$alice->gives("SELECT min(blocknum), max(blocknum), count(*) FROM read_buffers('$t', 127, 128) WHERE NOT io_reqd", '127|254|128', 'all blocks are there');
				$aio->proves($t, session => $alice);
				$alice->sql("SELECT read_rel_block_ll('$t', 127, nblocks => 128, wait_complete => false)");
				$alice->gives('SELECT operation, off, length, target_desc FROM pg_aios WHERE pid = pg_backend_pid()',
					$is_listed ? 'readv|' . 127 * 8192 . '|' . 128 * 8192 . "|blocks 127..254 in file \"$path\"" : '', 'pg_aios');
				$alice->fails("SELECT read_rel_block_ll('$t', 127, nblocks => 129)", '22023', qr/nblocks/);
				$alice->fails('SET io_combine_limit = 129', '22023', qr/129 .*is outside the valid range/);
				$aio->proves($t, session => $alice);
			});

			# the vectors of handles are adjacent in shared memory
			$aio->scenario("several in a batch, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 512, kind => $kind, session => $alice);
				# reads the catalogs that the batch needs
				$aio->evict($t, $alice);
				$alice->sql($aio->batch(map { "SELECT read_rel_block_ll('$t', $_ * 128, nblocks => 128, wait_complete => false)" } 0 .. 3));
				$alice->gives('SELECT count(*), coalesce(sum(length), 0) FROM pg_aios WHERE pid = pg_backend_pid()', $is_listed ? '4|' . 512 * 8192 : '0|0', 'pg_aios');
				$aio->proves($t, session => $alice);
			});
		}
	}, conf => { io_max_combine_limit => 128, shared_buffers => '128MB', max_connections => 20 });
