# What the server counts of buffers and writes: buffers that are allocated, writes of checkpoints,
# extensions, the time of both, blocks whose hint bits parallel workers set, and advice to the kernel
# to write back.  What checkpoints write and sync.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Plan;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('checkpoints', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 100);
			# a checkpoint of so many writes at least; the checkpointer reports its counts after CHECKPOINT has ended
			my $checkpoint = sub {
				my ($least) = @_;
				my $counts = "SELECT num_done, (SELECT sum(writes) FROM pg_stat_io WHERE backend_type = 'checkpointer' AND object = 'relation') FROM pg_stat_checkpointer";
				my ($done, $writes) = split /\|/, $aio->sql($counts);
				$aio->sql('CHECKPOINT');
				$aio->poll(sub { my @now = split /\|/, $aio->sql($counts); $now[0] > $done && $now[1] >= $writes + $least });
			};
			# the second one has nothing to write, so what the first one writes is reported
			$checkpoint->(0) for 1, 2;
			# in another order than that of the blocks in the file
			$alice->sql("DELETE FROM $t WHERE blk % 10 = $_") for 3, 1, 2;
			my @change = split m{/}, $aio->change_during(
				"SELECT buffers_written, num_done, w.writes, w.write_bytes, w.writebacks FROM pg_stat_checkpointer,"
				  . " (SELECT sum(writes) AS writes, sum(write_bytes) AS write_bytes, sum(writebacks) AS writebacks FROM pg_stat_io WHERE backend_type = 'checkpointer' AND object = 'relation') w",
				sub { $checkpoint->(30) });
			my ($buffers, $done, $writes, $bytes, $writebacks) = @change;
			is($done, 1, 'one checkpoint');
			cmp_ok($buffers, '>=', 30, "pg_stat_checkpointer: $buffers buffers");
			cmp_ok($buffers, '<', 60, 'few blocks more');
			is($writes, $buffers, 'pg_stat_io: as many writes');
			is($bytes, $buffers * 8192, 'bytes');
			is($writebacks, $buffers, 'each block is written back');
			my ($said, $synced) = $aio->log_text =~ /.*checkpoint complete[^\n]*? wrote (\d+) buffers[^\n]*? sync files=(\d+)/s;
			is($said, $buffers, 'the log says so');
			# the table, pg_xact, and what the session has written of the catalogs
			is_between($synced, 2, $buffers, 'and how many files are synced');
		});

		$aio->scenario('the time that syncing takes', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			my $time = "SELECT sum(fsyncs), sum(fsync_time) FROM pg_stat_io WHERE backend_type = 'checkpointer' AND object = 'relation'";
			my ($before) = $aio->sql($time) =~ /\|(.*)/;
			$aio->alter_system(track_io_timing => 'on');
			# until the checkpointer has read the settings, and reported
			my ($syncs, $ms);
			ok($aio->poll(sub {
					$alice->sql("UPDATE $t SET gen = gen");
					$aio->sql('CHECKPOINT');
					($syncs, $ms) = split /\|/, $aio->sql($time);
					return $syncs && $ms > $before;
				}), 'pg_stat_io: fsync_time') || diag("$syncs, $ms");
			$aio->sql('ALTER SYSTEM RESET ALL; SELECT pg_reload_conf()');
		});

		# the background writer counts them, and reports them some time later
		$aio->scenario('buffers that are allocated', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 100);
			my $allocated = sub { return $aio->sql('SELECT buffers_alloc FROM pg_stat_bgwriter') };
			my $before = $allocated->();
			$alice->sql("SELECT count(*) FROM $t");
			my $after;
			ok($aio->poll(sub { $after = $allocated->(); $after >= $before + 100 }), 'pg_stat_bgwriter: a buffer for each block') || diag("$before, $after");
			$before = $after;
			$alice->sql("SELECT count(*) FROM $t") for 1 .. 5;
			cmp_ok($allocated->() - $before, '<', 100, 'and none for cached blocks');
			# each report is of another round of the background writer
			for (1 .. 5)
			{
				my $last = $allocated->();
				$alice->sql("SELECT invalidate_rel_block('$t', 7), read_rel_block_ll('$t', 7)");
				$aio->poll(sub { $allocated->() > $last }) or fail('another report');
			}
			cmp_ok($allocated->() - $before, '<', 250, 'no round counts those of earlier rounds');
		});

		# sessions ask the checkpointer to sync files; a queue that is full loses its duplicates and no file
		$aio->scenario('a full queue of fsync requests', sub {
			my ($alice) = $aio->sessions('alice');
			my @tables = map { $aio->table("s$_", 1) } 1 .. 12;
			my $room = $aio->sql("SELECT setting FROM pg_settings WHERE name = 'shared_buffers'");
			$alice->sql('SET log_min_messages = debug1');
			my $size = $aio->log_size;
			$aio->alter_system(log_min_messages => 'debug1');
			$aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->log_text($size) =~ /checkpointer DEBUG:/ }) or fail('the checkpointer knows the setting');
			my ($checkpointer) = $aio->pids_of_type('checkpointer');
			$aio->poll(sub { $aio->wait_event($checkpointer) eq 'CheckpointerMain' });
			$size = $aio->log_size;
			kill 'STOP', $checkpointer;
			my $grown = eval {
				$alice->sql("SELECT count(grow_rel('$_', 1)) FROM generate_series(1, 300)") for @tables[ 0 .. 7 ];
				$alice->sql("SELECT grow_rel('$_', 1)") for @tables[ 8 .. 11 ];
				1;
			};
			kill 'CONT', $checkpointer;
			ok($grown, 'twelve tables grow while the checkpointer stands still') || diag($@);
			$aio->sql('CHECKPOINT');
			my $log = $aio->log_text($size);
			like($log, qr/compacted fsync request queue from $room entries to \d+ entries/, 'the queue was full');
			my @synced = $log =~ /checkpoint sync: number=\d+ file=(\S+) /g;
			my %files = map { $aio->sql("SELECT pg_relation_filepath('$_')") => $_ } @tables;
			delete @files{@synced};
			is(join(' ', sort values %files), '', 'the checkpoint syncs the files of all of them');
			$aio->sql('ALTER SYSTEM RESET log_min_messages; SELECT pg_reload_conf()');
		});

		$aio->scenario('options of CHECKPOINT', sub {
			my ($t, $u) = ($aio->table('t', 5), $aio->table('u', 5, kind => 'UNLOGGED'));
			my $dirty = sub { return join ',', map { $aio->sql("SELECT count(*) FROM buffers_in_file(pg_relation_filenode('$_')) WHERE fork = 'main' AND 'DIRTY' = ANY (flags)") } $t, $u };
			for my $case ([ '', 2 ], [ '(FLUSH_UNLOGGED false)', 2 ], [ '(MODE fast)', 2 ], [ '(MODE spread, FLUSH_UNLOGGED)', 0 ], [ '(FLUSH_UNLOGGED true)', 0 ])
			{
				my ($options, $unlogged) = @$case;
				$aio->sql("UPDATE $_ SET gen = gen + 1 WHERE ctid IN (SELECT min(ctid) FROM $_)") for $t, $u;
				$aio->sql("CHECKPOINT (FLUSH_UNLOGGED); DELETE FROM $_ WHERE ctid IN (SELECT ctid FROM $_ ORDER BY ctid LIMIT 1); INSERT INTO $_ SELECT 'x', -1, 0, 'x'") for $t, $u;
				my ($before) = $dirty->();
				$aio->sql("CHECKPOINT $options");
				my ($logged, $left) = split /,/, $dirty->();
				is($logged, 0, "CHECKPOINT $options writes logged tables");
				is($left > 0, $unlogged > 0, $unlogged ? 'and no others' : 'and unlogged ones');
			}
		}, skip => $aio->major < 19 ? '18 has no options' : undef);

		$aio->scenario('extensions', sub {
			my ($alice) = $aio->sessions('alice');
			$aio->sql("CREATE TABLE scenario.e (body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
			my $insert = "INSERT INTO scenario.e SELECT repeat('x', 7000) FROM generate_series(1, 50)";
			for my $timing ('off', 'on')
			{
				$alice->sql("SET track_io_timing = $timing");
				my $plan;
				my @change = split m{/}, $aio->change_during("SELECT d.blk_write_time, i.extend_bytes, i.extend_time FROM pg_stat_database d,"
					  . " (SELECT sum(extend_bytes) AS extend_bytes, sum(extend_time) AS extend_time FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation') i WHERE datname = 'postgres'",
					sub { $plan = explained($alice, 'BUFFERS', $insert) }, $alice);
				cmp_ok($plan->{'Shared Written Blocks'}, '>=', 50, "track_io_timing = $timing: blocks that were written") || diag($plan->{plan});
				cmp_ok($change[1], '>=', 50 * 8192, 'bytes');
				if ($timing eq 'off')
				{
					is($change[0] + $change[2], 0, 'no time');
					next;
				}
				cmp_ok($change[2], '>', 0, 'pg_stat_io: time');
				# each extension counts in whole microseconds there
				cmp_ok($change[0], '>', 0, 'pg_stat_database: time');
				my $explained = $plan->{'Shared I/O Write Time'};
				cmp_ok($explained, '>', 0, 'EXPLAIN: time');
				cmp_ok(abs($explained - $change[2]), '<', 0.5 + 0.1 * $change[2], 'as much as in pg_stat_io');
			}
		});

		# the first scan sets hint bits; workers report what they have made dirty to the leader
		$aio->scenario('blocks dirtied by readers', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 10');
			for my $workers (0, 1, 2)
			{
				$aio->sql("DROP TABLE IF EXISTS scenario.h; CREATE TABLE scenario.h (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);"
					  . "INSERT INTO scenario.h SELECT i, repeat('x', 7000) FROM generate_series(1, 200) i; CHECKPOINT; SELECT evict_rel('scenario.h')");
				$alice->sql("SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = " . ($workers == 2 ? 'off' : 'on'));
				my @scan = ($alice, 'BUFFERS', 'SELECT count(*), max(n) FROM scenario.h');
				my $first = explained(@scan);
				like($first->{plan}, qr/"Workers Launched": $workers/, 'with workers') if $workers;
				cmp_ok($first->{'Shared Read Blocks'}, '>=', 200, "$workers workers: blocks that were read") || diag($first->{plan});
				is_between($first->{'Shared Dirtied Blocks'}, 200, 209, 'the first scan makes each block dirty');
				is(explained(@scan)->{'Shared Dirtied Blocks'}, 0, 'the second scan makes none dirty');
			}
		});
	}, conf => { shared_buffers => '16MB', max_worker_processes => 8, max_parallel_workers => 4, checkpoint_flush_after => '256kB',
		# the background writer reports often, and writes nothing
		bgwriter_delay => '10ms', bgwriter_lru_maxpages => 0,
		# without, nothing is written back
		fsync => 'on' });
