# A standby of a standby: what the servers tell of each other, which rows and which WAL they keep for each other, and a
# promotion that the second one follows.
use TestAio;
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);

for_each_io_method('worker', sub {
	my $first = $aio->make_standby;
	# Without a new checkpoint, the backup has the redo position of the one that the first standby is made from, and replay
	# takes that one's end for its own.
	$aio->sql('CHECKPOINT');
	$aio->replayed_by($first);
	my $second = $first->make_standby;
	$first->alter_system(wal_keep_size => 0);
	my $slot = $first->sql(q{SELECT (pg_create_physical_replication_slot('for_second')).slot_name});

	$aio->scenario('a backup of a standby', sub {
		my $label = slurp_file($first->node->backup_dir . '/b/backup_label');
		like($label, qr/^BACKUP METHOD: streamed\nBACKUP FROM: standby\n(?:.*\n)*START TIMELINE: 1\n/m, 'its label');
		my ($start) = $label =~ /CHECKPOINT LOCATION: (\S+)/;
		my ($end) = `pg_controldata '${\$first->node->backup_dir}/b'` =~ /Minimum recovery ending location: +(\S+)/;
		$second->gives("SELECT '$end'::pg_lsn > '$start'", 't', 'its minimum recovery point is after its checkpoint');
		like(slurp_file($second->node->logfile), qr{completed backup recovery with redo LSN \S+ and end LSN \Q$end\E\n(?:.*\n)*?.* consistent recovery state reached at}, 'which is where it is complete');
	});

	$aio->scenario('what they tell of each other', sub {
		my $pid = $second->sql('SELECT pid FROM pg_stat_wal_receiver');
		$second->alter_system(primary_slot_name => $slot);
		$second->wait_for("SELECT slot_name = '$slot' AND pid <> $pid AND status = 'streaming' FROM pg_stat_wal_receiver");
		my $begin = $aio->sql('SELECT clock_timestamp()');
		$aio->sql('CREATE TABLE scenario.t AS SELECT generate_series(1, 1000) AS n');
		$aio->replayed_by($_) for $first, $second;
		$_->gives("SELECT pg_last_xact_replay_timestamp() BETWEEN '$begin' AND clock_timestamp()", 't', 'when the last transaction committed') for $first, $second;
		for my $pair ([ $aio, $first, '' ], [ $first, $second, $slot ])
		{
			my ($sender, $receiver, $by) = @$pair;
			my $node = $sender->node;
			# the primary may log its running transactions at any time
			my $has_all = sub ($server, $columns, $view) {
				ok($server->poll(sub { my $end = $sender->sql('SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_flush_lsn() END'); $server->sql("SELECT '$end' = ALL (ARRAY[$columns]) FROM $view") eq 't' }), "$view has the end of the WAL")
				  || diag($server->sql("SELECT v FROM $view v"));
			};
			$has_all->($receiver, 'written_lsn, flushed_lsn, latest_end_lsn', 'pg_stat_wal_receiver');
			$has_all->($sender, 'sent_lsn, write_lsn, flush_lsn, replay_lsn', 'pg_stat_replication');
			$receiver->gives('SELECT status, receive_start_tli, received_tli, sender_host, sender_port, slot_name FROM pg_stat_wal_receiver', join('|', 'streaming', 1, 1, $node->host, $node->port, $by), 'from whom');
			$receiver->gives("SELECT receive_start_lsn <= flushed_lsn AND '$begin' < last_msg_send_time AND last_msg_send_time <= last_msg_receipt_time AND latest_end_time <= last_msg_receipt_time AND last_msg_receipt_time < clock_timestamp() FROM pg_stat_wal_receiver", 't', 'in this order');
			$sender->gives_soon('SELECT application_name, state, sync_state, client_port, backend_xmin FROM pg_stat_replication', join('|', $receiver->node->name, 'streaming', $sender == $aio ? 'sync' : 'async', -1, ''), 'to whom');
		}
		$aio->gives('SELECT count(*) FROM pg_stat_wal_receiver', 0, 'the primary has no receiver');
		$first->gives_soon('SELECT active, restart_lsn = pg_last_wal_receive_lsn() FROM pg_replication_slots', 't|t', 'the slot');

		$aio->sql('CREATE ROLE stranger');
		$aio->replayed_by($first);
		$first->sql('SET ROLE stranger');
		$first->gives('SELECT string_agg(key, \' \') FROM pg_stat_wal_receiver r, jsonb_each(jsonb_strip_nulls(to_jsonb(r)))', 'pid', 'who may not know sees that there is a receiver');
		$first->gives('SELECT num_nonnulls(state, sent_lsn, write_lsn, flush_lsn, replay_lsn, write_lag, sync_priority, sync_state, reply_time, client_addr, client_port) FROM pg_stat_replication', 0, 'and that there is a sender');
		$first->sql('RESET ROLE');
		$aio->sql('DROP ROLE stranger');

		my $time = $first->sql('SELECT reply_time FROM pg_stat_replication');
		$second->alter_system(wal_receiver_status_interval => "'1s'");
		$first->wait_for("SELECT reply_time > '$time'::timestamptz + interval '500 ms' FROM pg_stat_replication");
		$second->alter_system(wal_receiver_status_interval => "'1h'");
	});

	# a standby replies when it has replayed all, long before an hour is over
	$aio->scenario('synchronous_commit = remote_apply', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.t (n int); SET synchronous_commit = remote_apply; INSERT INTO scenario.t VALUES (1)');
		$first->gives('SELECT count(*) FROM scenario.t', 1, 'a row is there when its transaction has committed');
		$first->sql('SELECT pg_wal_replay_pause()');
		$alice->waits('INSERT INTO scenario.t VALUES (2)', 'SyncRep');
		$first->gives_soon('SELECT pg_get_wal_replay_pause_state(), pg_is_wal_replay_paused(), (SELECT count(*) FROM scenario.t)', 'paused|t|1', 'while replay pauses, it is not');
		$first->sql('SELECT pg_wal_replay_resume()');
		$alice->ends;
		$first->gives('SELECT pg_get_wal_replay_pause_state(), count(*) FROM scenario.t', 'not paused|2', 'and there it is');
	}));

	$aio->scenario('hot_standby_feedback', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.t WITH (autovacuum_enabled = off) AS SELECT generate_series(1, 10) AS n');
		$aio->replayed_by($_) for $first, $second;
		my $reader = $second->session('reader');
		my $xmin = $reader->sql('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_snapshot_xmin(pg_current_snapshot())');
		$alice->sql('DELETE FROM scenario.t WHERE n = 7');
		use_up_xids($aio, 1);
		my $slots = "SELECT xmin, catalog_xmin FROM pg_replication_slots";
		$first->gives($slots, '|', 'the slot keeps no rows');
		$second->alter_system(hot_standby_feedback => 'on');
		$first->gives_soon($slots, "$xmin|", 'the slot has the snapshot of the second');
		# again and again, since a slot may show an xmin before it counts
		$first->alter_system(hot_standby_feedback => 'on', wal_receiver_status_interval => "'1s'");
		$aio->gives_soon('SELECT backend_xmin FROM pg_stat_replication', $xmin, 'and the primary has it from the first');
		my $vacuum = sub { $alice->notices; $alice->sql('VACUUM (VERBOSE) scenario.t'); return join('', $alice->notices) =~ /tuples: (\d+) removed, \d+ remain, (\d+) are dead/ ? "$1, $2" : 'no report' };
		is($vacuum->(), '0, 1', 'the row that it sees is kept');
		$aio->replayed_by($second);
		$reader->gives('SELECT sum(n) FROM scenario.t', 55, 'it sees all rows');
		$reader->sql('COMMIT');
		$_->alter_system(hot_standby_feedback => 'off') for $second, $first;
		$first->gives_soon($slots, '|', 'the slot forgets');
		$aio->gives_soon('SELECT backend_xmin FROM pg_stat_replication', '', 'so does the primary');
		$first->alter_system(wal_receiver_status_interval => "'1h'");
		is($vacuum->(), '1, 0', 'the row goes');
		$second->end_session($reader);
	}));

	$aio->scenario('old WAL of a standby', sub {
		my $counted = sub ($done, $name) {
			my $expected = $first->sql("SELECT restartpoints_req + 1, restartpoints_done + $done, num_requested, num_done FROM pg_stat_checkpointer; CHECKPOINT");
			$first->gives_soon('SELECT restartpoints_req, restartpoints_done, num_requested, num_done FROM pg_stat_checkpointer', $expected, $name);
			$first->gives('SELECT min_recovery_end_lsn > checkpoint_lsn FROM pg_control_recovery(), pg_control_checkpoint()', 't', 'recovery goes beyond its record at least');
		};
		my $segment = $first->sql(q{SELECT div(lsn - '0/0', 1048576) FROM pg_create_physical_replication_slot('kept', true)});
		# nobody writes anything into the next one
		while_still($aio->pids_of_type('background writer'), sub {
			my $file = $aio->sql("SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()") && $aio->sql('SELECT max(name) FROM pg_ls_waldir() WHERE name < pg_walfile_name(pg_current_wal_insert_lsn())');
			ok($_->poll(sub { -e $_->node->data_dir . "/pg_wal/archive_status/$file.done" }, 10), "a segment is done with: $file") for $first, $second;
		});
		my $there = 'SELECT min(segment_number) FROM pg_ls_waldir(), pg_split_walfile_name(name) WHERE length(name) = 24';
		$aio->sql("SELECT pg_logical_emit_message(true, '', ''), pg_switch_wal()") for 1 .. 6;
		$aio->sql('CHECKPOINT');
		$aio->replayed_by($_) for $first, $second;
		$counted->(1, 'a restartpoint is counted');
		$counted->(0, 'without a new checkpoint of the primary, there is none');
		$aio->sql("SELECT pg_logical_emit_message(false, '', ''); CHECKPOINT");
		$aio->replayed_by($_) for $first, $second;
		$counted->(1, 'one that writes no buffer');
		$first->gives($there, $segment, 'the slot keeps WAL');
		$first->alter_system(max_slot_wal_keep_size => "'2MB'");
		$first->gives_soon("SELECT wal_status, safe_wal_size > 0 FROM pg_replication_slots WHERE slot_name = 'kept'", $first->has_bug('slot-status-on-standby') ? 'reserved|t' : 'unreserved|f', 'what becomes of it with the next one');
		# the checkpointer may learn of it later
		ok($first->poll(sub { $aio->sql('CHECKPOINT'); $aio->replayed_by($_) for $first, $second; $first->sql('CHECKPOINT'); $first->sql("SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'kept'") eq 'lost' }), 'a slot may keep less WAL');
		$first->logs(qr/checkpointer LOG:  invalidating obsolete replication slot "kept"/, 1, 'the slot has gone too far back');
		$first->gives('SELECT slot_name, wal_status, restart_lsn IS NULL, invalidation_reason, active FROM pg_replication_slots ORDER BY 1', "$slot|reserved|f||t\nkept|lost|t|wal_removed|f", 'it is lost, the other is not');
		$first->gives("SELECT ($there) > $segment", 't', 'its WAL is gone');
		$first->sql("SELECT pg_drop_replication_slot('kept')");
		$first->alter_system(max_slot_wal_keep_size => 'DEFAULT');
	}, skip => $aio->setting('wal_segment_size') eq '1MB' ? undef : 'a segment of the WAL has more than 1 MB');

	# with checksums, what is noted by a hint only is not written by replay; the first time, there is an image of the page
	$aio->scenario('the free space map', sub {
		my $t = 'scenario.f';
		$aio->sql("CREATE TABLE $t (body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT repeat('x', 4000) FROM generate_series(1, 20)");
		my $space = "SELECT string_agg(avail::text, ' ' ORDER BY blkno) FROM pg_freespace('$t')";
		for my $rows (qw(2 1))
		{
			$aio->sql($_) for "DELETE FROM $t WHERE ctid::text ~ '[0-4],$rows'", "VACUUM (TRUNCATE off) $t";
			$aio->replayed_by($first);
			$first->evict($t);
			$first->gives($space, $aio->sql($space), 'is written with what replay has noted');
		}
	}, skip => $aio->lacks('pg_freespacemap') // ($aio->setting('server_version') =~ /^19(?:beta|rc)/ ? 'server commit c06d1a4ba6 is in 18.6 and in master, and not in 19rc1' : undef));

	$aio->scenario('promotion', sub {
		$aio->sql('CREATE TABLE scenario.t AS SELECT 1 AS n');
		$aio->replayed_by($_) for $first, $second;
		my $pid = $second->sql('SELECT pid FROM pg_stat_wal_receiver');
		# as if these had been recycled
		my @ahead = map { $second->node->data_dir . "/pg_wal/0000000${_}00000000000000FF" } 1, 2;
		append_to_file($_, "\0" x 2**20) for @ahead;
		$first->gives('SELECT pg_promote(wait_seconds => ' . $aio->timeout . ')', 't', 'the first is promoted');
		$first->sql('INSERT INTO scenario.t VALUES (2)');
		# the primary does not know
		$aio->sql('INSERT INTO scenario.t VALUES (4)');
		$first->replayed_by($second);
		$second->gives('SELECT sum(n) FROM scenario.t', 3, 'the rows');
		$second->gives('SELECT status, received_tli, receive_start_tli, slot_name, pid FROM pg_stat_wal_receiver', "streaming|2|2|$slot|$pid", 'the same process receives the new timeline');
		my @histories = map { slurp_file($_->node->data_dir . '/pg_wal/00000002.history') } $first, $second;
		my ($switch) = $histories[0] =~ m{^1\t(\w+/\w+)\tno recovery target specified\n\z};
		is($histories[1], $histories[0], 'the history of the timeline');
		$second->logs(qr/(?:walreceiver LOG:  (?:replication terminated by primary server|fetching timeline history file for timeline 2)|startup LOG:  new target timeline is 2)/, 3, 'the second says so');
		like($second->log_text, qr{DETAIL:  End of WAL reached on timeline 1 at \Q$switch\E\.}, 'and where');
		is(join(' ', map { -e $_ ? 1 : 0 } @ahead), '0 1', 'no segment of the old timeline is left after the switch');
		$first->gives_soon('SELECT (SELECT count(*) FROM pg_stat_wal_receiver), application_name, state, sync_state FROM pg_stat_replication', "0|${\$second->node->name}|streaming|sync", 'the first only sends');
		$aio->gives_soon('SELECT count(*) FROM pg_stat_replication', 0, 'not so the primary');
		ok($_->stop && $_->check_log, 'stops') for $second, $first;
	});
}, streaming => 1, conf => { wal_receiver_status_interval => '1h', wal_sender_timeout => 0, synchronous_standby_names => '*', synchronous_commit => 'local', hot_standby_feedback => 'off' });
