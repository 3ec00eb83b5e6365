# What the scripts of t/recordings write is replayed after a crash, from the first record on.  The server compares
# each block with the one that the session left (wal_consistency_checking), and all rows and indexes are as they were.
use TestAio;
use Digest::MD5 qw(md5_hex);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use List::Util qw(max min);
use TestAio::Pages;
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
# what it replays; a free space map of blocks that are not there; each file of a standby, and after a crash.  Guards server commits 23b25586dc,
# 8c8f7b199d, b4c1b2be30, 9358297431 and f4694e0f35.

# The rows and the sizes of tables.
sub contents_of { return join ' UNION ALL ', map { "SELECT '$_', count(*), sum(blk), count(*) FILTER (WHERE body = proof('$_', blk, 0)), pg_relation_size('$_') / 8192 FROM $_" } @_ }

# Makes tables of 75 pages, empty from some block on but for the last rows that are given, and truncates them to
# one of these after the other, after a restart point of the standby.  Nothing but truncations names the empty
# blocks.  The rows are written with images, and checkpoints between have the standby forget the sizes of files.
my %last_rows = (t => [ 49, 29, 14 ], u => [ 74, 73, 32, 0 ], v => [15], w => [15]);

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

# Each relation of the scenario: its name, file, kind and persistence.
sub relations ($aio)
{
	return map { [ split /\|/ ] } split /\n/, $aio->sql(q{WITH r AS (SELECT oid, reltoastrelid FROM pg_class WHERE relnamespace = 'scenario'::regnamespace)
		SELECT c.oid::regclass, pg_relation_filepath(c.oid), coalesce(amname, 'heap'), relpersistence FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam WHERE relkind NOT IN ('S', 'v')
			AND (c.oid IN (SELECT unnest(ARRAY[oid, reltoastrelid]) FROM r) OR c.oid IN (SELECT indexrelid FROM pg_index JOIN r ON indrelid = reltoastrelid)) ORDER BY 1});
}

# The forks that the WAL makes, and where in a page is what it makes.
sub forks ($persistence) { return $persistence eq 'u' ? (init => 10) : (main => 10, vm => 24) }

