# Recovery from an archive: where it ends, and what it leaves; what backups and restartpoints do about the archive.
use TestAio;
use File::Copy qw(copy);
use List::Util qw(max);
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);

# Transactions of which each inserts a number, and targets between them.  Returns rows: the target, whether it is always
# tried, the settings, the sum of the numbers, or undef if the server ends, and what the log says.
sub write_targets ($aio)
{
	my $from = $aio->sql('CREATE TABLE scenario.n (n int); SELECT pg_current_wal_insert_lsn()');
	my ($number, @xids) = 1;
	for my $end (split / /, 'COMMIT a COMMIT COMMIT a COMMIT COMMIT ROLLBACK COMMIT b COMMIT PREPARED:ROLLBACK PREPARED:COMMIT')
	{
		if ($end =~ /^[ab]$/) { $aio->sql("SELECT pg_create_restore_point('$end')"); next }
		my $prepared = $end =~ s/^PREPARED://;
		push @xids, $aio->sql("BEGIN; INSERT INTO scenario.n VALUES ($number) RETURNING pg_current_xact_id(); " . ($prepared ? q(PREPARE TRANSACTION 'p') : $end));
		$aio->sql("$end PREPARED 'p'") if $prepared;
		$number *= 2;
	}
	my $to = $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)");
	# pg_waldump fills numbers up with zeros
	my $lsn = $aio->sql("SELECT '${\join '', map { /tx: +$xids[4], lsn: (\S+),.* desc: COMMIT/ } $aio->wal_records($from, $to)}'::pg_lsn");
	my $time = $aio->sql("SELECT pg_xact_commit_timestamp('$xids[3]')");
	my ($before, $after) = map { "\nrecovery_target_inclusive = $_" } qw(off on);
	return (
		[ 'immediate', 0, 'recovery_target = immediate', '', qr/after reaching consistency/ ],
		[ 'a name that comes twice', 1, 'recovery_target_name = a', 1, qr/at restore point "a", time 2/ ],
		[ 'before a transaction', 0, "recovery_target_xid = $xids[1]$before", 1, qr/before commit of transaction $xids[1], time 2/ ],
		[ 'after a transaction', 0, "recovery_target_xid = $xids[1]$after", 3, qr/after commit of transaction $xids[1], time 2/ ],
		[ 'before a time', 0, "recovery_target_time = '$time'$before", 7, qr/before commit of transaction $xids[3], time 2/ ],
		[ 'after a time', 1, "recovery_target_time = '$time'$after", 15, qr/before commit of transaction $xids[4], time 2/ ],
		[ 'before a position', 0, "recovery_target_lsn = '$lsn'$before", 15, qr/before WAL location \(LSN\) "\Q$lsn\E"/ ],
		[ 'after a position', 1, "recovery_target_lsn = '$lsn'$after", 31, qr/after WAL location \(LSN\) "\Q$lsn\E"/ ],
		[ 'after a transaction that aborts', 0, "recovery_target_xid = $xids[5]$after", 31, qr/after abort of transaction $xids[5], time 2/ ],
		[ 'one that does not come', 1, 'recovery_target_name = c', undef, qr/FATAL:  recovery ended before configured recovery target was reached/ ],
		[ 'a shutdown', 1, "recovery_target_name = b\nrecovery_target_action = shutdown", undef, qr/at restore point "b", time 2(?:.*\n)*?.*postmaster LOG:  shutdown at recovery target/ ],
		[ 'the same after a shutdown', 1, 'recovery_target_name = b', 95, qr/at restore point "b", time 2/ ],
		[ 'before a prepared transaction aborts', 1, "recovery_target_xid = $xids[8]$before", 223, qr/before abort of transaction $xids[8], time 2/ ],
		[ 'after a prepared transaction', 0, "recovery_target_xid = $xids[9]$after", 735, qr/after commit of transaction $xids[9], time 2/ ]);
}

# Starts a server anew, which has all WAL in its own directory.  Test: recovery ends at a target.
sub stops_at ($server, $name, $always, $settings, $sum, $says)
{
	my $directory = $server->node->data_dir;
	ok($server->stop_with_sessions('QUIT'), 'the server stops') if $server->is_running;
	my $size = $server->log_size;
	unlink "$directory/standby.signal";
	append_to_file("$directory/recovery.signal", '');
	$server->node->append_conf('postgresql.conf', join "\n", "primary_conninfo = ''", 'restore_command = false', map({ "recovery_target$_ = ''" } '', qw(_lsn _name _time _xid)), 'recovery_target_action = pause', $settings);
	if (defined $sum)
	{
		$server->start_again;
		$server->gives_soon('SELECT pg_get_wal_replay_pause_state()', 'paused', "$name: recovery pauses");
		$server->gives($sum eq '' ? "SELECT to_regclass('scenario.n')" : 'SELECT sum(n) FROM scenario.n', $sum, "$name: the rows");
	}
	else
	{
		$server->launch;
		$server->ends("$name: the server ends");
	}
	return like($server->log_text($size), $says, "$name: the log");
}

