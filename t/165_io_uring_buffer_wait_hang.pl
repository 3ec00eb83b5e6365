# A session that waits for a buffer whose read is not staged yet, and whose owner then
# goes idle (doc/io_uring-buffer-wait-hang.md): with io_uring it sleeps until somebody
# else looks into the owner's ring.  All servers have the bug that the table below does
# not except, and the test fails on a server that is not as the table says.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Major version => server_version_num of the first server without the bug.  Seen with
# it: 18.6, 19beta1, 19rc1, 20devel of August 2026.
my %mended = ();

# The owner marks the buffer, the waiter sleeps on it, the owner submits the read and
# goes idle.  Returns whether the waiter was left sleeping.
sub one_round
{
	my ($aio, $t) = @_;
	my ($owner, $waiter, $third) = $aio->sessions(qw(owner waiter third));
	$owner->starts("SELECT read_rel_block_when_wanted('$t', 5, 60000, stage => false)");
	$aio->wait_for('SELECT EXISTS (SELECT FROM buffers_in_progress())');
	$waiter->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	$owner->returns('t', 'has submitted its read once the buffer was wanted');
	my $hangs = !$aio->poll(sub { $waiter->has_ended }, 1);
	if ($hangs)
	{
		$aio->gives('SELECT io.state, o.state, o.wait_event, w.state, w.wait_event FROM pg_aios io JOIN pg_stat_activity o USING (pid),'
			  . " pg_stat_activity w WHERE o.pid = ${\$owner->pid} AND w.pid = ${\$waiter->pid} AND io.state <> 'COMPLETED_SHARED'",
			'SUBMITTED|idle|ClientRead|active|BufferIo', 'the owner is idle, its read in flight for ever, the waiter asleep');
		$third->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'a third session frees it');
	}
	$waiter->returns('1', 'gets the block');
	# or the block could not be evicted
	$owner->sql("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	return $hangs;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->scenario('waiting for a buffer without wait reference', sub {
			my $t = $aio->table('t', 20);
			my $mended = $mended{ $aio->major } // 999999;
			my $expected = $aio->method eq 'io_uring' && $aio->setting('server_version_num') < $mended;
			for my $round (1, 2)
			{
				is(one_round($aio, $t) ? 'hangs' : 'does not hang', $expected ? 'hangs' : 'does not hang', "round $round")
				  || diag('If this server mends it, say so in %mended and in doc/io_uring-buffer-wait-hang.md.');
			}
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

		$aio->scenario('nobody wants it', sub {
			my ($owner) = $aio->sessions('owner');
			my $t = $aio->table('t', 20);
			$owner->gives("SELECT read_rel_block_when_wanted('$t', 5, 50, stage => false)", 'f', 'submits it in the end');
			$owner->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'and can read it');
			$aio->proves($t);
		}, leaves => 'COMPLETED_SHARED');
	});
