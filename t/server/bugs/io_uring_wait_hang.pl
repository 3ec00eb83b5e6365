# A session waits for a read that is not submitted yet; the owner submits the read and goes idle
# (doc/reports/io_uring-wait-hang.md).  With io_uring the session waits until another session reaps the
# owner's ring.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Hang;

# Test: the owner stages a read, the waiter comes, the owner submits the read and goes idle;
# with the bug, the waiter waits for ever.
sub one_round
{
	my ($aio, $t, $has_bug) = @_;
	my ($owner, $waiter) = $aio->sessions(qw(owner waiter));
	$aio->evict($t);
	$owner->starts("SELECT read_rel_block_when_wanted('$t', 5)");
	$aio->wait_for("SELECT EXISTS (SELECT FROM pg_aios WHERE pid = ${\$owner->pid} AND state IN ('DEFINED', 'STAGED'))");
	$waiter->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	$owner->returns('t', 'has submitted its read once it was wanted');
	waits_for_idle_owner($aio, $t, 'AioIoCompletion', $has_bug);
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->scenario('a wait for a read that is not submitted yet', sub {
			my $t = $aio->table('t', 20);
			one_round($aio, $t, expects_hang($aio, 'io_uring-wait-hang')) for 1 .. 2;
			$aio->proves($t);
		}, skip => $aio->method eq 'sync' ? 'with sync no read stays staged' : undef);

		$aio->scenario('no session wants the block', sub {
			my ($owner) = $aio->sessions('owner');
			my $t = $aio->table('t', 20);
			$owner->gives("SELECT read_rel_block_when_wanted('$t', 5, 50)", 'f', 'the read is submitted after the timeout');
			$owner->fails("SELECT read_rel_block_when_wanted('$t', 20)", '22023', qr/out of range/, 'no such block');
			$owner->fails("SELECT read_rel_block_when_wanted('$t', 5, 0)", '22023', qr/timeout must be/, 'a timeout of 0');
			$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'the block can be read');
			$aio->proves($t);
		});
	});
