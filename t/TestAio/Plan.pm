# Numbers of EXPLAIN (ANALYZE).

package TestAio::Plan;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(explained);

# Runs a query under EXPLAIN (ANALYZE) with further options, "BUFFERS, WAL" for example.
# Returns the numbers of the topmost node by their names in JSON, which include the numbers of the
# nodes below, and the whole output as "plan".
sub explained
{
	my ($session, $options, $query) = @_;
	my $plan = $session->sql("EXPLAIN (ANALYZE, $options, COSTS off, TIMING off, SUMMARY off, FORMAT json) $query");
	my ($topmost) = $plan =~ /"Plan": (\{.*?)(?:"Plans":|"Planning":|\z)/s;
	return { plan => $plan, $topmost =~ /"([^"]+)": ([\d.]+)/g };
}

1;
