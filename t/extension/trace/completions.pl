# The end of a read in the I/O trace: its result, its time, and the processes that performed
# and completed it.  t/server/standby/standby.pl has the
# startup process's reads.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Trace;

my $columns = "string_agg(concat_ws(' ', blockno, nblocks, coalesce(raw_result::text, '-'), result), ', ' ORDER BY seq)";

# Scenarios of results.
sub results
{
	my ($aio) = @_;

	$aio->scenario('failed and short reads', sub {
		my ($alice) = $aio->sessions('alice');
		my $t = $aio->table('t', 20);
		$aio->sql("SELECT io_fail('$t', -5, times => 1)");
		$aio->traces_of("'$t'", sub { $alice->fails("SELECT count(*) FROM read_buffers('$t', 3, 2)", '58030', qr/blocks 3\.\.4/, 'fails') });
		$aio->traced($columns, '3 2 -5 ERROR', 'failed');
		$aio->sql("SELECT io_fail('$t', 8192, times => 1)");
		$aio->traces_of("'$t'", sub { $alice->gives("SELECT count(*) FROM read_buffers('$t', 3, 2)", 1, 'a short read') });
		$aio->traced($columns, '3 2 8192 PARTIAL, 4 1 8192 OK', 'short, and read again');
		$aio->gives('SELECT sum(errors) FROM io_trace_summary', 0, 'which is no error');
		$aio->sql('SELECT io_fail_end()');
	}, log => qr/LOG:  could not read blocks/);

	$aio->scenario('bad pages', sub {
		my ($alice) = $aio->sessions('alice');
		my $t = $aio->table('t', 20);
		$aio->sql("SELECT modify_rel_block('$t', 3, corrupt_header => true)");
		$aio->traces_of("'$t'", sub { $alice->fails("SELECT read_rel_block_ll('$t', 2, nblocks => 3)", 'XX001', qr/invalid page in block 3/, 'fails') });
		$aio->traced('result, joined', 'ERROR|f');
		$aio->traces_of("'$t'", sub { $alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, zero_on_error => true)") });
		$aio->traced('result', 'WARNING');
		$aio->traced('raw_result', 3 * 8192);
		$alice->warns(qr/invalid page in block 3/);
	}, log => qr/LOG:  invalid page in block 3 /);
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		results($aio);

		$aio->scenario('which processes execute and complete a scan', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 100);
			my $counted;
			my $pid = $alice->pid;
			my %executor = (
				sync => "executed_by = $pid AND completed_by = $pid AND f_sync",
				worker => "completed_by = executed_by AND NOT f_sync AND (executed_by IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker') OR executed_by = $pid)",
				io_uring => "executed_by IS NULL AND completed_by = $pid AND NOT f_sync");
			$aio->traces_of("'$t'", sub {
				$counted = $aio->io_during($alice, 'relation/normal', sub { $alice->sql("SELECT count(*) FROM $t") });
			});
			$aio->traced("count(*) || '/' || sum(length)", $counted, 'sees every read');
			$aio->traced("bool_and(result = 'OK' AND raw_result = length), bool_and($executor{$aio->method})", 't|t', 'the processes and the results');
		});

		$aio->scenario('synchronous reads, an index', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql("CREATE INDEX ti ON $t (blk); VACUUM $t; SELECT evict_rel('$t'), evict_rel('scenario.ti')");
			$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
			$aio->traces_of('', sub { $alice->sql("SELECT gen FROM $t WHERE blk = 7") });
			$aio->gives("SELECT relation, fork, min(blockno), bool_and(f_sync AND result = 'OK' AND executed_by = pid), sum(waits) FROM io_trace"
				  . " WHERE relation IN ('$t'::regclass, 'scenario.ti'::regclass) AND fork = 'main' GROUP BY 1, 2 ORDER BY 1",
				"$t|main|7|t|0\nscenario.ti|main|0|t|0", 'seen');
		});

		# pages of the maps are zeroed if they are bad, but read like others by a session that waits
		$aio->scenario('synchronous reads, the maps', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->traces_of('', sub { $alice->sql("DELETE FROM $t WHERE ctid = '(3,1)'; INSERT INTO $t VALUES ('$t', 20, 0, proof('$t', 20, 0))") });
			$aio->gives("SELECT fork, bool_and(f_sync AND result = 'OK' AND executed_by = pid) FROM io_trace"
				  . " WHERE relation = '$t'::regclass AND fork <> 'main' GROUP BY 1 ORDER BY 1",
				"fsm|t\nvm|t", 'seen');
		});

		$aio->scenario('a temporary table', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('own', 40, kind => 'TEMP', session => $alice);
			$alice->sql("SELECT io_trace_reset(), io_trace_start('$t')");
			$alice->sql("SELECT count(*) FROM $t");
			$aio->end_trace;
			$alice->gives('SELECT relation, sum(nblocks), bool_and(f_localmem), bool_and(completed_by = pid), min(result), max(result) FROM io_trace GROUP BY relation',
				'own|40|t|t|OK|OK', 'seen, by its name');
			$aio->traced("bool_and(relation::text ~ '^pg_temp_[0-9]+.own\$')", 't', 'by others as well');
			$aio->gives("SELECT relation::text ~ '^pg_temp_[0-9]+.own\$' FROM io_trace_status", 't');
		}, leaves => 'nothing');

		$aio->scenario('completed by another', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$alice->sql("SELECT read_rel_block_ll('$t', 0)");
			$aio->traces_of("'$t'", sub {
				$alice->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
				$bob->sql("SELECT count(*) FROM read_buffers('$t', 3, 1)");
			});
			$aio->traced("pid = ${\$alice->pid}, completed_by = ${\$bob->pid}, executed_by, result", 't|t||OK', 'the session that wanted the block has completed the read');
		}, skip => $aio->method eq 'io_uring' ? undef : 'only with io_uring do readers complete what others have issued');

		$aio->scenario('parallel query', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 400);
			$alice->sql('SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET seq_page_cost = 0');
			# holds the reads, so that each of the three processes gets some
			$aio->sql("SELECT io_hold('$t')") if $aio->method ne 'sync';
			$aio->trace("'$t'");
			$alice->starts("SELECT count(*) FROM $t");
			if ($aio->method ne 'sync')
			{
				$aio->wait_for('SELECT count(DISTINCT pid) = 3 FROM io_held');
				$aio->gate_release;
			}
			$alice->returns('400', 'counts');
			$aio->end_trace;
			$aio->traced("count(DISTINCT pid), bool_and((backend_type = 'client backend') = (pid = ${\$alice->pid}))", '3|t', 'all three processes have read')
				if $aio->method ne 'sync';
			$aio->gives("SELECT count(DISTINCT b), count(*) FROM io_trace, generate_series(blockno, blockno + nblocks - 1) b", '400|400', 'each block once, by one of them');
			$aio->gives("SELECT sum(blocks), count(*) = count(DISTINCT pid) FROM io_trace_summary", '400|t', 'a row each');
			$aio->proves($t);
		}, leaves => 'nothing');
	}, io_methods => 'io_uring; long: all', needs => 'gate trace');