# Test: after a checkpoint, the files of relations have what the buffers have.
sub is_written ($server, @relations)
{
	my (@blocks, @sums);
	for my $relation (@relations)
	{
		my $files = TestAio::Pages->in_file($server->node->data_dir . "/$relation->[1]");
		# a page may be new on disk, and the map of free space has where to search next
		my %from = (forks($relation->[3]), $relation->[3] eq 'u' ? () : (fsm => 28));
		for my $fork (sort keys %from)
		{
			my @pages = $files->pages($fork);
			push @blocks, map { "('$relation->[0]', '$fork', $_, $from{$fork} + 1)" } grep { $fork =~ /fsm|vm/ || $pages[$_] =~ /[^\0]/ } 0 .. $#pages;
			push @sums, map { $fork =~ /fsm|vm/ || /[^\0]/ ? md5_hex(substr $_, $from{$fork}) : () } @pages;
		}
	}
	my @cached = split /\n/, $server->sql("SELECT md5(substring(get_raw_page(r, f, b) FROM o)) FROM (VALUES ${\join ', ', @blocks}) v (r, f, b, o)");
	return is(join(' ', @blocks[ grep { $cached[$_] ne $sums[$_] } 0 .. $#blocks ]), '', 'files have what the buffers have: ' . @blocks . ' blocks');
}

# Test: two servers have the same files of relations, but for hints.
sub same_files ($aio, $standby, $name)
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @relations = relations($aio);
	for my $server ($aio, $standby)
	{
		$server->sql('CHECKPOINT');
		$aio->replayed_by($standby);
		is_written($server, @relations);
	}
	my @wrong;
	for my $relation (@relations)
	{
		my ($of, $path, $kind, $persistence) = @$relation;
		my @both = map { TestAio::Pages->in_file($_->node->data_dir . "/$path") } $aio, $standby;
		my %forks = forks($persistence);
		for my $fork (sort keys %forks)
		{
			my ($here, $there) = map { [ $_->pages($fork) ] } @both;
			# the WAL need not have pages at the end that have nothing; SP-GiST's first page names pages that were used last
			for my $pages ($fork eq 'init' ? () : ($here, $there)) { pop @$pages while @$pages && substr($pages->[-1], 24) !~ /[^\0]/ }
			push @wrong, "$of $fork: " . @$here . ' and ' . @$there . ' blocks' if @$here != @$there;
			for my $block (($kind eq 'spgist' ? 1 : 0) .. min($#$here, $#$there))
			{
				my @pages = map { $_->[$block] } $here, $there;
				my @masked = map { masked($_, $fork eq 'vm' ? '' : $kind) } @pages;
				my @lsn = map { $kind eq 'heap' || $fork eq 'init' ? (header($_))[0] : 0 } @pages;
				push @wrong, "$of $fork $block" if $masked[0] ne $masked[1] || $lsn[0] != $lsn[1];
			}
		}
		push @wrong, "$of: is on the standby" if $persistence eq 'u' && $both[1]->pages;
		push @wrong, "$of: no init fork" if $persistence eq 'u' && grep { !-e $_->node->data_dir . "/${path}_init" } $aio, $standby;
		# of a table that has been cut off, the map has no space beyond the end, and knows what is largest
		for my $files (grep { $of =~ /cut$/ && $_->pages('fsm') } @both)
		{
			my @leaves = $files->leaves;
			push @wrong, "$of: the free space map" if grep({ $_ } @leaves[ scalar($files->pages) .. $#leaves ]) || grep { ord(substr $_, 28, 1) != max(@leaves) } $files->pages('fsm');
		}
	}
	return is(join("\n", @wrong), '', "$name: the same files");
}

for_each_io_method('worker; long: all', sub {
	# the map may be older than the file: it names blocks that are not there
	$aio->scenario('a map of blocks that are not there', with('alice', 60, sub ($alice, $t) {
		$aio->sql("DELETE FROM $t WHERE blk >= 20; VACUUM (TRUNCATE off) $t; CHECKPOINT");
		my $map = $aio->file_of($t) . '_fsm';
		my $old = PostgreSQL::Test::Utils::slurp_file($map);
		$aio->sql("VACUUM (TRUNCATE on) $t; CHECKPOINT");
		$aio->gives("SELECT pg_relation_size('$t') / 8192", 20, 'the table is cut off');
		while_stopped($aio, sub { $aio->overwrite($map, 0, $old) });
		$aio->sql("CALL add_pages('$t', 20, 29)");
		$aio->is_as_written($t, blocks => 30);
	}), dies => 1);

	my $no_map = $aio->lacks('pg_freespacemap');
	my $no_inspect = $aio->lacks('pageinspect') // $aio->lacks('pg_visibility');
	my $standby = $aio->make_standby;

	# the restart point lies before all truncations, the files after them
	$aio->scenario('a standby that starts again', sub {
		$aio->sql($_) for 'SET allow_in_place_tablespaces = on', "CREATE TABLESPACE gone LOCATION ''";
		my @tables = truncate_by_and_by($aio, $standby);
		# the second replay cuts off a file that the first one has removed
		$aio->sql("DROP TABLE ${\pop @tables}");
		# replay comes to databases whose tablespace it has removed before, or could not remove
		my ($directory) = glob $standby->node->data_dir . '/pg_tblspc/*/PG_*';
		make_path("$directory/1/left");
		$aio->sql($_) for map({ ("CREATE DATABASE gone TEMPLATE postgres TABLESPACE gone STRATEGY $_", 'DROP DATABASE gone') } qw(wal_log file_copy)),
		  # a table that moves with pages that nobody has used yet
		  'CREATE TABLE scenario.n AS SELECT 1 AS n', "SELECT grow_rel('scenario.n', 5)", 'ALTER TABLE scenario.n SET TABLESPACE gone', 'ALTER TABLE scenario.n SET TABLESPACE pg_default', 'DROP TABLESPACE gone';
		$aio->gives('SELECT count(*) FROM scenario.n', 1, 'the rows of a table that has moved');
		my $query = contents_of(@tables);
		my $expected = $aio->sql($query);
		$aio->replayed_by($standby);
		$standby->gives($query, $expected, 'the rows on the standby');
		ok(-d "$directory/1/left", 'a directory that is not empty is still there');
		remove_tree(dirname $directory);
		my $size = $standby->log_size;
		ok($standby->stop_with_sessions('QUIT'), 'the standby stops');
		$standby->start_again;
		$aio->replayed_by($standby);
		$standby->gives($query, $expected, 'the rows after another replay');
		$aio->sql("CALL add_pages('$_', 500, 530)") for @tables;
		$aio->replayed_by($standby);
		$standby->gives($query, $aio->sql($query), 'further rows');
		unlike($standby->log_text($size), qr/startup (?:ERROR|FATAL)|PANIC|TRAP/, 'replay goes well');

		# before files go, the minimum recovery point is moved past the record
		for my $statements ([ 'CREATE TABLE scenario.b AS SELECT generate_series(1, 999) AS n', 'BEGIN', 'TRUNCATE scenario.b', 'ROLLBACK' ], [ 'DELETE FROM scenario.b', 'VACUUM (TRUNCATE on) scenario.b' ], ['TRUNCATE scenario.b'])
		{
			my @first = @$statements;
			my $last = pop @first;
			$aio->sql($_) for @first;
			my $position = $aio->sql("SELECT pg_logical_emit_message(false, '', '')");
			$aio->sql($last);
			$aio->replayed_by($standby);
			$standby->gives("SELECT min_recovery_end_lsn > '$position' FROM pg_control_recovery()", 't', "$last: moves the minimum recovery point");
		}

		# a clean shutdown of both
		$aio->sql($_) for 'CREATE TABLE scenario.p (n int)', 'BEGIN', 'INSERT INTO scenario.p VALUES (1)', 'SAVEPOINT a', 'INSERT INTO scenario.p VALUES (2)', 'RELEASE a', "PREPARE TRANSACTION 'p'";
		my $reader;
		$aio->alter_system(track_commit_timestamp => 'on');
		while_stopped($aio, sub {
			$standby->wait_for('SELECT pg_last_wal_replay_lsn() = pg_last_wal_receive_lsn()');
			my $position = $standby->sql('SELECT pg_last_wal_replay_lsn()');
			while_stopped($standby);
			$standby->gives("SELECT pg_last_wal_replay_lsn() >= '$position'", 't', 'a restart does not fall behind the last record that was replayed');
			$reader = $standby->session('reader');
			$reader->sql('BEGIN ISOLATION LEVEL REPEATABLE READ');
			$reader->gives('SELECT count(*) FROM scenario.p', 0, 'a snapshot without the rows of a prepared transaction');
		});
		$aio->sql("COMMIT PREPARED 'p'");
		$aio->replayed_by($standby);
		$reader->gives('SELECT count(*) FROM scenario.p', 0, 'which it does not see later');
		$standby->end_session($reader);
		$standby->gives('SELECT count(*) FROM scenario.p', 2, 'others do');
		my ($settings, $of_primary) = map { join '', grep { /setting:/ } `pg_controldata '${\$_->node->data_dir}'` } $standby, $aio;
		like($of_primary, qr/track_commit_timestamp setting: +on/, 'a setting of the primary is new');
		is($settings, $of_primary, 'all are noted by the standby');

		$standby->alter_system(restart_after_crash => 'on');
		$standby->kill_process(($standby->pids_of_type('checkpointer'))[0]);
		$standby->poll(sub { !eval { $standby->sql('SELECT'); 1 } }) or fail('the standby ends its sessions');
		$standby->wait_for_connections;
		$aio->replayed_by($standby);
		$standby->gives($query, $aio->sql($query), 'the rows after a crash');
		$standby->alter_system(restart_after_crash => 'DEFAULT');
		$standby->check_log([ qr/startup LOG:  (?:could not remove directory "pg_tblspc|directories for tablespace)/, qr/client backend \[unknown\] FATAL:  the database system is (?:in recovery mode|not yet)/ ]);
	}, dies => 1);

	# pages that are full to the last byte, from images of full pages: nothing else tells the standby of their free space.
	# What is not written is lost when it is evicted.
	$aio->scenario('free space of full pages', sub {
		my $t = 'scenario.f';
		$aio->sql("CREATE TABLE $t (body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT repeat('x', CASE WHEN i % 2 = 1 THEN 4068 ELSE 4036 END) FROM generate_series(1, 20) i; DELETE FROM $t WHERE (ctid::text::point)[1] = 2; VACUUM (TRUNCATE off) $t");
		my $space = "SELECT string_agg(avail::text, ' ' ORDER BY blkno) FROM pg_freespace('$t')";
		my $replays = sub { $aio->replayed_by($standby); $standby->evict($t) };
		$replays->();
		$standby->gives($space, $aio->sql($space), 'half full');
		$aio->sql("CHECKPOINT; INSERT INTO $t SELECT repeat('y', 4036) FROM generate_series(1, 10); VACUUM (FREEZE, TRUNCATE off) $t");
		$aio->gives($space, join(' ', (0) x 10), 'full');
		$replays->();
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
		my $summary = sub ($since, $which) { return $aio->sql("SELECT relforknumber, relblocknumber FROM pg_available_wal_summaries() s, pg_wal_summary_contents(s.tli, s.start_lsn, s.end_lsn) WHERE start_lsn >= '$since' AND relfilenode = pg_relation_filenode('$t') AND $which ORDER BY 1") };
		is($summary->($begin, 'NOT is_limit_block'), "0|3\n2|0", 'a block of the table and one of its map');
		$aio->sql("DELETE FROM $t WHERE blk > 4; VACUUM (TRUNCATE on) $t; CHECKPOINT");
		$aio->wait_for("SELECT summarized_lsn >= redo_lsn FROM pg_get_wal_summarizer_state(), pg_control_checkpoint()");
		is($summary->($end, 'is_limit_block'), "0|5\n2|1", 'the lengths of both after a truncation');
		$aio->is_as_written($t, blocks => 5, except => 'block 3 has no row');
	}), skip => $aio->setting('server_version') =~ /^(?:18\.[0-5]\b|19beta)/ ? 'mended with 18.6 and after the betas of 19' : undef);

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

	# each kind of relation, changed in each way, while the standby replays; then the same after a crash
	$aio->scenario('each file is the same on the standby, and after a crash', sub {
		my %of = (btree => 'n', hash => 'n', gist => 'p', spgist => 'p', gin => 'a', brin => 'n');
		my $insert = sub ($t, $from, $to) { $aio->sql("INSERT INTO scenario.$t SELECT i, point(i, i), ARRAY[i, i % 10 - 100], repeat('x', CASE WHEN i % 100 = 7 THEN 3000 ELSE 40 END) FROM generate_series($from, $to) i") };
		$aio->sql($_) for 'SET allow_in_place_tablespaces = on', "CREATE TABLESPACE in_place LOCATION ''";
		for my $t ('t', 'u')
		{
			$aio->sql('CREATE ' . ($t eq 'u' ? 'UNLOGGED' : '') . " TABLE scenario.$t (n int, p point, a int[], body text STORAGE EXTERNAL) WITH (autovacuum_enabled = off)");
			$insert->($t, 0, 999);
			$aio->sql("CREATE INDEX ON scenario.$t USING $_ ($of{$_})") for sort keys %of;
		}
		$aio->sql('CREATE TABLE scenario.cut AS SELECT i, repeat(\'x\', 500) FROM generate_series(1, 700) i; CREATE MATERIALIZED VIEW scenario.m AS SELECT n, p FROM scenario.t');
		$aio->sql('VACUUM scenario.t, scenario.u, scenario.cut');
		same_files($aio, $standby, 'new');

		# an empty page at the end, as an INSERT leaves that fails
		my $block = $aio->sql("SELECT pg_relation_size('scenario.cut') / 8192");
		$aio->sql("SELECT grow_rel('scenario.cut', 1); CHECKPOINT; SELECT evict_rel('scenario.cut')");
		$aio->overwrite($aio->file_of('scenario.cut'), $block * 8192, pack 'x12 v4 x8172', 24, 8192, 8192, 8196);
		$aio->sql($_) for "SELECT modify_rel_block('scenario.cut', $block)", 'VACUUM (TRUNCATE off) scenario.cut', "SELECT evict_rel('scenario.cut')";
		$aio->gives("SELECT all_visible, all_frozen, pd_all_visible FROM pg_visibility('scenario.cut', $block)", 't|t|t', 'an empty page is visible to all');

		my $do = sub { ref $_ ? $_->() : $aio->sql($_) for map { ref ? $_ : split /; / } @_ };
		my @ways = ('DELETE FROM scenario.t WHERE n BETWEEN 100 AND 600', 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) scenario.t', sub { $insert->('t', 2000, 2900) }, 'UPDATE scenario.t SET body = left(body, 10) WHERE n % 9 = 1', 'UPDATE scenario.t SET n = -n WHERE n % 11 = 1',
			'SELECT count(*) FROM (SELECT FROM scenario.t WHERE n % 17 = 1 FOR UPDATE) s', 'DELETE FROM scenario.t WHERE n > 2500', 'VACUUM (FREEZE, INDEX_CLEANUP on) scenario.t',
			'REFRESH MATERIALIZED VIEW scenario.m', 'DELETE FROM scenario.cut WHERE i > 200 OR i % 40 = 0', 'VACUUM (FREEZE, TRUNCATE off) scenario.cut; CHECKPOINT; VACUUM scenario.cut', 'DELETE FROM scenario.t WHERE n % 7 = 1; VACUUM (TRUNCATE off) scenario.t');
		$do->(@ways, 'TRUNCATE scenario.u');
		# a row that one session changes and another one locks meanwhile
		my ($bob) = $aio->sessions('bob');
		$bob->sql('BEGIN; UPDATE scenario.t SET body = NULL WHERE n = 900');
		$aio->sql('SELECT FROM scenario.t WHERE n = 900 FOR KEY SHARE');
		$bob->sql('COMMIT');
		same_files($aio, $standby, 'changed');

		# the standby has yet to write pages of the database that is copied
		$aio->end_sessions;
		$aio->sql($_) for 'UPDATE scenario.t SET n = n + 1 WHERE n < 50', 'CREATE DATABASE copied TEMPLATE postgres STRATEGY file_copy', 'CREATE DATABASE logged TEMPLATE postgres STRATEGY wal_log';
		$aio->replayed_by($standby);
		my $carol = $standby->session('carol', dbname => 'copied');
		$carol->gives('SELECT sum(n) FROM scenario.t', $aio->sql('SELECT sum(n) FROM scenario.t'), 'a copied database on the standby: the rows');
		my $size = $standby->log_size;
		$do->('DROP DATABASE copied', 'DROP DATABASE logged');
		$aio->replayed_by($standby);
		$carol->starts('SELECT 1')->wait_for_end;
		ok($carol->has_gone, 'an idle session goes with its database');
		$standby->end_session($carol);
		$do->('ALTER TABLE scenario.u SET TABLESPACE in_place', 'ALTER TABLE scenario.t SET TABLESPACE in_place', 'ALTER INDEX scenario.u_a_idx SET TABLESPACE in_place');
		# the first change after a checkpoint is a whole page, of which replay has nothing else
		$do->('CHECKPOINT', map { "$_ BETWEEN 2000 AND 2020" } 'DELETE FROM scenario.t WHERE n', 'UPDATE scenario.t SET n = n WHERE n - 100', 'UPDATE scenario.t SET body = NULL WHERE n - 200');
		same_files($aio, $standby, 'moved');
		unlike($standby->log_text($size), qr/ERROR|PANIC|could not|TRAP/, 'and nothing is wrong');

		$do->(@ways, 'CHECKPOINT', @ways[ 0 .. 4 ], 'VACUUM scenario.u');
		$aio->replayed_by($standby);
		my @unlogged = map { $_->[3] eq 'u' ? $aio->node->data_dir . "/$_->[1]" : () } relations($aio);
		PostgreSQL::Test::Utils::append_to_file($_, 'x') for map { ("$_.1", "${_}_fsm.1") } @unlogged;
		$aio->recovers;
		my %files = map { my $files = TestAio::Pages->in_file($_); join('', $files->pages) eq join('', $files->pages('init')) ? () : ($_ => 1), map { $_ => 1 } grep { !/_init$/ } glob "${_}[._]*" } @unlogged;
		is(join(' ', sort keys %files), '', @unlogged . ' unlogged relations are as when they were new');
		same_files($aio, $standby, 'after a crash');
		$_->gives("SELECT (SELECT count(*) FROM pg_check_frozen('scenario.t')), (SELECT count(*) FROM pg_check_visible('scenario.t'))", '0|0', 'the visibility map is right') for $aio, $standby;
		$standby->check_log(qr/client backend carol FATAL:  terminating connection due to conflict with recovery/);
		$aio->sql('DROP TABLE scenario.t, scenario.u CASCADE; DROP TABLESPACE in_place');
	}, dies => 1, skip => $no_inspect);

	# the standby ends if a block that it has replayed is not as the image in the WAL
	$aio->scenario('blocks are compared with their images, %s', with('alice bob', sub ($alice, $bob, $compression) {
		my ($t, $file) = ('scenario.t', $aio->node->basedir . '/rows');
		# the standby has these extensions when it has replayed all
		my ($no_amcheck, $no_visibility) = map { $aio->lacks($_) } qw(amcheck pg_visibility);
		# images are slow, so the check is on only after the first rows
		$_->sql("SET wal_compression = $compression; SET enable_seqscan = off") for $alice, $bob;
		my $rows = sub ($from, $to, $s) { return "INSERT INTO $t SELECT i, i % 5, point(i, i % 7), ARRAY[i, i % 3 - 100000], repeat('x', CASE WHEN i % 100 = 7 THEN 3000 ELSE 40 END), $s FROM generate_series($from, $to) i" };
		my @indexes = ('spgist (p)', 'gist (p)', 'hash (m)', 'hash (n)', 'brin (n) WITH (pages_per_range = 1, autosummarize)', 'gin (a)', 'gin (a) WITH (fastupdate = off)', 'btree (m)', 'btree (left(body, 20))');
		$alice->sql($_) for "CREATE FUNCTION scenario.meet(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF n = 7777 AND current_setting(''application_name'') = ''bob'' THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF; RETURN n; END'",
		  "CREATE TABLE $t (n int, m int, p point, a int[], body text STORAGE EXTERNAL, s serial) WITH (autovacuum_enabled = off); CREATE INDEX t_meet ON $t (scenario.meet(n)); CREATE UNIQUE INDEX t_n ON $t (n)", $rows->(1, 1500, 0), (map { "CREATE INDEX ON $t USING $_" } @indexes),
		  'CREATE TABLE scenario.g (n int, a int[]) WITH (autovacuum_enabled = off); INSERT INTO scenario.g SELECT i, ARRAY[1] FROM generate_series(1, 12000) i; CREATE INDEX ON scenario.g USING gin (a) WITH (fastupdate = off); DELETE FROM scenario.g WHERE n BETWEEN 3000 AND 9000',
		  "SET wal_consistency_checking = 'all'", 'VACUUM (INDEX_CLEANUP on) scenario.g', 'INSERT INTO scenario.g SELECT n + 20000, a FROM scenario.g WHERE n < 100', $rows->(1501, 1650, 0), "CREATE TABLE scenario.parts (n int PRIMARY KEY, m int) PARTITION BY RANGE (n)", (map { "CREATE TABLE scenario.parts_$_ PARTITION OF scenario.parts FOR VALUES FROM ($_) TO ($_ + 100) WITH (autovacuum_enabled = off)" } 0, 100), 'INSERT INTO scenario.parts SELECT i, i FROM generate_series(0, 99) i';
		$bob->sql("SET wal_consistency_checking = 'all'");
		# the index that bob fills first has him wait, and then a row of alice has the same key
		$aio->pause;
		$bob->waits($rows->(7777, 7777, 1) . ' ON CONFLICT (n) DO UPDATE SET s = -1', 'advisory');
		$alice->sql($rows->(7777, 7777, 2));
		$aio->resume;
		$bob->ends('INSERT ON CONFLICT');
		$aio->gives("SELECT s FROM $t WHERE n = 7777", -1, 'it updates the row of the other session');
		$alice->sql($_) for $rows->(1640, 1660, 'i') . ' ON CONFLICT (n) DO UPDATE SET m = 9', "UPDATE $t SET s = -n WHERE n % 23 = 1", "UPDATE $t SET n = -n WHERE n % 23 = 2", 'UPDATE scenario.parts SET n = n + 100 WHERE n < 20', "VACUUM (INDEX_CLEANUP on) $t", 'CHECKPOINT';
		# of frozen pages; rows that one locks while another changes them
		$alice->sql($_) for "VACUUM (FREEZE) $t", "BEGIN", "SELECT FROM $t WHERE n = 100 FOR KEY SHARE", "SELECT FROM $t WHERE n = 1000 FOR SHARE";
		$bob->sql($_) for 'BEGIN', "UPDATE $t SET s = -2 WHERE n = 100", "SELECT FROM $t WHERE n = 1000 FOR KEY SHARE", "UPDATE $t SET s = -3 WHERE n = 101";
		$alice->sql($_) for "SELECT FROM $t WHERE n = 101 FOR KEY SHARE", "UPDATE $t SET body = repeat('z', 2500) WHERE n BETWEEN 1200 AND 1220", 'COMMIT';
		$bob->sql('COMMIT');
		$alice->sql($_) for "SELECT setval('scenario.t_s_seq', 100)", "DELETE FROM $t WHERE n BETWEEN 500 AND 1100 OR n < -200", "VACUUM (INDEX_CLEANUP on) $t", "VACUUM (INDEX_CLEANUP on) $t", $rows->(5000, 5100, 3), "COPY (SELECT n + 10000, m, p, a, body, s FROM $t LIMIT 100) TO '$file'",
		  "COPY $t FROM '$file'", 'BEGIN', 'CREATE TABLE scenario.frozen (LIKE scenario.t) WITH (autovacuum_enabled = off)', "COPY scenario.frozen FROM '$file' (FREEZE)", 'COMMIT', 'INSERT INTO scenario.frozen SELECT * FROM scenario.t LIMIT 10', 'TRUNCATE scenario.parts_100', "DELETE FROM $t WHERE n > 10050", "VACUUM (FREEZE, INDEX_CLEANUP on) $t";
		unlink $file;
		$aio->replayed_by($standby);
		my $found = "SELECT (SELECT ROW(count(*), sum(hashtext(t::text)::bigint), count(DISTINCT body)) FROM $t), (SELECT ROW(count(*), sum(hashtext(f::text)::bigint)) FROM scenario.frozen f), (SELECT ROW(count(*), sum(n)) FROM scenario.parts), (SELECT ROW(count(*), sum(n)) FROM scenario.g WHERE a @> ARRAY[1])";
		$standby->gives($found, $aio->sql($found), 'the rows');
		my $map = "SELECT r, v.* FROM unnest(ARRAY['$t', 'scenario.frozen', 'scenario.g']) r, pg_visibility(r) v WHERE v.all_visible OR pd_all_visible";
		$standby->gives($map, $aio->sql($map), 'pages that are visible to all') if !$no_visibility;
		if (!$no_amcheck)
		{
			$_->gives("SELECT msg FROM unnest(ARRAY['$t', 'scenario.frozen', 'scenario.parts_0']) r, verify_heapam(r, check_toast => true)", '', 'the tables') for $aio, $standby;
			my $check = "SELECT count(*) FROM (SELECT CASE amname WHEN 'gin' THEN gin_index_check(i.indexrelid)::text ELSE bt_index_%scheck(i.indexrelid, true, %s checkunique => true)::text END FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid IN ('$t'::regclass, 'scenario.g'::regclass) AND amname IN ('btree', 'gin')) c";
			$aio->gives(sprintf($check, 'parent_', 'rootdescend => true,'), 7, 'the indexes');
			$standby->gives(sprintf($check, '', ''), 7, 'those of the standby');
		}
	}), each => [ 'pglz', 'lz4', 'zstd' ], skip => sub ($compression) { $aio->sql("SELECT '$compression' = ANY (enumvals) FROM pg_settings WHERE name = 'wal_compression'") ne 't' ? "the server is without $compression" : $compression ne 'pglz' ? only_long() : undef });

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
		my $from = $standby->sql('SELECT pg_last_wal_replay_lsn()');
		$standby->gives('SELECT pg_promote(), pg_is_in_recovery()', 't|f', 'the standby is none any more');
		my ($year) = map { /END_OF_RECOVERY.* time (\d{4})-/ } $standby->wal_records($from, $standby->sql('SELECT pg_current_wal_flush_lsn()'));
		cmp_ok($year // 0, '>', 2000, 'the WAL says when');
		ok($standby->poll(sub { $standby->sql('SELECT timeline_id FROM pg_control_checkpoint()') == 2 }), 'a checkpoint follows');
		$standby->gives("SELECT min_recovery_end_lsn = '0/0' FROM pg_control_recovery()", 't', 'after which no recovery has an end that it must reach');
		$aio->recovers;
		for my $server ($standby, $aio)
		{
			$server->gives('SELECT count(*) FROM scenario.u', 0, 'the table is empty');
			$server->sql($insert);
			$server->gives('SELECT count(*), min(s), max(s) FROM scenario.u', '2000|1|2000', 'the sequence begins again');
			$server->gives("SET enable_seqscan = off; SELECT count(*) FROM scenario.u WHERE $indexes{$_}[0]; RESET enable_seqscan", $indexes{$_}[1], "by the index: $_") for sort keys %indexes;
			$server->sql('ALTER TABLE scenario.u SET LOGGED');
			$server->gives("SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = 'scenario'::regnamespace AND relpersistence <> 'p'", '', 'all is logged then');
		}
	}, dies => 1);
}, streaming => 1, conf => { summarize_wal => 'on', wal_receiver_status_interval => '1s', fsync => 'on', maintenance_io_concurrency => 1 }, no_data_checksums => 1);
