# Blocks that pg_prewarm reads, by its function and at a start.
use TestAio;
use PostgreSQL::Test::Utils ();

# What goes into the buffer pool: pg_prewarm() with each mode, range and fork.
sub blocks ($from, $to) { return join ',', $from .. $to }

# Restarts the server, and calls a function meanwhile.  Returns how many blocks autoprewarm has loaded then, and
# how many it was to load.
sub loaded_after_restart ($aio, $function = sub { })
{
	my $size = $aio->log_size;
	while_stopped($aio, $function);
	my @blocks;
	$aio->poll(sub { @blocks = $aio->log_text($size) =~ /autoprewarm successfully prewarmed (\d+) of (\d+) previously-loaded blocks/ }) or fail('autoprewarm ends');
	return @blocks;
}

with_each_io_method('sync; long: all', sub {
	$aio->scenario('ranges', with('alice', 60, sub ($alice, $t) {
		my @cases = ([ 'NULL, NULL', 0, 59 ], [ '0, 0', 0, 0 ], [ '59, 59', 59, 59 ], [ '7, 40', 7, 40 ], [ '50, NULL', 50, 59 ], [ 'NULL, 3', 0, 3 ]);
		for my $mode ('buffer', 'read', 'prefetch')
		{
			for my $case ($mode eq 'buffer' || !only_long() ? @cases : @cases[ 3, 4 ])
			{
				my ($range, $first, $last) = @$case;
				my $count = $last - $first + 1;
				$aio->evict($t);
				my $prewarm = sub { $alice->gives("SELECT pg_prewarm('$t', '$mode', 'main', $range)", $count, "$mode: $range") };
				# before 19, mode "read" counts in pg_stat_io as well
				if ($mode eq 'buffer') { is($aio->io_during($alice, 'relation/normal', $prewarm) =~ s{.*/}{}r, $count * 8192, 'bytes') }
				else { $prewarm->() }
				is($aio->cached($t), $mode eq 'buffer' ? blocks($first, $last) : '', 'blocks in the buffer pool');
			}
			# all blocks are cached
			$alice->sql("SELECT count(*) FROM $t");
			is($aio->io_during($alice, 'relation/normal', sub { $alice->gives("SELECT pg_prewarm('$t', '$mode')", 60, "$mode: cached") }) =~ s{.*/}{}r, 0, 'nothing is read') if $mode eq 'buffer';
			$alice->fails("SELECT pg_prewarm('$t', '$mode', 'main', $_->[0])", '22023', $_->[1], "$mode: $_->[0]")
			  for [ '-1, 3', qr/starting block number must be between 0 and 59/ ], [ '60, NULL', qr/starting block number must be between 0 and 59/ ], [ '5, 60', qr/ending block number must be between 0 and 59/ ];
		}
		$alice->fails("SELECT pg_prewarm('$t', 'hot')", '22023', qr/invalid prewarm type/, 'no such mode');
		$aio->evict($t);
		$alice->gives("SELECT pg_prewarm('$t', 'buffer', 'vm')", 1, 'the visibility map');
		is($aio->cached($t), '', 'no block of the main fork');
	}));

	$aio->scenario('of the fork that is named, mode %s', with('alice', 40, sub ($alice, $t, $mode) {
		my $file = $alice->sql("SELECT pg_relation_filenode('$t')");
		for my $fork (qw(main fsm vm))
		{
			my $blocks = $alice->sql("SELECT pg_relation_size('$t', '$fork') / 8192");
			$aio->evict($t);
			my %asked;
			m{/$file(?:_(\w+))?>, (?:\[?.*, )?(\d+)(?:, (\d+), POSIX|\)\s+= (\d+)$)} and $asked{ $1 // 'main' } += ($4 // 0) + ($_ =~ /^fadvise64\([^,]+, \d+, (\d+)/ ? $1 : 0)
			  for calls_of($aio, $alice->pid, 'pread64,preadv,fadvise64', sub { $alice->gives("SELECT pg_prewarm('$t', '$mode', '$fork')", $blocks, "$mode: $fork") });
			is(join(' ', map { "$_ $asked{$_}" } sort keys %asked), "$fork ${\(8192 * $blocks)}", 'bytes');
		}
		# otherwise, processes or rings read that strace does not see
	}), each => [ $aio->method eq 'sync' ? 'buffer' : (), qw(read prefetch) ], skip => no_strace());

	$aio->scenario('privileges', with('alice', 20, sub ($alice, $t) {
		$aio->sql("CREATE INDEX t_i ON $t (blk); CREATE ROLE reader; GRANT USAGE ON SCHEMA scenario TO reader; GRANT EXECUTE ON FUNCTION pg_prewarm TO reader");
		$alice->sql('SET ROLE reader');
		$alice->fails("SELECT pg_prewarm('$_')", '42501', qr/permission denied for (?:table|index|relation)/, "without a privilege: $_") for $t, 'scenario.t_i';
		$aio->sql("GRANT SELECT ON $t TO reader");
		# 18.0 asks for a privilege on the index, of which there is none
		$alice->gives("SELECT pg_prewarm('$_') > 0", 't', "with SELECT on the table: $_") for $t, $aio->setting('server_version_num') < 180001 ? () : 'scenario.t_i';
		$alice->sql('RESET ROLE');
		$aio->sql('DROP OWNED BY reader; DROP ROLE reader');
	}));

	$aio->scenario('pg_prewarm of a bad block', with('alice', 40, changes => 1, sub ($alice, $t) {
		$aio->sql("SELECT modify_rel_block('$t', 20, corrupt_header => true)");
		$alice->fails("SELECT pg_prewarm('$t', 'buffer', 'main', 10, 30)", 'XX001', qr/invalid page in block 20 of relation/, 'buffer');
		$alice->gives("SELECT pg_prewarm('$t', 'read', 'main', 10, 30)", 21, 'read does not look at pages');
		$alice->gives("SELECT pg_prewarm('$t', 'buffer', 'main', 21, 39)", 19, 'buffer, behind the bad block');
		is(join(',', grep { $_ > 20 } split /,/, $aio->cached($t)), blocks(21, 39), 'the blocks behind it are cached');
	}), log => qr/LOG:  invalid page in block 20 of relation/);
}, needs => 'pg_prewarm pg_buffercache');

# autoprewarm after a restart: each fork gets its own blocks, of unlogged tables, too, and so does
# each database.  It loads no more blocks than there are buffers.  A dump that fails can be made again.
# What it loads where tablespaces have files of the same number, and that it begins again after
# a crash.  Guards server commits 64e7fa43a9, b5d084c535 and bcd5b4bcbe.
with_each_io_method('worker', sub {
	$aio->scenario('a dump that cannot be written', with('alice', 10, sub ($alice, $t) {
		$aio->warm($t);
		my $file = $aio->node->data_dir . '/autoprewarm.blocks.tmp';
		mkdir $file or die "cannot make $file: $!\n";
		$alice->fails('SELECT autoprewarm_dump_now()', '42809', qr/could not open file "autoprewarm.blocks.tmp": Is a directory/, 'fails');
		rmdir $file or die "cannot remove $file: $!\n";
		$alice->gives('SELECT autoprewarm_dump_now() >= 10', 't', 'and can be written again');
	}));

	# one worker after the other loads the blocks of a database
	$aio->scenario('forks and databases', with('', [ t => 50 ], [ u => 50 ], [ v => 30, kind => 'UNLOGGED' ], sub ($t, $u, $v) {
		# the copy has the same numbers of files
		$aio->sql('CREATE DATABASE other TEMPLATE postgres STRATEGY file_copy');
		my $bob = $aio->session('bob', dbname => 'other');
		$bob->sql("SELECT pg_prewarm('$t', 'buffer', 'main', 3, 9)");
		$aio->end_session($bob);
		# the cached blocks of the maps have other numbers than those of the main fork
		$aio->sql("SELECT pg_prewarm('$t', 'buffer', 'main', 10, 39), pg_prewarm('$t', 'buffer', 'vm'), pg_prewarm('$t', 'buffer', 'fsm'), pg_prewarm('$u', 'buffer', 'main', 20, 20), pg_prewarm('$u', 'buffer', 'vm'), pg_prewarm('$v', 'buffer', 'main', 7, 8)");
		my $files = join ', ', map { "(pg_relation_filenode('$_'), '$_')" } $t, $u, $v;
		my $there = "SELECT datname, name, relforknumber, string_agg(relblocknumber::text, ',' ORDER BY relblocknumber) FROM pg_buffercache JOIN (VALUES $files) f (file, name) ON relfilenode = file"
		  . ' JOIN pg_database d ON d.oid = reldatabase GROUP BY 1, 2, 3 ORDER BY 1, 2, 3';
		my $before = $aio->sql($there);
		like($before, qr/^other\|\Q$t\E\|0\|3,4,5,6,7,8,9\npostgres\|\Q$t\E\|0\|10,11,.*,39\npostgres\|\Q$t\E\|1\|0,1,2\npostgres\|\Q$t\E\|2\|0\npostgres\|\Q$u\E\|0\|20\npostgres\|\Q$u\E\|2\|0\npostgres\|\Q$v\E\|0\|7,8$/, 'before the restart');
		loaded_after_restart($aio);
		$aio->gives($there, $before, 'after it, the same blocks of each fork, and in each database');
		# the list names a database that is gone
		my $file = $aio->node->data_dir . '/autoprewarm.blocks';
		$aio->sql('SELECT autoprewarm_dump_now()');
		link $file, "$file.old" or die "$file: $!";
		$aio->sql('DROP DATABASE other');
		my ($loaded, $known) = loaded_after_restart($aio, sub { rename "$file.old", $file or die "$file: $!" });
		cmp_ok($loaded, '<=', $known - 7, "without the blocks of a database that was dropped: $loaded of $known");
		$aio->gives($there, $before =~ s/^other.*\n//mgr, 'those of the others are there');
	}), log => qr/autoprewarm worker FATAL:  database \d+ does not exist|postmaster LOG:  background worker "autoprewarm worker" .* exited with exit code 1/);

	# loads the blocks that a file lists, after a restart
	$aio->scenario('autoprewarm', sub {
		# the dump is sorted by file; tables that are made later have higher numbers
		my ($first, $t, $u, $last) = map { $aio->table(@$_) } [ 'first', 10 ], [ 't', 50 ], [ 'u', 30, changes => 1 ], [ 'last', 20 ];
		$aio->sql("SELECT pg_prewarm('$t', 'buffer', 'main', 5, 44)");
		$aio->sql("SELECT pg_prewarm('$_', 'buffer')") for $first, $u, $last;
		$aio->gives('SELECT autoprewarm_dump_now() > 90', 't', 'the dump has more than 90 blocks');
		my $file = $aio->node->data_dir . '/autoprewarm.blocks';
		ok(-s $file, 'it is in a file');
		# one of the tables becomes shorter, and the first and the last one are dropped
		$aio->sql("DELETE FROM $u WHERE blk >= 10; VACUUM (TRUNCATE on) $u; DROP TABLE $first, $last");
		# the shutdown writes a new dump; the test puts the old one back
		link $file, "$file.old" or die "$file: $!";
		my ($loaded, $known) = loaded_after_restart($aio, sub { rename "$file.old", $file or die "$file: $!" });
		cmp_ok($loaded, '>=', 50, "autoprewarm loads $loaded of $known blocks");
		cmp_ok($loaded, '<=', $known - 50, 'without blocks that no longer exist');
		is($aio->cached($t), blocks(5, 44), 'the blocks of the dump, and no others');
		is($aio->cached($u), blocks(0, 9), 'the blocks that the shorter table still has');
	});

	# a tablespace gives out numbers that other tablespaces have given out, too
	$aio->scenario('files of the same number', sub {
		my @tables = ($aio->table('t', 20));
		# gives the table a number that is no object's
		$aio->sql("VACUUM (FULL, FREEZE) $tables[0]; VACUUM pg_class");
		my $number = $aio->sql("SELECT pg_relation_filenode('$tables[0]')");
		my ($loaded, $wanted) = loaded_after_restart($aio,
			sub { PostgreSQL::Test::Utils::system_or_bail('pg_resetwal', '--pgdata' => $aio->node->data_dir, '--next-oid' => $number - 60) });
		is($loaded, $wanted, 'autoprewarm loads all blocks');
		$aio->sql("DO \$\$ BEGIN WHILE lo_create(0) <> $number - 1 LOOP END LOOP; END \$\$");
		$aio->sql("SET default_tablespace = elsewhere; CREATE TABLE scenario.u (LIKE $tables[0] INCLUDING ALL); RESET default_tablespace");
		push @tables, 'scenario.u';
		$aio->gives("SELECT pg_relation_filenode('scenario.u')", $number, 'another file has the same number');
		$aio->sql("INSERT INTO scenario.u SELECT 'scenario.u', blk, gen, proof('scenario.u', blk, 0) FROM $tables[0]; VACUUM (FREEZE) scenario.u");
		my @blocks = ([ 3 .. 9 ], [ 12 .. 19 ]);
		$aio->evict($tables[$_]) for 0, 1;
		$aio->warm($tables[$_], @{ $blocks[$_] }) for 0, 1;
		my $there = sub { return $aio->sql("SELECT string_agg(reltablespace || ':' || relblocknumber, ' ' ORDER BY reltablespace, relblocknumber) FROM pg_buffercache WHERE relfilenode = $number AND relforknumber = 0") };
		my $before = $there->();
		($loaded, $wanted) = loaded_after_restart($aio);
		is($loaded, $wanted, 'autoprewarm loads all blocks again');
		is($there->(), $before, 'the same blocks of each');
		$aio->is_as_written($tables[0]);
		$aio->is_as_written($tables[1], blocks => 20);
		$aio->sql('DROP TABLE scenario.u');
	}, dies => 1);

	$aio->scenario('a crash', with('alice', sub ($alice) {
		# pg_stat_activity has no row for its process
		my $leader = sub ($session) {
			$session->starts('SELECT autoprewarm_start_worker()')->wait_for_end;
			return (($session->error // { message => '' })->{message} =~ /autoprewarm worker is already running under PID (\d+)/)[0];
		};
		my $t = $aio->table('t', 20);
		$aio->warm($t, 0 .. 9);
		# a dump by a session; the leader is still registered
		$alice->gives('SELECT autoprewarm_dump_now() > 9', 't', 'a dump');
		for my $victim ('alice', 'leader')
		{
			my $size = $aio->log_size;
			kill 'KILL', $victim eq 'alice' ? $alice->pid : $leader->($aio->session('bob')) // die "no process\n";
			$aio->poll(sub { $aio->log_text($size) =~ /all server processes terminated; reinitializing/ }) or fail('a crash');
			$aio->wait_for_connections;
			$aio->poll(sub { $aio->log_text($size) =~ /autoprewarm successfully prewarmed (\d+) of \1 previously/ }) or fail('autoprewarm loads again');
			$aio->gives("SELECT count(*) >= 10 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0", 't', "after a crash of $victim: its blocks are there");
		}
		$aio->gives('SELECT autoprewarm_dump_now() > 9', 't', 'a dump by another session');
	}), dies => 1, log => qr/postmaster LOG:  (?:client backend|background worker "autoprewarm leader") .* was terminated by signal 9/);

	# the last scenario: it leaves the pool small
	$aio->scenario('a smaller pool', with('', 1500, sub ($t) {
		$aio->sql("SELECT pg_prewarm('$t')");
		my ($loaded, $wanted) = loaded_after_restart($aio, sub { $aio->node->append_conf('postgresql.conf', "shared_buffers = '8MB'\n") });
		is($wanted, 1024, 'it wants to load as many blocks as there are buffers');
		cmp_ok($loaded, '<=', 1024, 'and loads no more');
	}), skip => ($aio->major < 19 ? 'autoprewarm heeds the size of the pool since 19' : undef));
}, leaves => 'nothing', needs => 'pg_prewarm pg_buffercache', prepare => sub { $_[0]->make_tablespace },
	conf => { shared_preload_libraries => 'test_aio, pg_prewarm', 'pg_prewarm.autoprewarm_interval' => '0', restart_after_crash => 'on' });

# Functions that go through all buffers, cancelled meanwhile: they end at once, and the rest of the
# buffers stays as it is.  Guards server commits 8ae0f6a0c4 and eab9e4e275.
# What functions of contrib say of relations that have no blocks, or not the kind of blocks that they
# read.  Guards server commits 3c4d7557e0, 208927e657 and 4623d71443.
my $no_strace = no_strace();

for_each_io_method('worker', sub {
	$aio->scenario('cancelled: %s', with('alice', 100, changes => 1, sub ($alice, $t, $function) {
		$aio->sql("UPDATE $t SET gen = gen");
		my $dirty = "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND isdirty";
		my $before = $aio->sql($dirty);
		ok(while_stopped_in($aio, $alice, 'pwrite64,pwritev', $aio->file_of($t), "SELECT * FROM $function(" . ($function =~ /all/ ? '' : "'$t'") . ')', sub { $aio->wait_event($alice->pid) eq 'DataFileWrite' }, sub {
			$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
		}), 'the session stops while it writes a buffer');
		$alice->raises('57014', qr/canceling statement/, 'it ends');
		my $left = $aio->sql($dirty);
		cmp_ok($left, '>=', $before - 10, "$left of $before buffers are as they were");
		$aio->gives("SELECT count(*) FROM $t WHERE body = proof('$t', blk, 0)", 100, 'the rows');
	}), each => [qw(evict_rel pg_buffercache_evict_relation pg_buffercache_evict_all)], skip => $no_strace // $aio->lacks('pg_buffercache'));

	# the extension, the call, whether it accepts an index or a sequence, and the error
	my @calls = (
		(map { [ 'pg_prewarm', "pg_prewarm('%s', '$_')", 'index sequence', '42809' ] } qw(buffer read prefetch)),
		[ 'pg_visibility', "pg_visibility_map_summary('%s')", '', '42809' ],
		[ 'pg_visibility', "pg_check_visible('%s')", '', '42809' ],
		[ 'pg_freespacemap', "pg_freespace('%s')", 'index sequence', 'none' ],
		[ 'pgstattuple', "pgstattuple('%s')", 'index sequence', '0A000' ],
		[ 'pgstattuple', "pgstattuple_approx('%s')", '', '0A000' ],
		[ 'amcheck', "verify_heapam('%s')", 'sequence', '42809' ]);

	$aio->scenario('relations without blocks', with('alice', 3, sub ($alice, $t) {
		$aio->sql("CREATE VIEW scenario.v AS SELECT 1; CREATE TYPE scenario.c AS (n int); CREATE TABLE scenario.p (n int) PARTITION BY LIST (n); CREATE INDEX p_n ON scenario.p (n);"
			  . "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE scenario.f (n int) SERVER s; CREATE SEQUENCE scenario.sequence; CREATE INDEX index ON $t (blk)");
		for my $call (@calls)
		{
			my ($extension, $function, $accepts, $sqlstate) = @$call;
			next if $aio->lacks($extension);
			for my $relation (qw(v c p p_n f), grep { $accepts !~ $_ } qw(index sequence))
			{
				$alice->starts('SELECT count(*) FROM ' . sprintf($function, "scenario.$relation"))->wait_for_end;
				my $error = $alice->error;
				is(($error // { sqlstate => 'none' })->{sqlstate}, $sqlstate, sprintf($function, $relation) . ': ' . ($error // { message => 'no error' })->{message});
			}
			$alice->sql('SELECT count(*) FROM ' . sprintf($function, $_)) for $t, map { "scenario.$_" } split ' ', $accepts;
		}
		$aio->sql('DROP FOREIGN DATA WRAPPER w CASCADE');
		$aio->sql('CREATE TABLE scenario.q (n int, a int[]) PARTITION BY LIST (n)');
		$aio->sql("CREATE INDEX q_$_ ON scenario.q USING $_ (" . ($_ eq 'gin' ? 'a' : 'n') . ')') for qw(btree hash gin);
		$alice->fails("SELECT $_", '42809', qr/is not a \S+ index/, $_) for $aio->lacks('pgstattuple') ? () : map { my $kind = s/btree//r; "pgstat${kind}index('scenario.q_$_')" } qw(btree hash gin);
		$alice->gives("SELECT v.all_visible, v.all_frozen, m.* FROM pg_visibility('$t', $_) v, pg_visibility_map('$t', $_) m", 'f|f|f|f', "past the end: block $_") for $aio->lacks('pg_visibility') ? () : (3, 4294967294);
	}));

	# a caller of a function that returns any row names its columns
	$aio->scenario('rows of another shape', with('alice', sub ($alice) {
		$aio->lacks($_) for qw(pg_buffercache pg_walinspect pageinspect);
		my @functions = split /\n/, $aio->sql(q{SELECT oid::regprocedure FROM pg_proc p WHERE prorettype = 'record'::regtype AND proargmodes IS NULL AND proretset AND provolatile <> 'c'
			AND pronargs <= 1 AND EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e') ORDER BY 1});
		for my $function (@functions)
		{
			for my $columns (1 .. 12)
			{
				my $call = ($function =~ s/\(boolean\)/(false)/r) . ' AS f(' . join(', ', map { "c$_ boolean" } 1 .. $columns) . ')';
				$alice->starts("SELECT * FROM $call")->wait_for_end;
				like($alice->error ? $alice->error->{message} : 'no error', qr/return row do not match|incorrect number of output arguments/, $call);
			}
		}
		cmp_ok(scalar @functions, '>=', 1, join ' ', @functions);
	}), skip => $aio->lacks('pg_buffercache') // ($aio->major < 19 ? only_long() : undef));
}, leaves => 'nothing');
