# Reads of 128 blocks of which some are bad or missing: the report, and which blocks are
# valid afterwards (md_readv_complete(), buffer_readv_complete(), WaitReadBuffers()).
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Each of them reads blocks 127..254 by one I/O.
my @reads = (
	"SELECT read_rel_block_ll('%s', 127, nblocks => 128)",
	"SELECT * FROM read_buffers('%s', 127, 128)",
	"SELECT * FROM read_stream_for_blocks('%s', ARRAY(SELECT generate_series(127, 254)))");

# Test: these of blocks 127..254 are valid in the buffer pool.
sub are_valid
{
	my ($session, $t, $ranges, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return $session->gives("SELECT coalesce(range_agg(int4range(b, b + 1)), '{}') FROM generate_series(127, 254) b WHERE 'VALID' = ANY ((buffer_state('$t', b)).flags)",
		$ranges, $name);
}

# [ bad blocks, valid blocks, message ]
my @cases = (
	[ '127', '{[128,255)}', 'invalid page in block 127 of' ],
	[ '190', '{[127,190),[191,255)}', 'invalid page in block 190 of' ],
	[ '254', '{[127,254)}', 'invalid page in block 254 of' ],
	[ '127, 190, 254', '{[128,190),[191,254)}', '3 invalid pages among blocks 127..254 of' ]);

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			# Returns a session, a table that it reads, and the table's file.
			my $reader = sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 300, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 128');
				return ($alice, $t, $alice->sql("SELECT pg_relation_filepath('$t')"));
			};

			for my $case (@cases)
			{
				my ($bad, $valid, $message) = @$case;
				$aio->scenario("bad pages: $bad, $kind", sub {
					my ($alice, $t, $path) = $reader->();
					$alice->sql("SELECT modify_rel_block('$t', b, corrupt_header => true) FROM unnest(ARRAY[$bad]) b");
					for my $read (@reads)
					{
						$aio->evict($t, $alice);
						$alice->fails(sprintf($read, $t), 'XX001', qr/XX001: \Q$message relation "$path"\E\n/);
						are_valid($alice, $t, $valid, 'all other blocks of the read are valid');
					}
				}, log => qr/LOG:  invalid page in block (?:127|190|254) /);
			}

			# whole blocks read, and bytes of the next one
			for my $case ([ 1, 0 ], [ 32, 1 ], [ 33, 4096 ], [ 64, 0 ], [ 127, 0 ], [ 127, 8191 ])
			{
				my ($whole, $rest) = @$case;
				$aio->scenario("$whole blocks and $rest bytes of 128 blocks, $kind", sub {
					my ($alice, $t, $path) = $reader->();
					$aio->falsify($whole * 8192 + $rest, pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
					$alice->sql("SELECT read_rel_block_ll('$t', 127, nblocks => 128)");
					$alice->warns(qr/XX001: could not read blocks 127\.\.254 in file "$path": read only ${\($whole * 8192)} of ${\(128 * 8192)} bytes/);
					are_valid($alice, $t, "{[127,${\(127 + $whole)})}", 'whole blocks are valid');
					$aio->evict($t, $alice);
					# each read is for the blocks that the one before it has left
					my ($reads, $blocks) = (0, 0);
					for (my $left = 128; $left > 0; $left -= $whole) { $reads++; $blocks += $left }
					is($aio->io_during($alice, ($kind ? 'temp relation' : 'relation') . '/normal', sub {
								$alice->gives("SELECT sum(nblocks), count(*) FROM read_buffers('$t', 127, 128)", '128|1', 'StartReadBuffers reads on');
							}), $reads . '/' . $blocks * 8192, 'reads and bytes');
					$aio->tell_truth;
					$aio->proves($t, session => $alice);
				}, leaves => 'nothing', skip => $aio->no_faults);
			}

			$aio->scenario("an errno, $kind", sub {
				my ($alice, $t, $path) = $reader->();
				$aio->falsify('EIO', pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
				for my $read (@reads)
				{
					$alice->fails(sprintf($read, $t), '58030', qr/could not read blocks 127\.\.254 in file "$path": Input\/output error\n/);
					are_valid($alice, $t, '{}', 'no block is valid');
				}
				$aio->tell_truth;
				$aio->proves($t, session => $alice);
			}, skip => $aio->no_faults, log => qr/LOG:  could not read blocks 127\.\.254/);
		}
	}, conf => { io_max_combine_limit => 128, shared_buffers => '128MB', max_connections => 20 });
