# Things that the tests must not do without.  TEST_AIO_REQUIRE names them, separated by blanks.

package TestAio::Required;

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(unless_required);

my %known = map { $_ => 1 }
  qw(io_uring faults injection_points gate trace pg_buffercache pageinspect pg_prewarm pg_visibility amcheck pgstattuple direct_io
  recordings);
my %required = map { $_ => 1 } split ' ', $ENV{TEST_AIO_REQUIRE} // '';

for my $thing (sort keys %required)
{
	die "TEST_AIO_REQUIRE: unknown \"$thing\"; known: " . join(' ', sort keys %known) . "\n" if !$known{$thing};
}

# Returns the reason why a thing is missing, or undef if it is not.  Dies if the thing is missing and required.
sub unless_required ($thing, $reason)
{
	die "TEST_AIO_REQUIRE demands $thing, but: $reason\n" if defined $reason && $required{$thing};
	return $reason;
}

1;
