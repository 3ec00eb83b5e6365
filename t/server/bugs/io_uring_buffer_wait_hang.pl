# A session waits for a buffer whose read is not staged yet; the owner submits the read and goes
# idle (doc/reports/io_uring-buffer-wait-hang.md).  With io_uring the session sleeps until another session
# reaps the owner's ring.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Hang;

# Test: the owner marks the buffer, the waiter sleeps on it, the owner submits the read and
# goes idle; with the bug, the waiter waits for ever.
sub one_round
{
	my ($aio, $t, $has_bug) = @_;
	my ($owner, $waiter) = $aio->sessions(qw(owner waiter));
	$aio->evict($t);
	$owner->starts("SELECT read_rel_block_when_wanted('$t', 5, 60000, stage => false)");
	$aio->wait_for('SELECT EXISTS (SELECT FROM buffers_in_progress())');
	$waiter->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	$owner->returns('t', 'has submitted its read once the buffer was wanted');
	waits_for_idle_owner($aio, $t, 'BufferIo', $has_bug);
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->scenario('a wait for a buffer without a wait reference', sub {
			my $t = $aio->table('t', 20);
			one_round($aio, $t, expects_hang($aio, 'io_uring-buffer-wait-hang')) for 1 .. 2;
			$aio->proves($t);
		});

		$aio->scenario('the waiter is cancelled', sub {
			my ($owner, $waiter) = $aio->sessions(qw(owner waiter));
			my $t = $aio->table('t', 20);
			$owner->starts("SELECT read_rel_block_when_wanted('$t', 5, 60000, stage => false)");
			$aio->wait_for('SELECT EXISTS (SELECT FROM buffers_in_progress())');
			$waiter->starts("SELECT count(*), pg_sleep(60) FROM read_buffers('$t', 5, 1)");
			$owner->returns('t', 'has submitted its read');
			# a waiter that has been woken sleeps
			$aio->wait_for("SELECT wait_event IN ('BufferIo', 'PgSleep') FROM pg_stat_activity WHERE pid = ${\$waiter->pid}");
			$aio->sql("SELECT pg_cancel_backend(${\$waiter->pid})");
			$waiter->raises('57014', qr/canceling statement due to user request/, 'is cancelled');
			$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'reaps its read');
			$aio->proves($t);
		});

		$aio->scenario('the owner is cancelled before it has staged the read', sub {
			my ($owner, $waiter) = $aio->sessions(qw(owner waiter));
			my $t = $aio->table('t', 20);
			$owner->fails("SET statement_timeout = '100ms'; SELECT read_rel_block_when_wanted('$t', 5, stage => false)", '57014', qr/statement timeout/, 'is cancelled');
			$aio->gives('SELECT count(*) FROM buffers_in_progress()', 0, 'no buffer stays marked');
			$waiter->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'reads the block');
			$aio->proves($t);
		});

		$aio->scenario('no session wants the block', sub {
			my ($owner) = $aio->sessions('owner');
			my $t = $aio->table('t', 20);
			$owner->gives("SELECT read_rel_block_when_wanted('$t', 5, 50, stage => false)", 'f', 'the read is submitted after the timeout');
			$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'the block can be read');
			$aio->proves($t);
		});
	});
