# Sessions that a bug of the server leaves waiting for a read whose owner is idle.

package TestAio::Hang;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Test::More;

our @EXPORT = qw(waits_for_idle_owner);

# Test: with the bug, a waiter sleeps on this wait event for as long as nobody looks into
# the ring of the owner, who is idle; another session that wants block 5 of the table frees
# it.  Without the bug, the waiter goes on.  Later reads of that other session, not a time,
# tell that the waiter does not go on by itself.
sub waits_for_idle_owner
{
	my ($aio, $t, $event, $has_bug) = @_;
	my ($owner, $waiter, $third) = $aio->sessions(qw(owner waiter third));
	if ($has_bug)
	{
		my $hangs = 'SELECT count(*) FROM pg_aios io JOIN pg_stat_activity o USING (pid), pg_stat_activity w'
		  . " WHERE (o.pid, w.pid) = (${\$owner->pid}, ${\$waiter->pid}) AND (o.state, o.wait_event) = ('idle', 'ClientRead')"
		  . " AND w.wait_event = '$event' AND io.state = 'SUBMITTED'";
		$aio->poll(sub { $aio->sql($hangs) == 1 || $waiter->has_ended });
		$third->sql("SELECT invalidate_rel_block('$t', 10), read_rel_block_ll('$t', 10)") for 1 .. 10;
		$aio->gives($hangs, 1, 'the owner is idle, its read in flight for ever, the waiter asleep')
		  || diag('If this release has the fix, say so in %fixed_in and in the document.');
		$third->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'a third session frees it');
	}
	$waiter->returns('1', 'gets the block');
	# gives back its handle, without which the block can be evicted
	$owner->sql("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	return;
}

1;
