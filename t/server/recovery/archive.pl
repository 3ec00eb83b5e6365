# Recovery from an archive: where it ends, and what it leaves.
use TestAio;
use List::Util qw(max);

# Restarts a server for archive recovery with these settings.  Test: it ends recovery on this timeline, after a pause if it has a target.
sub recovers_from ($server, $archive, $timeline, $settings, $has_target = 0)
{
	my $directory = $server->node->data_dir;
	while_stopped($server, sub {
		unlink "$directory/standby.signal";
		PostgreSQL::Test::Utils::append_to_file("$directory/recovery.signal", '');
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
	my $standby = $aio->make_standby;
	$aio->scenario('up to a transaction, and up to the end', sub {
		# the standby receives more WAL than it will replay
		$aio->replayed_by($standby);
		$standby->sql('SELECT pg_wal_replay_pause()');
		$aio->sql('CREATE TABLE scenario.t (n int)');
		my @xids = map { $aio->sql("INSERT INTO scenario.t VALUES ($_) RETURNING pg_current_xact_id()") } 1 .. 3;
		my ($switched, $offset);
		($switched, $offset) = split /\|/, $aio->sql("SELECT o.* FROM pg_logical_emit_message(true, '', ''), pg_switch_wal() s, pg_walfile_name_offset(s) o") for 1 .. 3;
		my $end = $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)");
		my $file = $aio->sql("SELECT pg_walfile_name('$end')");
		$aio->wait_for("SELECT last_archived_wal = (SELECT max(name) FROM pg_ls_waldir() WHERE name < '$file') FROM pg_stat_archiver");
		$standby->wait_for("SELECT pg_last_wal_receive_lsn() >= '$end'");
		my $rest = substr PostgreSQL::Test::Utils::slurp_file("$archive/$switched"), $offset;
		is($rest =~ tr/\0//c, 0, 'a segment that was left early has zeros at its end: other bytes');
		my $size = $standby->log_size;
		recovers_from($standby, $archive, 2, "recovery_target_xid = $xids[1]\nrecovery_target_inclusive = off\nrecovery_target_action = pause\n", 1);
		$standby->gives('SELECT sum(n) FROM scenario.t', 1, 'the rows before the transaction');
		my ($year) = $standby->log_text($size) =~ /recovery stopping before commit of transaction $xids[1], time (\d+)/;
		cmp_ok($year // 0, '>', 2000, 'the log has the time of its commit');
		$standby->sql('INSERT INTO scenario.t VALUES (10)');
		recovers_from($standby, $archive, 3, "recovery_target_xid = ''\n");
		$standby->gives('SELECT sum(n) FROM scenario.t', 11, 'all rows');
		my %asked;
		$asked{$_}++ for split /\n/, PostgreSQL::Test::Utils::slurp_file("$archive.asked");
		is_between(max(map { $asked{$_} } grep { !/history/ } keys %asked), 1, 2, 'restore_command runs at most so often for a segment') || diag(join ' ', map { "$_ $asked{$_}" } sort keys %asked);
		$standby->check_log;
	});
}, streaming => 1, conf => { archive_mode => 'on' });
