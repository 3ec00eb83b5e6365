# The gate holds reads inside batches, parallel queries and autovacuum, and while the I/O
# workers' queue is full.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Workers;
use TestAio::Gate;

sub set_autovacuum
{
	my ($aio, $value) = @_;
	$aio->sql("ALTER SYSTEM SET autovacuum = $value");
	$aio->sql('SELECT pg_reload_conf()');
	# a shutdown would terminate it, which the log oracle takes for an alarm
	$aio->wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%')") if $value eq 'off';
	return;
}

# Has autovacuum work while the function runs.
sub with_autovacuum
{
	my ($aio, $function) = @_;
	my $lived = eval { set_autovacuum($aio, 'on'); $function->(); 1 };
	my $error = $@;
	set_autovacuum($aio, 'off');
	die $error if !$lived;
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('batch mode, and more reads than handles', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			# opens the relation, so that the batch reads no catalogs
			$aio->evict($t, $alice);
			$aio->sql("SELECT io_hold('$t', max_reads => 3)");
			$alice->starts($aio->batch(map { "SELECT read_rel_block_ll('$t', 4 * $_, nblocks => 2, wait_complete => false)" } 0 .. 8));
			$aio->gate_holds(3);
			$aio->gives('SELECT io_release_all()', 3);
			$alice->returns(qr/^\n*$/, 'goes on');
			$aio->sql('SELECT io_hold_end()');
			$aio->proves($t);
		});

		$aio->scenario('parallel query', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 400);
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;'
				. 'SET seq_page_cost = 0');
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT count(*) FROM $t");
			my $processes = "SELECT string_agg(DISTINCT backend_type, ', '), count(DISTINCT pid) FROM io_held JOIN pg_stat_activity USING (pid)";
			$aio->wait_for("SELECT (q.*)::text = '(\"client backend, parallel worker\",3)' FROM ($processes) q");
			$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
			$alice->raises('57014', qr/user request/, 'is cancelled, workers and all');
			$aio->gives("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'", 0, 'they have gone');
			$aio->sql('SELECT io_release_all()');
			$aio->evict($t);
			$alice->starts("SELECT count(*) FROM $t");
			$aio->wait_for("SELECT count(DISTINCT pid) = 3 FROM io_held");
			$aio->gate_release;
			$alice->returns('400', 'counts');
			$aio->proves($t);
		}, log => [ qr/parallel worker .*FATAL:  terminating background worker "parallel worker" due to administrator command/, qr/postmaster LOG:  background worker "parallel worker" \(PID \d+\) exited with exit code 1/ ]);

		$aio->scenario('autovacuum', sub {
			my ($bob) = $aio->sessions('bob');
			my $t = $aio->table('t', 100);
			$aio->sql("ALTER TABLE $t SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0)");
			my $begun = $aio->sql('SELECT clock_timestamp()');
			$aio->sql("DELETE FROM $t WHERE blk = 50");
			$aio->sql('SELECT pg_stat_force_next_flush()');
			$aio->evict($t);
			$aio->sql("SELECT io_hold('$t')");
			my $is_held = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND wait_event = 'IoGateHeld')";
			with_autovacuum($aio, sub {
					$aio->wait_for($is_held);
					$bob->sql("SET deadlock_timeout = '10ms'");
					$bob->gives("BEGIN; LOCK TABLE $t; COMMIT", '', 'makes autovacuum give up its lock');
					$aio->sql('SELECT io_release_all()');
					$aio->wait_for($is_held);
					$aio->gate_release;
					$aio->wait_for("SELECT pg_stat_get_autovacuum_count('$t'::regclass) = 1");
					$aio->wait_for("SELECT pg_stat_get_autoanalyze_count('$t'::regclass) = 1");
					$aio->gives("SELECT vacuum_count, analyze_count, last_vacuum < '$begun', last_analyze, last_autovacuum > '$begun', last_autoanalyze > '$begun' FROM pg_stat_all_tables WHERE relid = '$t'::regclass", '1|0|t||t|t', 'the statistics tell who it was');
				});
			$aio->proves($t, except => 'block 50 has no row');
		}, leaves => 'nothing', log => qr/autovacuum worker ERROR:  canceling autovacuum task/);

		# the leader tells its workers of costs that a reload has changed
		$aio->scenario('parallel autovacuum', sub {
			my $t = 'scenario.a';
			$aio->sql("CREATE TABLE $t (n int) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT generate_series(0, 4999); CREATE INDEX a_up ON $t (n); CREATE INDEX a_down ON $t (n DESC)");
			$aio->sql("DELETE FROM $t WHERE n % 2 = 0; SELECT pg_stat_force_next_flush()");
			$aio->sql("ALTER TABLE $t SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_parallel_workers = 1)");
			$aio->evict($_) for 'scenario.a_up', 'scenario.a_down';
			$aio->sql("SELECT io_hold('scenario.a_up'), io_hold('scenario.a_down')");
			$aio->alter_system(autovacuum_max_parallel_workers => 1, min_parallel_index_scan_size => 0, log_min_messages => 'debug2');
			my $since = $aio->log_size;
			with_autovacuum($aio, sub {
					$aio->wait_for("SELECT string_agg(backend_type, ', ' ORDER BY 1) = 'autovacuum worker, parallel worker' FROM io_held JOIN pg_stat_activity USING (pid)");
					$aio->alter_system(vacuum_cost_page_miss => 7);
					$aio->wait_for("SELECT current_setting('vacuum_cost_page_miss') = '7'");
					$aio->sql('SELECT io_hold_end()');
					$aio->sql("SELECT io_release(pid, io_id) FROM io_held JOIN pg_stat_activity USING (pid) WHERE backend_type = 'autovacuum worker'");
					$aio->wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND wait_event = 'ParallelFinish')");
					$aio->sql('SELECT io_release_all()');
					$aio->wait_for("SELECT pg_stat_get_autovacuum_count('$t'::regclass) = 1");
				});
			like($aio->log_text($since), qr/DEBUG:  parallel autovacuum worker updated cost params: .*cost_page_miss=7\b/, 'the worker has the new cost');
			$aio->gives("SELECT count(*), sum(n) FROM $t", '2500|6250000', 'the rows');
		}, leaves => 'nothing', skip => $aio->sql("SELECT count(*) FROM pg_settings WHERE name = 'autovacuum_max_parallel_workers'") ? undef : 'autovacuum is parallel since 19');

		# 64 places, of which 18 leaves one empty
		$aio->scenario('the queue of the I/O workers is full', sub {
			my @readers = $aio->sessions(map { "r$_" } 0 .. 19);
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = ($aio->table('t', 100), $aio->table('u', 20));
			$aio->evict($u, $alice);
			my @workers = $aio->stop_idle_workers;
			my $lived = eval {
				my $block = 0;
				$_->sql("SELECT read_rel_block_ll('$t', ${\$block++} * 5 + i, wait_complete => false) FROM generate_series(0, 3) i") for @readers;
				my $queued = $aio->sql("SELECT count(*) FROM pg_aios WHERE state = 'SUBMITTED'");
				ok($queued >= 63 && $queued < 80, "$queued of 80 reads are in the queue, which takes no more");
				is(scalar(split /,/, $aio->cached($t)), 80 - $queued, 'the sessions have performed the others themselves');
				$aio->sql("SELECT io_hold('$u')");
				$alice->starts("SELECT read_rel_block_ll('$u', 3, nblocks => 4)");
				$alice->waits_on('IoGateHeld');
				$bob->starts("SELECT count(*) FROM read_buffers('$t', 0, 1)");
				$bob->waits_on('AioIoCompletion', 'waits for one in the queue');
				$aio->gives('SELECT io_hold_end(), io_release_all()', '1|1');
				$alice->returns('', 'needs no I/O worker');
				1;
			};
			kill 'CONT', @workers;
			$lived or die $@;
			$bob->returns('1', 'has it now');
			$aio->proves($_) for $t, $u;
		}, skip => $aio->method eq 'worker' ? undef : 'needs I/O workers');
	}, needs => 'gate', workers => 1, conf => { io_max_concurrency => 4, autovacuum_naptime => 1 });
