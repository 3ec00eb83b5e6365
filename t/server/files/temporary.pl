# Temporary files, and temporary tables.
use TestAio;

# Has the processes of a hash join share files.
my $parallel_hash = 'SET hash_mem_multiplier = 1; SET enable_mergejoin = off; SET enable_nestloop = off; SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0';

# Temporary files: those of a cursor that outlives its transaction, and those that a start finds and removes.
with_each_io_method('worker', sub {
	$aio->scenario('a cursor WITH HOLD', with('alice', sub ($alice) {
		my $files = sub { return $aio->sql('SELECT count(*) FROM pg_ls_tmpdir()') };
		$alice->sql("SET log_temp_files = '10MB'; SET client_min_messages = log; SET work_mem = '64kB'; BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20000); COMMIT");
		is($files->(), 1, 'has a file');
		# the sort does not fit into work_mem; the end of its transaction removes no files but its own
		my $sort = sub { $alice->gives('SELECT count(*) FROM (SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC OFFSET 1) s', 19999, 'a sort') };
		is($aio->change_during("SELECT temp_files FROM pg_stat_database WHERE datname = 'postgres'", $sort, $alice), 2, 'has two: rows of the function, and the sort');
		is($files->(), 1, 'the file stays, those of the sort go');
		$alice->sql('MOVE FORWARD 14999 IN c');
		$alice->gives('FETCH c', 15000, 'the rows are there');
		$alice->sql('CLOSE c');
		is($files->(), 0, 'the file goes with the cursor');
		is(join(' ', $alice->notices), '', 'nothing is logged of files below log_temp_files');
		$alice->sql('BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20000); COMMIT');
		is($files->(), 1, 'another one');
		$aio->end_session($alice);
		is($files->(), 0, 'goes with the session');
	}));

	# the directory, the log, the database's statistics, EXPLAIN and the limit all count the same
	$aio->scenario('the size of a file', with('alice', sub ($alice) {
		$alice->sql("SET work_mem = '64kB'; SET log_temp_files = 0; SET client_min_messages = log");
		my $hold = 'BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20001); COMMIT';
		$alice->sql($hold);
		my $written = $aio->sql('SELECT max(size) FROM pg_ls_tmpdir()');
		$alice->notices;
		my ($files, $size) = split m{/}, $aio->change_during("SELECT temp_files, temp_bytes FROM pg_stat_database WHERE datname = 'postgres'", sub { $alice->sql('CLOSE c') }, $alice);
		is_between($size, $written + 1, $written + 8191, "pg_stat_database: $files file, and bytes, the last of which are written last");
		is(join(' ', map { /size (\d+)/ } $alice->notices), $size, 'the log');
		# what fails when a file is closed does not fail the session
		$alice->sql($hold);
		while_injected($alice->pid, 'close:error=EIO:when=1', undef, sub { $alice->sql('CLOSE c') }) if !no_strace();
		# the close that strace lets fail has left one open
		my $open = sub { return scalar descriptors($alice->pid, qr/pgsql_tmp/) };
		my $before = $open->();
		my $plan = explained($alice, 'BUFFERS', my $scan = 'SELECT count(*) FROM generate_series(1, 20001)');
		is($plan->{'Temp Read Blocks'}, $plan->{'Temp Written Blocks'}, 'each block is written and read once');
		my $kilobytes = 8 * $plan->{'Temp Written Blocks'};
		for my $limit ($kilobytes, $kilobytes - 16)
		{
			$alice->sql("SET temp_file_limit = $limit");
			$limit == $kilobytes ? $alice->gives($scan, 20001, "a limit of $limit kB") : $alice->fails($scan, '53400', qr/temporary file size exceeds "temp_file_limit"/, "a limit of $limit kB") for 1 .. 3;
		}
		$alice->sql("SET temp_file_limit = '4GB'");
		$alice->gives($scan, 20001, 'a limit that has more than 32 bits');
		# files that the processes of a query share
		$aio->sql('CREATE TABLE scenario.r AS SELECT generate_series(1, 20000) AS i; ANALYZE scenario.r');
		$alice->sql($parallel_hash);
		my $join = 'SELECT count(*) FROM scenario.r a JOIN scenario.r b USING (i)';
		like($alice->sql("EXPLAIN (COSTS off) $join"), qr/Parallel Hash/, 'a parallel hash join');
		$alice->gives($join, 20000, 'has files');
		# less than one piece, of four blocks: a process may have no more than one of a file, and one file open, at a time
		$alice->sql('SET temp_file_limit = 16');
		$alice->fails($join, '53400', qr/temporary file size exceeds "temp_file_limit"/, 'which count, too');
		$alice->sql('SET max_parallel_workers = 0');
		$alice->fails($join, '53400', qr/temporary file size exceeds "temp_file_limit"/, 'those of the leader alone, too');
		is($open->(), $before, 'no further one is open after the errors');
	}), log => [ qr/alice (?:LOG:  temporary file|LOG:  could not close file|ERROR:  temporary file size)/, qr/parallel worker (?:FATAL:  terminating|ERROR:  temporary file size|LOG:  temporary file)|postmaster LOG:  background worker "parallel worker"/ ]);

	$aio->scenario('%s, in files and in memory', with('alice', sub ($alice, $, $query, $expected) {
		$aio->sql(<<'END');
CREATE FUNCTION scenario.f(n int) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN RETURN NEXT i || repeat('x', 900); EXCEPTION WHEN division_by_zero THEN RETURN; END;
	END LOOP;
END $$;
CREATE TABLE scenario.r AS SELECT generate_series(1, 20000) AS i;
CREATE INDEX ON scenario.r (i);
END
		# nothing else has files
		$alice->sql('SET log_temp_files = 0; SET client_min_messages = log; SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_sort = off');
		for my $memory ('64kB', '64MB')
		{
			$alice->sql("SET work_mem = '$memory'; SET hash_mem_multiplier = 1");
			$alice->notices;
			$alice->gives($query, $expected, "with $memory: the rows");
			is((grep { /temporary file/ } $alice->notices) ? 'files' : 'none', $memory eq '64kB' ? 'files' : 'none', 'what holds them');
		}
	}), each => [
		# a file that is made within a block with EXCEPTION belongs to the whole query
		[ 'rows of a function', "SELECT count(*), sum(rtrim(f, 'x')::int) FROM scenario.f(1000) f", '1000|500500' ],
		[ 'a sort that is read back and forth', 'BEGIN; DECLARE c SCROLL CURSOR FOR SELECT i FROM scenario.r ORDER BY i % 7, i; MOVE 15000 FROM c; FETCH BACKWARD 1 FROM c; MOVE ABSOLUTE 3 FROM c; FETCH 1 FROM c; MOVE ALL FROM c; FETCH BACKWARD 2 FROM c; COMMIT', "4989\n28\n19998\n19991" ],
		[ 'sorts that go back to equal keys', 'SET enable_sort = on; SET enable_material = off; SELECT count(*), sum(a.i - b.i) FROM scenario.r a JOIN scenario.r b ON a.i % 1000 = b.i % 1000', '400000|0' ],
		# each reader has a place of its own
		[ 'a CTE that is read twice', 'WITH c AS MATERIALIZED (SELECT i FROM scenario.r ORDER BY i) SELECT count(*), sum(a.i) FROM c a JOIN c b USING (i)', '20000|200010000' ],
		# one reader stands on a row while another one's rows go to a file
		[ 'a CTE whose reader stands still', q{WITH c AS MATERIALIZED (SELECT i, repeat(md5(i::text), 20) AS body FROM scenario.r WHERE i <= 200) SELECT count(*) FILTER (WHERE body = repeat(md5(i::text), 20)), sum(n) FROM (SELECT * FROM c LIMIT 10) a, LATERAL (SELECT count(*) AS n FROM (SELECT FROM c LIMIT a.i * 20) s) b}, '10|1100' ],
		[ 'rows of a window', 'SELECT count(*), sum(i - l), sum(e - i), sum(f) FROM (SELECT i, lag(i, 7000) OVER w AS l, lead(i, 5000) OVER w AS e, first_value(i) OVER (w ROWS BETWEEN 3000 PRECEDING AND 1 FOLLOWING) AS f FROM scenario.r WINDOW w AS ()) s', '20000|91000000|75000000|144511500' ] ],
		log => qr/alice LOG:  temporary file/);

	# in shared files of chunks of four blocks; clock_timestamp() keeps the planner from computing s after the join
	$aio->scenario('a parallel hash join with rows of many sizes', with('alice', sub ($alice) {
		$aio->sql("CREATE TABLE scenario.r AS SELECT generate_series(0, 799) AS i; ANALYZE scenario.r");
		$alice->sql("$parallel_hash; SET work_mem = '64kB'");
		my $rows = "(SELECT i, repeat('y', CASE WHEN i % 2 = 0 THEN 32716 + i / 2 % 32 ELSE 10 END + (extract(epoch FROM clock_timestamp()) * 0)::int) AS s FROM scenario.r)";
		my $join = "SELECT count(*), sum(i), count(*) FILTER (WHERE a.s <> b.s) FROM $rows a JOIN $rows b USING (i)";
		like($alice->sql("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) $join"), qr/Parallel Hash .*Batches: (?!1\b)\d/s, 'in batches');
		$alice->gives($join, '800|319600|0', 'each row has its partner');
	}));

	# nothing takes it for the end of the file
	my $rows = 'SELECT i FROM generate_series(1, 20000) i';
	my %spills = (
		'a sort' => "SELECT count(*) FROM ($rows ORDER BY i DESC OFFSET 1) s",
		'a hash join' => "SET enable_mergejoin = off; SET enable_nestloop = off; SELECT count(*) FROM ($rows OFFSET 0) a JOIN ($rows OFFSET 0) b USING (i)",
		'a hash aggregate' => "SET enable_sort = off; SELECT count(*) FROM (SELECT i, count(*) FROM ($rows OFFSET 0) s GROUP BY i) s",
		'the rows of a function' => 'SELECT count(*) FROM generate_series(1, 20000)',
		'a cursor' => "BEGIN; DECLARE c SCROLL CURSOR WITH HOLD FOR $rows; COMMIT; MOVE ALL FROM c; FETCH BACKWARD 19990 FROM c");
	$aio->scenario('%s, whose file cannot be read', with('alice', sub ($alice, $what) {
		$alice->sql("SET work_mem = '64kB'; SET hash_mem_multiplier = 1");
		while_injected($alice->pid, 'pread64:error=EIO', undef, sub { $alice->fails($spills{$what}, '58030', qr{could not read file "base/pgsql_tmp/\S+": Input/output error}, 'an error') });
	}), each => [ sort keys %spills ], skip => no_strace(), log => qr/client backend alice ERROR:  could not read file/);

	# a file that outlives the transaction is where the database is
	delete $spills{'a cursor'};
	$aio->scenario('%s, elsewhere', sub ($, $what) {
		# SET would look at the tablespace at once
		$aio->alter_system(temp_tablespaces => 'elsewhere');
		my $alice = $aio->session($what =~ s/ /_/gr);
		$aio->poll(sub { $alice->sql('SHOW temp_tablespaces') eq 'elsewhere' });
		$alice->sql("SET work_mem = '64kB'; SET hash_mem_multiplier = 1; SET log_temp_files = 0; SET client_min_messages = log");
		# the rows of a function would be in the first file
		$aio->sql('CREATE TABLE scenario.r AS SELECT generate_series(1, 20000) AS i');
		$alice->sql($_) for split /; /, $spills{$what} =~ s/generate_series\(1, 20000\) i/scenario.r/gr;
		my @where = $aio->log_text =~ /client backend ${\($what =~ s{ }{_}gr)} LOG:  temporary file: path "([^"]+)\/pgsql_tmp/g;
		is(join(' ', grep { !m{^pg_tblspc/} } @where), '', 'all of its files');
		cmp_ok(scalar @where, '>', 0, 'there are some');
		$alice->sql("BEGIN; DECLARE c CURSOR WITH HOLD FOR $rows; COMMIT");
		$aio->gives('SELECT count(*) FROM pg_ls_tmpdir()', 1, 'but not one that outlives its transaction');
		$alice->sql('CLOSE c');
	}, each => [ sort keys %spills ], log => qr/LOG:  temporary file/);

	$aio->scenario('a database elsewhere', sub {
		$aio->sql('CREATE DATABASE other TEMPLATE postgres TABLESPACE elsewhere');
		my $bob = $aio->session('bob', dbname => 'other');
		$bob->sql("CREATE TABLE r AS SELECT generate_series(1, 20000) AS i; ANALYZE r; SET work_mem = '64kB'; SET log_temp_files = 0; $parallel_hash");
		for my $tablespaces ('DEFAULT', "''", 'elsewhere')
		{
			my $size = $aio->log_size;
			$bob->sql("SET temp_tablespaces = $tablespaces");
			$bob->sql('SELECT count(*) FROM r a JOIN r b USING (i); SELECT count(*) FROM (SELECT i FROM r ORDER BY i DESC OFFSET 1) s');
			my @files = $aio->log_text($size) =~ /LOG:  temporary file: path "([^"]+)"/g;
			is(join(' ', grep { !m{^pg_tblspc/} } @files), '', "temp_tablespaces = $tablespaces: all temporary files are there");
			cmp_ok(scalar(grep { /fileset/ } @files), '>', 1, 'some of them are shared by processes');
		}
	}, log => qr/LOG:  temporary file/);

	# a start knows temporary files of relations and of the executor by their names
	$aio->scenario('a start removes temporary files', sub {
		my $base = $aio->node->data_dir . '/base';
		my $database = $aio->sql('SELECT oid FROM pg_database WHERE datname = current_database()');
		my @removed = (map({ "$database/$_" } qw(t3_99999 t3_99999.1 t3_99999.12 t3_99999_fsm t3_99999_vm.1)), 'pgsql_tmp/pgsql_tmp1.0', 'pgsql_tmp/pgsql_tmp1.0.fileset/i1of2.p0.0');
		my @kept = map { "$database/$_" } qw(99999 t3_ t3_99999. t3_99999_ t3_99999_other t3x_99999 t3_99999.1x);
		mkdir "$base/pgsql_tmp$_" for '', '/pgsql_tmp1.0.fileset';
		while_stopped($aio, sub { PostgreSQL::Test::Utils::append_to_file("$base/$_", 'x') for @removed, @kept });
		is(join(' ', grep { -e "$base/$_" } @removed, 'pgsql_tmp/pgsql_tmp1.0.fileset'), '', 'removes files of temporary relations, segments and forks, too');
		is(join(' ', grep { !-e "$base/$_" } @kept), '', 'and no others');
		unlink map { "$base/$_" } @kept;
	});
}, prepare => sub ($aio) { $aio->make_tablespace });

