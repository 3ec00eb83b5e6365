# A session that waits for a read before it is submitted, and whose owner then goes
# idle (doc/io_uring-wait-hang.md).  With io_uring the session waits until another one
# looks into the owner's ring.  The test fails on a server whose behaviour is not the one
# that %fixed_in tells: if a release has the fix, add it there.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Major version => server_version_num of its first release without the bug.
my %fixed_in = ();

# Test: the owner stages a read, the waiter comes, the owner submits the read and goes idle;
# the waiter is left waiting, or not.
sub one_round
{
	my ($aio, $t, $has_bug) = @_;
	my ($owner, $waiter, $third) = $aio->sessions(qw(owner waiter third));
	$aio->evict($t);
	$owner->starts("SELECT read_rel_block_when_wanted('$t', 5)");
	$aio->wait_for("SELECT EXISTS (SELECT FROM pg_aios WHERE pid = ${\$owner->pid} AND state IN ('DEFINED', 'STAGED'))");
	$waiter->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	$owner->returns('t', 'has submitted its read once it was wanted');
	if ($has_bug)
	{
		my $hangs = "SELECT count(*) = 1 FROM pg_aios io JOIN pg_stat_activity o USING (pid), pg_stat_activity w"
		  . " WHERE (o.pid, w.pid) = (${\$owner->pid}, ${\$waiter->pid}) AND (o.state, o.wait_event) = ('idle', 'ClientRead')"
		  . " AND w.wait_event = 'AioIoCompletion' AND io.state = 'SUBMITTED'";
		$aio->poll(sub { $aio->sql($hangs) eq 't' || $waiter->has_ended });
		# later reads come and go
		$third->sql("SELECT invalidate_rel_block('$t', 10), read_rel_block_ll('$t', 10)") for 1 .. 10;
		$aio->gives($hangs, 't', 'the owner is idle, its read in flight for ever, the waiter asleep');
		$third->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'a third session frees it');
	}
	$waiter->returns('1', 'gets the block');
	# gives back its handle, without which the block can be evicted
	$owner->sql("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->scenario('waiting for what is not submitted yet', sub {
			my $t = $aio->table('t', 20);
			one_round($aio, $t, $aio->method eq 'io_uring' && $aio->has_bug(%fixed_in)) for 1 .. 2;
			$aio->proves($t);
		}, skip => $aio->method eq 'sync' ? 'with sync nothing is ever staged' : undef);

		$aio->scenario('nobody wants it', sub {
			my ($owner) = $aio->sessions('owner');
			my $t = $aio->table('t', 20);
			$owner->gives("SELECT read_rel_block_when_wanted('$t', 5, 50)", 'f', 'submits it in the end');
			$owner->fails("SELECT read_rel_block_when_wanted('$t', 20)", '22023', qr/out of range/, 'no such block');
			$owner->fails("SELECT read_rel_block_when_wanted('$t', 5, 0)", '22023', qr/timeout must be/, 'no time');
			$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'and can read it');
			$aio->proves($t);
		});
	});
