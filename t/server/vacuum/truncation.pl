# VACUUM that truncates a table: the pages that it cuts off, and a row that another session inserts
# meanwhile.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;
use TestAio::Vacuum;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('empty pages at the end', sub {
			my ($alice) = $aio->sessions('alice');
			# the page of the last row that stays, -1 without one
			for my $last (99, 72, 60, 31, 32, 33, 0, -1)
			{
				$aio->sql('DROP TABLE IF EXISTS scenario.t');
				my $t = $aio->table('t', 100);
				$aio->sql("DELETE FROM $t WHERE blk > 10 AND blk <> $last OR $last < 10 AND blk <> $last; SELECT evict_rel('$t')");
				my $report = vacuum($alice, 'TRUNCATE on', $t);
				my $size = $last + 1;
				is(reported($report, qr/pages: (\d+) removed/), 100 - $size, "last row on page $last: pages removed");
				$aio->gives("SELECT pg_relation_size('$t') / 8192, relpages, reltuples FROM pg_class WHERE oid = '$t'::regclass", join('|', ($size) x 2, $last < 0 ? 0 : $last < 10 ? 1 : 12), 'the size, and what VACUUM notes in pg_class');
				$aio->gives("SELECT coalesce(string_agg(blk::text, ',' ORDER BY ctid), 'none') FROM $t WHERE body = proof('$t', blk, 0)",
					join(',', $last < 0 ? 'none' : $last < 10 ? $last : (0 .. 10, $last)), 'the rows');
				# pages that come again do not have their old rows
				$aio->sql("CALL add_pages('$t', 200, 220, 1); SELECT evict_rel('$t')");
				$aio->gives("SELECT count(*), count(*) FILTER (WHERE gen = 1 AND body = proof('$t', blk, 1)) FROM $t", (21 + ($last < 0 ? 0 : $last < 10 ? 1 : 12)) . '|21', 'new rows');
			}
			my $t = $aio->table('u', 100);
			$aio->sql("DELETE FROM $t WHERE blk > 10");
			vacuum($alice, 'TRUNCATE off', $t);
			$aio->gives("SELECT pg_relation_size('$t') / 8192", 100, 'with TRUNCATE off, no page is cut off');
		});

		# after a crash the file must not be shorter than the WAL says; nobody else writes the WAL before
		# wal_writer_delay is over
		$aio->scenario('the record of a truncation', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 100);
			$aio->sql("DELETE FROM $t WHERE blk > 10; VACUUM (TRUNCATE off) $t; CHECKPOINT");
			my $before = $aio->sql('SELECT pg_current_wal_insert_lsn()');
			$alice->sql("SET synchronous_commit = off; VACUUM (TRUNCATE on) $t");
			$alice->gives("SELECT pg_relation_size('$t') / 8192, pg_current_wal_flush_lsn() > '$before'", '11|t', 'is written before the table is cut off');
		});

		# VACUUM has seen that the last pages are empty, and looks at them again before it cuts them off
		$aio->scenario('a row that comes meanwhile', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 100);
			$aio->sql("CREATE INDEX t_i ON $t (blk); DELETE FROM $t WHERE blk > 10");
			$aio->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t; DELETE FROM $t WHERE blk = 3; SELECT evict_rel('scenario.t_i'); SELECT io_hold('scenario.t_i')");
			$alice->starts("VACUUM (INDEX_CLEANUP on, TRUNCATE on) $t");
			$alice->waits_on('IoGateHeld', 'has read the table, and begins to read the index');
			$aio->sql('SELECT io_hold_end()');
			# INSERT may wait for a block of the index, which VACUUM reads
			$bob->starts("CALL add_pages('$t', 500, 500)");
			$aio->poll(sub { $bob->has_ended || $aio->wait_event($bob->pid) eq 'IoGateHeld' });
			$aio->gate_release;
			$bob->ends('INSERT');
			$alice->ends('VACUUM');
			$aio->gives("SELECT string_agg(blk::text, ',' ORDER BY blk), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM $t", '0,1,2,4,5,6,7,8,9,10,500|11', 'the rows');
			my $at = $aio->sql("SELECT (ctid::text::point)[0]::int FROM $t WHERE blk = 500");
			cmp_ok($at, '>', 10, 'the new row lies behind the others');
			$aio->gives("SELECT pg_relation_size('$t') / 8192", $at + 1, 'the table ends with the new row');
			$aio->evict($t);
			$alice->sql('SET enable_seqscan = off');
			$alice->gives("SELECT gen FROM $t WHERE blk = 500", 0, 'the new row, by the index');
		}, skip => $aio->lacks('gate'));
	}, conf => { wal_writer_delay => '10s' });