# Restarts a server for archive recovery with these settings.  Test: it ends recovery on this timeline, after a pause if it has a target.
sub recovers_from ($server, $archive, $timeline, $settings, $has_target = 0)
{
	my $directory = $server->node->data_dir;
	while_stopped($server, sub {
		unlink "$directory/standby.signal";
		append_to_file("$directory/recovery.signal", '');
		$server->node->append_conf('postgresql.conf', "primary_conninfo = ''\nrestore_command = 'echo %f >>\"$archive.asked\"; cp \"$archive/%f\" \"%p\"'\n$settings");
	});
	if ($has_target)
	{
		ok($server->poll(sub { $server->sql('SELECT pg_get_wal_replay_pause_state()') eq 'paused' }), 'recovery pauses at its target');
		$server->sql('SELECT pg_wal_replay_resume()');
	}
	ok($server->poll(sub { $server->sql('SELECT NOT pg_is_in_recovery() AND timeline_id = ' . $timeline . ' FROM pg_control_checkpoint()') eq 't' }), "timeline $timeline begins");
	my @files = split /\n/, $server->sql('SELECT name FROM pg_ls_waldir() ORDER BY 1');
	my ($first) = grep { /^0000000$timeline[^.]+$/ } @files;
	is(join(' ', grep { /^RECOVERY/ || /^[0-9A-F]{24}$/ && substr($_, 0, 8) ne substr($first, 0, 8) && substr($_, 8) gt substr $first, 8 } @files), '', 'no RECOVERYXLOG, and no segment of an old timeline beyond the switch');
	return;
}

