# What pg_stat_recovery_prefetch shows while replay stands still: how far it has looked ahead, among
# blocks that are cached.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->node->backup('b');
		my $standby = TestAio::Server->of_backup($aio, 'b');

		$aio->scenario('replay waits for a pin', sub {
			# four rows a page
			my ($pinned, $ahead) = qw(scenario.pinned scenario.ahead);
			$aio->sql("CREATE TABLE $_ (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $_ SELECT i, repeat('x', 1900) FROM generate_series(0, 399) i; VACUUM (FREEZE) $_") for $pinned, $ahead;
			# changes that come later have no full page images
			$aio->sql("CHECKPOINT; UPDATE $ahead SET n = n; DELETE FROM $pinned WHERE n = 21");
			$aio->replayed_by($standby);
			my ($reader) = $standby->sessions('reader');
			$reader->sql("SELECT count(*) FROM $ahead; BEGIN; DECLARE c CURSOR FOR SELECT n FROM $pinned");
			$reader->gives('MOVE 21 FROM c; FETCH 1 FROM c', 22, 'the cursor stands beside the dead row');

			# all of this WAL is there before replay goes on
			$standby->sql('SELECT pg_wal_replay_pause()');
			$aio->sql("UPDATE $ahead SET n = n WHERE n % 4 = 0; VACUUM (TRUNCATE off) $pinned; UPDATE $ahead SET n = n WHERE n % 4 = 1");
			my $end = $aio->sql("SELECT pg_logical_emit_message(false, 'test_aio', '', flush => true)");
			$standby->wait_for("SELECT pg_last_wal_receive_lsn() >= '$end'");
			$standby->sql('SELECT pg_wal_replay_resume()');
			my ($startup) = $standby->pids_of_type('startup');
			ok($standby->poll(sub { $standby->wait_event($startup) =~ /^Buffer(?:Pin|Cleanup)$/ }), 'replay waits for the pin') || diag($standby->activity($startup));
			# maintenance_io_concurrency is 10; look-ahead ends after four times as many blocks
			my ($blocks, $bytes, $reads) = split /\|/, $standby->sql('SELECT block_distance, wal_distance, io_depth FROM pg_stat_recovery_prefetch');
			is_between($blocks, 20, 40, 'blocks ahead');
			is_between($bytes, 10 * 1900, 60 * 8192, 'bytes of WAL ahead');
			is($reads, 0, 'reads in progress: the blocks are cached');
			$reader->sql('ROLLBACK');
			$aio->replayed_by($standby);
			$standby->gives("SELECT count(*), sum(n) FROM $_", $aio->sql("SELECT count(*), sum(n) FROM $_"), "the rows of $_") for $pinned, $ahead;
		});
		ok($standby->stop, 'the standby stops');
	}, streaming => 1, conf => { max_standby_streaming_delay => '-1', hot_standby_feedback => 'off', maintenance_io_concurrency => 10 });
