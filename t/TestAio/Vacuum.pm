# What VACUUM reports, and what it leaves on the pages.

package TestAio::Vacuum;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Test::More;

our @EXPORT = qw(vacuum reported pages_with_dead use_up_xids);

# Runs VACUUM VERBOSE with these options and returns its report.
# Test: VACUUM could remove all dead rows, since no other session has a snapshot.
sub vacuum
{
	my ($session, $options, $table) = @_;
	$session->notices;
	$session->sql("VACUUM ($options, VERBOSE) $table");
	my $report = join "\n", $session->notices;
	like($report, qr/tuples: \d+ removed, \d+ remain, 0 are dead but not yet removable/, 'all dead rows could be removed');
	return $report;
}

# Returns the number that the pattern captures in a report.
sub reported
{
	my ($report, $pattern) = @_;
	return $report =~ $pattern ? $1 : "no $pattern in: $report";
}

# Returns how many pages have a line pointer that is marked as dead (LP_DEAD).
sub pages_with_dead
{
	my ($aio, $table, $pages) = @_;
	return $aio->sql("SELECT count(DISTINCT b) FROM generate_series(0, $pages - 1) b, heap_page_items(get_raw_page('$table', b)) i WHERE lp_flags = 3");
}

# Uses up so many transaction IDs.  A transaction that only has an ID commits asynchronously, and until
# that is flushed, rows of transactions whose IDs are near get no hint bits.  So the last one writes WAL.
sub use_up_xids
{
	my ($aio, $count) = @_;
	$aio->sql("DO \$\$ BEGIN FOR i IN 1 .. $count LOOP PERFORM txid_current(); COMMIT; END LOOP; END \$\$;"
		  . "SELECT pg_logical_emit_message(true, '', '') IS NULL");
	return;
}

1;
