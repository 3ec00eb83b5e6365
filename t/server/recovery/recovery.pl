# Recovery after a crash, from full page images and from blocks that are read, with and without
# prefetch, which counts what it does.  On a standby, replay waits for sessions that hold pins, or
# cancels them.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Vacuum;

# What ps shows of a process.
sub title { my ($pid) = @_; open my $fh, '<', "/proc/$pid/cmdline" or return; local $/; return <$fh> =~ tr/\0/ /r }

for_each_io_method(
	sub {
		my ($aio) = @_;
		# makes the extension before the standby copies the server
		my $pageinspect = !$aio->lacks('pageinspect');
		my $no_visibility = $aio->lacks('pg_visibility');
		$aio->node->backup('b');
		my $standby = TestAio::Server->of_backup($aio, 'b');

		for my $delay ('-1', '1ms')
		{
			$aio->scenario("replay meets a pin, max_standby_streaming_delay = $delay", sub {
				# four rows a page; a row of the page on which the cursor stands is dead
				my $t = 'scenario.p';
				$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 1900) FROM generate_series(0, 39) i;"
					  . "VACUUM (FREEZE) $t; DELETE FROM $t WHERE n = 21");
				$aio->replayed_by($standby);
				$standby->sql("ALTER SYSTEM SET max_standby_streaming_delay = '$delay'; SELECT pg_reload_conf()");
				$standby->wait_for("SELECT current_setting('max_standby_streaming_delay') = '$delay'");
				my ($reader) = $standby->sessions('reader');
				$standby->evict($t);
				$reader->sql("BEGIN; DECLARE c CURSOR FOR SELECT n FROM $t");
				$reader->gives('MOVE 21 FROM c; FETCH 1 FROM c', 22, 'the cursor stands beside the dead row');
				$standby->gives("SELECT pinning_backends > 0 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0 AND relblocknumber = 5", 't', 'the page is pinned')
				  if !$standby->lacks('pg_buffercache');
				$aio->sql("VACUUM (TRUNCATE off) $t; SELECT pg_logical_emit_message(false, 'test_aio', '', flush => true)");
				my ($startup) = $standby->pids_of_type('startup');
				if ($delay eq '-1')
				{
					ok($standby->poll(sub { $standby->wait_event($startup) =~ /^Buffer(?:Pin|Cleanup)$/ }), 'replay waits for the pin') || diag($standby->activity($startup));
					like(title($startup), qr/ waiting\s*$/, 'its title says so') if defined title($startup);
					$reader->gives('FETCH ALL FROM c', join("\n", 23 .. 39), 'the cursor goes on');
					$reader->sql('COMMIT');
				}
				else
				{
					$standby->poll(sub { $standby->log_text =~ /canceling statement due to conflict with recovery|terminating connection due to conflict/ }) or fail('the session is cancelled');
					$reader->starts('FETCH ALL FROM c')->wait_for_end;
					ok($reader->error, 'the session that holds the pin gets an error');
				}
				$aio->replayed_by($standby);
				unlike(title($startup), qr/waiting/, 'and does not say so later') if defined title($startup);
				$standby->evict($t);
				$standby->gives("SELECT count(*), sum(n) FROM $t", '39|759', 'the rows');
				$standby->gives("SELECT count(*) FROM heap_page_items(get_raw_page('$t', 5)) WHERE lp_flags = 3", 0, 'no dead line pointer is left') if $pageinspect;
				$standby->end_sessions;
				my $conflicts = $delay eq '-1' ? 0 : 1;
				$standby->wait_for("SELECT conflicts = $conflicts FROM pg_stat_database WHERE datname = 'postgres'");
				$standby->gives("SELECT confl_bufferpin, confl_lock + confl_snapshot + confl_deadlock FROM pg_stat_database_conflicts WHERE datname = 'postgres'", "$conflicts|0", 'conflicts by their reason');
				$standby->end_scenario(log => [ qr/reader (?:ERROR:  canceling statement|FATAL:  terminating connection) due to conflict with recovery/ ]);
			});
		}

		# what VACUUM and others note in the visibility map, replay notes as well
		$aio->scenario('the visibility map on a standby', sub {
			my $t = 'scenario.m';
			my $map = "SELECT string_agg(format('%s %s%s%s', blkno, all_visible::int, all_frozen::int, pd_all_visible::int), ', ' ORDER BY blkno) FROM pg_visibility('$t')";
			$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 1900) FROM generate_series(0, 79) i; VACUUM (FREEZE) $t");
			$aio->sql("CREATE TABLESPACE in_place LOCATION ''");
			# an empty page at the end: what an INSERT leaves that fails after it has extended the table
			my $empty_page = sub {
				$aio->sql("SELECT grow_rel('$t', 1); CHECKPOINT; SELECT evict_rel('$t')");
				my $block = $aio->sql("SELECT pg_relation_size('$t') / 8192 - 1");
				my $page = pack 'x12 v4 x4 x8168', 24, 8192, 8192, 8192 + 4;
				my $checksum = $aio->sql("SELECT page_checksum(decode('${\unpack 'H*', $page}', 'hex'), $block)");
				substr($page, 8, 2) = pack 's', $checksum;
				$aio->overwrite($aio->file_of($t), $block * 8192, $page);
			};
			my $empty_page_is_visible = sub {
				my ($alice) = $aio->sessions('alice');
				like(vacuum($alice, 'TRUNCATE off', $t), qr/visibility map: 1 pages set all-visible, 1 pages set all-frozen \(0 were all-visible\)/, 'VACUUM reports the empty page');
				# the page itself says so on disk, too
				$aio->evict($t);
				$aio->gives("SELECT all_visible, all_frozen, pd_all_visible FROM pg_visibility('$t', pg_relation_size('$t') / 8192 - 1)", 't|t|t', 'and notes it');
				$aio->end_session($alice);
			};
			my @steps = ("DELETE FROM $t WHERE n = 5", "UPDATE $t SET n = n WHERE n = 9", "SELECT n FROM $t WHERE n = 13 FOR UPDATE", "SELECT n FROM $t WHERE n = 17 FOR KEY SHARE",
				"INSERT INTO $t SELECT 100, 'x'", "VACUUM (TRUNCATE off) $t", "VACUUM (FREEZE, TRUNCATE off) $t", ($pageinspect ? ($empty_page, $empty_page_is_visible) : ()), "ALTER TABLE $t SET TABLESPACE in_place", "DELETE FROM $t WHERE n > 30", "VACUUM (TRUNCATE on) $t");
			for my $step (@steps)
			{
				my $name = ref $step ? 'VACUUM of an empty page' : $step;
				ref $step ? $step->() : $aio->sql($step);
				# a page that the primary alone has comes to the standby when it is written
				next if $step eq $empty_page;
				$aio->replayed_by($standby);
				is($standby->sql($map), $aio->sql($map), "$name: the maps agree");
				$standby->gives("SELECT (SELECT count(*) FROM pg_check_frozen('$t')), (SELECT count(*) FROM pg_check_visible('$t'))", '0|0', 'and are right');
			}
			$standby->gives("SELECT count(*), sum(n) FROM $t", $aio->sql("SELECT count(*), sum(n) FROM $t"), 'the rows');
			$aio->sql("DROP TABLE $t; DROP TABLESPACE in_place");
			$aio->replayed_by($standby);
		}, skip => $no_visibility // ($aio->repeats ? 'the same with each io_method' : undef));
		ok($standby->stop, 'the standby stops');

		# recovery_prefetch and full_page_writes
		for my $case ([ 'on', 'on' ], [ 'on', 'off' ], [ 'off', 'off' ])
		{
			my ($prefetch, $full_pages) = @$case;
			$aio->scenario("crash, recovery_prefetch = $prefetch, full_page_writes = $full_pages", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 120);
				my $new = $aio->table('n', 1);
				my $small = 'scenario.s';
				# the rows are in block 1: recovery's list of recent blocks begins with zeros, like block 0
				$aio->sql("CREATE TABLE $small (n int, filler text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $small VALUES (0, repeat('x', 8000)); INSERT INTO $small SELECT generate_series(1, 50)");
				$aio->sql("ALTER SYSTEM SET full_page_writes = $full_pages; ALTER SYSTEM SET recovery_prefetch = $prefetch; SELECT pg_reload_conf()");
				# until the checkpointer knows the setting
				$aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql('SELECT full_page_writes FROM pg_control_checkpoint()') eq ($full_pages eq 'on' ? 't' : 'f') });
				# changes some blocks twice, and adds new blocks
				$alice->sql("DELETE FROM $t WHERE blk % 2 = 1 AND blk > 20; DELETE FROM $t WHERE blk % 4 = 0 AND blk > 20");
				$alice->sql("CALL add_pages('$new', 1, 39)");
				# many changes of one block
				$alice->sql("DELETE FROM $small WHERE n > 0; SELECT txid_current()");
				$aio->recovers;
				my ($prefetched, $hit, $init, $new_blocks, $fpw, $rep) =
				  split /\|/, $aio->sql('SELECT prefetch, hit, skip_init, skip_new, skip_fpw, skip_rep FROM pg_stat_recovery_prefetch');
				my $all = "prefetch $prefetched, hit $hit, init $init, new $new_blocks, fpw $fpw, rep $rep";
				if ($prefetch eq 'off')
				{
					is($prefetched + $hit + $init + $new_blocks + $fpw + $rep, 0, "counts nothing: $all");
				}
				elsif ($full_pages eq 'on')
				{
					ok($fpw >= 74 && $fpw < 150, "full page images need no prefetch: $all");
					cmp_ok($prefetched, '<', 20, 'few blocks are prefetched');
				}
				else
				{
					ok($prefetched >= 74 && $prefetched < 150, "each changed block is prefetched: $all");
					cmp_ok($fpw, '<', 20, 'there are few full page images');
				}
				if ($prefetch eq 'on')
				{
					cmp_ok($init, '>=', 30, 'new pages need no prefetch');
					cmp_ok($rep, '>=', 40, 'nor do blocks that come again and again') if $full_pages eq 'off';
					$aio->sql("SELECT pg_stat_reset_shared('recovery_prefetch')");
					$aio->gives("SELECT prefetch + hit + skip_init + skip_new + skip_fpw + skip_rep, stats_reset > pg_postmaster_start_time() FROM pg_stat_recovery_prefetch", '0|t', 'a reset forgets all');
				}
				$aio->gives("SELECT count(*), sum(blk), count(*) FILTER (WHERE body = proof('$t', blk, 0)) FROM $t",
					$aio->sql('SELECT count(*), sum(i), count(*) FROM generate_series(0, 119) i WHERE NOT (i > 20 AND (i % 2 = 1 OR i % 4 = 0))'), 'the rows');
				$aio->proves($new, blocks => 40);
				$aio->evict($t);
				$aio->evict($new);
				$aio->proves($new, blocks => 40, name => 'the new blocks on disk');
			}, dies => 1, skip => $aio->repeats && $prefetch eq 'off' ? 'the same with each io_method' : undef);
		}

		$aio->scenario('crash after DROP, TRUNCATE and extension', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u, $v) = map { $aio->table($_, 40) } qw(t u v);
			$aio->sql('CHECKPOINT');
			$alice->sql("DELETE FROM $t WHERE blk > 9; VACUUM (TRUNCATE on) $t; UPDATE $u SET gen = 1, body = proof('$u', blk, 1) WHERE blk < 7;"
				  . "CALL add_pages('$t', 10, 29); TRUNCATE $v; DROP TABLE $u; CALL add_pages('$v', 0, 4, 5)");
			$alice->sql('SELECT txid_current()');
			$aio->recovers;
			$aio->proves($t, blocks => 30);
			$aio->proves($v, gen => 5, blocks => 5);
			$aio->gives("SELECT to_regclass('$u') IS NULL", 't', 'the table is dropped');
		}, dies => 1);
	}, streaming => 1, conf => { allow_in_place_tablespaces => 'on', max_standby_streaming_delay => '-1', hot_standby_feedback => 'off', log_checkpoints => 'on' });