for_each_io_method('worker', sub {
	my $archive = $aio->node->basedir . '/archive';
	mkdir $archive or die "$archive: $!";
	$aio->alter_system(archive_command => "'cp \"%p\" \"$archive/%f\"'");
	$aio->scenario('a backup that waits for the archive', with('alice', sub ($alice) {
		my $start = $alice->sql("SELECT pg_backup_start('label of the test', fast => true)");
		my ($first, $offset) = split /\|/, $aio->sql("SELECT file_name, lpad(to_hex(file_offset), 8, '0') FROM pg_walfile_name_offset('$start')");
		while_still($aio->pids_of_type('archiver'), sub { $alice->waits('SELECT lsn, pg_walfile_name(lsn), labelfile FROM pg_backup_stop()', 'BackupWaitWalArchive') });
		$alice->ends;
		my ($stop, $last, $label) = split /\|/, $alice->result;
		my $history = "$first.\U$offset.\Ebackup";
		is(join(' ', grep { !-e "$archive/$_" } $first, $last, $history), '', 'all is there when it ends');
		like(join("\n", $alice->notices), qr/all required WAL segments have been archived/, 'the session is told');
		is(slurp_file("$archive/$history") =~ s/^STOP WAL LOCATION: \Q$stop\E \(file $last\)\n|^STOP T.*\n//mgr, $label, 'the history of the backup has its label, and where it ends');
		like($label, qr{^START WAL LOCATION: \Q$start\E \(file $first\)\n(?:.*\n)*BACKUP FROM: primary\n.*\nLABEL: label of the test\n}, 'the label');
	}));

	my $standby = $aio->make_standby;
	$aio->scenario('archive_cleanup_command', sub {
		$standby->alter_system(archive_cleanup_command => qq('echo "%%" %r >"$archive.cleanup"; exit 3'));
		# the checkpointer may learn of it later
		ok($standby->poll(sub { $aio->sql('SELECT pg_switch_wal(); CHECKPOINT'); $aio->replayed_by($standby); $standby->sql('CHECKPOINT'); -e "$archive.cleanup" }), 'runs');
		is(slurp_file("$archive.cleanup"), '% ' . $standby->sql('SELECT redo_wal_file FROM pg_control_checkpoint()') . "\n", 'has the first segment that is needed');
		$standby->logs(qr/checkpointer WARNING:  archive_cleanup_command ".*": child process exited with exit code 3/, '>0', 'its failure');
		# a standby that does not archive need not keep what has not been archived
		$standby->alter_system(wal_keep_size => 0);
		ok($standby->poll(sub {
			$aio->sql('SELECT pg_switch_wal(); CHECKPOINT');
			$aio->replayed_by($standby);
			$standby->sql('CHECKPOINT; SELECT min(name) = (SELECT redo_wal_file FROM pg_control_checkpoint()) FROM pg_ls_waldir() WHERE length(name) = 24') eq 't';
		}), 'a restartpoint removes all WAL before it') || diag($standby->sql('SELECT * FROM pg_ls_waldir()'));
		$standby->gives('SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE \'%.ready\'', 0, 'nothing waits to be archived');
		$standby->alter_system(wal_keep_size => 'DEFAULT');
		$standby->alter_system(archive_cleanup_command => "''");
		$standby->check_log(qr/checkpointer WARNING:  archive_cleanup_command/);
	});

	# while the archive is read, nobody may install new segments for the receiver, which has gone
	$aio->scenario('a primary that dies, whose last segment comes into the archive by hand', sub {
		$aio->sql('CREATE TABLE scenario.n AS SELECT 1 AS n');
		$aio->replayed_by($standby);
		$standby->alter_system(restore_command => qq('cp "$archive/%f" "%p"'), wal_retrieve_retry_interval => "'50ms'");
		my $file = $aio->sql('SELECT pg_walfile_name(pg_current_wal_insert_lsn())');
		my $size = $standby->log_size;
		ok($aio->stop_with_sessions('QUIT'), 'it dies');
		copy($aio->node->data_dir . "/pg_wal/$file", "$archive/$file") or die "$file: $!";
		ok($standby->poll(sub { $standby->log_text($size) =~ /startup LOG:  restored log file "$file" from archive/ }), 'the standby takes it from there');
		unlink "$archive/$file";
		$aio->start_with_sessions;
		$aio->sql('INSERT INTO scenario.n VALUES (2)');
		$aio->replayed_by($standby);
		$standby->gives('SELECT sum(n) FROM scenario.n', 3, 'and streams again');
		$standby->alter_system(restore_command => 'DEFAULT', wal_retrieve_retry_interval => 'DEFAULT');
		$standby->end_scenario;
	}, dies => 1);

	$aio->scenario('targets, up to a transaction, and up to the end', sub {
		# the standby receives more WAL than it will replay
		$aio->replayed_by($standby);
		$standby->sql('SELECT pg_wal_replay_pause()');
		my @targets = write_targets($aio);
		$aio->sql('CREATE TABLE scenario.t (n int)');
		my @xids = map { $aio->sql("INSERT INTO scenario.t VALUES ($_) RETURNING pg_current_xact_id()") } 1 .. 3;
		my ($switched, $offset);
		($switched, $offset) = split /\|/, $aio->sql("SELECT o.* FROM pg_logical_emit_message(true, '', ''), pg_switch_wal() s, pg_walfile_name_offset(s) o") for 1 .. 3;
		my $end = $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)");
		my $file = $aio->sql("SELECT pg_walfile_name('$end')");
		$aio->wait_for("SELECT last_archived_wal = (SELECT max(name) FROM pg_ls_waldir() WHERE name < '$file') FROM pg_stat_archiver");
		$standby->wait_for("SELECT pg_last_wal_receive_lsn() >= '$end'");
		my $rest = substr slurp_file("$archive/$switched"), $offset;
		is($rest =~ tr/\0//c, 0, 'a segment that was left early has zeros at its end: other bytes');
		stops_at($standby, @$_) for grep { $_->[1] || !only_long() } @targets;
		my $size = $standby->log_size;
		recovers_from($standby, $archive, 2, "recovery_target_name = ''\nrecovery_target_xid = $xids[1]\nrecovery_target_inclusive = off\nrecovery_target_action = pause\n", 1);
		$standby->gives('SELECT sum(n) FROM scenario.t', 1, 'the rows before the transaction');
		my ($year) = $standby->log_text($size) =~ /recovery stopping before commit of transaction $xids[1], time (\d+)/;
		cmp_ok($year // 0, '>', 2000, 'the log has the time of its commit');
		$standby->sql('INSERT INTO scenario.t VALUES (10)');
		like(slurp_file($standby->node->data_dir . '/pg_wal/00000002.history'), qr/^1\t\S+\tbefore transaction $xids[1]\n\z/, 'the history tells where the new timeline begins');
		recovers_from($standby, $archive, 3, "recovery_target_xid = ''\nrecovery_end_command = 'echo %r >\"$archive.end\"; exit 3'\n");
		is(slurp_file("$archive.end"), $standby->sql('SELECT redo_wal_file FROM pg_control_checkpoint()') . "\n", 'recovery_end_command has the first segment that is needed from now on');
		$standby->logs(qr/startup WARNING:  recovery_end_command ".*": child process exited with exit code 3/, 1, 'its failure');
		$standby->gives('SELECT sum(n) FROM scenario.t', 11, 'all rows');
		my %asked;
		$asked{$_}++ for split /\n/, slurp_file("$archive.asked");
		is_between(max(map { $asked{$_} } grep { !/history/ } keys %asked), 1, 2, 'restore_command runs at most so often for a segment') || diag(join ' ', map { "$_ $asked{$_}" } sort keys %asked);
		$standby->check_log([ qr/startup WARNING:  recovery_end_command/, qr/startup FATAL:  recovery ended before configured/, qr/postmaster LOG:  startup process \(PID \d+\) exited with exit code 1/, $standby->gate_worker_ended ]);
	});
}, streaming => 1, conf => { archive_mode => 'on', track_commit_timestamp => 'on' });
