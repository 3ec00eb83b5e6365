# What the scripts of t/recordings write is replayed after a crash, from the first record on.  The server compares
# each block with the one that the session left (wal_consistency_checking), and all rows and indexes are as they were.
use TestAio;
use TestAio::Recording;

# Runs a script in a schema of its own, without its checkpoints.
sub run_script ($aio, $name)
{
	my %sessions;
	$aio->sql("CREATE SCHEMA $name");
	for (grep { !$_->{command} && !$_->{database} && $_->{sql} ne 'CHECKPOINT' } script($name))
	{
		my $session = $sessions{ $_->{session} } //= do {
			my $new = $aio->session("$_->{session}_$name");
			$new->sql("SET search_path = $name, public; SET max_parallel_maintenance_workers = 0; SET client_min_messages = error");
			$new;
		};
		$session->starts($_->{sql})->wait_for_end;
	}
	$aio->end_session($_) for values %sessions;
	return;
}

# Digests of the rows of all permanent tables, the sizes of their indexes, and what amcheck says of B-trees.
sub contents ($aio, $has_amcheck)
{
	my @digests;
	for my $line (split /\n/, $aio->sql(q{
			SELECT c.oid::regclass, c.relkind, coalesce(i.indexrelid::regclass::text, ''), coalesce(amname, '')
			FROM pg_class c LEFT JOIN pg_index i ON c.oid = indrelid
				LEFT JOIN pg_class ic ON ic.oid = indexrelid LEFT JOIN pg_am a ON a.oid = ic.relam
			WHERE c.relkind IN ('r', 'm') AND c.relpersistence = 'p' AND c.relnamespace >= 16384 ORDER BY c.oid::regclass::text, 3}))
	{
		my ($table, $kind, $index, $method) = split /\|/, $line, -1;
		push @digests, "$table: " . $aio->sql("SELECT count(*), sum(hashtext(t::text)::bigint) FROM $table t");
		push @digests, "$index: " . $aio->sql("SELECT bt_index_check('$index', heapallindexed => true)")
		  if $has_amcheck && $method eq 'btree';
		push @digests, "$index: pages " . $aio->sql("SELECT pg_relation_size('$index') / 8192") if $index;
	}
	return join "\n", @digests;
}

with_each_io_method('long: sync', sub {
	my $has_amcheck = !$aio->lacks('amcheck');
	$aio->scenario('%s', sub ($, $name) {
		$aio->sql('CHECKPOINT');
		run_script($aio, $name);
		my $before = contents($aio, $has_amcheck);
		like($before, qr/^$name\.\w+: [1-9]/m, 'the script has left tables');
		$aio->recovers;
		is(contents($aio, $has_amcheck), $before, 'all tables and indexes are as they were');
		$aio->sql("DROP SCHEMA $name CASCADE");
	}, each => [ scripts_in_wal() ], dies => 1);
},
	own => 1,
	# the images of all blocks are many
	conf => { wal_consistency_checking => 'all', shared_buffers => '64MB', max_wal_size => '1GB' });

# Replay of WAL that the files have seen before, truncations included; what a standby keeps, and counts, of
# what it replays; a free space map of blocks that are not there.  Guards server commits 23b25586dc,
# 8c8f7b199d, b4c1b2be30, 9358297431 and f4694e0f35.

# The rows and the sizes of tables.
sub contents_of { return join ' UNION ALL ', map { "SELECT '$_', count(*), sum(blk), count(*) FILTER (WHERE body = proof('$_', blk, 0)), pg_relation_size('$_') / 8192 FROM $_" } @_ }

# Makes tables of 75 pages that shrink to these sizes and grow after a checkpoint.  Between, pages change that
# recovery does not get as images.  Returns the tables.
my %sizes = (t => [ 50, 30, 45, 15 ], u => [ 45, 70, 22, 30 ], v => [ 35, 10, 20 ], w => [ 55, 150, 10 ]);