# Temporary tables of other sessions: the server itself refuses to read, write and extend
# them, whichever way their blocks are asked for, and reads nothing before it does.
my $refused = qr/cannot access temporary tables of other sessions/;

# What is refused, and with which message.  "S" stands for the schema of the other session;
# S.t has rows and an index, S.e is empty.
my @statements = (
	[ 'a scan' => 'SELECT count(*) FROM S.t', $refused ],
	[ 'by TID' => "SELECT blk FROM S.t WHERE ctid = '(7,1)'", $refused ],
	[ 'a sample' => 'SELECT count(*) FROM S.t TABLESAMPLE SYSTEM (100)', $refused ],
	[ 'an index scan' => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT gen FROM S.t WHERE blk = 7', $refused ],
	[ 'an index-only scan' => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT blk FROM S.t WHERE blk = 7', $refused ],
	[ 'a bitmap scan' => 'SET enable_seqscan = off; SET enable_indexscan = off; SELECT gen FROM S.t WHERE blk = 7', $refused ],
	[ 'COPY' => 'COPY S.t TO STDOUT', $refused ],
	[ 'UPDATE' => 'UPDATE S.t SET gen = 1', $refused ],
	[ 'INSERT' => "INSERT INTO S.t VALUES ('t', 20, 0, 'x')", $refused ],
	[ 'INSERT into an empty table' => "INSERT INTO S.e VALUES ('e', 0, 0, 'x')", $refused ],
	[ 'TRUNCATE' => 'TRUNCATE S.t', qr/cannot truncate temporary tables of other sessions/ ],
	[ 'CREATE INDEX' => 'CREATE INDEX ON S.t (gen)', qr/cannot create indexes on temporary tables of other sessions/ ],
	[ 'REINDEX' => 'REINDEX TABLE S.t', qr/cannot reindex temporary tables of other sessions/ ],
	[ 'pg_prewarm, buffer' => "SELECT pg_prewarm('S.t', 'buffer')", $refused ],
	[ 'pg_prewarm, prefetch' => "SELECT pg_prewarm('S.t', 'prefetch')", $refused ],
	[ 'get_raw_page' => "SELECT get_raw_page('S.t', 7)", $refused ]);

# Names of temporary tables' files (doc/reports.md#temporary-file-names).  A server that has the bug takes
# the process number of the session that looks, in place of the owner's.

# Test: a text names the owner's file; with the bug, the file of the session that looks.
sub names_file ($aio, $text, $path, $name)
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($found) = $text =~ m{"(base/\d+/t\d+_\d+)"} or return fail("$name: names a file: $text");
	my $right = $found eq $path ? 1 : 0;
	is($right, $aio->has_bug('temporary-file-names') ? 0 : 1, "$name: whether it is the owner's file");
	return is($found =~ s{/t\d+_}{/}r, $path =~ s{/t\d+_}{/}r, "$name: the rest of the path");
}

with_each_io_method('io_uring; long: all', sub {
	my %without = map { $_ => $aio->lacks($_) } qw(pg_prewarm pageinspect);
	# corrected in 18.5 and in the second beta version of 19
	my $has_bug = $aio->setting('server_version') =~ /^(?:18\.[0-4]|19beta1)\b/;

	$aio->scenario('what is refused', with('alice bob', 20, kind => 'TEMP', sub ($alice, $bob, $t) {
		my $e = $aio->table('e', 0, kind => 'TEMP', session => $alice);
		$alice->sql('CREATE INDEX t_i ON t (blk); SET enable_seqscan = off; SELECT gen FROM t WHERE blk = 7; RESET enable_seqscan');
		my $schema = $alice->sql('SELECT pg_my_temp_schema()::regnamespace');
		my $sizes = sub { return $alice->sql("SELECT pg_relation_size('t'), pg_relation_size('t_i'), pg_relation_size('e')") };
		my $before = $sizes->();
		my $did = "SELECT coalesce(sum(reads), 0), coalesce(sum(hits), 0), coalesce(sum(extends), 0), coalesce(sum(writes), 0) FROM pg_stat_get_backend_io(${\$bob->pid}) WHERE object = 'temp relation'";
		is($aio->change_during($did, sub {
			for my $statement (@statements)
			{
				my ($name, $sql, $message) = @$statement;
				my $reason = $name =~ /pg_prewarm/ ? $without{pg_prewarm} : $name =~ /raw_page/ ? $without{pageinspect} : undef;
				$reason //= 'this release extends an empty table of another session' if $name =~ /empty/ && $has_bug;
				SKIP: {
					skip "$name: $reason", 1 if $reason;
					$bob->sql('RESET ALL');
					$bob->fails($sql =~ s/\bS\./$schema./gr, '0A000', $message, $name);
				}
			}
			$bob->sql('RESET ALL');
			# these leave such tables out
			$bob->sql("$_ $schema.t") for 'VACUUM', 'ANALYZE';
		}, $bob), '0/0/0/0', 'nothing was read, found, extended or written');
		is($sizes->(), $before, 'the files are as they were');
		$alice->gives('SELECT count(*) FROM e', 0, 'the empty table is empty');
		# none of the other session's local buffers is taken
		$bob->sql('SET temp_buffers = 100');
		my $own = $aio->table('own', 150, kind => 'TEMP', session => $bob);
	}));

	$aio->scenario('pg_aios', with('alice', 10, kind => 'TEMP', sub ($alice, $t) {
		my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
		$aio->read_at_completion_wait($alice, "SELECT count(*) FROM read_buffers('$t', 5, 2)", pid => $alice->pid);
		names_file($aio, $aio->sql("SELECT target_desc FROM pg_aios WHERE pid = ${\$alice->pid} AND state <> 'HANDED_OUT'"), $path, 'for another session');
		$aio->completion_continue;
		$alice->ends('reads');
	}), skip => $aio->no_faults);
});

# Injection points: with the gate, the owner completes a read that fails.
for_each_io_method('io_uring', sub {
	$aio->scenario('an error that another session logs', with('alice bob', 10, kind => 'TEMP', sub ($alice, $bob, $t) {
		my $u = $aio->table('u', 10);
		my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
		$aio->short_read_attach('EIO', pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
		$alice->sql("SELECT read_rel_block_ll('$t', 5, wait_complete => false)");
		# both reads are in the same ring
		$alice->sql("SELECT read_rel_block_ll('$u', 5, wait_complete => false)");
		$bob->gives("SELECT sum(nblocks) FROM read_buffers('$u', 5, 1)", 1, 'the other session completes both reads');
		my ($line) = grep { /bob LOG:  could not read blocks 5\.\.5 in file/ } split /\n/, $aio->log_text;
		names_file($aio, $line // 'nothing is logged', $path, 'in the log');
		$aio->short_read_detach;
	}), skip => $aio->no_injection_points, log => qr/LOG:  could not read blocks 5\.\.5/);
}, conf => { 'test_aio.gate' => 'off' });
