# Base backups: the files that they have, the pages that they find wrong, the WAL summaries that incremental ones need,
# servers that are made from them, and what a session leaves.
use TestAio;
use File::Basename qw(basename);
use File::Path qw(remove_tree);
use IPC::Run;
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);

# Makes a backup in this directory, or one that is thrown away.  Returns what pg_basebackup says, and whether it succeeds.
sub backup ($aio, $where, @options)
{
	my ($node, $said) = ($aio->node, '');
	my @to = defined $where ? ('-D', $where, '--no-sync') : ('--target', 'blackhole');
	my $done = IPC::Run::run([ 'pg_basebackup', '-h', $node->host, '-p', $node->port, @to, '-c', 'fast', '-X', 'fetch', '--no-estimate-size', @options ], '>&', \$said, IPC::Run::timeout($aio->timeout));
	return ($said, $done ? 1 : 0);
}

for_each_io_method('worker', sub {
	$aio->scenario('files', sub {
		# a database whose number has more than 31 bits, and pages that have never been written
		$aio->sql('CREATE DATABASE far TEMPLATE postgres OID 3000000000');
		my ($t, $u) = ($aio->table('t', 40), $aio->table('u', 20, kind => 'UNLOGGED'));
		$aio->sql("VACUUM $t; SELECT grow_rel('$t', 3); CHECKPOINT");
		my $alice = $aio->session('alice');
		$alice->note_temporary_tables;
		$alice->sql("CREATE TEMP TABLE x AS SELECT 1; SET work_mem = '64kB'; BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20000); COMMIT");
		my %of = map { $_ => $aio->sql("SELECT pg_relation_filepath('$_')") } $t, $u;
		my ($source, $where) = ($aio->node->data_dir, $aio->node->basedir . '/backup');
		is(join('', backup($aio, $where)), 1, 'pg_basebackup succeeds, and says nothing');
		is(-s "$where/$of{$t}", 43 * 8192, 'new pages, too');
		ok(slurp_file("$where/$_") eq slurp_file("$source/$_"), "$_ is the same") for $of{$t}, map { "$of{$t}_$_" } qw(fsm vm);
		is(join(' ', map { basename($_) } glob "$where/$of{$u}*"), basename($of{$u}) . '_init', 'of an unlogged table, there is what empties it');
		my @wal = grep { /^[0-9A-F]{24}$/ } map { basename($_) } glob "$where/pg_wal/*";
		ok(@wal && !(grep { !-e "$where/pg_wal/archive_status/$_.done" } @wal), 'its WAL need not be archived again');
		for my $temporary ('base/*/t*_*', 'base/pgsql_tmp/*', 'postmaster.*')
		{
			my ($here, $there) = map { scalar(() = glob "$_/$temporary") } $source, $where;
			ok($here && !$there, "nothing temporary: $temporary");
		}
	});

	# the first five wrong pages of a file are named
	$aio->scenario('%s', with('', 40, changes => 1, sub ($t, $, @wrong) {
		$aio->sql("CHECKPOINT; SELECT evict_rel('$t')");
		my $file = $aio->sql("SELECT pg_relation_filepath('$t')");
		$aio->overwrite($aio->file_of($t), $_ * 8192 + 5000, 'wrong') for @wrong;
		my $failures = "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()";
		my $before = $aio->sql($failures);
		my ($said, $done) = backup($aio, undef);
		is($done, 0, 'pg_basebackup fails');
		my $named = @wrong > 5 ? 5 : @wrong;
		is(join(' ', $said =~ m{checksum verification failed in file "\S*\Q$file\E", block (\d+): calculated \w+ but expected}g), join(' ', @wrong[ 0 .. $named - 1 ]), 'the blocks');
		is(scalar(() = $said =~ /further checksum verification failures in file "\S*\Q$file\E" will not be reported/g), @wrong > 5 ? 1 : 0, 'whether there are more');
		my ($total) = $said =~ /file "\S*\Q$file\E" has a total of (\d+) checksum verification failures?/;
		# before server commit 340f2ac626, in 18.7, a single one has no total, and is not counted
		my $may_lack = @wrong == 1 && ($aio->setting('server_version_num') < 180007 || $aio->setting('server_version') =~ /devel|beta|rc/);
		my $counted = $may_lack && !defined $total ? 0 : @wrong;
		is($total // 0, $counted, 'how many');
		ok($aio->poll(sub { $aio->sql($failures) == $before + $counted }), 'the statistics count them') || diag($aio->sql($failures));
		is(join('', backup($aio, undef, '--no-verify-checksums')), 1, 'unless nobody looks');
		$aio->sql("SELECT modify_rel_block('$t', b, zero => true) FROM unnest(ARRAY[${\join ',', @wrong}]) b");
		is(join('', backup($aio, undef)), 1, 'nor are pages of zeros wrong');
	}), each => [ [ 'a wrong page', 7 ], [ 'two wrong pages', 3, 4 ], [ 'seven wrong pages', 0, 3, 4, 8, 31, 32, 39 ] ],
		# pg_basebackup may go before it has read the error
		log => qr/walsender \S+ (?:(?:WARNING|ERROR):  .*checksum verification fail|FATAL:  connection to client lost)/);

	# an incremental backup takes the blocks of the summaries, but for those of files that are new or cut off
	$aio->scenario('WAL summaries', with('', [ t => 100, changes => 1 ], [ u => 40, changes => 1 ], sub ($t, $u) {
		$aio->alter_system(summarize_wal => 'on');
		my $redo = 'SELECT redo_lsn FROM pg_control_checkpoint()';
		$aio->sql('CREATE TABLE scenario.gone AS SELECT 1 AS n');
		my $gone = $aio->sql("SELECT pg_relation_filenode('scenario.gone')");
		$aio->sql('CHECKPOINT');
		my $from = $aio->sql($redo);
		$aio->sql("UPDATE $t SET gen = gen WHERE blk IN (3, 7, 50); CREATE TABLE scenario.empty (); CREATE TABLE scenario.large (body text STORAGE PLAIN); INSERT INTO scenario.large SELECT repeat('x', 7000) FROM generate_series(1, 300);"
			  . "DELETE FROM $u WHERE blk >= 10; VACUUM (TRUNCATE on) $u; DROP TABLE scenario.gone; CHECKPOINT");
		my $to = $aio->sql($redo);
		ok($aio->poll(sub { $aio->sql("SELECT summarized_lsn >= '$to' FROM pg_get_wal_summarizer_state()") eq 't' }), 'all is summarized');
		# s: what the summaries say; l: where files are new, gone or cut off; w: what the WAL has
		my $with = "WITH s AS (SELECT c.* FROM pg_available_wal_summaries() a, pg_wal_summary_contents(a.tli, a.start_lsn, a.end_lsn) c WHERE a.start_lsn >= '$from' AND a.end_lsn <= '$to'),"
		  . " l AS (SELECT * FROM s WHERE is_limit_block), n AS (SELECT relname, pg_relation_filenode(oid) AS relfilenode FROM pg_class WHERE relnamespace = 'scenario'::regnamespace UNION ALL SELECT 'gone', $gone),"
		  . " w AS (SELECT DISTINCT relfilenode, relforknumber, relblocknumber FROM pg_get_wal_block_info('$from', '$to', false) WHERE relforknumber <> 1)";
		$aio->gives("$with SELECT string_agg(format('%s %s', relname, relblocknumber), ', ' ORDER BY relname) FROM l JOIN n USING (relfilenode) WHERE relforknumber = 0", 'empty 0, gone 0, large 0, u 10', 'which relations are new, gone or cut off, each once');
		$aio->gives("$with SELECT count(*) FROM (SELECT relfilenode, relforknumber, relblocknumber FROM s WHERE NOT is_limit_block EXCEPT TABLE w) x", 0, 'no block that has not changed');
		$aio->gives("$with SELECT count(*) FROM w WHERE NOT EXISTS (SELECT FROM s WHERE (s.relfilenode, s.relforknumber) = (w.relfilenode, w.relforknumber) AND CASE WHEN is_limit_block THEN s.relblocknumber <= w.relblocknumber ELSE s.relblocknumber = w.relblocknumber END)",
			0, 'each block that has changed, or a limit before it');
		cmp_ok($aio->sql("$with SELECT count(*) FROM w JOIN n USING (relfilenode) WHERE relname = 'large' AND relforknumber = 0"), '>', 256, 'there are more of them than pg_wal_summary_contents() fetches at once');
	}), skip => $aio->lacks('pg_walinspect'));

	# what is not in the WAL must not be taken for unchanged
	$aio->scenario('WAL that is minimal', sub {
		my ($from, $to);
		for my $level (qw(minimal replica))
		{
			$aio->alter_system(wal_level => $level, max_wal_senders => $level eq 'minimal' ? 0 : 'DEFAULT', summarize_wal => $level eq 'minimal' ? 'off' : 'on');
			while_stopped($aio);
			$from //= $aio->sql('SELECT pg_current_wal_insert_lsn()');
			$to = $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)") if $level eq 'minimal';
		}
		my $summaries = 'SELECT count(*) FROM pg_available_wal_summaries()';
		ok($aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql("$summaries WHERE start_lsn >= '$to'") > 0 }), 'later WAL has summaries');
		$aio->gives("$summaries WHERE start_lsn < '$to' AND end_lsn > '$from'", 0, 'it has none');
	});

	# WAL of the time between may be gone
	$aio->scenario('a summarizer that is switched off and on', sub {
		my $summarizers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsummarizer'};
		$aio->alter_system(summarize_wal => 'on', wal_keep_size => 0);
		$aio->gives_soon($summarizers, 1, 'there is one');
		$aio->sql('CHECKPOINT');
		ok($aio->poll(sub { $aio->sql('SELECT summarized_lsn >= redo_lsn FROM pg_get_wal_summarizer_state(), pg_control_checkpoint()') eq 't' }), 'all is summarized');
		$aio->alter_system(summarize_wal => 'off');
		$aio->gives_soon($summarizers, 0, 'and gone');
		my $file = $aio->sql('SELECT pg_walfile_name(summarized_lsn) FROM pg_get_wal_summarizer_state()');
		my $to;
		ok($aio->poll(sub {
			$to = $aio->sql(q{SELECT pg_switch_wal(); SELECT pg_logical_emit_message(false, '', '', flush => true); CHECKPOINT; SELECT pg_current_wal_lsn()}) =~ s/.*\n//sr;
			$aio->sql("SELECT min(name) > '$file' FROM pg_ls_waldir() WHERE length(name) = 24") eq 't';
		}), 'WAL is removed');
		$aio->alter_system(summarize_wal => 'on');
		ok($aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql("SELECT summarized_lsn >= '$to' FROM pg_get_wal_summarizer_state()") eq 't' }), 'the next one goes on with what is there');
		$aio->alter_system(summarize_wal => 'off', wal_keep_size => 'DEFAULT');
		$aio->gives_soon($summarizers, 0, 'and ends');
	});

	# the header has the numbers of the blocks, and whole blocks if there are any
	$aio->scenario('sizes of incremental files', with('', [ t => 2300, changes => 1 ], sub ($t) {
		my ($file, $base) = ($aio->sql("SELECT pg_relation_filepath('$t')") =~ s{(\d+)$}{INCREMENTAL.$1}r, $aio->node->basedir);
		$aio->alter_system(summarize_wal => 'on');
		is(join('', backup($aio, "$base/full")), 1, 'a full backup');
		for my $case ([ 0, 0 ], [ 1, 2 ], [ 2045, 2046 ], [ 2046, 2048 ])
		{
			my ($changed, $blocks) = @$case;
			$aio->sql("DELETE FROM $t WHERE blk < $changed; VACUUM $t");
			is(join('', backup($aio, "$base/changes", "--incremental=$base/full/backup_manifest")), 1, "an incremental one: $changed blocks");
			is(-s "$base/changes/$file", $blocks * 8192 || 12, 'the size of a file');
			remove_tree("$base/changes");
		}
		remove_tree("$base/full");
	}));

	$aio->scenario('a backup during another one of the session', sub {
		my $said = '';
		IPC::Run::run([ 'psql', '-XAtd', "dbname=postgres replication=database host=${\$aio->node->host} port=${\$aio->node->port}", '-c', "SELECT pg_backup_start('b', fast => true) > '0/0'", '-c', 'BASE_BACKUP (TARGET \'blackhole\')' ], '>&', \$said, IPC::Run::timeout($aio->timeout));
		like($said, qr/^t\n.*ERROR:  a backup is already in progress in this session/s, 'is refused');
	}, log => qr/walsender \S+ (?:ERROR:  a backup is already in progress|WARNING:  aborting backup)/);

	# more than a buffer of pg_basebackup's connection
	$aio->scenario('a long map of tablespaces', sub {
		my $where = PostgreSQL::Test::Utils::tempdir_short();
		# archives have no names of links with more than 99 bytes; a backslash and a newline take two in the map
		my @elsewhere = map { sprintf("$where/%03d", $_) . "\n" x (95 - length $where) } 1 .. 250;
		for (@elsewhere) { mkdir $_ or die "mkdir: $!" }
		$aio->sql("CREATE TABLESPACE t$_ LOCATION '$elsewhere[$_ - 1]'") for 1 .. @elsewhere;
		my %names = map { split /\|/ } split /\n/, $aio->sql(q{SELECT oid, spcname FROM pg_tablespace WHERE spcname ~ '^t\d'});
		my $archive = $aio->node->basedir . '/archives';
		is(join('', backup($aio, $archive, '-F', 'tar')), 1, 'a backup');
		my $map = `tar -xOf '$archive/base.tar' tablespace_map`;
		my %found = map { my ($oid, $path) = /^(\d+) (.*)\z/s; ($names{$oid} // $oid => $path =~ s/\\(.)/$1/gsr) } split /(?<!\\)\n/, $map;
		is(join('', map { "$_ $found{$_};" } sort keys %found), join('', map { "t$_ $elsewhere[$_ - 1];" } sort { "t$a" cmp "t$b" } 1 .. @elsewhere), 'the map has them all');
		cmp_ok(length $map, '>', 32768, 'it is long');
		$aio->sql("DROP TABLESPACE t$_") for 1 .. @elsewhere;
		remove_tree($archive, $where);
	}, skip => only_long());

	$aio->scenario('a session that ends during its backup', with('', 20, changes => 1, sub ($t) {
		$aio->alter_system(full_page_writes => 'off');
		my ($alice, $bob) = map { $aio->session($_) } qw(alice bob);
		my $block = 0;
		my $images = sub {
			ok($aio->poll(sub { $aio->sql('CHECKPOINT'); $aio->sql('SELECT full_page_writes FROM pg_control_checkpoint()') eq 'f' }), 'full_page_writes is off');
			# with its next record, a session learns that no image is needed any more
			my $from = $aio->sql("SELECT pg_logical_emit_message(false, '', '')");
			$aio->sql("DELETE FROM $t WHERE ctid = '(${\$block++},1)'");
			my ($to, $file) = split /\|/, $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true), pg_relation_filenode('$t')");
			return scalar grep { m{/$file blk \d+ FPW} } $aio->wal_records($from, $to);
		};
		is($images->(), 0, 'no images of pages');
		my $lsn = $bob->sql("SELECT pg_backup_start('bob', fast => true)");
		$alice->sql("SELECT pg_backup_start('alice', fast => true)");
		$alice->fails("SELECT pg_backup_start('alice')", '55000', qr/a backup is already in progress in this session/, 'one at a time');
		is($images->(), 1, 'during a backup, there are');
		$bob->gives("SELECT lsn > '$lsn', labelfile ~ 'LABEL: bob', spcmapfile FROM pg_backup_stop(wait_for_archive => false)", 't|t|', 'one session ends its backup');
		$bob->fails('SELECT pg_backup_stop()', '55000', qr/backup is not in progress/, 'once');
		is($images->(), 1, 'the other does not');
		$aio->end_session($alice);
		$aio->logs(qr/alice WARNING:  aborting backup due to backend exiting before pg_backup_stop was called/, 1, 'the log says so');
		is($images->(), 0, 'no images of pages any more');
	}), log => qr/alice WARNING:  aborting backup/);

	# a tablespace whose name is escaped in backups
	$aio->scenario('servers from backups', with('', [ t => 100, changes => 1 ], [ u => 40, changes => 1 ], sub ($t, $u) {
		my $base = $aio->node->basedir;
		# archives have no long names of links
		my $short = PostgreSQL::Test::Utils::tempdir_short();
		my %elsewhere = map { $_ => "$short/\n\\$_" } qw(primary full changes combined archived);
		mkdir $elsewhere{primary} or die "mkdir: $!";
		$aio->sql($_) for "CREATE TABLESPACE elsewhere LOCATION '$elsewhere{primary}'", "ALTER TABLE $u SET TABLESPACE elsewhere", 'CREATE TABLE scenario.gone AS SELECT 1', "CREATE TABLE scenario.same TABLESPACE elsewhere AS TABLE $t";
		my $tablespace = $aio->sql("SELECT oid FROM pg_tablespace WHERE spcname = 'elsewhere'");
		$aio->alter_system(summarize_wal => 'on');
		my $mapped = sub ($to) { return ('-T', "$elsewhere{primary}=$elsewhere{$to}") };
		mkdir "$elsewhere{primary}/PG_99_202601011" or die "mkdir: $!";
		is(join('', backup($aio, "$base/full", $mapped->('full'))), 1, 'a full backup');
		is(join(' ', map { basename($_) =~ s/\d{9}$//r } glob "$short/*full/*"), 'PG_' . $aio->major . '_', 'without the directory of another version');
		$aio->sql($_) for "DELETE FROM $t WHERE blk IN (3, 7, 50)", "CALL add_pages('$t', 100, 109)", "DELETE FROM $u WHERE blk >= 10", "VACUUM (TRUNCATE on) $u", 'DROP TABLE scenario.gone', "CREATE TABLE scenario.new TABLESPACE elsewhere AS SELECT 1 AS n", "VACUUM (FREEZE) $t, scenario.same, scenario.new";
		my @backup = backup($aio, "$base/changes", $mapped->('changes'), "--incremental=$base/full/backup_manifest");
		is(join('', @backup), 1, 'an incremental one');
		my %files = map { $_ => $aio->sql("SELECT pg_relation_filepath('$_')") } $t, $u, 'scenario.same', 'scenario.new';
		my $incremental = sub ($of) { return "$base/changes/" . $files{$of} =~ s{(\d+)$}{INCREMENTAL.$1}r };
		is(-s $incremental->($t), 14 * 8192, 'it has what has changed, and a header');
		is_between(-s $incremental->($u), 0, 8192, 'of what was cut off, less');
		my $same_files = sub ($of, $directory) {
			for my $file (map { ($_, "${_}_vm") } values %files)
			{
				ok(slurp_file("$directory/$file") eq slurp_file($aio->node->data_dir . "/$file"), "$of: $file is the same");
			}
		};
		my $contents = join ' UNION ALL ', map { "SELECT '$_', count(*), sum(hashtext(t::text)::bigint) FROM $_ t" } sort keys %files;
		my @made = (
			$aio->make_from_backup('combined', sub ($node) {
				my $said = '';
				ok(IPC::Run::run([ 'pg_combinebackup', '-N', '-o', $node->data_dir, '-T', "$elsewhere{changes}=$elsewhere{combined}", "$base/full", "$base/changes" ], '>&', \$said), 'pg_combinebackup') || diag($said);
				$same_files->('combined', $node->data_dir);
				$node->append_conf('postgresql.conf', 'port = ' . $node->port);
			}),
			$aio->make_from_backup('archived', sub ($node) {
				my $directory = $node->data_dir;
				is(join('', backup($aio, "$base/archived", '-F', 'tar')), 1, 'a backup in archives');
				mkdir $_, 0700 or die "mkdir: $!" for $directory, $elsewhere{archived};
				system('sh', '-c', 'cd "$0" && tar -xf "$1"', $_->[1], "$base/archived/$_->[0].tar") == 0 or die 'tar' for [ 'base', $directory ], [ $tablespace, $elsewhere{archived} ];
				is((grep { substr(slurp_file($_), -1024) ne "\0" x 1024 } glob "$base/archived/*.tar"), 0, 'each archive has an end');
				my $map = slurp_file("$directory/tablespace_map");
				my $escaped = sub ($path) { return $path =~ s{([\\\n])}{\\$1}gr };
				is($map, "$tablespace ${\$escaped->($elsewhere{primary})}\n", 'its map of tablespaces');
				unlink "$directory/tablespace_map";
				append_to_file("$directory/tablespace_map", "$tablespace ${\$escaped->($elsewhere{archived})}\n");
				# as of a backup's tool that copies links; the postmaster looks for temporary files there, before recovery
				symlink "$short/nowhere", "$directory/pg_tblspc/$tablespace" or die "symlink: $!";
				$node->append_conf('postgresql.conf', 'port = ' . $node->port);
		}));
		for my $server (@made)
		{
			my $directory = $server->node->data_dir;
			is(readlink "$directory/pg_tblspc/$tablespace", $elsewhere{ $server == $made[0] ? 'combined' : 'archived' }, 'where its tablespace is');
			is(join(' ', map { basename($_) } glob "$directory/{backup_label,tablespace_map}*"), $server == $made[0] ? 'backup_label.old' : 'backup_label.old tablespace_map.old', 'what is left');
			$server->gives($contents, $aio->sql($contents), 'the rows');
			$same_files->($server->node->name, $directory) if $server != $made[0];
			ok($server->stop, 'stops');
			$server->check_log(qr{postmaster LOG:  could not open directory "pg_tblspc/$tablespace/});
			remove_tree($directory);
		}
		remove_tree(map { "$base/$_" } qw(full changes archived));
	}));
}, streaming => 1);
