# System calls that fail, and those that must not be forgotten: requests to write back that a signal
# interrupts, a truncation that fails, WAL that cannot be read, the files of a new database.  Guards
# server commits 5941e7f094, 38c579b089, 75818b3afb, 3048e81306 and 0b6517a3b7.
#
# io_methods: worker
use FindBin; use lib "$FindBin::RealBin/../..";
use TestAio;

my $no_strace = no_strace();

for_each_io_method(sub {
	$aio->scenario('requests to write back that are interrupted', sub {
		my $t = $aio->table('t', 40, changes => 1);
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		for my $inject ('EINTR:when=1+2', 'EINTR:when=1')
		{
			$aio->sql("UPDATE $t SET gen = gen WHERE blk % 3 = 0");
			my $size = $aio->log_size;
			# sync_file_range() is the only call that may be tried again here
			while_injected($checkpointer, "sync_file_range:error=$inject", undef, sub { $aio->sql('CHECKPOINT') });
			unlike($aio->log_text($size), qr/could not flush|PANIC/, $inject);
		}
		$aio->gives("SELECT count(*) FROM $t WHERE body = proof('$t', blk, 0)", 40, 'the rows');
	}, skip => $no_strace);

	# the deleted rows are dead for good, on disk or by recovery
	for my $error ('EIO', 'EINTR:when=1')
	{
		$aio->scenario("a truncation that fails: $error", sub {
			my ($alice, $t) = $aio->sessions_and_table('alice', 60);
			$aio->sql("CHECKPOINT; DELETE FROM $t WHERE blk >= 20");
			my $size = $aio->log_size;
			while_injected($alice->pid, "ftruncate:error=$error", undef, sub { $alice->starts("VACUUM (TRUNCATE on) $t")->wait_for_end });
			if ($error eq 'EIO')
			{
				# the WAL has the truncation: an error would leave this server behind it
				$aio->poll(sub { $aio->log_text($size) =~ /PANIC:  could not truncate file/ }) ? pass('PANIC') : fail('PANIC');
				$aio->restarted;
			}
			$aio->proves($t, blocks => 20);
			$aio->sql("CALL add_pages('$t', 20, 29); SELECT evict_rel('$t')");
			$aio->proves($t, blocks => 30);
		}, skip => $no_strace, $error eq 'EIO' ? (dies => 1, log => [ qr/client backend alice PANIC:  could not truncate file/, qr/postmaster LOG:  client backend .* was terminated by signal 6/ ]) : ());
	}

	# the checkpoint may not begin before the file is as the WAL says, so that it syncs the file
	$aio->scenario('a checkpoint during a truncation', sub {
		my ($alice, $bob, $t) = $aio->sessions_and_table('alice bob', 60);
		$aio->sql("DELETE FROM $t WHERE blk >= 20");
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		ok(while_stopped_in($aio, $alice, 'ftruncate', $aio->file_of($t), "VACUUM (TRUNCATE on) $t", sub { $aio->wait_event($alice->pid) eq 'DataFileTruncate' }, sub {
			$bob->starts('CHECKPOINT');
			ok($aio->poll(sub { $bob->has_ended || $aio->wait_event($checkpointer) eq 'CheckpointDelayStart' }) && !$bob->has_ended, 'the checkpoint does not begin') || diag($aio->activity($checkpointer));
		}), 'the session stops before it cuts the file off');
		$alice->ends('VACUUM');
		$bob->ends('CHECKPOINT');
		$aio->proves($t, blocks => 20);
	}, skip => $no_strace);

	# what has failed is not counted, as number, in bytes or in time
	$aio->scenario('WAL that cannot be read', sub {
		my ($alice) = $aio->sessions('alice');
		my $from = $aio->sql('SELECT pg_current_wal_lsn()');
		$aio->table('t', 3);
		my $read = "SELECT count(*) > 0 FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn())";
		$alice->sql($read);
		my $counts = sub { my ($function) = @_; return $aio->change_during("SELECT sum(reads), sum(read_bytes) FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'wal'", $function, $alice) };
		my ($reads, $bytes) = split m{/}, $counts->(sub { $alice->sql($read) });
		ok($reads > 0 && $bytes >= $reads, "$reads reads of $bytes bytes");
		is($counts->(sub {
				while_injected($alice->pid, 'pread64:error=EIO', undef, sub { $alice->fails($read, '58030', qr/could not read from WAL segment/, 'an error') });
			}), '0/0', 'reads that fail');
	}, skip => $no_strace // $aio->lacks('pg_walinspect'));

	$aio->scenario('the files of a database', sub {
		$aio->sql('CREATE DATABASE original TEMPLATE postgres STRATEGY wal_log');
		my ($alice) = $aio->sessions('alice');
		for my $strategy (qw(wal_log file_copy))
		{
			my @calls = calls_of($aio, $alice->pid, 'openat,fsync,fdatasync', sub { $alice->sql("CREATE DATABASE d TEMPLATE original STRATEGY $strategy") });
			my $directory = $aio->node->data_dir . '/base/' . $aio->sql("SELECT oid FROM pg_database WHERE datname = 'd'");
			my %synced = map { $_ => 1 } map { m{sync\(\d+<(.*?)>\)\s+= 0} } @calls;
			# the checkpointer syncs what goes through the buffer pool
			my @files = $strategy eq 'wal_log' ? "$directory/PG_VERSION" : glob("$directory/*");
			my @missing = grep { !$synced{$_} } $directory, @files;
			is("@missing", '', "$strategy: " . @files . ' files and the directory are synced');
			$aio->sql('DROP DATABASE d');
		}
		$aio->sql('DROP DATABASE original');
	}, skip => $no_strace);
}, leaves => 'nothing', conf => { fsync => 'on', checkpoint_flush_after => '256kB', restart_after_crash => 'on' });
