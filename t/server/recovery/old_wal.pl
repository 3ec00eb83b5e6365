# Which WAL is kept, what a slot says of it, and when a segment or the time between checkpoints is over early.
use TestAio;

# The numbers of two segments: the current one, and the oldest one in pg_wal.
my $current = 'SELECT segment_number FROM pg_split_walfile_name(pg_walfile_name(pg_current_wal_insert_lsn()))';
my $first = 'SELECT min(segment_number) FROM pg_ls_waldir(), pg_split_walfile_name(name) WHERE length(name) = 24';

# Writes so many segments, and nothing after them.
sub write_segments ($aio, $count)
{
	$aio->sql("SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()") for 1 .. $count;
	return;
}

# Changes settings, and waits until the observer knows them.
sub change_settings ($aio, %settings)
{
	$aio->alter_system(map { $_ => "'$settings{$_}'" } keys %settings);
	$aio->wait_for("SELECT current_setting('$_') = '$settings{$_}'") for sort keys %settings;
	return;
}

for_each_io_method('worker', sub {
	my $large = $aio->setting('wal_segment_size') eq '1MB' ? undef : 'a segment of the WAL has more than 1 MB';
	$aio->scenario('wal_keep_size', sub {
		for my $keep (3, 0)
		{
			change_settings($aio, wal_keep_size => $keep ? "${keep}MB" : 0);
			# a checkpoint that had begun before may have kept fewer
			ok($aio->poll(sub {
				write_segments($aio, 4);
				$aio->sql("CHECKPOINT; SELECT ($current) - ($first) = $keep") eq 't';
			}), "so many segments before the current one are kept: $keep") || diag($aio->sql("$current UNION ALL $first"));
		}
	}, skip => $large);

	$aio->scenario('a slot', sub {
		change_settings($aio, max_wal_size => '4MB');
		$aio->sql('CHECKPOINT');
		# and by how many segments the slot may be behind the WAL, counted from its own
		my $slot = q{SELECT wal_status, trim_scale((safe_wal_size + (pg_current_wal_lsn() - '0/0')) / 1048576) - 1 - } . ($aio->sql($current)) . q{, invalidation_reason FROM pg_replication_slots WHERE slot_name = 's'};
		my $lsn = $aio->sql(q{SELECT lsn FROM pg_create_physical_replication_slot('s', true)});
		my $kept = $aio->sql($current);
		my @found = map { my $found = $aio->sql($slot); write_segments($aio, 1); $found } 0 .. 8;
		is(join(' ', @found), join(' ', ('reserved||') x 6, ('extended||') x 3), 'WAL that is in max_wal_size and one segment more is reserved');
		$aio->gives("CHECKPOINT; $first", $kept, 'all is kept');
		change_settings($aio, max_slot_wal_keep_size => '12MB');
		$aio->gives_soon($slot, 'extended|12|', 'a limit that is not reached');
		change_settings($aio, max_slot_wal_keep_size => '3MB');
		$aio->gives_soon($slot, 'unreserved|3|', 'one that is passed');
		change_settings($aio, wal_keep_size => '10MB');
		$aio->gives_soon($slot, 'extended|10|', 'wal_keep_size is more');
		change_settings($aio, wal_keep_size => 0);
		ok($aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql($slot) eq 'lost||wal_removed' }), 'a checkpoint takes it') || diag($aio->sql($slot));
		$aio->logs(qr/checkpointer LOG:  invalidating obsolete replication slot "s"/, 1, 'the log says so');
		my ($bytes) = $aio->log_text =~ /DETAIL:  The slot's restart_lsn \Q$lsn\E exceeds the limit by (\d+) bytes?\./;
		is(($bytes // 0) % 1048576, $aio->sql("SELECT (-('$lsn'::pg_lsn - '0/0')) % 1048576 + 1048576"), 'the limit is the beginning of a segment');
		$aio->gives("CHECKPOINT; SELECT ($current) - ($first)", 0, 'no WAL is kept');
		my ($alice) = $aio->sessions('alice');
		$alice->fails("SELECT pg_replication_slot_advance('s', pg_current_wal_lsn())", '55000', qr/can no longer access replication slot "s"/, 'cannot be used');
		# another slot takes its place in shared memory
		$aio->sql(q{SELECT pg_drop_replication_slot('s'), pg_create_physical_replication_slot('next')});
		$aio->gives('SELECT xmin, catalog_xmin, restart_lsn, confirmed_flush_lsn, wal_status, conflicting, invalidation_reason FROM pg_replication_slots', '||||||', 'a new one');
		$aio->sql(q{SELECT pg_drop_replication_slot('next')});
	}, skip => $large);

	$aio->scenario('a slot that is advanced', sub {
		my $restart = 'SELECT restart_lsn FROM pg_replication_slots';
		$aio->sql(q{CHECKPOINT; SELECT pg_create_physical_replication_slot('s', true)});
		my $kept = $aio->sql("SELECT segment_number FROM pg_split_walfile_name(pg_walfile_name(($restart)))");
		write_segments($aio, 3);
		$aio->gives("CHECKPOINT; $first", $kept, 'all is kept');
		my ($alice) = $aio->sessions('alice');
		$alice->fails(q{SELECT pg_replication_slot_advance('s', '0/1')}, '55000', qr/cannot advance replication slot to \S+, minimum is \S+/, 'not back');
		my $to = $aio->sql(q{SELECT end_lsn FROM pg_replication_slot_advance('s', pg_current_wal_lsn())});
		$aio->gives($restart, $to, 'it is where it should be');
		ok($aio->poll(sub { $aio->sql("CHECKPOINT; SELECT ($current) - ($first) <= 1") eq 't' }), 'the WAL goes');
		$aio->recovers;
		$aio->gives($restart, $to, 'a crash after a checkpoint does not take it back');
		$aio->sql(q{SELECT pg_drop_replication_slot('s')});
	}, dies => 1, skip => $large);

	$aio->scenario('checkpoints that are too frequent', sub {
		my $counts = 'SELECT num_requested, num_timed, num_done FROM pg_stat_checkpointer';
		# the last checkpoint may not be counted yet
		my $next = $aio->sql('SELECT num_done + 1 FROM pg_stat_checkpointer; CHECKPOINT');
		$aio->gives_soon('SELECT num_done >= ' . $next . ' FROM pg_stat_checkpointer', 't', 'a checkpoint is counted');
		my ($size, @before) = ($aio->log_size, split /\|/, $aio->sql($counts));
		$aio->alter_system(max_wal_size => "'2MB'", checkpoint_warning => "'1h'");
		my $lines = sub ($line) { return scalar(() = $aio->log_text($size) =~ /checkpointer LOG:  $line/g) };
		ok($aio->poll(sub { write_segments($aio, 1); $lines->('checkpoint starting: wal') >= 3 }), 'checkpoints begin');
		my ($begun, $found);
		ok($aio->poll(sub {
			my @now = split /\|/, $aio->sql($counts);
			my ($requested, $timed, $done) = map { $now[$_] - $before[$_] } 0 .. 2;
			$begun = $lines->('checkpoint starting: wal');
			$found = join ' ', $requested, $timed, $done, map { $lines->($_) } 'checkpoint complete', 'checkpoints are occurring too frequently \(\d+ seconds? apart\)';
			# one that is asked for during the last one is left out if nothing has been written since
			return $requested >= $begun && $found eq "$requested 0 $begun $begun $requested";
		}), 'each is counted, and warned of') || diag("$begun begun; requested, timed, done; complete, warned of: $found");
		$aio->alter_system(max_wal_size => 'DEFAULT', checkpoint_warning => 'DEFAULT');
	}, skip => $large);

	# a record that is for standbys only does not count
	$aio->scenario('archive_timeout', sub {
		# or a later read of the catalogs prunes a page, which writes WAL
		$aio->sql('VACUUM (FREEZE)');
		write_segments($aio, 1);
		my $before = $aio->sql($current);
		$aio->alter_system(archive_timeout => 1);
		$aio->sql("SELECT pg_logical_emit_message(false, '', '')");
		$aio->gives_soon($current, $before + 1, 'a record ends a segment');
		$aio->sql('SELECT pg_log_standby_snapshot()');
		$aio->wait_seconds(2);
		$aio->gives($current, $before + 1, 'where nothing is written, none ends');
	}, skip => only_long());
}, streaming => 1, conf => { wal_keep_size => 0 });
