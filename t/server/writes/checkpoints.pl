# What checkpoints write, and that WAL is written before.
use TestAio;
use Time::HiRes qw(stat);

# Has the checkpointer log the files that it syncs.
sub tells_of_syncs ($aio)
{
	my $size = $aio->log_size;
	$aio->alter_system(log_min_messages => 'debug1');
	$aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->log_text($size) =~ /checkpointer DEBUG:/ }) or fail('the checkpointer knows the setting');
	return;
}

# The files of relations, and what tells that one has changed.
sub files ($aio)
{
	my $directory = $aio->node->data_dir;
	return map { my @stat = stat; @stat ? (s{^\Q$directory\E/}{}r => "@stat[1, 7, 9]") : () } glob "$directory/base/*/[1-9]* $directory/global/[1-9]*";
}

# What checkpoints write, write back and sync, as the counters and the log have it; with a full queue
# of requests, and with options of CHECKPOINT.  Checkpoints that fail; files that checkpoints remove.
for_each_io_method('io_uring; long: all', sub {
	$aio->scenario('checkpoints', with('alice', 100, changes => 1, sub ($alice, $t) {
		# a checkpoint of so many writes at least; the checkpointer reports its counts after CHECKPOINT has ended
		my $checkpoint = sub ($least) {
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
	}));

	# VACUUM FULL writes past the buffer pool: a checkpoint meanwhile does not know of its writes
	$aio->scenario('during VACUUM FULL', with('alice', 100, sub ($alice, $t, $checkpoints) {
		$alice->sql('SET client_min_messages = debug1');
		$aio->evict($t, $alice);
		$alice->notices;
		$aio->read_at_completion_wait($alice, "VACUUM FULL $t", relation => $t, pid => $alice->pid);
		$aio->sql('CHECKPOINT') if $checkpoints;
		$aio->completion_continue;
		$alice->ends;
		# no view counts this
		is(scalar(grep { /flushed relation because a checkpoint occurred concurrently/ } $alice->notices), $checkpoints, $checkpoints ? 'the session syncs the file' : 'without a checkpoint, it leaves that to the next one');
	}), each => [ 0, 1 ], skip => $aio->no_faults);

	$aio->scenario('a checkpoint that fails', with('alice', 10, changes => 1, sub ($alice, $t) {
		$aio->warm($t);
		$aio->sql("DELETE FROM $t WHERE blk = 1");
		while_away($aio->file_of($t), sub { $alice->fails('CHECKPOINT', 'XX000', qr/checkpoint request failed/, 'the session that asked is told') });
		$alice->sql('CHECKPOINT');
		$aio->sql("SELECT invalidate_rel_block('$t', 1)");
		$aio->gives("SELECT count(*), count(*) FILTER (WHERE blk = 1) FROM $t", '9|0', 'the next one writes what is left');
	}), log => qr/checkpointer ERROR:  could not open file "[^"]+": No such file or directory/);

	# a checkpoint removes a table's file only if the table was dropped before the checkpoint began
	$aio->scenario('DROP during a checkpoint', with('alice', [ t => 200, changes => 1 ], [ u => 10 ], sub ($alice, $t, $u) {
		my $file = $aio->file_of($u);
		$aio->warm($t);
		$aio->sql("CHECKPOINT; DELETE FROM $t");
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		# neither fast nor immediate: the checkpoint waits after each write
		$alice->starts("SELECT count(pg_backup_start('b'))");
		my %dirty;
		ok($aio->poll(sub {
			$dirty{ $aio->sql("SELECT count(*) FROM buffers_in_file(pg_relation_filenode('$t')) WHERE 'DIRTY' = ANY (flags)") } = 1 if $aio->wait_event($checkpointer) eq 'CheckpointWriteDelay';
			return keys %dirty > 3;
		}), 'a checkpoint pauses between its writes') || diag(join ' ', keys %dirty);
		$aio->sql("DROP TABLE $u");
		ok(-e $file, 'the file is still there');
		# it may write the rest at once
		$aio->sql('ALTER SYSTEM SET checkpoint_completion_target = 0; SELECT pg_reload_conf()');
		$alice->returns(1, 'the checkpoint ends');
		ok(-e $file, 'and has not removed the file');
		$aio->sql('CHECKPOINT');
		ok(!-e $file, 'the next checkpoint removes it');
		$alice->sql('SELECT pg_backup_stop(false)');
	}));

	# pg_stat_io counts whole microseconds of each checkpoint; in memory, a file takes less
	$aio->scenario('the time that syncing takes', with('alice', sub ($alice) {
		my $time = "SELECT sum(fsyncs), sum(fsync_time) FROM pg_stat_io WHERE backend_type = 'checkpointer' AND object = 'relation'";
		my ($before) = $aio->sql($time) =~ /\|(.*)/;
		$aio->alter_system(track_io_timing => 'on');
		$alice->sql("CREATE TABLE scenario.f$_ AS SELECT $_ AS n") for 1 .. 50;
		# until the checkpointer has read the settings, and reported
		my ($syncs, $ms);
		ok($aio->poll(sub {
			$alice->sql("UPDATE scenario.f$_ SET n = n") for 1 .. 50;
			$aio->sql('CHECKPOINT');
			($syncs, $ms) = split /\|/, $aio->sql($time);
			return $syncs && $ms > $before;
		}), 'pg_stat_io: fsync_time') || diag("$syncs, $ms");
	}));

	# requests that are made while it is off are forgotten
	$aio->scenario('fsync is switched off and on', with('', [ t => 10, changes => 1 ], [ u => 10, changes => 1 ], sub ($t, $u) {
		my ($file, $forgotten) = map { $aio->sql("SELECT pg_relation_filepath('$_')") } $t, $u;
		my $synced = sub ($table) {
			my $size = $aio->log_size;
			$aio->sql("UPDATE $table SET gen = gen; CHECKPOINT");
			return join ' ', sort grep { $_ eq $file || $_ eq $forgotten } $aio->log_text($size) =~ /checkpoint sync: number=\d+ file=(\S+) /g;
		};
		tells_of_syncs($aio);
		for my $case ([ 'off', '' ], [ 'on', $file ])
		{
			my ($fsync, $which) = @$case;
			$aio->alter_system(fsync => $fsync);
			# until the checkpointer knows the setting
			my $first;
			$aio->poll(sub { $first = $synced->($t); ($first ne '') == ($fsync eq 'on') });
			is($first, $which, "fsync = $fsync: the files that a checkpoint syncs");
			is($synced->($fsync eq 'off' ? $u : $t), $which, 'and the next one');
		}
	}));

	# sessions ask the checkpointer to sync files; a queue that is full loses its duplicates and no file
	$aio->scenario('a full queue of fsync requests', with('alice', sub ($alice) {
		my @tables = map { $aio->table("s$_", 1) } 1 .. 12;
		my $room = $aio->sql("SELECT setting FROM pg_settings WHERE name = 'shared_buffers'");
		$alice->sql('SET log_min_messages = debug1');
		tells_of_syncs($aio);
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		$aio->poll(sub { $aio->wait_event($checkpointer) eq 'CheckpointerMain' });
		my $size = $aio->log_size;
		while_still($checkpointer, sub {
			$alice->sql("SELECT count(grow_rel('$_', 1)) FROM generate_series(1, 300)") for @tables[ 0 .. 7 ];
			$alice->sql("SELECT grow_rel('$_', 1)") for @tables[ 8 .. 11 ];
		});
		$aio->sql('CHECKPOINT');
		my $log = $aio->log_text($size);
		like($log, qr/compacted fsync request queue from $room entries to \d+ entries/, 'the queue was full');
		my @synced = $log =~ /checkpoint sync: number=\d+ file=(\S+) /g;
		my %files = map { $aio->sql("SELECT pg_relation_filepath('$_')") => $_ } @tables;
		delete @files{@synced};
		is(join(' ', sort values %files), '', 'the checkpoint syncs the files of all of them');
	}));

	# whatever writes a file, the next checkpoint syncs it
	my @writers = (
		[ 'an empty table', 'CREATE TABLE scenario.e (i int, body text)' ],
		[ 'rows', "INSERT INTO scenario.e SELECT i, repeat('x', 2000) FROM generate_series(1, 500) i" ],
		[ 'a table that is made from rows', 'CREATE TABLE scenario.f AS TABLE scenario.e' ],
		[ 'an unlogged table', 'CREATE UNLOGGED TABLE scenario.v (i int PRIMARY KEY, a int[], g serial); CREATE INDEX ON scenario.v USING gin (a); INSERT INTO scenario.v VALUES (1)' ],
		[ 'that becomes logged', 'ALTER TABLE scenario.v SET LOGGED' ],
		[ 'an index', 'CREATE INDEX ON scenario.e (i)' ],
		[ 'VACUUM', 'VACUUM scenario.e' ],
		[ 'VACUUM FULL', 'VACUUM FULL scenario.e' ],
		[ 'TRUNCATE', 'TRUNCATE scenario.f' ],
		[ 'blocks that a session evicts', "DELETE FROM scenario.e WHERE i < 3; SELECT evict_rel('scenario.e')" ],
		[ 'a new database', 'CREATE DATABASE copied TEMPLATE postgres STRATEGY wal_log' ],
		[ 'and none', 'DROP DATABASE copied' ]);
	$aio->scenario('changed files', sub {
		# or they would keep it from being a template
		$aio->end_sessions;
		tells_of_syncs($aio);
		my %before;
		for my $case ([ 'what was before', 'CHECKPOINT' ], @writers)
		{
			my ($name, $sql) = @$case;
			my $size = $aio->log_size;
			$aio->sql($_) for split(/; /, $sql), 'CHECKPOINT';
			my %after = files($aio);
			my %changed = map { $_ => 1 } grep { $after{$_} ne ($before{$_} // '') } keys %after;
			delete @changed{ $aio->log_text($size) =~ /checkpoint sync: number=\d+ file=(\S+) /g };
			is(join(' ', sort keys %changed), '', "$name: no changed file that is not synced") if %before;
			%before = %after;
		}
		# that of an empty table has been made by replay
		my ($file, $size);
		for my $try (1 .. 9)
		{
			$aio->sql("CREATE TABLE scenario.g$try ()");
			($file, $size) = ($aio->sql("SELECT pg_relation_filepath('scenario.g$try')"), $aio->log_size);
			$aio->recovers;
			# replay syncs files by itself if the checkpointer comes later
			last if $aio->log_text($size) !~ /could not forward fsync request/;
		}
		like($aio->log_text($size), qr/checkpoint sync: number=\d+ file=$file /, 'recovery: the file is synced');
	}, dies => 1);

	# what is still to be done for the files of a database is forgotten when it goes
	$aio->scenario('DROP DATABASE', with('', [ t => 10, changes => 1 ], [ u => 10 ], sub ($t, $u) {
		tells_of_syncs($aio);
		my ($file, $path, $size) = ($aio->file_of($u), $aio->sql("SELECT pg_relation_filepath('$t')"), $aio->log_size);
		$aio->sql('CREATE DATABASE gone TEMPLATE postgres STRATEGY wal_log');
		my $gone = $aio->sql(q{SELECT oid FROM pg_database WHERE datname = 'gone'});
		$aio->sql($_) for "UPDATE $t SET gen = 1", "SELECT evict_rel('$t')", "DROP TABLE $u", 'DROP DATABASE gone';
		unlike($aio->log_text($size), qr{checkpoint sync: number=\d+ file=base/$gone/}, 'none of its files is synced');
		like($aio->log_text($size), qr/checkpoint sync: number=\d+ file=$path /, 'a changed file of another database is');
		ok(!-e $file, 'a dropped one is removed');
	}));

	$aio->scenario('CHECKPOINT %s', sub ($, $options, $unlogged) {
		my ($t, $u) = map { $aio->table(@$_, changes => 1) } [ 't', 5 ], [ 'u', 5, kind => 'UNLOGGED' ];
		my $dirty = sub { return join ',', map { $aio->sql("SELECT count(*) FROM buffers_in_file(pg_relation_filenode('$_')) WHERE fork = 'main' AND 'DIRTY' = ANY (flags)") } $t, $u };
		$aio->sql("UPDATE $_ SET gen = gen + 1 WHERE ctid IN (SELECT min(ctid) FROM $_); SELECT evict_rel('$_')") for $t, $u;
		$aio->sql("CHECKPOINT; DELETE FROM $_ WHERE ctid IN (SELECT ctid FROM $_ ORDER BY ctid LIMIT 1); INSERT INTO $_ SELECT 'x', -1, 0, 'x'") for $t, $u;
		$aio->sql('CREATE UNLOGGED TABLE scenario.i (a int[]); CREATE INDEX ON scenario.i USING gin (a)');
		my ($before) = $dirty->();
		$aio->sql("CHECKPOINT $options");
		$aio->gives('SELECT count(*) FROM pg_buffercache WHERE relforknumber = 3 AND isdirty', 0, 'init forks are written') if !$aio->lacks('pg_buffercache');
		my ($logged, $left) = split /,/, $dirty->();
		is($logged, 0, "CHECKPOINT $options writes logged tables");
		is($left > 0, $unlogged > 0, $unlogged ? 'and no others' : 'and unlogged ones');
	}, each => [ [ '', 2 ], [ '(FLUSH_UNLOGGED false)', 2 ], [ '(MODE fast)', 2 ], [ '(MODE spread, FLUSH_UNLOGGED)', 0 ], [ '(FLUSH_UNLOGGED true)', 0 ] ], skip => sub ($options, $) { $options && $aio->major < 19 ? '18 has no options' : undef });

	# syncs that sessions have asked for, of each of its files
	$aio->scenario('DROP of a table of three files', sub {
		my ($t) = long_table($aio, 't');
		$aio->sql($_) for "UPDATE $t SET gen = 1", "SELECT evict_rel('$t')", "DROP TABLE $t", 'CHECKPOINT';
		unlike($aio->log_text, qr/could not fsync/, 'the files are not missed');
	});

	# What a checkpoint asks of the kernel, as strace shows it: the blocks that it writes, those that it
	# asks to be written back, and the files that it syncs.
	my $reason = no_strace();

	$aio->scenario('a table of three files', sub {
		my ($t) = long_table($aio, 't');
		my ($segment) = boundaries($aio);
		# sets hint bits
		is(right_rows($aio, $t, $_ * $segment - SIDE, 2 * SIDE), 2 * SIDE, "the rows at boundary $_") for 1, 2;
		my @changed = grep { $_ % 3 == 1 } map { my $boundary = $_ * $segment; $boundary - SIDE .. $boundary + SIDE - 1 } 1, 2;
		$aio->sql('CHECKPOINT');
		$aio->sql("DELETE FROM $t WHERE ctid = ANY ('{" . join(',', map { "\"($_,1)\"" } @changed) . "}'::tid[])");
		my %blocks;
		push @{ $blocks{ $_ < $segment ? '' : '.' . int $_ / $segment } }, $_ % $segment for @changed;
		my $done = written_by_checkpoint($aio, $t);
		is(join(' ', sort keys %$done), join(' ', sort keys %blocks), 'the files');
		for my $file (sort keys %blocks)
		{
			my $of_file = $done->{$file};
			is($of_file->{written}, join(',', @{ $blocks{$file} }), "file \"$file\": writes the blocks that are dirty");
			is($of_file->{written_back}, $of_file->{written}, 'writes them back');
			is($of_file->{synced}, 'synced', 'and syncs the file');
		}
	}, skip => $reason);

	$aio->scenario('neighbours are written back together', sub {
		my @tables = map { $aio->table($_, 40) } qw(t u);
		# the last dirty block of the first table and the first one of the second are no neighbours
		my @dirty = ([ 0 .. 4, 7, 9, 10 ], [ 11, 12, 30 ]);
		my @requests = ('0+5 7+1 9+2', '11+2 30+1');
		$aio->alter_system(checkpoint_flush_after => 256);
		# sets hint bits
		$aio->is_as_written($_) for @tables;
		$aio->sql('CHECKPOINT');
		for my $seen (0, 1)
		{
			for my $table (1, 0)
			{
				$aio->sql("SELECT FROM $tables[$table] WHERE blk = $_ FOR UPDATE") for reverse @{ $dirty[$table] };
			}
			is(written_by_checkpoint($aio, $tables[$seen])->{''}{requests}, $requests[$seen], "the requests for $tables[$seen]");
		}
		$aio->is_as_written($_) for @tables;
	}, skip => $reason);

	# nothing is left to write into the file then
	$aio->scenario('a truncated table', with('alice', sub ($alice) {
		# TRUNCATE keeps the files of a table that the same transaction has made
		$alice->sql('BEGIN');
		my ($t, $path) = long_table($aio, 't', session => $alice);
		$aio->sql('CHECKPOINT');
		$alice->sql("TRUNCATE $t; COMMIT");
		is(file_sizes($path), '0 0 0', 'all files are empty');
		my $done = written_by_checkpoint($aio, $t);
		is(join(' ', map { "$_ $done->{$_}{synced}" } sort keys %$done), ' synced .1 synced .2 synced', 'and synced');
	}), skip => $reason);

	# with data_sync_retry
	$aio->scenario('a sync that fails', with('alice', 10, changes => 1, sub ($alice, $t) {
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		$aio->sql("DELETE FROM $t WHERE blk = 3");
		while_injected($checkpointer, 'fsync:error=EIO', $aio->file_of($t), sub { $alice->fails('CHECKPOINT', 'XX000', qr/checkpoint request failed/, 'the checkpoint fails') });
		is(written_by_checkpoint($aio, $t)->{''}{synced}, 'synced', 'the next one syncs the file');
	}), skip => $reason, log => qr/checkpointer ERROR:  could not fsync file/);

	$aio->scenario('WAL of pages that are mostly empty', with('alice', sub ($alice) {
		$alice->sql('CREATE TABLE scenario.n AS SELECT generate_series(1, 5000) i');
		my $lsn = $alice->sql('SELECT pg_current_wal_insert_lsn()');
		$alice->sql('CREATE INDEX sparse ON scenario.n (i) WITH (fillfactor = 10)');
		$alice->gives("SELECT pg_current_wal_insert_lsn() - '$lsn' < pg_relation_size('scenario.sparse') / 2", 't', 'images of new pages leave out what is empty');
	}));

	# without the sync, a file may be there again after a power failure
	$aio->scenario('WAL that is removed', sub {
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		my @calls;
		ok($aio->poll(sub {
			push @calls, s/(?:at)?\(.*//sr for grep { m{^unlink.*pg_wal/\w{24}"|^fsync.*/pg_wal>} } calls_of($aio, $checkpointer, '?unlink,?unlinkat,fsync', sub { $aio->sql($_) for 'SELECT pg_switch_wal()', 'CHECKPOINT' });
			return grep { $_ eq 'unlink' } @calls;
		}), 'a checkpoint removes a file');
		unlike("@calls", qr/unlink(?! fsync)/, 'and syncs the directory');
	}, skip => $reason);

	# some file systems cannot sync a directory
	$aio->scenario('directories', sub {
		my ($checkpointer) = $aio->pids_of_type('checkpointer');
		my @directories = qw(pg_commit_ts pg_multixact/members pg_multixact/offsets pg_xact);
		my $data = $aio->node->data_dir;
		my %synced = map { m{<\Q$data\E/([^>]+)>} ? ($1 => 1) : () } calls_of($aio, $checkpointer, 'fsync', sub { $aio->sql('CHECKPOINT') });
		is(join(' ', grep { $synced{$_} } @directories), "@directories", 'a checkpoint syncs them');
		while_injected($checkpointer, 'fsync:error=EINVAL', "$data/$_", sub { $aio->sql('CHECKPOINT') }) for @directories;
	}, skip => $reason);

	# WAL is flushed up to the last change of a page before the page is written
	$aio->scenario('a page that another session writes', with('alice bob', 20, sub ($alice, $bob, $t) {
		# sets hint bits, so that no other page becomes dirty
		$bob->sql("SELECT count(*) FROM $t; CHECKPOINT");
		# the background writer inserts records of its own
		while_still($aio->pids_of_type('walwriter'), $aio->pids_of_type('background writer'), sub {
			$alice->sql("BEGIN; UPDATE $t SET gen = gen WHERE blk = 7");
			my $lsn = $alice->sql("SELECT lsn FROM page_header(get_raw_page('$t', 7))");
			$bob->gives("SELECT pg_current_wal_flush_lsn() < '$lsn'", 't', 'the change is in progress, its WAL not flushed');
			$bob->sql("SELECT evict_rel('$t')");
			$bob->gives("SELECT pg_current_wal_flush_lsn() >= '$lsn'", 't', 'then its WAL is flushed');
			$alice->sql('ROLLBACK');
		});
	}), skip => $aio->lacks('pageinspect'));
}, conf => { checkpoint_completion_target => '0.9', checkpoint_flush_after => '256kB', wal_level => 'replica',
	# without, nothing is written back
	fsync => 'on', data_sync_retry => 'on' });
