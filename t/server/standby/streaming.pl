# The two processes that stream WAL: what each does if the other one stands still, and the slot between them.
use TestAio;
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);

for_each_io_method('worker', sub {
	my $standby = $aio->make_standby;
	my $sender = sub { return $aio->sql(q{SELECT pid FROM pg_stat_replication WHERE state = 'streaming'}) };
	my $receiver = sub { return $standby->sql(q{SELECT pid FROM pg_stat_wal_receiver WHERE status = 'streaming'}) };
	my $goes_on = sub ($name) {
		$aio->sql('INSERT INTO scenario.n VALUES (1)');
		$aio->replayed_by($standby);
		return $standby->gives('SELECT count(*) FROM scenario.n', $aio->sql('SELECT count(*) FROM scenario.n'), $name);
	};

	$aio->scenario('one of them stands still', sub {
		$aio->sql('CREATE TABLE scenario.n (n int)');
		$goes_on->('the standby follows');
		for my $case ([ $sender, $standby, wal_receiver_timeout => qr/walreceiver FATAL:  terminating walreceiver due to timeout/ ],
			[ $receiver, $aio, wal_sender_timeout => qr/walsender \S+ LOG:  terminating walsender process due to replication timeout/ ])
		{
			my ($pid, $server, $setting, $says) = @$case;
			my ($receiving, $sending) = ($receiver->(), $sender->());
			while_still($pid->(), sub {
				my $size = $server->log_size;
				$server->alter_system($setting => "'300ms'");
				ok($server->poll(sub { $server->log_text($size) =~ $says }), "$setting: the other one ends") || diag($server->log_text($size));
				$server->alter_system($setting => 'DEFAULT');
			});
			ok($aio->poll(sub { my @now = ($receiver->(), $sender->()); $now[0] && $now[1] && $now[0] ne $receiving && $now[1] ne $sending }), 'two others take their places');
			$goes_on->('the standby follows');
		}
		$standby->end_scenario(log => qr/walreceiver FATAL:  (?:could not receive data from WAL stream|terminating walreceiver due to timeout)/);
	});

	$aio->scenario('their slot', sub {
		$aio->sql('CREATE TABLE scenario.n (n int)');
		my $slots = q{SELECT regexp_replace(slot_name, '\d+$', 'PID'), slot_type, temporary, active, inactive_since IS NULL, wal_status FROM pg_replication_slots};
		$standby->alter_system(wal_receiver_create_temp_slot => 'on');
		ok($aio->poll(sub { $aio->sql('SELECT count(*) FROM pg_replication_slots WHERE active') eq '1' && $receiver->() }), 'the receiver makes one');
		$aio->gives_soon($slots, 'pg_walreceiver_PID|physical|t|t|t|reserved', 'it is temporary');
		is($standby->sql('SELECT slot_name FROM pg_stat_wal_receiver'), $aio->sql('SELECT slot_name FROM pg_replication_slots'), 'the receiver says so');
		$goes_on->('the standby follows');
		my $size = $standby->log_size;
		$standby->alter_system(wal_receiver_create_temp_slot => 'DEFAULT', primary_slot_name => 'kept');
		ok($standby->poll(sub { $standby->log_text($size) =~ /FATAL:  could not start WAL streaming: ERROR:  replication slot "kept" does not exist/ }), 'a slot that is not there');
		$aio->gives_soon($slots, '', 'the temporary one has gone');
		$aio->sql(q{SELECT pg_create_physical_replication_slot('kept')});
		$aio->gives_soon($slots, 'kept|physical|f|t|t|reserved', 'now it is there');
		$goes_on->('the standby follows');
		my $restart = q{SELECT restart_lsn >= pg_current_wal_lsn() FROM pg_replication_slots};
		$aio->gives_soon($restart, 't', 'the slot follows, too');
		# the xmin of a standby with feedback
		my $xmin = 'SELECT xmin IS NOT NULL FROM pg_replication_slots';
		$standby->alter_system(hot_standby_feedback => 'on');
		$aio->gives_soon($xmin, 't', 'feedback');
		$standby->alter_system(hot_standby_feedback => 'off');
		$aio->gives_soon($xmin, 'f', 'none');
		$standby->alter_system(hot_standby_feedback => 'on');
		$aio->gives_soon($xmin, 't', 'feedback');
		while_stopped($standby, sub {
			$aio->gives_soon($slots, 'kept|physical|f|f|f|reserved', 'the standby is away');
			$aio->gives($xmin, 't', 'its xmin stays');
			$standby->node->append_conf('postgresql.auto.conf', 'hot_standby_feedback = off');
		});
		$aio->gives_soon($xmin, 'f', 'until it comes back without feedback');
		my $now = $aio->sql('SELECT clock_timestamp()');
		$standby->alter_system(primary_slot_name => 'DEFAULT');
		$aio->gives_soon($slots, 'kept|physical|f|f|f|reserved', 'nobody has it any more');
		$aio->gives("SELECT inactive_since BETWEEN '$now' AND clock_timestamp() FROM pg_replication_slots", 't', 'since when');
		$goes_on->('the standby follows');
		$aio->gives($restart, 'f', 'the slot does not');
		$aio->sql(q{SELECT pg_drop_replication_slot('kept')});
		$standby->end_scenario(log => qr/walreceiver FATAL:  (?:could not start WAL streaming|terminating walreceiver)/);
	}, log => qr/walsender \S+ ERROR:  replication slot "kept" does not exist/);

	# without its locks, the standby would show what is no longer there
	$aio->scenario('no memory for the locks of the primary', sub {
		$aio->sql('CREATE TABLE scenario.n (n int)');
		$aio->replayed_by($standby);
		my $reader = $standby->session('reader');
		$reader->fails('SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 1000000) i', '53200', qr/out of shared memory/, 'a session takes all');
		my $size = $standby->log_size;
		$aio->sql('BEGIN; LOCK TABLE scenario.n; COMMIT');
		$standby->ends('the standby ends');
		like($standby->log_text($size), qr/startup FATAL:  out of shared memory/, 'the log says why');
		$standby->start_with_sessions;
		$standby->end_session($reader);
		$goes_on->('then it follows');
		# before server commit b85f9c00fb, in 19, the startup process releases a lock that it has not got, on which an assertion fails
		my $releases = $aio->major < 19;
		my $end = $releases && $aio->has_assertions ? 'was terminated by signal 6' : 'exited with exit code 1';
		my @said = $releases ? (qr/startup WARNING:  you don't own a lock/, qr/^TRAP: failed Assert\("false"\), File: "\S*standby\.c"/) : ();
		$standby->end_scenario(log => [ qr/startup FATAL:  out of shared memory/, qr/postmaster LOG:  startup process \(PID \d+\) $end/, @said ], dies => 1);
	});

	$aio->scenario('promotion of a standby that is paused', sub {
		my $go = $aio->node->basedir . '/go';
		$standby->alter_system(recovery_end_command => "'while test ! -e \"$go\" -a -e postmaster.pid; do sleep 0.05; done'");
		$standby->sql('SELECT pg_wal_replay_pause()');
		$standby->gives_soon('SELECT pg_get_wal_replay_pause_state()', 'paused', 'replay pauses');
		my ($startup) = $standby->pids_of_type('startup');
		my $has_title = defined title($startup);
		like(title($startup), qr/ recovering [0-9A-F]{24} *$/, 'the title of the startup process names the segment') if $has_title;
		$standby->sql('SELECT pg_promote(wait => false)');
		$standby->gives_soon('SELECT pg_get_wal_replay_pause_state()', 'not paused', 'the promotion ends the pause');
		$standby->gives('SELECT pg_is_in_recovery()', 't', 'before recovery ends');
		ok($standby->poll(sub { title($startup) =~ / startup *$/ }), 'and no longer, when all is replayed') if $has_title;
		append_to_file($go, '');
		$standby->gives_soon('SELECT pg_is_in_recovery(), timeline_id FROM pg_control_checkpoint()', 'f|2', 'which it does');
		$standby->end_scenario;
	});

	# it has WAL after the fork
	$aio->scenario('the old primary cannot go over to the new timeline', sub {
		my ($directory, $history) = ($aio->node->data_dir, $standby->node->data_dir . '/pg_wal/00000002.history');
		my ($fork) = slurp_file($history) =~ /^1\t(\S+)\t/;
		my $bob = $aio->session('bob');
		$bob->sql("SELECT pg_backup_start('after the promotion', fast => true)");
		my ($at, $label) = map { $bob->sql("SELECT $_") } 'checkpoint_lsn FROM pg_control_checkpoint()', 'labelfile FROM pg_backup_stop(wait_for_archive => false)';
		$aio->end_session($bob);
		$aio->sql('CHECKPOINT');
		while_stopped($aio, sub {
			append_to_file("$directory/backup_label", "$label\n");
			append_to_file("$directory/recovery.signal", '');
			link $history, "$directory/pg_wal/00000002.history" or die "link: $!";
			my $log = ends_at_start($aio, '-c', 'restore_command=false', '-c', 'recovery_target_timeline=2');
			like($log, qr/FATAL:  requested timeline 2 is not a child of this server's history\n.*DETAIL:  Latest checkpoint (?:in file "backup_label" )?is at \Q$at\E on timeline 1, but in the history of the requested timeline, the server forked off from that timeline at \Q$fork\E\./, 'the log');
			unlink map { "$directory/$_" } qw(backup_label recovery.signal pg_wal/00000002.history);
		});
	});
}, streaming => 1, conf => { autovacuum => 'off' });
