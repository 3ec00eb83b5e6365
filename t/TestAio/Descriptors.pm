# Files that a process has open, by /proc.

package TestAio::Descriptors;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(descriptors);

# Returns the links /proc/PID/fd/N of a process that lead to paths that match.
sub descriptors
{
	my ($pid, $path) = @_;
	return grep { (readlink($_) // '') =~ $path } glob "/proc/$pid/fd/*";
}

1;
