# A session that waits for a read before it is submitted, and whose owner then goes
# idle (doc/io_uring-wait-hang.md): with io_uring it waits until somebody else
# looks into the owner's ring, on servers that have the bug.  Says which behaviour
# this server has, and passes with either.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# The owner stages a read, the waiter comes, the owner submits and goes idle.
# Returns whether the waiter was left waiting.
sub one_round
{
	my ($aio, $t) = @_;
	my ($owner, $waiter, $third) = $aio->sessions(qw(owner waiter third));
	$aio->evict($t);
	$owner->starts("SELECT read_rel_block_when_wanted('$t', 5)");
	$aio->wait_for("SELECT EXISTS (SELECT FROM pg_aios WHERE pid = ${\$owner->pid} AND state IN ('DEFINED', 'STAGED'))");
	$waiter->starts("SELECT count(*) FROM read_buffers('$t', 5, 1)");
	$owner->returns('t', 'has submitted its read once it was wanted');
	my $hangs = !$aio->poll(sub { $waiter->has_ended }, 1);
	if ($hangs)
	{
		$aio->gives('SELECT io.state, o.state, o.wait_event, w.state, w.wait_event FROM pg_aios io JOIN pg_stat_activity o USING (pid),'
			  . " pg_stat_activity w WHERE o.pid = ${\$owner->pid} AND w.pid = ${\$waiter->pid} AND io.state <> 'COMPLETED_SHARED'",
			'SUBMITTED|idle|ClientRead|active|AioIoCompletion', 'the owner is idle, its read in flight for ever, the waiter asleep');
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
		$aio->scenario('waiting for what is not submitted yet', sub {
			my $t = $aio->table('t', 20);
			my $hung = 0;
			$hung += one_round($aio, $t) for 1 .. 2;
			if ($aio->method eq 'io_uring')
			{
				note("this server's io_uring waits " . ($hung ? "hang, in $hung of 2 rounds" : 'do not hang'));
				ok($hung == 0 || $hung == 2, 'always or never');
			}
			else { is($hung, 0, 'no round hangs') }
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
