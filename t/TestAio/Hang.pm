# Sessions that a bug of the server leaves waiting for a read whose owner is idle.

package TestAio::Hang;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Test::More;

our @EXPORT = qw(expects_hang waits_for_idle_owner);

# Returns true if sessions of this server are left waiting.  Takes what has_bug() takes.
sub expects_hang
{
	my ($aio, $bug) = @_;
	return $aio->method eq 'io_uring' && $aio->has_bug($bug);
}

# Test: with the bug, a waiter sleeps on this wait event until a session reaps the ring of the
# owner, which is idle; a third session does so when it wants block 5 of the table.  Without the
# bug, the waiter goes on by itself.  That it does not is told by ten reads of the third session,
# not by a time.
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
		is($aio->sql($hangs), 1, 'the owner is idle, its read in flight for ever, the waiter asleep')
		  || diag('If this server has the fix: TEST_AIO_FIXED; a release, %fixed_in and the document.');
		$third->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'a third session frees it');
	}
	$waiter->returns('1', 'gets the block');
	# has the owner free its handle, so that the block can be evicted
	$owner->sql("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	return;
}

1;
