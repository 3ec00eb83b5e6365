# What EXPLAIN and VACUUM report, and what VACUUM leaves on the pages.

package TestAio::Reports;

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use JSON::PP ();
use Test::More;

our @EXPORT = qw(explained node_at workers_at vacuum reported pages_with_dead use_up_xids);

# Runs a query under EXPLAIN (ANALYZE) with further options, "BUFFERS, WAL" for example.  Returns the numbers of the
# topmost node by their names in JSON, which include the numbers of the nodes below, and the whole output as "plan".
sub explained ($session, $options, $query)
{
	my $plan = $session->sql("EXPLAIN (ANALYZE, $options, COSTS off, TIMING off, SUMMARY off, FORMAT json) $query");
	my ($topmost) = $plan =~ /"Plan": (\{.*?)(?:"Plans":|"Planning":|\z)/s;
	return { plan => $plan, $topmost =~ /"([^"]+)": ([\d.]+)/g };
}

# Returns what EXPLAIN (FORMAT json) says of the first node of a type, as a hash.
sub node_at ($type, $output)
{
	my @nodes = map { $_->{Plan} } @{ JSON::PP::decode_json($output) };
	while (my $node = shift @nodes)
	{
		return $node if $node->{'Node Type'} eq $type;
		push @nodes, @{ $node->{Plans} // [] };
	}
	die "there is no $type in this plan: $output";
}

# Returns what EXPLAIN (VERBOSE, FORMAT json) says of each worker at the first node of a type.
sub workers_at ($type, $output) { return @{ node_at($type, $output)->{Workers} // [] } }
# Runs VACUUM VERBOSE with these options and returns its report.
# Test: VACUUM could remove all dead rows, since no other session has a snapshot.
sub vacuum ($session, $options, $table)
{
	$session->notices;
	$session->sql("VACUUM ($options, VERBOSE) $table");
	my $report = join "\n", $session->notices;
	like($report, qr/tuples: \d+ removed, \d+ remain, 0 are dead but not yet removable/, 'all dead rows could be removed');
	return $report;
}

# Returns the number that the pattern captures in a report.
sub reported ($report, $pattern) { return $report =~ $pattern ? $1 : "no $pattern in: $report" }

# Returns how many pages have a line pointer that is marked as dead (LP_DEAD).
sub pages_with_dead ($aio, $table, $pages)
{
	return $aio->sql("SELECT count(DISTINCT b) FROM generate_series(0, $pages - 1) b, heap_page_items(get_raw_page('$table', b)) i WHERE lp_flags = 3");
}

# Uses up so many transaction IDs.  A transaction that only has an ID commits asynchronously, and until
# that is flushed, rows of transactions whose IDs are near get no hint bits.  So the last one writes WAL.
sub use_up_xids ($aio, $count)
{
	$aio->sql("DO \$\$ BEGIN FOR i IN 1 .. $count LOOP PERFORM txid_current(); COMMIT; END LOOP; END \$\$;"
		  . "SELECT pg_logical_emit_message(true, '', '') IS NULL");
	return;
}

1;
