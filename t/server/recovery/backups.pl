# Base backups: the files that they have, the pages that they find wrong, and the WAL summaries that incremental ones need.
use TestAio;
use File::Basename qw(basename);
use IPC::Run;
use PostgreSQL::Test::Utils qw(slurp_file);

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
}, streaming => 1);
