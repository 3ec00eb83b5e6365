# Backups of a standby: what they say of themselves, servers that are made from them, and what ends them.
use TestAio;
use File::Path qw(remove_tree);
use IPC::Run;

# Runs a program.  Test: it succeeds, and says nothing.
sub runs ($name, @command)
{
	my $said = '';
	my $done = IPC::Run::run(\@command, '>&', \$said, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return is(($done ? '' : 'failed: ') . $said, '', $name);
}

for_each_io_method('worker', sub {
	my $standby = $aio->make_standby;
	my $base = $aio->node->basedir;
	my $restartpoint = sub {
		$aio->sql('CHECKPOINT');
		$aio->replayed_by($standby);
		$standby->sql('CHECKPOINT');
	};

	$aio->scenario('a standby makes a backup', with('', [ t => 40, changes => 1 ], sub ($t) {
		$restartpoint->();
		my $bob = $standby->session('bob');
		my $start = $bob->sql("SELECT pg_backup_start('of a standby', fast => true)");
		is($start, $standby->sql('SELECT redo_lsn FROM pg_control_checkpoint()'), 'it begins where the last restartpoint does');
		$aio->sql("DELETE FROM $t WHERE blk < 10");
		$aio->replayed_by($standby);
		# a page that is written may need all WAL until now
		$standby->sql("SELECT evict_rel('$t')");
		my ($stop, @label) = split /\n/, $bob->sql("SELECT lsn || E'\\n' || labelfile FROM pg_backup_stop()");
		is($stop, $standby->sql('SELECT min_recovery_end_lsn FROM pg_control_recovery()'), 'it ends where the standby is consistent');
		is(join(', ', grep { !/^START/ } @label), 'CHECKPOINT LOCATION: ' . $standby->sql('SELECT checkpoint_lsn FROM pg_control_checkpoint()') . ', BACKUP METHOD: streamed, BACKUP FROM: standby, LABEL: of a standby', 'the label');
		$standby->end_session($bob);
		$standby->end_scenario;
	}));

	$aio->scenario('servers from backups of a standby', with('', [ t => 100, changes => 1 ], sub ($t) {
		$_->alter_system(summarize_wal => 'on') for $aio, $standby;
		$restartpoint->();
		my @from = ('pg_basebackup', '-h', $standby->node->host, '-p', $standby->node->port, '-X', 'fetch', '-c', 'fast', '--no-sync', '-D');
		runs('a full backup', @from, "$base/full");
		$aio->sql($_) for "DELETE FROM $t WHERE blk IN (3, 7, 50)", "CALL add_pages('$t', 100, 109)", 'CREATE TABLE scenario.new AS SELECT 1 AS n';
		# a backup begins where the last restartpoint does
		$restartpoint->();
		$aio->sql("DELETE FROM $t WHERE blk = 60");
		$aio->replayed_by($standby);
		runs('an incremental one', @from, "$base/changes", "--incremental=$base/full/backup_manifest");
		my $file = $aio->sql("SELECT pg_relation_filepath('$t')") =~ s{(\d+)$}{INCREMENTAL.$1}r;
		# blocks that changed during the backup may be left out
		is_between(-s "$base/changes/$file", 14 * 8192, 15 * 8192, 'it has what has changed, and a header');
		my $contents = "SELECT count(*), sum(blk), (SELECT sum(n) FROM scenario.new) FROM $t";
		my $made = $aio->make_from_backup('combined', sub ($node) {
			runs('pg_combinebackup', 'pg_combinebackup', '-N', '-o', $node->data_dir, "$base/full", "$base/changes");
			unlink $node->data_dir . '/standby.signal' or die "standby.signal: $!";
			$node->append_conf('postgresql.conf', "port = ${\$node->port}\nprimary_conninfo = ''");
		});
		$_->alter_system(summarize_wal => 'DEFAULT') for $aio, $standby;
		$made->gives("SELECT pg_is_in_recovery()", 'f', 'a server of its own');
		$made->gives($contents, $aio->sql($contents), 'the rows');
		ok($made->stop, 'stops');
		$made->check_log;
		remove_tree($made->node->data_dir, map { "$base/$_" } qw(full changes));
		$standby->end_scenario;
	}));

	$aio->scenario('what a standby may not do', sub {
		my $bob = $standby->session('bob');
		for my $call ('pg_switch_wal()', "pg_create_restore_point('p')", 'pg_current_wal_lsn()', 'pg_log_standby_snapshot()')
		{
			$bob->fails("SELECT $call", '55000', qr/recovery is in progress/, $call);
		}
		# pages of a copy may be torn, which only images mend
		my $set = sub ($images) {
			$aio->alter_system(full_page_writes => $images);
			ok($aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql("SELECT full_page_writes = '$images' FROM pg_control_checkpoint()") eq 't' }), "full_page_writes is $images");
			$aio->replayed_by($standby);
		};
		$set->('off');
		$bob->fails("SELECT pg_backup_start('b')", '55000', qr/WAL generated with "full_page_writes=off" was replayed since last restartpoint/, 'no backup without images');
		$set->('on');
		$bob->sql("SELECT pg_backup_start('b')");
		$set->('off');
		$set->('on');
		$bob->fails('SELECT pg_backup_stop()', '55000', qr/WAL generated with "full_page_writes=off" was replayed during online backup/, 'nor one during which there were none');
		$bob->sql("SELECT pg_backup_start('b')");
		$standby->sql('SELECT pg_promote()');
		$bob->fails('SELECT pg_backup_stop()', '55000', qr/the standby was promoted during online backup/, 'nor one during which the standby is promoted');
		$standby->end_session($bob);
		$standby->end_scenario(log => [qr/bob WARNING:  aborting backup/]);
	});
}, streaming => 1, conf => { autovacuum => 'off' });
