# Too few buffers: small buffer pools, and local buffers that are all pinned.  What can be read is
# read; what cannot be read raises an error and leaves nothing.
use TestAio;

# Begins a transaction that pins the buffers of the first blocks of a table, each by a cursor.
sub pin_blocks ($session, $table, $count)
{
	$session->sql(join '; ', 'BEGIN', map { "DECLARE c$_ CURSOR FOR SELECT blk FROM $table WHERE ctid = '($_,1)'; MOVE 1 FROM c$_" } 0 .. $count - 1);
	return;
}

# Test: blocks that cannot be read leave their buffers to those of another table.  Parameters are those of table().
sub bad_blocks ($aio, $session, $pages, %params)
{
	my ($t, $u) = map { $aio->table($_, $pages, %params) } qw(t u);
	$session->sql("SELECT modify_rel_block('$t', $_, corrupt_header => true)") for 7, 8;
	for (1, 2)
	{
		$session->fails("SELECT count(*) FROM read_buffers('$t', $_, 1)", 'XX001', qr/invalid page in block $_ of relation/, 'a bad page') for 7, 8;
		$session->gives("SELECT count(*) FROM read_stream_for_blocks('$u', ARRAY(SELECT generate_series(0, $pages - 1)))", $pages, 'all buffers are used for others');
	}
	$aio->is_as_written($u, session => $session);
	$session->sql("SELECT modify_rel_block('$t', $_, zero => true)") for 7, 8;
	$aio->is_as_written($t, session => $session, except => "block 7 has no row\nblock 8 has no row");
	return;
}

with_each_io_method('worker; long: all', sub {
	$aio->scenario('local buffers that are pinned', with('alice', sub ($alice) {
		$alice->sql('SET temp_buffers = 100');
		my $t = $aio->table('t', 150, kind => 'TEMP', session => $alice);
		for my $pinned (90, 99)
		{
			pin_blocks($alice, $t, $pinned);
			my @queries = ("SELECT problems('$t')", "SELECT count(*) - 150 FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 149)))",
				"SELECT sum(nblocks) - 1 FROM read_buffers('$t', 120, 1)");
			# a scan needs more than one buffer
			splice @queries, 0, 2 if $pinned == 99;
			for my $query (@queries)
			{
				$alice->gives($query, $query =~ /problems/ ? '' : 0, "$pinned of 100 buffers are pinned: $query");
			}
			# what extends a table by many blocks at once has to do with the rest
			if ($pinned < 99)
			{
				$alice->sql('CREATE TEMP TABLE u AS SELECT generate_series(1, 60 * 226) n');
				$alice->gives("SELECT count(*), pg_relation_size('u') / 8192 >= 60 FROM u", '13560|t', 'a table of 60 blocks is made');
			}
			$alice->gives('FETCH BACKWARD 1 FROM c7', '', 'a cursor still works');
			$alice->sql('DROP TABLE IF EXISTS u; COMMIT');
		}
		pin_blocks($alice, $t, 100);
		for my $read ("SELECT count(*) FROM read_buffers('$t', 120, 1)", "SELECT count(*) FROM $t WHERE blk >= 0")
		{
			$alice->sql('SAVEPOINT s');
			$alice->fails($read, '53000', qr/no empty local buffer available/, "all 100 buffers are pinned: $read");
			$alice->sql('ROLLBACK TO s');
		}
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[7, 9, 99])", 3, 'cached blocks need no other buffer');
		$alice->sql('ROLLBACK');
		$aio->is_as_written($t, session => $alice);
		$alice->fails('SET temp_buffers = 200', '22023', qr/cannot be changed after any temporary tables have been accessed/, 'a session cannot get more buffers any more');
		$aio->sql('CREATE ROLE later');
		$alice->gives('ALTER ROLE later SET temp_buffers = 200', '', 'but it can set their number for others');
		$aio->sql('DROP ROLE later');
	}));

	$aio->scenario('a block of a temporary table that cannot be read, and later ones', with('alice', sub ($alice) {
		$alice->sql('SET temp_buffers = 100');
		bad_blocks($aio, $alice, 150, kind => 'TEMP', session => $alice);
	}), log => qr/LOG:  invalid page in block [78] of relation/);
});

