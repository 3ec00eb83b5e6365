# The I/O trace of processes that serve no session: a parallel query's workers, and the
# startup process of a standby, which reads what it replays.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Trace;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('parallel query', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 400);
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET seq_page_cost = 0');
			# held, so that each of the three processes has something to read
			$aio->sql("SELECT io_hold('$t')") if $aio->method ne 'sync';
			$aio->trace("'$t'");
			$alice->starts("SELECT count(*) FROM $t");
			if ($aio->method ne 'sync')
			{
				$aio->wait_for('SELECT count(DISTINCT pid) = 3 FROM io_held');
				$aio->sql('SELECT io_hold_end(), io_release_all()');
			}
			$alice->returns('400', 'counts');
			$aio->end_trace;
			$aio->traced("count(DISTINCT pid), bool_and((backend_type = 'client backend') = (pid = ${\$alice->pid}))", '3|t', 'who has read')
				if $aio->method ne 'sync';
			$aio->gives("SELECT count(DISTINCT b), count(*) FROM io_trace, generate_series(blockno, blockno + nblocks - 1) b", '400|400', 'each block once, by one of them');
			$aio->gives("SELECT sum(blocks), count(*) = count(DISTINCT pid) FROM io_trace_summary", '400|t', 'a row each');
			$aio->proves($t);
		});

		$aio->scenario('replay', sub {
			$aio->node->backup('b');
			my $standby = TestAio::Server->of_backup($aio, 'b');
			my $t = $aio->table('t', 40);
			$aio->replayed_by($standby);
			$standby->evict($t);
			my ($startup) = $standby->pids_of_type('startup');
			$standby->trace("'$t'");
			$aio->sql("UPDATE $t SET gen = 1, body = proof(rel, blk, 1) WHERE blk BETWEEN 20 AND 29");
			$aio->replayed_by($standby);
			$standby->end_trace;
			$standby->traced("count(*) FILTER (WHERE blockno BETWEEN 20 AND 29 AND nblocks = 1 AND f_sync AND result = 'OK' AND completion_exact), "
				  . "bool_and(pid = $startup AND backend_type = 'startup' AND executed_by = $startup AND completed_by = $startup)", '10|t', 'the startup process has read what it changes');
			$standby->evict($t);
			$standby->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)), sum(gen) FROM $t", '40|40|10', 'what was replayed');
			ok($standby->stop, 'clean shutdown of the standby');
			$standby->check_log([qr/FATAL: .*terminating (?:connection|walreceiver)/]);
		});
	},
	# replay need not read a page whose whole image is in the WAL
	streaming => 1, conf => { 'test_aio.trace_completions' => 'on', full_page_writes => 'off' });
