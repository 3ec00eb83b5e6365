# A session that waits for a buffer whose read is not staged yet, and whose owner then
# goes idle (doc/io_uring-buffer-wait-hang.md).  With io_uring the session sleeps until
# another one looks into the owner's ring.  The test fails on a server whose behaviour is
# not the one that %fixed_in tells: if a release has the fix, add it there.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Hang;

# Major version => server_version_num of its first release without the bug.  Seen with it:
# 18.6, 19beta1, 19rc1, 20devel of August 2026.
my %fixed_in = ();

# Test: the owner marks the buffer, the waiter sleeps on it, the owner submits the read and
# goes idle; the waiter is left waiting, or not.
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
		$aio->scenario('waiting for a buffer without wait reference', sub {
			my $t = $aio->table('t', 20);
			one_round($aio, $t, $aio->method eq 'io_uring' && $aio->has_bug(%fixed_in)) for 1 .. 2;
			$aio->proves($t);
		}, leaves => 'COMPLETED_SHARED');

		$aio->scenario('the waiter gives up', sub {
			my ($owner, $waiter) = $aio->sessions(qw(owner waiter));
			my $t = $aio->table('t', 20);
			$owner->starts("SELECT read_rel_block_when_wanted('$t', 5, 60000, stage => false)");
			$aio->wait_for('SELECT EXISTS (SELECT FROM buffers_in_progress())');
			$waiter->fails("SET statement_timeout = '1500ms'; SELECT count(*) FROM read_buffers('$t', 5, 1); SELECT pg_sleep(60)", '57014', qr/statement timeout/, 'can be cancelled');
			$owner->returns('t', 'has submitted its read');
			$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'and reaps it');
			$aio->proves($t);
		}, leaves => 'COMPLETED_SHARED');

		$aio->scenario('the owner is cancelled before it has staged the read', sub {
			my ($owner, $waiter) = $aio->sessions(qw(owner waiter));
			my $t = $aio->table('t', 20);
			$owner->fails("SET statement_timeout = '100ms'; SELECT read_rel_block_when_wanted('$t', 5, stage => false)", '57014', qr/statement timeout/, 'gives up');
			$aio->gives('SELECT count(*) FROM buffers_in_progress()', 0, 'no buffer stays marked');
			$waiter->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'reads it');
			$aio->proves($t);
		});

		$aio->scenario('no session wants the block', sub {
			my ($owner) = $aio->sessions('owner');
			my $t = $aio->table('t', 20);
			$owner->gives("SELECT read_rel_block_when_wanted('$t', 5, 50, stage => false)", 'f', 'submits it in the end');
			$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'and can read it');
			$aio->proves($t);
		}, leaves => 'COMPLETED_SHARED');
	});
