# pg_stat_io, which must agree with other counters.
use TestAio;

# What work on shared and temporary tables adds to each column of pg_stat_io in context "normal".  tables.pl
# has its rows and columns.

# Values that adds_io() accepts.
sub between ($from, $to) { return sub { $_[0] >= $from && $_[0] <= $to } }
sub any { return sub { 1 } }

# Returns a query's blocks as "shared hit/shared read/local hit/local read".
sub buffers_of ($session, $query)
{
	my $found = explained($session, 'BUFFERS', $query);
	return join '/', map { $found->{"$_ Blocks"} // 0 } 'Shared Hit', 'Shared Read', 'Local Hit', 'Local Read';
}

with_each_io_method('worker; long: all', sub {
	$aio->scenario('normal', with('alice', sub ($alice, $kind) {
		my $what = $kind ? 'temp relation/normal' : 'relation/normal';
		my $t = $aio->table('t', 40, kind => $kind, session => $alice, changes => 1);
		my $scan = sub { $alice->sql("SELECT count(*) FROM $t") };
		my $counts = sub ($sql) { return $aio->io_counts_during($alice, $what, sub { $alice->sql($sql) }) };
		$alice->sql('SET track_io_timing = off');
		$scan->() for 1 .. 2;
		# the pool may have no free buffer left
		my %misses = (read_bytes => 40 * 8192, hits => any(), evictions => $kind ? 0 : between(0, 60));

		$aio->evict($t, $alice);
		$aio->adds_io($alice, $what, $scan, { %misses, reads => between(1, 40) }, 'a scan that reads');
		# a session also reads catalogs
		$aio->adds_io($alice, $what, $scan, { hits => $kind ? 40 : between(40, 70) }, 'a scan of cached blocks');
		$alice->sql('SET io_combine_limit = 1');
		$aio->evict($t, $alice);
		$aio->adds_io($alice, $what, $scan, { %misses, reads => 40 }, 'a scan that reads block by block');

		# a table grows by several blocks at once, and some of them stay empty
		my $added = $counts->("CALL add_pages('$t', 40, 99)");
		my $blocks = $alice->sql("SELECT pg_relation_size('$t') / 8192") - 40;
		is_between($added->{extend_bytes}, $blocks * 8192, ($blocks + 10) * 8192, "INSERT: bytes of $blocks new blocks");
		is_between($added->{extends}, 1, $blocks, 'extensions');
		is($added->{extend_time}, 0, 'no time without track_io_timing');
		is($counts->("SELECT grow_rel('$t', 50)")->{extend_bytes}, 50 * 8192, 'grow_rel(): bytes of 50 new blocks');
	}), each => [ '', 'TEMP' ]);

	$aio->scenario('a temporary table larger than temp_buffers', with('alice', sub ($alice) {
		my $counts = sub ($sql) { return $aio->io_counts_during($alice, 'temp relation/normal', sub { $alice->sql($sql) }) };
		$alice->note_temporary_tables;
		$alice->sql('SET temp_buffers = 100; CREATE TEMP TABLE l (n int, body text STORAGE PLAIN)');
		my $added = $counts->("INSERT INTO l SELECT i, repeat('x', 7900) FROM generate_series(1, 400) i");
		my $blocks = $alice->sql("SELECT pg_relation_size('l') / 8192");
		cmp_ok($added->{evictions}, '>=', $blocks - 110, "INSERT: evictions, with $blocks blocks");
		is($added->{write_bytes}, $added->{writes} * 8192, 'bytes written');
		is_between($added->{writes}, $blocks - 110, $blocks + 10, 'writes');
		# the first one makes the pages dirty, by hint bits
		for my $of ('dirty buffers', 'clean ones')
		{
			$added = $aio->io_counts_during($alice, 'temp relation/normal', sub { $alice->gives('SELECT count(*), sum(n) FROM l', '400|80200', 'the rows') });
			is_between($added->{read_bytes}, ($blocks - 100) * 8192, $blocks * 8192, 'SELECT: bytes read');
			is_between($added->{evictions}, $blocks - 110, $blocks + 5, "evictions of $of");
			is($added->{reuses}, 0, 'local buffers have no ring');
		}
	}));

	# What a large scan, CREATE TABLE AS and VACUUM add to pg_stat_io in the contexts of their rings of
	# buffers: bulkread, bulkwrite, vacuum.

	# Returns what a statement of a session adds to the counters of a context.
	my $counts = sub ($session, $context, $sql) {
		return $aio->io_counts_during($session, "relation/$context", sub { $session->sql($sql) });
	};

	# a scan of a table larger than a quarter of the buffer pool has a ring of 256 kB
	$aio->scenario('bulkread', with('alice', 600, changes => 1, sub ($alice, $t) {
		my $scan = "SELECT count(*) FROM $t";
		$alice->sql("SET track_io_timing = off; $scan");
		$aio->evict($t);
		# the scan finds no dirty buffers
		$aio->sql('CHECKPOINT');
		my $added = $counts->($alice, 'bulkread', $scan);
		is($added->{read_bytes}, 600 * 8192, 'bytes');
		cmp_ok($added->{reads}, '<', 120, 'reads are combined');
		# a block takes a free buffer, one of the ring, or evicts another block
		my $kept = $aio->lacks('pg_buffercache') ? 0 : scalar(my @blocks = split /,/, $aio->cached($t));
		cmp_ok($kept, '<=', 300, 'blocks that stay in the buffer pool');
		ok($added->{reuses} >= 600 - $kept - 20 && $added->{reuses} + $added->{evictions} <= 600, "$added->{reuses} reuses, $added->{evictions} evictions") if $kept;
		is($added->{writes} + $added->{extends}, 0, 'nothing is written');
		is($counts->($alice, 'normal', $scan)->{reads}, 0, 'no reads in context normal');
		# no other session reads in this context
		$aio->evict($t);
		is($aio->change_during("SELECT sum(read_bytes) FROM pg_stat_io WHERE backend_type = 'client backend' AND context = 'bulkread'",
			sub { $alice->sql($scan) }, $alice), 600 * 8192, 'bytes in pg_stat_io');
		$added = $counts->($alice, 'bulkread', $scan);
		is($added->{hits} + $added->{read_bytes} / 8192, 600, 'hits and reads together are the table');
		$alice->sql('SET effective_io_concurrency = 0');
		$aio->evict($t);
		is($counts->($alice, 'bulkread', $scan)->{read_bytes}, 600 * 8192, 'without read-ahead, too');
	}));

	# the scan sets hint bits, for which no WAL is written, so no WAL has to be flushed before a page
	$aio->scenario('bulkread, of pages that become dirty', with('alice', sub ($alice) {
		my $t = 'scenario.u';
		$aio->sql("CREATE UNLOGGED TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 1900) FROM generate_series(0, 3199) i");
		$alice->sql("SET track_io_timing = off; SELECT FROM $t LIMIT 0");
		$aio->evict($t);
		my $added = $counts->($alice, 'bulkread', "SELECT count(*) FROM $t");
		is($added->{read_bytes}, 800 * 8192, 'bytes');
		cmp_ok($added->{reuses}, '>=', 400, "they stay in the ring; $added->{evictions} evictions");
		is_between($added->{write_bytes} / 8192, $added->{reuses} - 100, $added->{reuses} + 100, "and are written before they are reused, $added->{reuses} times");
		$aio->gives("SELECT count(*), sum(n) FROM $t", '3200|5118400', 'the rows');
	}));

	# another session with a ring pins the page on which the first one stands, and uses it no more
	# than the first one does
	$aio->scenario('bulkread, with a pinned buffer in the ring', with('alice bob', 600, sub ($alice, $bob, $t) {
		$_->sql("SET synchronize_seqscans = off; SET track_io_timing = off; SELECT count(*) FROM $t") for $alice, $bob;
		$aio->evict($t);
		my $cursor = "BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; MOVE 100 FROM c";
		my $added = $aio->io_counts_during($alice, 'relation/bulkread', sub {
			$_->sql($cursor) for $alice, $bob;
			$alice->sql('MOVE ALL FROM c; COMMIT');
		});
		cmp_ok($added->{reuses}, '>=', 300, 'reuses');
		cmp_ok($added->{reuses} + $added->{evictions}, '<=', $added->{read_bytes} / 8192, 'reuses and evictions: no block takes two buffers');
		$bob->gives('FETCH 1 FROM c', 100, 'the other cursor goes on');
		$bob->sql('COMMIT');
	}));

	$aio->scenario('bulkwrite', with('alice', sub ($alice) {
		my $rows = "SELECT i AS n, repeat('x', 1900) AS body FROM generate_series(1, 1200) i";
		my $added = $counts->($alice, 'bulkwrite', "CREATE TABLE scenario.u AS $rows");
		is_between($added->{extend_bytes}, 300 * 8192, 330 * 8192, 'CREATE TABLE AS: bytes of 300 new blocks');
		is_between($added->{extends}, 1, 149, 'several blocks at once: extensions');
		is($added->{reads}, 0, 'nothing is read');
		is($counts->($alice, 'bulkwrite', "INSERT INTO scenario.u $rows")->{extends}, 0, 'INSERT uses no ring');
		$aio->gives('SELECT count(*), count(DISTINCT n) FROM scenario.u', '2400|1200', 'the rows');
	}));

	# who waits has the time since 19, and no read; the betas of 19 assert that there is none; server commit c9a6694927
	$aio->scenario('the time of a read that another session has started', with('alice bob', 40, sub ($alice, $bob, $t) {
		my $read = "SELECT sum(nblocks) FROM read_buffers('$t', 20, 1)";
		$bob->sql("SET track_io_timing = on; EXPLAIN (ANALYZE) $read; SELECT pg_stat_force_next_flush()");
		$aio->evict($t);
		$aio->sql("SELECT pg_stat_reset_backend_stats(${\$bob->pid})");
		$aio->read_at_completion_wait($alice, $read, relation => $t, blockno => 20);
		$bob->starts("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) $read");
		$bob->waits_on_others_io;
		$aio->completion_continue;
		$alice->returns(1, 'reads');
		$bob->returns(qr/^Aggregate.*\n +Buffers: shared hit=1$/m, 'counts a hit');
		$bob->sql('RESET track_io_timing; SELECT pg_stat_force_next_flush()');
		$aio->gives("SELECT sum(reads), sum(read_time) > 0 FROM pg_stat_get_backend_io(${\$bob->pid}) WHERE object = 'relation' AND context = 'normal'", $aio->major < 19 ? '0|f' : '0|t', 'reads, and time');
	}), skip => $aio->has_assertions && $aio->setting('server_version') =~ /^19beta/ ? 'mended after the betas of 19' : $aio->no_faults);

	# VACUUM of 18 waits for that read, that of 19 joins it
	$aio->scenario('vacuum, and a block that another session reads', with('alice bob', 40, sub ($alice, $bob, $t) {
		my $vacuum = "VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t";
		# it performs its own reads, or they might queue up behind the held one
		$alice->sql("SET track_io_timing = off; SET maintenance_io_concurrency = 0; $vacuum");
		$aio->evict($t);
		$aio->read_at_completion_wait($bob, "SELECT read_rel_block_ll('$t', 20)", relation => $t, blockno => 20);
		my $hits = $aio->change_during("SELECT sum(hits) FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation' AND context = 'vacuum'", sub {
			$alice->starts($vacuum);
			$alice->waits_on_others_io;
			$aio->completion_continue;
			$alice->ends;
		}, $alice);
		$bob->ends;
		is($hits, 1, 'the block counts as a hit in the context vacuum');
	}), skip => $aio->no_faults);

	$aio->scenario('vacuum', with('alice', 200, changes => 1, sub ($alice, $t) {
		my $vacuum = "VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t";
		$alice->sql("SET vacuum_buffer_usage_limit = '128kB'; SET track_io_timing = off; $vacuum");
		$aio->evict($t);
		my $added = $counts->($alice, 'vacuum', $vacuum);
		is_between($added->{read_bytes}, 200 * 8192, 206 * 8192, 'bytes of 200 blocks, and some of the maps');
		is_between($added->{reuses}, 200 - 20, 200, 'a ring of 16 buffers: reuses');
		cmp_ok($added->{reads}, '<', 40, 'reads are combined');
		cmp_ok(scalar(my @kept = split /,/, $aio->cached($t)), '<=', 16, 'blocks that stay in the buffer pool') if !$aio->lacks('pg_buffercache');
		is($counts->($alice, 'vacuum', "SET vacuum_buffer_usage_limit = 0; $vacuum")->{reuses}, 0, 'no reuses without a ring');
		# a page that VACUUM has made dirty is written when its buffer is used again
		$aio->sql("DELETE FROM $t WHERE blk % 2 = 0; CHECKPOINT");
		$aio->evict($t);
		$added = $counts->($alice, 'vacuum', "SET backend_flush_after = '64kB'; SET vacuum_buffer_usage_limit = '128kB'; VACUUM (TRUNCATE off) $t");
		cmp_ok($added->{writes}, '>=', 80, 'writes of dirty pages');
		is($added->{writebacks}, 0, 'with fsync = off, nothing is written back');
		is($added->{write_bytes}, $added->{writes} * 8192, 'bytes written');
		is($added->{extend_bytes} % 8192, 0, 'whole blocks');
	}));

	# Reads are counted alike by EXPLAIN (BUFFERS) and pg_stat_io, of each object and context, of one session and of all.
	$aio->scenario('hits and reads', with_kind('alice', 40, sub ($alice, $t, $kind) {
		my $object = $kind eq 'TEMP' ? 'temp relation/normal' : 'relation/normal';
		my $blocks = sub ($hit, $read) { return $kind eq 'TEMP' ? "0/0/$hit/$read" : "$hit/$read/0/0" };
		my $stream = "SELECT * FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))";
		buffers_of($alice, $_) for $stream, "SELECT blk FROM $t";
		for my $case ([ 0 => 40 ], [ 10 => 30 ], [ 40 => 0 ])
		{
			my ($hit, $read) = @$case;
			for my $query ($stream, "SELECT blk FROM $t")
			{
				$aio->evict($t, $alice);
				$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(5, 4 + $hit) % 40))");
				my $io = $aio->io_during($alice, $object, sub {
					is(buffers_of($alice, $query), $blocks->($hit, $read), "$hit hit, $read read: $query");
				});
				is($io =~ s{.*/}{}r, $read * 8192, 'bytes in pg_stat_io');
				my $hits;
				is($aio->change_during("SELECT coalesce(sum(hits), 0) FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object || '/' || context = '$object'",
					sub { $hits = (split m{/}, buffers_of($alice, $query))[ $kind eq 'TEMP' ? 2 : 0 ] }, $alice), $hits, 'hits in pg_stat_io, now that all blocks are cached');
			}
		}
		# a block that repeats is read once and then hit
		$aio->evict($t, $alice);
		is(buffers_of($alice, "SELECT * FROM read_stream_for_blocks('$t', ARRAY[7, 7, 7, 9, 7])"), $blocks->(3, 2), 'a block that repeats is read once');
	}), each => [ '', 'UNLOGGED', 'TEMP' ]);

	# pg_stat_io adds up the counts and times of sessions by the kind of process
	$aio->scenario('the sum over sessions', with('alice bob', 40, sub ($alice, $bob, $t) {
		my @backends = ($alice, $bob);
		my $work = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39))); INSERT INTO scenario.w SELECT * FROM $t; SELECT pg_stat_force_next_flush()";
		$alice->sql('CREATE TABLE scenario.w (LIKE scenario.t)');
		$_->sql("SET track_io_timing = on; $work") for @backends;
		my $sums = "SELECT sum(reads), sum(read_bytes), sum(extends), sum(read_time), sum(extend_time) FROM %s WHERE object = 'relation' AND context = 'normal'";
		my $of_all = (sprintf $sums, 'pg_stat_io') . " AND backend_type = 'client backend'";
		my $of_these = sprintf $sums, 'unnest(ARRAY[' . join(',', map { $_->pid } @backends) . ']) p, pg_stat_get_backend_io(p)';
		# the observer reads its catalogs now, and not while the sessions work
		$aio->sql($_) for $of_all, $of_these;
		my $theirs;
		my $all = $aio->change_during($of_all, sub {
			$theirs = $aio->change_during($of_these, sub {
				for my $session ((@backends) x 3) { $aio->evict($t); $session->sql($work) }
			}, @backends);
		}, @backends, $aio);
		my ($reads, $bytes, $extends, @times) = split m{/}, $theirs;
		my ($all_reads, $all_bytes, $all_extends, @all_times) = split m{/}, $all;
		is($bytes, 2 * 3 * 40 * 8192, 'bytes of the sessions');
		is("$all_reads/$all_bytes/$all_extends", "$reads/$bytes/$extends", 'pg_stat_io agrees');
		ok($times[$_] > 0 && abs($times[$_] - $all_times[$_]) < 0.01, 'the times are the same') || diag("$theirs, $all") for 0, 1;
	}));

	# VACUUM of a hash index reads block by block, without a stream
	$aio->scenario('VACUUM of a hash index', with('alice', 60, sub ($alice, $t) {
		$aio->sql("CREATE INDEX th ON $t USING hash (blk); DELETE FROM $t WHERE blk = 7; SELECT evict_rel('scenario.th')");
		my ($reads) = split m{/}, $aio->io_during($alice, 'relation/vacuum', sub { $alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t") });
		cmp_ok($reads, '>', 0, 'reads of the index count for context vacuum; the table is cached');
		$aio->is_as_written($t, except => 'block 7 has no row');
	}));
}, leaves => 'nothing');

