# Pages whose header is changed in the file of a table.

package TestAio::PageHeaders;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(@bad_headers @good_headers describe break_page page_of);

# Offsets of the two-byte fields of a page header.
my %field = (pd_checksum => 8, pd_flags => 10, pd_lower => 12, pd_upper => 14, pd_special => 16, pd_pagesize_version => 18);

# Fields and their values that make a page invalid.
our @bad_headers = (
	{ pd_flags => 0x0008 }, { pd_flags => 0x8000 }, { pd_flags => 0xFFFF },
	{ pd_lower => 4001, pd_upper => 4000 }, { pd_lower => 0xFFFF },
	{ pd_upper => 8200 }, { pd_lower => 8192, pd_upper => 8192, pd_special => 8184 },
	{ pd_special => 8200 }, { pd_special => 8193 }, { pd_special => 8188, pd_lower => 24, pd_upper => 8000 },
	{ pd_special => 8191, pd_lower => 24, pd_upper => 8000 }, { pd_special => 0xFFF8 },
	# a new page has zeroes only
	{ pd_upper => 0 }, { pd_lower => 0, pd_upper => 0, pd_special => 0 });

# Fields and their values that the server accepts.
our @good_headers = (
	{ pd_flags => 0 }, { pd_flags => 0x0007 }, { pd_flags => 0x0002 },
	{ pd_lower => 8000, pd_upper => 8000 }, { pd_lower => 24, pd_upper => 8192 }, { pd_lower => 24, pd_upper => 8000, pd_special => 8000 },
	# the server looks at these fields only when it uses the page
	{ pd_pagesize_version => 0x2005 }, { pd_lower => 0 });

# Fields and their values in words.
sub describe { my ($fields) = @_; return join ', ', map { "$_ = $fields->{$_}" } sort keys %$fields }

# Writes a block with these fields, with a correct checksum if asked for.  Returns whether the page
# differs from the original one.
sub break_page
{
	my ($aio, $table, $block, $original, $fields, $checksums, $session) = @_;
	my $page = $original;
	substr($page, $field{$_}, 2) = pack 'v', $fields->{$_} for keys %$fields;
	if ($checksums)
	{
		my $checksum = $aio->sql("SELECT page_checksum(decode('" . unpack('H*', $page) . "', 'hex'), $block)");
		# a page with pd_upper = 0 has no checksum
		substr($page, $field{pd_checksum}, 2) = pack 'v', $checksum & 0xFFFF if $checksum ne '';
	}
	$aio->evict($table, $session);
	$aio->overwrite($aio->file_of($table, $session), $block * 8192, $page);
	return $page ne $original;
}

# Returns a block of a table as it is on disk.
sub page_of
{
	my ($aio, $table, $block, $session) = @_;
	$aio->evict($table, $session);
	open my $fh, '<:raw', $aio->file_of($table, $session) or die "open: $!";
	seek $fh, $block * 8192, 0 or die "seek: $!";
	(read $fh, my $page, 8192) == 8192 or die "read: $!";
	close $fh or die "close: $!";
	return $page;
}

1;
