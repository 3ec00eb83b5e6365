# Replay that needs a page for itself waits until no session has it pinned, whether it changes the
# page or writes a whole one, and the log says once that it waits, and once that it no longer does.
# Replay that need not keep anybody off the page does not wait.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Returns a session of the standby whose cursor stands on block 2 of a table, and the number there.
sub stand_on_block_2
{
	my ($aio, $standby) = @_;
	my $reader = $standby->session('reader');
	$aio->sql('CREATE TABLE scenario.p (n int) WITH (fillfactor = 50); INSERT INTO scenario.p SELECT generate_series(1, 400); VACUUM (FREEZE) scenario.p');
	my $n = $aio->sql('SELECT n FROM scenario.p WHERE ctid = \'(2,1)\'');
	$aio->replayed_by($standby);
	$reader->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM scenario.p WHERE ctid >= '(2,1)'");
	$reader->gives('FETCH 1 FROM c', $n, 'a cursor stands on block 2');
	return ($reader, $n);
}

# Returns the blocks of the table of which the WAL has whole pages.
sub whole_pages_since
{
	my ($aio, $from) = @_;
	my $to = $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)");
	my $file = $aio->sql("SELECT pg_relation_filenode('scenario.p')");
	return join ',', map { m{/$file blk (\d+) FPW}g } $aio->wal_records($from, $to);
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->node->backup('b');
		my $standby = TestAio::Server->of_backup($aio, 'b');

		for my $whole (0, 1)
		{
			$aio->scenario($whole ? 'a whole page' : 'a change', sub {
				my ($reader, $n) = stand_on_block_2($aio, $standby);
				my $size = $standby->log_size;
				# nobody ever saw what VACUUM removes, so it conflicts with no snapshot
				my $update = 'BEGIN; UPDATE scenario.p SET n = n WHERE ctid = \'(2,5)\'; ROLLBACK';
				$aio->sql($_) for split(/; /, $update), $whole ? 'CHECKPOINT' : ();
				my $from = $aio->sql('SELECT pg_current_wal_insert_lsn()');
				$aio->sql('VACUUM (TRUNCATE off) scenario.p');
				is(whole_pages_since($aio, $from), $whole ? 2 : '', 'which whole pages of the table are in the WAL');
				my ($startup) = $standby->pids_of_type('startup');
				my $event = $standby->major < 19 ? 'BufferPin' : 'BufferCleanup';
				ok($standby->poll(sub { $standby->wait_event($startup) eq $event }), "the startup process waits for the pin: $event") || diag($standby->activity($startup));
				ok($standby->poll(sub { $standby->log_text($size) =~ /recovery still waiting/ }), 'the log says so');
				$reader->gives('FETCH 1 FROM c', $n + 1, 'the cursor goes on');
				$reader->sql('ROLLBACK');
				$aio->replayed_by($standby);
				my @lines = $standby->log_text($size) =~ /recovery (still|finished) waiting after [\d.]+ ms: recovery conflict on buffer pin/g;
				is("@lines", 'still finished', 'the log says when the wait begins, and when it has ended');
				$reader->gives('SELECT count(*), sum(n) FROM scenario.p', '400|80200', 'the rows');
				$standby->end_session($reader);
			});
		}

		for my $whole (0, 1)
		{
			$aio->scenario($whole ? 'a whole page that nobody has to be kept off' : 'a change that nobody has to be kept off', sub {
				my ($reader, $n) = stand_on_block_2($aio, $standby);
				my $size = $standby->log_size;
				$aio->sql('CHECKPOINT') if $whole;
				my $from = $aio->sql('SELECT pg_current_wal_insert_lsn()');
				$aio->sql('UPDATE scenario.p SET n = -n WHERE ctid = \'(2,5)\'');
				is(whole_pages_since($aio, $from), $whole ? 2 : '', 'which whole pages of the table are in the WAL');
				$aio->replayed_by($standby);
				unlike($standby->log_text($size), qr/recovery still waiting/, 'replay does not wait for the pin');
				$reader->gives('FETCH 1 FROM c', $n + 1, 'the cursor goes on');
				$reader->sql('ROLLBACK');
				$reader->gives('SELECT count(*), sum(n) FROM scenario.p', '400|' . (80200 - 2 * ($n + 4)), 'the rows');
				$standby->end_session($reader);
			});
		}
	}, streaming => 1, leaves => 'nothing',
	# or the change would find that the page is in the WAL already, because of hint bits
	no_data_checksums => 1, conf => { wal_log_hints => 'off', log_recovery_conflict_waits => 'on', deadlock_timeout => '10ms', max_standby_streaming_delay => '1min', hot_standby_feedback => 'off' });
