# Replay waits for snapshots of a standby for which the primary has removed rows, or which do not see
# rows that VACUUM takes for visible to all: in its first pass, in its second one, or when it freezes.
#
# io_methods: sync; long: all
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

		# A row that nobody ever saw concerns no snapshot.  It stays as a dead item until VACUUM's second
		# pass, so it keeps the first one from taking the page for visible to all.
		my $aborted = 'BEGIN; INSERT INTO scenario.p SELECT generate_series(1000, 1010); ROLLBACK';
		my @cases = (
			[ 'a row that is removed', 'DELETE FROM scenario.p WHERE n = 7', 'VACUUM (TRUNCATE off) scenario.p' ],
			[ 'a new row, and VACUUM\'s first pass', 'INSERT INTO scenario.p VALUES (500)', 'VACUUM (TRUNCATE off) scenario.p' ],
			[ 'a new row, and its second pass', "INSERT INTO scenario.p VALUES (500); $aborted", 'VACUUM (TRUNCATE off, INDEX_CLEANUP on) scenario.p' ],
			[ 'a new row that is frozen', 'INSERT INTO scenario.p VALUES (500)', 'VACUUM (FREEZE, TRUNCATE off) scenario.p' ]);
		for my $case (@cases)
		{
			my ($what, $change, $vacuum) = @$case;
			$aio->scenario($what, sub {
				my $reader = $standby->session('reader');
				$aio->sql('CREATE TABLE scenario.p (n int) WITH (autovacuum_enabled = off); INSERT INTO scenario.p SELECT generate_series(1, 200); CREATE INDEX p_n ON scenario.p (n); VACUUM (FREEZE) scenario.p');
				$aio->replayed_by($standby);
				# by an index-only scan, which believes the visibility map
				$reader->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ');
				my $rows = 'SELECT count(*), sum(n) FROM scenario.p';
				$reader->gives($rows, '200|20100', 'what the snapshot sees');
				$aio->sql($_) for split /; /, $change;
				my ($startup) = $standby->pids_of_type('startup');
				$aio->replayed_by($standby);
				$aio->sql($vacuum);
				ok($standby->poll(sub { $standby->wait_event($startup) eq 'RecoveryConflictSnapshot' }), 'the startup process waits for the snapshot') || diag($standby->activity($startup));
				$reader->gives($rows, '200|20100', 'which sees the same rows');
				$reader->sql('ROLLBACK');
				$aio->replayed_by($standby);
				$reader->gives($rows, $aio->sql($rows), 'a later one sees what has become of them');
				$standby->end_session($reader);
			});
		}

		$aio->scenario('rows that nobody ever saw', sub {
			my $reader = $standby->session('reader');
			$aio->sql('CREATE TABLE scenario.p (n int) WITH (autovacuum_enabled = off); INSERT INTO scenario.p SELECT generate_series(1, 200); CREATE INDEX p_n ON scenario.p (n); VACUUM (FREEZE) scenario.p');
			$aio->replayed_by($standby);
			$reader->sql('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM scenario.p');
			$aio->sql($_) for split(/; /, $aborted), 'VACUUM (TRUNCATE off, INDEX_CLEANUP on) scenario.p';
			$aio->replayed_by($standby);
			$reader->gives('SELECT count(*), sum(n) FROM scenario.p', '200|20100', 'replay waits for no snapshot');
			$reader->sql('ROLLBACK');
			$standby->end_session($reader);
		});
	}, streaming => 1, leaves => 'nothing', conf => { max_standby_streaming_delay => '1min', hot_standby_feedback => 'off' });
