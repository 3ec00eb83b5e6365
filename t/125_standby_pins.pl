# Replay that needs a page for itself waits until no session has it pinned, whether it changes the
# page or writes a whole one, and the log says once that it waits, and once that it no longer does.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->node->backup('b');
		my $standby = TestAio::Server->of_backup($aio, 'b');

		for my $whole (0, 1)
		{
			$aio->scenario($whole ? 'a whole page' : 'a change', sub {
				my $reader = $standby->session('reader');
				$aio->sql('CREATE TABLE scenario.p (n int) WITH (fillfactor = 50); INSERT INTO scenario.p SELECT generate_series(1, 400); VACUUM (FREEZE) scenario.p');
				my $block = $aio->sql('SELECT n FROM scenario.p WHERE ctid = \'(2,1)\'');
				$aio->replayed_by($standby);
				$reader->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM scenario.p WHERE ctid >= '(2,1)'");
				$reader->gives('FETCH 1 FROM c', $block, 'a cursor stands on block 2');
				my $size = $standby->log_size;
				# nobody ever saw what VACUUM removes, so it conflicts with no snapshot
				my $update = 'BEGIN; UPDATE scenario.p SET n = n WHERE ctid = \'(2,5)\'; ROLLBACK';
				$aio->sql($_) for split(/; /, $update), $whole ? 'CHECKPOINT' : ();
				my $from = $aio->sql('SELECT pg_current_wal_insert_lsn()');
				$aio->sql('VACUUM (TRUNCATE off) scenario.p');
				my $to = $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)");
				my $file = $aio->sql("SELECT pg_relation_filenode('scenario.p')");
				is(join(',', map { m{/$file blk (\d+) FPW}g } $aio->wal_records($from, $to)), $whole ? 2 : '', 'which whole pages of the table are in the WAL');
				my ($startup) = $standby->pids_of_type('startup');
				my $event = $standby->major < 19 ? 'BufferPin' : 'BufferCleanup';
				ok($standby->poll(sub { $standby->wait_event($startup) eq $event }), "the startup process waits for the pin: $event") || diag($standby->activity($startup));
				ok($standby->poll(sub { $standby->log_text($size) =~ /recovery still waiting/ }), 'the log says so');
				$reader->gives('FETCH 1 FROM c', $block + 1, 'the cursor goes on');
				$reader->sql('ROLLBACK');
				$aio->replayed_by($standby);
				my @lines = $standby->log_text($size) =~ /recovery (still|finished) waiting after [\d.]+ ms: recovery conflict on buffer pin/g;
				is("@lines", 'still finished', 'the log says when the wait begins, and when it has ended');
				$reader->gives('SELECT count(*), sum(n) FROM scenario.p', '400|80200', 'the rows');
				$standby->end_session($reader);
			});
		}
	}, streaming => 1, leaves => 'nothing',
	# or the change would find that the page is in the WAL already, because of hint bits
	no_data_checksums => 1, conf => { wal_log_hints => 'off', log_recovery_conflict_waits => 'on', deadlock_timeout => '10ms', max_standby_streaming_delay => '1min', hot_standby_feedback => 'off' });