# What the server counts of buffers and writes: buffers that are allocated, extensions and their time.
for_each_io_method('io_uring; long: all', sub {
	# the background writer counts them, and reports them some time later, and writes nothing
	$aio->scenario('buffers that are allocated', with('alice', 100, sub ($alice, $t) {
		$aio->alter_system(bgwriter_delay => "'10ms'");
		my $allocated = sub { return $aio->sql('SELECT buffers_alloc FROM pg_stat_bgwriter') };
		# each report is of another round of the background writer, and of all that was allocated until then
		my $is_reported = sub {
			my $last = $allocated->();
			$alice->sql("SELECT invalidate_rel_block('$t', 7), read_rel_block_ll('$t', 7)");
			$aio->poll(sub { $allocated->() > $last }) or fail('another report');
		};
		$is_reported->();
		$aio->evict($t);
		my $before = $allocated->();
		$alice->sql("SELECT count(*) FROM $t");
		my $after;
		ok($aio->poll(sub { $after = $allocated->(); $after >= $before + 100 }), 'pg_stat_bgwriter: a buffer for each block') || diag("$before, $after");
		$before = $after;
		$alice->sql("SELECT count(*) FROM $t") for 1 .. 5;
		cmp_ok($allocated->() - $before, '<', 100, 'and none for cached blocks');
		$is_reported->() for 1 .. 3;
		cmp_ok($allocated->() - $before, '<', 250, 'no round counts those of earlier rounds');
		$aio->evict($t);
		$is_reported->();
		$before = $allocated->();
		$alice->sql("VACUUM (BUFFER_USAGE_LIMIT '128kB', DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
		$is_reported->() for 1, 2;
		cmp_ok($allocated->() - $before, '<', 90, 'nor what a ring takes from itself');
	}));

	$aio->scenario('extensions', with('alice', sub ($alice, $timing) {
		$aio->sql("CREATE TABLE scenario.e (body text STORAGE PLAIN) WITH (autovacuum_enabled = off)");
		my $insert = "INSERT INTO scenario.e SELECT repeat('x', 7000) FROM generate_series(1, 50)";
		$alice->sql("SET track_io_timing = $timing");
		my $plan;
		my @change = split m{/}, $aio->change_during("SELECT d.blk_write_time, i.extend_bytes, i.extend_time FROM pg_stat_database d,"
			  . " (SELECT sum(extend_bytes) AS extend_bytes, sum(extend_time) AS extend_time FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation') i WHERE datname = 'postgres'",
			sub { $plan = explained($alice, 'BUFFERS', $insert) }, $alice);
		cmp_ok($plan->{'Shared Written Blocks'}, '>=', 50, "track_io_timing = $timing: blocks that were written") || diag($plan->{plan});
		cmp_ok($change[1], '>=', 50 * 8192, 'bytes');
		if ($timing eq 'off')
		{
			is($change[0] + $change[2], 0, 'no time');
			return;
		}
		cmp_ok($change[2], '>', 0, 'pg_stat_io: time');
		# each extension counts in whole microseconds there
		cmp_ok($change[0], '>', 0, 'pg_stat_database: time');
		my $explained = $plan->{'Shared I/O Write Time'};
		cmp_ok($explained, '>', 0, 'EXPLAIN: time');
		cmp_ok(abs($explained - $change[2]), '<', 0.5 + 0.1 * $change[2], 'as much as in pg_stat_io');
	}), each => [ 'off', 'on' ]);

	$aio->scenario('blocks dirtied by readers of a temporary table', with('alice', sub ($alice) {
		$alice->sql("SET temp_buffers = 100; CREATE TEMP TABLE h (n int, body text STORAGE PLAIN); INSERT INTO h SELECT i, repeat('x', 7000) FROM generate_series(1, 150) i; SELECT evict_rel('h')");
		my $scan = sub { my $found = explained($alice, 'BUFFERS', 'SELECT count(*), max(n) FROM h'); return join '/', map { $found->{"Local $_ Blocks"} } qw(Read Dirtied) };
		is($scan->(), '150/150', 'the first scan makes each block dirty');
		$alice->sql("SELECT evict_rel('h')");
		is($scan->(), '150/0', 'the second scan makes none dirty');
	}));
});
