# A session without a free handle: pgaio_io_wait_for_free() reclaims handles whose I/O has
# ended, submits what the session has staged, or waits for the session's oldest I/O.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

for my $max (1, 3)
{
	for_each_io_method_of($max);
}
done_testing();

sub for_each_io_method_of
{
	my ($max) = @_;
	with_each_io_method(
		sub {
			my ($aio) = @_;
			is($aio->setting('io_max_concurrency'), $max, "io_max_concurrency = $max");

			$aio->scenario('streams', sub {
				my ($alice) = $aio->sessions('alice');
				for my $kind ('', 'TEMP')
				{
					my $t = $aio->table("t$kind", 30, kind => $kind, session => $alice);
					$alice->sql("SET effective_io_concurrency = $_"), $aio->evict($t, $alice),
						$alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 30 FROM generate_series(0, 89) i ORDER BY i))",
						'90|1305', "effective_io_concurrency = $_, $kind") for 0, 1, 32;
					$aio->proves($t, session => $alice);
				}
			}, leaves => 'nothing');

			$aio->scenario('all staged', sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 12);
				$aio->evict($t, $alice);
				$alice->starts($aio->batch(
					(map { "SELECT read_rel_block_ll('$t', $_, wait_complete => false)" } 0 .. 11),
					$aio->pause));
				$alice->waits_on('advisory');
				# the number depends on how fast the earlier reads have ended
				my ($staged, $described) = split /\|/, $aio->sql("SELECT count(*), count(*) FILTER (WHERE operation = 'readv' AND off < 12 * 8192 AND length = 8192"
					  . " AND target = 'smgr' AND target_desc ~ '^block \\d+ in file' AND raw_result IS NULL AND result = 'UNKNOWN')"
					  . " FROM pg_aios WHERE pid = ${\$alice->pid} AND state = 'STAGED'");
				ok($aio->method eq 'sync' ? $staged == 0 : $staged >= 1, "reads since the last wait are staged: $staged");
				is($described, $staged, 'pg_aios describes each of them') if $aio->method ne 'sync';
				cmp_ok($aio->sql('SELECT count(*) FROM pg_aios'), '<=', $max, 'no more than there can be');
				$aio->resume;
				$alice->ends('the batch ends');
				$bob->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 11)))", 12, 'all are read');
				$aio->proves($t);
				$aio->evict($t, $alice);
			});

			$aio->scenario('all in flight', sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 12);
				$aio->hold(relation => $t);
				$alice->starts("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 8) b");
				$alice->waits_on('AioIoCompletion');
				$aio->gives("SELECT count(*), count(DISTINCT io_id), min(state) IN ('SUBMITTED', 'COMPLETED_IO') FROM pg_aios",
					"$max|$max|t", 'it waits with all of them in flight');
				$aio->release;
				$alice->ends('goes on');
				$aio->proves($t);
				$aio->evict($t, $alice);
			}, skip => $aio->method ne 'worker'
				? 'only I/O workers can hold a read that nobody waits for' : $aio->no_faults);

			$aio->scenario('the oldest ends, others are held', sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 12);
				$aio->sql("SELECT io_hold('$t', max_reads => $max)");
				$alice->starts("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, $max) b");
				$aio->gate_holds($max);
				$alice->waits_on('IoGateHeld');
				$aio->gate_release_block(0);
				$alice->ends('waited for that read');
				$aio->gives("SELECT string_agg(blockno::text, ',' ORDER BY blockno) FROM io_held", join(',', 1 .. $max - 1), 'the others are still held');
				$aio->end_gate;
				$aio->proves($t);
				$aio->evict($t, $alice);
			}, skip => $max == 1 ? 'the oldest is the only one' : $aio->lacks('gate'));

			$aio->scenario('ended by others', sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 12);
				for my $b (0 .. 5)
				{
					$alice->sql("SELECT read_rel_block_ll('$t', $b, wait_complete => false)");
					$bob->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[$b])", 1, "block $b");
				}
				$aio->proves($t);
			});

			$aio->scenario('the oldest is held, others have ended', sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 12);
				$aio->sql("SELECT io_hold('$t', 0)");
				$alice->sql("SELECT read_rel_block_ll('$t', $_, wait_complete => false)") for 0 .. $max - 1;
				# with io_uring a session must look whether the reads have ended
				$bob->sql("SELECT count(*) FROM read_buffers('$t', 1, $max - 1)");
				$aio->wait_for('SELECT count(*) = 1 FROM pg_aios WHERE state = \'SUBMITTED\'');
				$alice->gives("SELECT count(*) FROM read_buffers('$t', 7, 1)", 1, 'does not wait for the oldest');
				$aio->gives('SELECT count(*) FROM io_held', 1, 'which is still held');
				$aio->end_gate;
				$aio->proves($t);
				$aio->evict($t, $alice);
			}, skip => $max == 1 ? 'the oldest is the only one' : $aio->lacks('gate'));
		}, conf => { io_max_concurrency => $max }, suffix => $max);
	return;
}
