package TestAio::Pages;

=head1 NAME

TestAio::Pages - what is on pages, by the bytes of files

=head1 SYNOPSIS

	my $t = TestAio::Pages->of($aio, $alice, 'scenario.t');
	is($aio->sql("SELECT pg_freespace('scenario.t', 7)"), $t->recorded(7), 'the free space map');
	is($aio->sql("SELECT free_space FROM pgstattuple('scenario.t')"), sum0(map { free($_) } $t->pages), 'free space');

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(header free items normal special tuple masked);

# The forks of a relation, whose buffers are written first.
sub of ($class, $aio, $session, $relation)
{
	$session->sql("SELECT evict_rel('$relation')");
	return $class->in_file($aio->file_of($relation, $session));
}

# The forks of a relation with this file.
sub in_file ($class, $path)
{
	my %forks;
	for my $fork (qw(main fsm vm init))
	{
		open my $file, '<:raw', $fork eq 'main' ? $path : "${path}_$fork" or next;
		local $/;
		$forks{$fork} = [ unpack '(a8192)*', <$file> // '' ];
	}
	return bless \%forks, $class;
}

sub pages ($self, $fork = 'main') { return @{ $self->{$fork} // [] } }

# The categories of free space of all blocks: leaves of a tree, on the third page.
sub leaves ($self) { return unpack 'x28 x4095 C*', ($self->pages('fsm'))[2] // "\0" x 8192 }

# The free space of a block, by the map.
sub recorded ($self, $block) { my $category = ($self->leaves)[$block]; return $category == 255 ? 8160 : 32 * $category }

# The bits of a block in the visibility map: 1 visible to all, 2 frozen.
sub map_bits ($self, $block) { return vec(($self->pages('vm'))[0] // '', 4 * 24 + $block, 2) }

# LSN, checksum, flags, lower, upper, special, size and version, prune_xid.
sub header ($page) { my ($high, $low, @rest) = unpack 'V V s v v v v v V', $page; return ($high * 2**32 + $low, @rest) }

# Bytes between the line pointers and what they point to.
sub free ($page) { my ($lower, $upper) = (header($page))[ 3, 4 ]; return $upper > $lower ? $upper - $lower : 0 }

# The line pointers, as [offset, flags, length]; flags: 0 unused, 1 normal, 2 redirected, 3 dead.
sub items ($page)
{
	my $count = ((header($page))[3] - 24) / 4;
	return map { [ $_ & 0x7fff, $_ >> 15 & 3, $_ >> 17 ] } $count > 0 ? unpack "x24 V$count", $page : ();
}

sub normal ($page) { return grep { $_->[1] == 1 } items($page) }

# The special area, unpacked.
sub special ($page, $template) { return unpack $template, substr $page, (header($page))[5] }

# Of a heap tuple: xmin, xmax, cid, ctid (block, high and low; offset), infomask2, infomask, hoff.
sub tuple ($page, $item) { return unpack 'V3 v5 C', substr $page, $item->[0] }

# A page without what need not be in the WAL: LSN, checksum, hints, and, but of a map, bytes that nothing points to.
sub masked ($page, $kind)
{
	my (undef, undef, $flags, $lower, $upper, $special) = header($page);
	return $page if !$upper;
	# hints in the special area: where, and the bits that are none
	my ($offset, $mask, $length) = @{ { btree => [ 12, 0xff9f, 4 ], hash => [ 12, 0xff7f, 2 ], gist => [ 12, 0xffef, 2 ], gin => [ 6, 0xffff, 2 ] }->{$kind} // [] };
	my $bits = $offset && unpack 'v', substr $page, $special + $offset;
	return 'deleted' if $kind eq 'gin' && $bits & 4;
	substr($page, 0, 12) = pack 'x10 v', $flags & 4;
	substr($page, 20, 4) = "\0" x 4;
	substr($page, $lower, $upper - $lower) = "\0" x ($upper - $lower) if $kind && $upper > $lower && $lower >= 24;
	# of a B-tree, also the number of the VACUUM
	substr($page, $special + $offset, $length) = substr pack('v x2', $bits & $mask), 0, $length if $offset;
	for my $item ($kind eq 'heap' ? normal($page) : ())
	{
		my ($cid, $infomask) = (tuple($page, $item))[ 2, 7 ];
		substr($page, $item->[0] + 8, 4) = "\0" x 4;
		substr($page, $item->[0] + 20, 2) = pack 'v', $infomask & ~0x0f20;
		my $padding = -$item->[2] % 8;
		substr($page, $item->[0] + $item->[2], $padding) = "\0" x $padding;
	}
	# entries that are known to be dead
	for my $number ($kind =~ /btree|hash|^gist/ ? 1 .. items($page) : ()) { vec($page, 2 * (24 + 4 * $number - 4) + 3, 4) &= 7; vec($page, 2 * (24 + 4 * $number - 2), 4) &= 14 }
	return $page;
}

1;
