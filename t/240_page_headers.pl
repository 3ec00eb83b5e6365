# Pages whose header is broken in each way that the server looks for, and pages at the edge
# of what is allowed, with and without checksums.  Read by streams, singly and by scans.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Offsets of the two-byte fields of a page header.
my %field = (pd_checksum => 8, pd_flags => 10, pd_lower => 12, pd_upper => 14, pd_special => 16, pd_pagesize_version => 18);

# Fields and their values that make a page invalid.
my @bad = (
	{ pd_flags => 0x0008 }, { pd_flags => 0x8000 }, { pd_flags => 0xFFFF },
	{ pd_lower => 4001, pd_upper => 4000 }, { pd_lower => 0xFFFF },
	{ pd_upper => 8200 }, { pd_lower => 8192, pd_upper => 8192, pd_special => 8184 },
	{ pd_special => 8200 }, { pd_special => 8193 }, { pd_special => 8188, pd_lower => 24, pd_upper => 8000 },
	{ pd_special => 8191, pd_lower => 24, pd_upper => 8000 }, { pd_special => 0xFFF8 },
	# a page that is new has nothing at all
	{ pd_upper => 0 }, { pd_lower => 0, pd_upper => 0, pd_special => 0 });

# Values that a page may have.
my @good = (
	{ pd_flags => 0 }, { pd_flags => 0x0007 }, { pd_flags => 0x0002 },
	{ pd_lower => 8000, pd_upper => 8000 }, { pd_lower => 24, pd_upper => 8192 }, { pd_lower => 24, pd_upper => 8000, pd_special => 8000 },
	# not looked at before the page is used
	{ pd_pagesize_version => 0x2005 }, { pd_lower => 0 });

sub describe { my ($fields) = @_; return join ', ', map { "$_ = $fields->{$_}" } sort keys %$fields }

# Writes a block with these fields and, if the cluster has checksums, a right checksum.
sub break_page
{
	my ($aio, $table, $block, $original, $fields, $checksums) = @_;
	my $page = $original;
	substr($page, $field{$_}, 2) = pack 'v', $fields->{$_} for keys %$fields;
	if ($checksums)
	{
		my $checksum = $aio->sql("SELECT page_checksum(decode('" . unpack('H*', $page) . "', 'hex'), $block)");
		# a page with pd_upper = 0 has none
		substr($page, $field{pd_checksum}, 2) = pack 'v', $checksum & 0xFFFF if $checksum ne '';
	}
	$aio->evict($table);
	$aio->overwrite($aio->file_of($table), $block * 8192, $page);
	return;
}

sub page_of
{
	my ($aio, $table, $block) = @_;
	$aio->evict($table);
	open my $fh, '<:raw', $aio->file_of($table) or die "open: $!";
	seek $fh, $block * 8192, 0 or die "seek: $!";
	(read $fh, my $page, 8192) == 8192 or die "read: $!";
	close $fh or die "close: $!";
	return $page;
}

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
				for my $fields (@bad)
				{
					break_page($aio, $t, 7, $original, $fields, $checksums);
					my $how = describe($fields);
					my $invalid = qr/invalid page in block 7 of relation/;
					$alice->fails("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 'XX001', $invalid, "$how: a stream");
					$alice->fails("SELECT count(*) FROM $t", 'XX001', $invalid, "$how: a scan");
					# a single block, synchronously
					$alice->fails("SELECT blk FROM $t WHERE ctid = '(7,1)'", 'XX001', $invalid, "$how: by TID");
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 8, 4)", 4, 'its neighbours are read');
				}
				# zeroed, if the session wants it
				$alice->sql('SET zero_damaged_pages = on');
				$alice->gives("SELECT blk FROM $t WHERE blk BETWEEN 5 AND 9", "5\n6\n8\n9", 'zero_damaged_pages: without its row');
				$alice->warns(qr/invalid page in block 7 of relation ".*"; zeroing out page/, 'with a warning');
				$alice->sql('SET zero_damaged_pages = off');
				$aio->evict($t);
				$aio->gives($counted, $failures, 'no checksum failure is counted');
			}, skip => $skip, log => [ qr/LOG:  invalid page in block 7/, qr/alice WARNING:  invalid page in block 7/ ]);

			$aio->scenario("headers that are allowed, $with", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				my $original = page_of($aio, $t, 7);
				for my $fields (@good)
				{
					break_page($aio, $t, 7, $original, $fields, $checksums);
					$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 4, describe($fields) . ': let in');
				}
				break_page($aio, $t, 7, "\0" x 8192, {}, 0);
				$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 4, 'all zeroes: let in');
				break_page($aio, $t, 7, $original, {}, $checksums);
				$aio->proves($t);
			}, skip => $skip);

			$aio->scenario('a wrong checksum where there are none', sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				my $original = page_of($aio, $t, 7);
				break_page($aio, $t, 7, $original, { pd_checksum => 0x1234 }, 0);
				$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])", 4, 'is not looked at');
				$aio->proves($t);
				$aio->gives('SELECT coalesce(checksum_failures, 0) = 0 FROM pg_stat_database WHERE datname = current_database()', 't', 'nor counted');
				$aio->gives('SHOW data_checksums', 'off', 'the cluster has none');
			}) if !$checksums;
		}, long => ['sync'], suffix => $checksums ? 'checksums' : 'none', no_data_checksums => !$checksums);
}
done_testing();
