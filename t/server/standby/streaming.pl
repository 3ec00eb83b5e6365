# The two processes that stream WAL: what each does if the other one stands still, and the slot between them.
use TestAio;

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
			my ($stopped, $receiving, $sending, $size) = ($pid->(), $receiver->(), $sender->(), $server->log_size);
			$server->alter_system($setting => "'300ms'");
			while_still($stopped, sub { ok($server->poll(sub { $server->log_text($size) =~ $says }), "$setting: the other one ends") || diag($server->log_text($size)) });
			$server->sql("ALTER SYSTEM RESET $setting; SELECT pg_reload_conf()");
			ok($aio->poll(sub { my @now = ($receiver->(), $sender->()); $now[0] && $now[1] && $now[0] ne $receiving && $now[1] ne $sending }), 'two others take their places');
			$goes_on->('the standby follows');
		}
		$standby->end_scenario(log => qr/walreceiver FATAL:  (?:could not receive data from WAL stream|terminating walreceiver due to timeout)/);
	}, log => qr/walsender \S+ FATAL:  /);

	$aio->scenario('their slot', sub {
		$aio->sql('CREATE TABLE scenario.n (n int)');
		my $slots = 'SELECT slot_name, slot_type, temporary, active, inactive_since IS NULL, wal_status FROM pg_replication_slots';
		$standby->alter_system(wal_receiver_create_temp_slot => 'on');
		ok($aio->poll(sub { $aio->sql('SELECT count(*) FROM pg_replication_slots WHERE active') eq '1' && $receiver->() }), 'the receiver makes one');
		like($aio->sql($slots), qr/^pg_walreceiver_\d+\|physical\|t\|t\|t\|reserved$/, 'it is temporary');
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
		$standby->alter_system(primary_slot_name => 'DEFAULT');
		$aio->gives_soon($slots, 'kept|physical|f|f|f|reserved', 'nobody has it any more');
		$aio->gives('SELECT inactive_since BETWEEN now() - interval \'1 hour\' AND clock_timestamp() FROM pg_replication_slots', 't', 'since when');
		$goes_on->('the standby follows');
		$aio->gives($restart, 'f', 'the slot does not');
		$aio->sql(q{SELECT pg_drop_replication_slot('kept')});
		$standby->end_scenario(log => qr/walreceiver FATAL:  (?:could not start WAL streaming|terminating walreceiver)/);
	}, log => qr/walsender \S+ ERROR:  replication slot "kept" does not exist/);
}, streaming => 1, conf => { autovacuum => 'off' });
