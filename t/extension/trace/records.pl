# The I/O trace has one record for each read that it was asked to record, and none for other
# reads.  The records agree with the server's own counts.
#
# io_methods: worker; long: io_uring
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Trace;

# Returns what EXPLAIN says of I/O: number, waits, size, in progress.
sub explained
{
	my ($session, $sql) = @_;
	my ($io) = $session->sql("EXPLAIN (ANALYZE, IO, COSTS OFF, TIMING OFF) $sql") =~ /I\/O: (.*)/;
	return split / /, join ' ', $io =~ /=([\d.]+)/g;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a scan', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
			my $counted;
			$aio->traces_of("'$t'", sub {
				$counted = $aio->io_during($alice, 'relation/normal', sub { $alice->sql("SELECT count(*) FROM $t") });
			});
			$aio->traced("count(*) || '/' || sum(length)", $counted, 'as many reads and bytes as in pg_stat_io');
			$aio->gives('SELECT count(*), count(DISTINCT b), min(b), max(b) FROM io_trace, generate_series(blockno, blockno + nblocks - 1) b',
				'200|200|0|199', 'each block was read once');
			$aio->gives('SELECT count(*) FROM io_trace_status WHERE NOT running AND lost = 0 AND lost_waits = 0 AND recorded = (SELECT count(*) FROM io_trace) AND stopped_at > started_at', 1, 'the status says so');
			$aio->traced(join(', ', map { "bool_and($_)" }
				"relation = '$t'::regclass", "pid = ${\$alice->pid}", "fork = 'main'", "state = 'COMPLETED'", "length = nblocks * 8192",
				'off = blockno * 8192', 'raw_result = length', "result = 'OK'",
				'NOT joined', 'NOT held', 'waits = cardinality(waiters)', 'staged_at <= submitted_at', 'submitted_at <= completed_at',
				'lookahead_distance >= nblocks'), join('|', ('t') x 14), 'each record is consistent');
			$aio->gives('SELECT ios, blocks, round(mean_size::numeric, 6), max_in_progress, waits, errors FROM io_trace_summary',
				$aio->sql('SELECT count(*), sum(nblocks), round(avg(nblocks), 6), max(in_progress), sum(waits), 0 FROM io_trace'),
				'the summary adds up');
		});

		$aio->scenario('what EXPLAIN (IO) says', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
			my @io;
			$aio->traces_of("'$t'", sub { @io = explained($alice, "SELECT count(*) FROM $t") });
			$aio->gives('SELECT ios, round(mean_size::numeric, 2) FROM io_trace_summary', "$io[0]|$io[2]", 'number and size');
			cmp_ok($aio->sql('SELECT waits FROM io_trace_summary'), '<=', $io[1], 'no more waits');
			$aio->gives('SELECT round(mean_in_progress::numeric, 2) FROM io_trace_summary', $io[3], 'in progress') if $aio->method eq 'worker';
		}, skip => $aio->major < 19 ? 'EXPLAIN (IO) came with 19' : undef);

		$aio->scenario('only what was asked for', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = map { $aio->table($_, 8) } qw(t u);
			my $read = sub {
				$aio->evict($_) for $t, $u;
				for my $session ($alice, $bob) { $session->sql("SELECT read_rel_block_ll('$_', 3, nblocks => 2)") for $t, $u }
			};
			my $who = "string_agg(relation || ' ' || CASE pid WHEN ${\$alice->pid} THEN 'alice' WHEN ${\$bob->pid} THEN 'bob' ELSE 'another' END || ' ' || blockno || '+' || nblocks, ', ' ORDER BY seq)";
			$read->();
			$aio->trace("'$t'");
			$read->();
			$aio->traced($who, "$t alice 3+2, $t bob 3+2", 'of one relation');
			$aio->sql("SELECT io_trace_start(pid => ${\$bob->pid})");
			$aio->sql('SELECT io_trace_reset()');
			$read->();
			$aio->traced($who, "$t bob 3+2, $u bob 3+2", 'of one process');
			$aio->gives("SELECT running, relation, pid = ${\$bob->pid} FROM io_trace_status", 't||t');
			$aio->traces_of("'$u', ${\$alice->pid}", $read);
			$read->();
			$aio->traced($who, "$u alice 3+2", 'both, and none after the end');
			$aio->sql('SELECT io_trace_reset()');
			$aio->gives('SELECT recorded, lost FROM io_trace_status', '0|0', 'a reset forgets');
		});

		$aio->scenario('a batch', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 40);
			# caches all that the batch reads besides
			$alice->sql("SELECT read_rel_block_ll('$t', 0)");
			$aio->traces_of("'$t'", sub {
				$alice->sql($aio->batch(map { "SELECT read_rel_block_ll('$t', 8 * $_, nblocks => 2, wait_complete => false)" } 0 .. 3));
			});
			# with io_uring a session must look for the completions
			$bob->sql("SELECT count(*) FROM $t");
			$aio->comes_to_trace("string_agg(concat_ws(' ', blockno, in_progress, lookahead_distance, state), ', ' ORDER BY seq)",
				join(', ', map { 8 * $_ . ' ' . ($_ + 1) . ' ' . 2 * ($_ + 1) . ' COMPLETED' } 0 .. 3), 'each submitted with those before');
			$aio->traced('count(DISTINCT submitted_at), bool_and(staged_at <= submitted_at)', '1|t', 'at the same time');
		});
	}, needs => 'gate trace');
