# Numbers of EXPLAIN (ANALYZE).

package TestAio::Plan;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

use JSON::PP;

our @EXPORT = qw(explained node_at workers_at);

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

# Returns what EXPLAIN (FORMAT json) says of the first node of a type, as a hash.
sub node_at
{
	my ($type, $output) = @_;
	my @nodes = map { $_->{Plan} } @{ decode_json($output) };
	while (my $node = shift @nodes)
	{
		return $node if $node->{'Node Type'} eq $type;
		push @nodes, @{ $node->{Plans} // [] };
	}
	die "there is no $type in this plan: $output";
}

# Returns what EXPLAIN (VERBOSE, FORMAT json) says of each worker at the first node of a type.
sub workers_at
{
	my ($type, $output) = @_;
	return @{ node_at($type, $output)->{Workers} // [] };
}

1;