# INSERT would run out of buffers with 16, which is the minimum
with_each_io_method('worker; long: all', sub {
	$aio->scenario('thirty-two buffers', with('alice bob', 60, sub ($alice, $bob, $t) {
		$aio->gives('SHOW shared_buffers', '256kB', 'the size of the pool');
		$aio->gives("SELECT current_setting('io_max_concurrency')", 1, 'one handle for each process');
		for my $concurrency (0, 1, 200)
		{
			$alice->sql("SET effective_io_concurrency = $concurrency; SET maintenance_io_concurrency = $concurrency");
			$alice->gives("SELECT count(*), sum(blk) FROM $t", '60|1770', "effective_io_concurrency = $concurrency: a scan");
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 60 FROM generate_series(0, 119) i))", 120, 'a stream');
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			$alice->sql("ANALYZE $t");
		}
		# two sessions at the same time
		$alice->starts("SELECT count(*) FROM generate_series(1, 5) i, LATERAL (SELECT count(*) + i FROM $t) s");
		$bob->starts("SELECT count(*) FROM generate_series(1, 5) i, LATERAL (SELECT count(*) + i FROM $t) s");
		$_->returns('5', 'scans again and again') for $alice, $bob;
		# a ring is an eighth of the pool at most, and gets its buffers from others at first
		for my $case ([ 'bulkread', "SELECT count(*) FROM $t" ], [ 'vacuum', "VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t" ])
		{
			my ($context, $sql) = @$case;
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 59)))");
			my $added = $aio->io_counts_during($alice, "relation/$context", sub { $alice->sql($sql) });
			is($added->{evictions} + $added->{reuses}, $added->{read_bytes} / 8192, "$context: each block takes the buffer of another one");
			is_between($added->{evictions}, 4, 16, 'evictions until there is a ring of four buffers');
			$aio->evict($t);
			$alice->sql($sql);
			my $kept = () = $aio->lacks('pg_buffercache') ? () : split /,/, $aio->cached($t);
			cmp_ok($kept, '<=', 8, 'blocks that stay in the pool');
		}
		$aio->sql("CREATE INDEX t_i ON $t (blk)");
		$alice->sql('SET enable_seqscan = off; SET enable_bitmapscan = off');
		$alice->gives("SELECT sum(gen + blk) FROM (SELECT * FROM $t ORDER BY blk OFFSET 0) s", 1770, 'an index scan');
	}));

	# its buffer is the next one's
	$aio->scenario('a block that cannot be read, and later ones', with('alice', sub ($alice) {
		$alice->sql('SET io_combine_limit = 4');
		bad_blocks($aio, $alice, 60);
	}), log => qr/LOG:  invalid page in block [78] of relation/);

	# while it lasts, no other session gets a buffer, not even for a catalog
	$aio->scenario('all buffers are pinned', with('alice', 60, sub ($alice, $t, $read) {
		# so that nothing has to be looked up later
		$alice->sql("BEGIN; SAVEPOINT s; $read; ROLLBACK TO s; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid = '(0,1)'; COMMIT");
		$alice->sql('BEGIN');
		my ($pinned, $error) = (0);
		while (!$error && $pinned < 40)
		{
			my $cursor = "c$pinned";
			$error = $alice->starts("SAVEPOINT s; DECLARE $cursor CURSOR FOR SELECT blk FROM $t WHERE ctid = '($pinned,1)'; MOVE 1 FROM $cursor")->wait_for_end->error;
			$pinned++ if !$error;
		}
		like($error->{message} // '', qr/^no unpinned buffers available$/, "a cursor after $pinned others");
		cmp_ok($pinned, '<=', 32, 'not more than there are buffers');
		$alice->sql('ROLLBACK TO s');
		$alice->fails($read, 'XX000', qr/no unpinned buffers available/, $read);
		$alice->sql('ROLLBACK');
		$alice->gives("SELECT count(*), sum(blk) FROM $t", '60|1770', 'all can be read again');
	}), each => [ 'SELECT count(*) FROM scenario.t', "SELECT count(*) FROM read_buffers('scenario.t', 50, 1)" ]);
}, conf => { shared_buffers => '256kB' });

with_each_io_method('sync', sub {
	$aio->scenario('commit timestamps of more pages than buffers', sub {
		my ($first, $begun) = split /\|/, $aio->sql('SELECT txid_current(), clock_timestamp()');
		use_up_xids($aio, 15000);
		my $times = "SELECT x, pg_xact_commit_timestamp(x::text::xid) AS t FROM generate_series($first + 1, $first + 15000, 7) x";
		my $read = $aio->change_during("SELECT blks_read FROM pg_stat_slru WHERE name = 'commit_timestamp'", sub {
			$aio->gives("SELECT count(t), min(t) > '$begun', count(*) FILTER (WHERE t < earlier) FROM (SELECT t, lag(t) OVER (ORDER BY x) AS earlier FROM ($times) s) s", '2143|t|0', 'each is there, and none before an earlier one');
		}, $aio);
		# 819 of them fit into a page
		is_between($read, 18, 20, 'each page is read again');
		my $all = $aio->sql("SELECT md5(string_agg(t::text, ' ' ORDER BY x)) FROM ($times) s");
		$aio->recovers;
		$aio->gives("SELECT md5(string_agg(t::text, ' ' ORDER BY x)) FROM ($times) s", $all, 'the same after a crash');
	}, dies => 1);
}, conf => { track_commit_timestamp => 'on', commit_timestamp_buffers => 16 });

# By default io_max_concurrency is the number of buffers for each process, at most 64.
for my $conf ({ shared_buffers => '16MB' }, { shared_buffers => '64MB' })
{
	with_each_io_method('worker', sub {
		$aio->scenario(join(', ', 'automatic io_max_concurrency', %$conf), sub {
			my %setting = map { $_ => $aio->sql("SELECT setting FROM pg_settings WHERE name = '$_'") }
			  qw(shared_buffers max_connections autovacuum_worker_slots max_worker_processes max_wal_senders io_max_concurrency);
			# 34 to 44 more processes: 32 I/O workers and other auxiliary processes
			my $processes = $setting{max_connections} + $setting{autovacuum_worker_slots} + $setting{max_worker_processes} + $setting{max_wal_senders};
			my ($most, $least) = map { my $n = int($setting{shared_buffers} / ($processes + $_)); $n > 64 ? 64 : $n || 1 } 34, 44;
			is_between($setting{io_max_concurrency}, $least, $most, 'io_max_concurrency');
			my ($alice, $t) = $aio->sessions_and_table('alice', 40);
			$aio->is_as_written($t);
			$alice->sql('SET effective_io_concurrency = 1000; SET io_combine_limit = 1');
			$alice->sql("SELECT count(*) FROM $t");
			$aio->gives("SELECT count(*) <= $setting{io_max_concurrency} FROM pg_aios WHERE pid = ${\$alice->pid}", 't', 'no session has more handles in use');
		});
	}, conf => $conf);
}
done_testing();
