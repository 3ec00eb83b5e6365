# Two sessions that want the same block, or the same buffer, at the same time (BufferAlloc,
# GetVictimBuffer).  The first one, alice, has found that the block is in no buffer, has chosen one,
# and stands still while she writes the page that is in it.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Strace;

my $no_strace = no_strace();

# Returns two sessions that need no page of a catalog any more, a table, and another table whose pages
# are changed by each UPDATE, one row on each; unlogged, so that no WAL has to be written before a page.
sub prepare
{
	my ($aio) = @_;
	my ($t, $others) = ($aio->table('t', 12), 'scenario.others');
	$aio->sql("CREATE UNLOGGED TABLE $others (n int, body text STORAGE PLAIN) WITH (fillfactor = 10, autovacuum_enabled = off); INSERT INTO $others SELECT i, repeat('x', 700) FROM generate_series(0, 59) i");
	my @sessions = $aio->sessions(qw(alice bob));
	$_->sql("SELECT sum(nblocks) FROM read_buffers('$t', 4, 1)") for @sessions;
	return (@sessions, $t, $others);
}

# Runs a function while alice, who reads a block of a table, writes a page to make room for it, and
# another one, if any, while she goes on.
# Test: what she adds to pg_stat_io is this many bytes read and hits.
sub while_she_makes_room
{
	my ($aio, $alice, $t, $others, $expected, $function, $later) = @_;
	my $read = "SELECT sum(nblocks) FROM read_buffers('$t', 4, 1)";
	# bob is idle, there is no background writer, and what the observer writes has ended when it looks
	my $writes = sub { return $aio->sql("SELECT count(*) FROM buffers_in_progress() WHERE relfilenode = pg_relation_filenode('$others')") > 0 };
	my ($stopped, $added);
	# these scans have no ring; the second one sets hint bits, so that no other session does
	my $range = "ctid >= '(0,1)'";
	my $change = "SET enable_seqscan = off; UPDATE $others SET n = n WHERE $range; SELECT count(*) FROM $others WHERE $range; RESET enable_seqscan";
	# the buffer may still be that of a page that is not changed
	for (1 .. 20)
	{
		$aio->evict($t, $alice);
		$aio->sql($change);
		$added = $aio->io_counts_during($alice, 'relation/normal', sub {
				$stopped = while_stopped_in($aio, $alice, 'pwrite64,pwritev', $aio->file_of($others), $read, $writes, $function);
				$later->() if $stopped && $later;
				$alice->returns(1, 'alice goes on');
			});
		last if $stopped;
	}
	ok($stopped, 'alice has written a page to make room');
	is("$added->{read_bytes}|$added->{hits}", $expected, 'bytes that alice has read, and hits');
	$aio->proves($t);
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('another session reads the block', sub {
			my ($alice, $bob, $t, $others) = prepare($aio);
			while_she_makes_room($aio, $alice, $t, $others, '0|1', sub {
				$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 4, 3)", 3, 'bob reads it, too');
			});
		}, skip => $no_strace);

		$aio->scenario('the read of another session has not ended', sub {
			my ($alice, $bob, $t, $others) = prepare($aio);
			while_she_makes_room($aio, $alice, $t, $others, '0|1', sub {
				$aio->hold(pid => $bob->pid, relation => $t);
				$bob->starts("SELECT read_rel_block_ll('$t', 4, nblocks => 4)");
				$aio->holds(1);
			}, sub {
				$alice->waits_on('AioIoCompletion');
				$aio->release;
				$bob->ends('bob goes on');
			});
		}, skip => $no_strace // $aio->no_faults);

		$aio->scenario('another session pins what is written', sub {
			my ($alice, $bob, $t, $others) = prepare($aio);
			my $written;
			while_she_makes_room($aio, $alice, $t, $others, '8192|0', sub {
				$written = $aio->sql('SELECT blockno FROM buffers_in_progress()');
				$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT n, length(body) FROM $others WHERE ctid >= '($written,1)' AND ctid < '(${\($written + 1)},1)'");
				$bob->gives('FETCH 1 FROM c', "$written|700", "bob's cursor is on the page");
			});
			$aio->gives("SELECT refcount FROM buffer_state('$others', $written)", 1, 'it has kept its buffer');
			$bob->gives('FETCH RELATIVE 0 FROM c', "$written|700", 'and its row');
			$bob->sql('COMMIT');
		}, skip => $no_strace);
	}, conf => { shared_buffers => '256kB', max_connections => 10, bgwriter_lru_maxpages => 0 });
