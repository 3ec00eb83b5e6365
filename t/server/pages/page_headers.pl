# Page headers that the server must refuse, and headers that it must accept, with and without
# checksums.  Streams, scans and single reads meet them.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::PageHeaders;

for my $checksums (1, 0)
{
	with_each_io_method(
		sub {
			my ($aio) = @_;
			my $with = $checksums ? 'with checksums' : 'without checksums';
			my $skip = $checksums ? $aio->lacks('pageinspect') : undef;

			$aio->scenario("broken headers, $with", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				$aio->sql("INSERT INTO $t SELECT 'x', 20, 0, 'x'");
				my $original = page_of($aio, $t, 7);
				my $counted = "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = 'postgres'";
				my $failures = $aio->sql($counted);
				for my $fields (@bad_headers)
				{
					break_page($aio, $t, 7, $original, $fields, $checksums);
					my $how = describe($fields);
					my $invalid = qr/invalid page in block 7 of relation/;
					$alice->fails("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 'XX001', $invalid, "$how: a stream");
					$alice->fails("SELECT count(*) FROM $t", 'XX001', $invalid, "$how: a scan");
					# a single block, synchronously
					$alice->fails("SELECT blk FROM $t WHERE ctid = '(7,1)'", 'XX001', $invalid, "$how: by TID");
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 8, 4)", 4, 'the blocks behind it are read');
				}
				$aio->evict($t);
				$aio->gives($counted, $failures, 'no checksum failure is counted');
			}, skip => $skip, log => qr/LOG:  invalid page in block 7/);

			for my $kind ('', 'TEMP')
			{
				$aio->scenario("broken headers under each setting, $with, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 20, kind => $kind, session => $alice);
					my $original = page_of($aio, $t, 7, $alice);
					my $stream = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])";
					my $invalid = qr/invalid page in block 7 of relation/;
					my %headers = (bad => \@bad_headers, good => \@good_headers);
					for my $header ('bad', 'good')
					{
						for my $fields (@{ $headers{$header} })
						{
							# with the checksum of the original page, or with its own
							for my $own (0, $checksums ? 1 : ())
							{
								my $differs = break_page($aio, $t, 7, $original, $fields, $own, $alice);
								# the server does not compare the checksum of a page with pd_upper = 0
								my $failure = $checksums && !$own && $differs && ($fields->{pd_upper} // 1) ? 1 : 0;
								my $name = "$header: " . describe($fields) . ($own ? '' : ', the old checksum');
								my $refused = $header eq 'bad' || $failure;
								is($aio->checksum_failures_during(sub {
											$refused ? $alice->fails($stream, 'XX001', $invalid, "$name: refused") : $alice->gives($stream, 4, "$name: accepted");
										}, $alice), "$failure/0/0", 'checksum failures');
								$alice->sql('SET ignore_checksum_failure = on');
								$aio->evict($t, $alice);
								$header eq 'bad' ? $alice->fails($stream, 'XX001', $invalid, "$name: not ignored") : $alice->gives($stream, 4, "$name: ignored");
								$alice->warns(qr/ignoring checksum failure in block 7 of relation/) if $header eq 'good' && $failure;
								$alice->sql('SET ignore_checksum_failure = off; SET zero_damaged_pages = on');
								next if !$refused;
								$aio->evict($t, $alice);
								$alice->gives($stream, 4, "$name: zeroed");
								$alice->warns(qr/invalid page in block 7 of relation ".*"; zeroing out page/);
								$alice->gives("SELECT blk FROM $t WHERE blk BETWEEN 5 AND 9", "5\n6\n8\n9", 'all rows but that of the bad page');
							}
							continue { $alice->sql('SET zero_damaged_pages = off') }
						}
					}
					break_page($aio, $t, 7, $original, {}, $checksums, $alice);
					$aio->proves($t, session => $alice);
				}, skip => $skip // ($kind eq 'TEMP' ? only_long() : undef),
					log => qr/LOG:  (?:invalid page in block 7|page verification failed, calculated checksum|ignoring checksum failure in block 7)/);
			}

			$aio->scenario("headers that are accepted, $with", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				my $original = page_of($aio, $t, 7);
				for my $fields (@good_headers)
				{
					break_page($aio, $t, 7, $original, $fields, $checksums);
					$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 4, describe($fields) . ': accepted');
				}
				break_page($aio, $t, 7, "\0" x 8192, {}, 0);
				$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 4, 'all zeroes: accepted');
				break_page($aio, $t, 7, $original, {}, $checksums);
				$aio->proves($t);
			}, skip => $skip);

			$aio->scenario('a wrong checksum in a cluster without checksums', sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				my $original = page_of($aio, $t, 7);
				break_page($aio, $t, 7, $original, { pd_checksum => 0x1234 }, 0);
				$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 4, 'the checksum is not checked');
				$aio->proves($t);
				$aio->gives('SELECT coalesce(checksum_failures, 0) = 0 FROM pg_stat_database WHERE datname = current_database()', 't', 'no failure is counted');
				$aio->gives('SHOW data_checksums', 'off', 'the cluster has no checksums');
			}) if !$checksums;
		}, suffix => $checksums ? 'checksums' : 'none', no_data_checksums => !$checksums);
}
done_testing();