sub shrink_and_grow ($aio)
{
	my @tables = map { $aio->table($_, 75, changes => 1) } sort keys %sizes;
	$aio->sql('CHECKPOINT');
	for my $t (@tables)
	{
		my $last = 75;
		for my $size (@{ $sizes{ substr $t, -1 } })
		{
			$aio->sql($size > $last
				? "CALL add_pages('$t', $last, ${\($size - 1)}); UPDATE $t SET gen = gen WHERE blk % 3 = 0 AND blk > 12; VACUUM (TRUNCATE off) $t"
				: "DELETE FROM $t WHERE (ctid::text::point)[0] >= $size OR blk >= $size; VACUUM (TRUNCATE on) $t; SELECT FROM $t WHERE blk % 4 = 1 FOR UPDATE");
			$last = $aio->sql("SELECT pg_relation_size('$t') / 8192");
		}
	}
	return @tables;
}

# Makes tables of 75 pages, empty from some block on but for the last rows that are given, and truncates them to
# one of these after the other, after a restart point of the standby.  Nothing but truncations names the empty
# blocks.  The rows are written with images, and checkpoints between have the standby forget the sizes of files.
my %last_rows = (t => [ 49, 29, 14 ], u => [ 74, 73, 32, 0 ], v => [15]);

sub truncate_by_and_by ($aio, $standby)
{
	my @tables = map { $aio->table($_, 75, changes => 1) } sort keys %last_rows;
	for my $t (@tables)
	{
		my @last = @{ $last_rows{ substr $t, -1 } };
		$aio->sql("DELETE FROM $t WHERE blk > $last[-1] AND blk NOT IN (${\join ',', @last}); VACUUM (TRUNCATE off) $t");
	}
	$aio->sql('CHECKPOINT');
	$aio->replayed_by($standby);
	$standby->sql('CHECKPOINT');
	for my $t (@tables)
	{
		for my $last (@{ $last_rows{ substr $t, -1 } })
		{
			$aio->sql("DELETE FROM $t WHERE blk > $last; VACUUM (TRUNCATE on) $t; SELECT FROM $t WHERE blk = $last FOR UPDATE; CHECKPOINT");
		}
	}
	return @tables;
}

# Test: the tables have the same rows as on the server, and what comes next, too.
sub agrees ($aio, $other, @tables)
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $query = contents_of(@tables);
	$aio->sql("CALL add_pages('$_', 500, 530)") for @tables;
	my $expected = $aio->sql($query);
	$aio->replayed_by($other) if $other != $aio;
	return $other->gives($query, $expected, 'further rows');
}

