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
	# catalogs are read in advance, as scans of them would begin batches of their own
	$owner->sql("SELECT pg_advisory_lock(5), pg_advisory_unlock(5), sum(nblocks) FROM start_read_buffers('$t', 10, 1)");
	$owner->sql('SELECT batch_start(), batch_end()');
	$aio->evict($t);
	$aio->sql('SELECT pg_advisory_lock(5)');
	$owner->starts("SELECT batch_start(), (SELECT sum(nblocks) FROM start_read_buffers('$t', 5, 1)), pg_advisory_lock(5), pg_advisory_unlock(5), batch_end()");
	$owner->waits_on('advisory');
	$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$owner->pid} AND state = 'STAGED'", 1, 'the read is staged');
	$waiter->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	$waiter->waits_on('AioIoCompletion');
	$aio->sql('SELECT pg_advisory_unlock(5)');
	$owner->ends('submits the read');
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
	});