for_each_io_method('worker; long: all', sub {
	$aio->scenario('recovery', sub {
		my @tables = shrink_and_grow($aio);
		my $expected = $aio->sql(contents_of(@tables));
		$aio->recovers;
		$aio->gives(contents_of(@tables), $expected, 'the rows');
		agrees($aio, $aio, @tables);
	}, dies => 1, skip => only_long());

	# the map may be older than the file: it names blocks that are not there
	$aio->scenario('a map of blocks that are not there', with('alice', 60, sub ($alice, $t) {
		$aio->sql("DELETE FROM $t WHERE blk >= 20; VACUUM (TRUNCATE off) $t; CHECKPOINT");
		my $map = $aio->file_of($t) . '_fsm';
		open my $fh, '<:raw', $map or die "$map: $!";
		my $old = do { local $/; <$fh> };
		close $fh;
		$aio->sql("VACUUM (TRUNCATE on) $t; CHECKPOINT");
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 20, 'the table is cut off');
		while_stopped($aio, sub { $aio->overwrite($map, 0, $old) });
		$aio->sql("CALL add_pages('$t', 20, 29)");
		$aio->is_as_written($t, blocks => 30);
	}), dies => 1);

	my $no_map = $aio->lacks('pg_freespacemap');
	$aio->node->backup('b');
	my $standby = TestAio::Server->of_backup($aio, 'b');

	# the restart point lies before all truncations, the files after them
	$aio->scenario('a standby that starts again', sub {
		my @tables = truncate_by_and_by($aio, $standby);
		my $query = contents_of(@tables);
		my $expected = $aio->sql($query);
		$aio->replayed_by($standby);
		$standby->gives($query, $expected, 'the rows on the standby');
		my $size = $standby->log_size;
		ok($standby->stop_with_sessions('QUIT'), 'the standby stops');
		$standby->start_again;
		$aio->replayed_by($standby);
		$standby->gives($query, $expected, 'the rows after another replay');
		agrees($aio, $standby, @tables);
		unlike($standby->log_text($size), qr/startup (?:ERROR|FATAL)|PANIC|TRAP/, 'replay goes well');
	}, dies => 1);

	# pages that are full to the last byte, from images of full pages: nothing else tells the standby of their free space
	$aio->scenario('free space of full pages', sub {
		my $t = 'scenario.f';
		$aio->sql("CREATE TABLE $t (body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT repeat('x', CASE WHEN i % 2 = 1 THEN 4068 ELSE 4036 END) FROM generate_series(1, 20) i; DELETE FROM $t WHERE (ctid::text::point)[1] = 2; VACUUM (TRUNCATE off) $t");
		my $space = "SELECT string_agg(avail::text, ' ' ORDER BY blkno) FROM pg_freespace('$t')";
		$aio->replayed_by($standby);
		$standby->gives($space, $aio->sql($space), 'half full');
		$aio->sql("CHECKPOINT; INSERT INTO $t SELECT repeat('y', 4036) FROM generate_series(1, 10); VACUUM (FREEZE, TRUNCATE off) $t");
		$aio->gives($space, join(' ', (0) x 10), 'full');
		$aio->replayed_by($standby);
		$standby->gives($space, join(' ', (0) x 10), 'full on the standby, too');
	}, skip => $no_map);

	# the startup process reports when it replays which transactions run, as a checkpoint logs
	$aio->scenario('counters of replay', with('', 100, changes => 1, sub ($t) {
		my $counts = "SELECT sum(hits) + sum(reads) FROM pg_stat_io WHERE backend_type = 'startup' AND object = 'relation'";
		$aio->replayed_by($standby);
		my $before = $standby->sql($counts);
		$aio->sql("UPDATE $t SET gen = 1; CHECKPOINT");
		$aio->replayed_by($standby);
		ok($standby->poll(sub { $standby->sql($counts) >= $before + 100 }), 'the blocks that it looks at') || diag("$before, " . $standby->sql($counts));
	}));

	# the processes that read and write WAL all the time tell what they do meanwhile
	$aio->scenario('counters of processes that do not end', sub {
		$aio->sql("SELECT pg_logical_emit_message(true, 'test_aio', repeat('x', 100000))");
		$aio->replayed_by($standby);
		ok($standby->poll(sub { $standby->sql("SELECT writes > 0 AND write_bytes >= 100000 FROM pg_stat_io WHERE backend_type = 'walreceiver' AND object = 'wal' AND context = 'normal'") eq 't' }), 'WAL receiver');
		ok($aio->poll(sub { $aio->sql("SELECT reads > 0 AND read_bytes >= 100000 FROM pg_stat_io WHERE backend_type = 'walsummarizer' AND object = 'wal' AND context = 'normal'") eq 't' }), 'WAL summarizer');
	}, skip => only_long());

	# nobody else writes WAL meanwhile; it logs the running transactions 15 s after a change; server commit e64c733bb1
	$aio->scenario('the WAL of the background writer is counted while it runs', sub {
		$aio->sql('CREATE TABLE scenario.o (i int); SELECT pg_stat_force_next_flush()');
		my $insert = 'SELECT pg_current_wal_insert_lsn()';
		my ($lsn, $records) = ($aio->sql($insert), $aio->sql('SELECT wal_records FROM pg_stat_wal'));
		ok($aio->poll(sub { $aio->sql($insert) ne $lsn }, 60), 'it writes something');
		ok($aio->poll(sub { $aio->sql('SELECT wal_records FROM pg_stat_wal') > $records }), 'which is counted');
	}, skip => $aio->method eq 'worker' ? only_long() : 'the same with each method');

	# or an incremental backup lacks it; server commit ed62d26cac
	$aio->scenario('the summary of WAL has the map of which a bit is cleared', with('', 10, changes => 1, sub ($t) {
		$aio->sql("VACUUM (FREEZE) $t; CHECKPOINT");
		my $begin = $aio->sql('SELECT redo_lsn FROM pg_control_checkpoint()');
		$aio->sql("DELETE FROM $t WHERE blk = 3; CHECKPOINT");
		my $end = $aio->sql('SELECT redo_lsn FROM pg_control_checkpoint()');
		$aio->wait_for("SELECT summarized_lsn >= '$end' FROM pg_get_wal_summarizer_state()");
		$aio->gives("SELECT relforknumber, relblocknumber FROM pg_available_wal_summaries() s, pg_wal_summary_contents(s.tli, s.start_lsn, s.end_lsn) WHERE start_lsn >= '$begin' AND relfilenode = pg_relation_filenode('$t') AND NOT is_limit_block ORDER BY 1",
			"0|3\n2|0", 'the block, and that of the visibility map');
		$aio->is_as_written($t, except => 'block 3 has no row');
	}), skip => $aio->setting('server_version') =~ /^(?:18\.[0-5]|19beta)/ ? 'mended with 18.6 and after the betas of 19' : undef);

	# the startup process forgets the files of dropped tables
	$aio->scenario('memory for dropped tables', sub {
		my $memory = sub {
			$aio->sql('CHECKPOINT');
			$aio->replayed_by($standby);
			$standby->sql('CHECKPOINT');
			my $size = $standby->log_size;
			my ($startup) = $standby->pids_of_type('startup');
			$standby->sql("SELECT pg_log_backend_memory_contexts($startup)");
			$aio->poll(sub { $aio->replayed_by($standby); $standby->log_text($size) =~ /Grand total/ });
			my ($used) = $standby->log_text($size) =~ /smgr relation table: .*?; (\d+) used/ or return 0;
			return $used;
		};
		my $drop = sub {
			$aio->sql(q{DO $$ BEGIN FOR i IN 1 .. 40 LOOP CREATE TABLE scenario.d (); DROP TABLE scenario.d; END LOOP; END $$});
			return $memory->();
		};
		my $before = $drop->();
		$drop->();
		is_between($drop->(), 0, $before * 1.2, "bytes of the startup process, $before before");
	}, log => qr/LOG:  /);

	# Recovery makes them anew from the init forks, which replay or a checkpoint has written.  The indexes, and what
	# each finds of 2000 rows.
	my %indexes = (
		'btree (n)' => [ 'n < 100', 100 ], 'hash (n)' => [ 'n = 7', 1 ], 'brin (n)' => [ 'n < 100', 100 ], 'gin (a)' => [ 'a @> ARRAY[7]', 1 ],
		'gist (p)' => [ "p <@ box '((0,0),(99,99))'", 100 ], 'spgist (p)' => [ "p <@ box '((0,0),(99,99))'", 100 ]);
	$aio->scenario('unlogged relations of a standby that is promoted, and after a crash', sub {
		$aio->sql('CREATE UNLOGGED TABLE scenario.u (n int, p point, a int[], s serial)');
		$aio->sql("CREATE INDEX ON scenario.u USING $_") for sort keys %indexes;
		my $insert = 'INSERT INTO scenario.u SELECT i, point(i, i), ARRAY[i] FROM generate_series(0, 1999) i';
		$aio->sql("$insert; CHECKPOINT");
		$aio->replayed_by($standby);
		$standby->gives('SELECT pg_promote(), pg_is_in_recovery()', 't|f', 'the standby is none any more');
		$aio->recovers;
		for my $server ($standby, $aio)
		{
			$server->gives('SELECT count(*) FROM scenario.u', 0, 'the table is empty');
			$server->sql($insert);
			$server->gives('SELECT count(*), min(s), max(s) FROM scenario.u', '2000|1|2000', 'the sequence begins again');
			$server->gives("SET enable_seqscan = off; SELECT count(*) FROM scenario.u WHERE $indexes{$_}[0]; RESET enable_seqscan", $indexes{$_}[1], "by the index: $_") for sort keys %indexes;
		}
	}, dies => 1);
}, streaming => 1, conf => { summarize_wal => 'on', wal_receiver_status_interval => '1s' });
