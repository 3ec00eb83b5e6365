# Read streams of all shapes, which repeat blocks, start again and are reset.
use TestAio;

# Read streams of all shapes and under all limits: every block comes, in order, with the content that was written.
# A stream may want a block again that is being read: 19 joins its own I/O (server commit 999dec9ec6), 18 waits for it.

# name, blocks as SQL, on a table of 120 blocks
my @shapes = (
	[ 'nothing' => 'SELECT 1 WHERE false' ],
	[ 'one block' => 'SELECT 77' ],
	[ 'one block many times' => 'SELECT 5 FROM generate_series(1, 150)' ],
	[ 'two blocks in turn' => 'SELECT i % 2 * 60 FROM generate_series(1, 151) i' ],
	[ 'all' => 'SELECT generate_series(0, 119)' ],
	[ 'backward' => 'SELECT generate_series(119, 0, -1)' ],
	[ 'every other' => 'SELECT generate_series(0, 118, 2)' ],
	[ 'every third, backward' => 'SELECT generate_series(119, 0, -3)' ],
	[ 'at random' => 'SELECT (i * 7919 + i / 120) % 120 FROM generate_series(0, 400) i ORDER BY i' ],
	[ 'runs and jumps' => 'SELECT (i * 11 + j) % 120 FROM generate_series(0, 15) i, generate_series(0, 16) j ORDER BY i, j' ],
	[ 'a sliding window' => 'SELECT i + j FROM generate_series(0, 60) i, generate_series(0, 3) j ORDER BY i, j' ],
	[ 'up and down' => 'SELECT abs(i % 238 - 119) FROM generate_series(0, 300) i ORDER BY i' ]);

# every other block, adjacent ones, a single one, long gaps
my $some = join ',', (map { $_ * 2 } 0 .. 29), 63 .. 66, 100;

# Streams that are given up before their end and begun again: read_stream_reset() must forget what was read ahead,
# and the one block for which there was no room.
with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('%s, limits: %s', with('alice', sub ($alice, $kind, $limits) {
		$alice->sql("SET $_") for split /, /, $limits;
		my $t = $aio->table('t', 120, kind => $kind, session => $alice);
		my $all = join ",\n", map { "\$b\$$_->[1]\$b\$" } @shapes;
		# with none and with some of the blocks cached
		for my $warm ('', $some)
		{
			$alice->sql(<<"END");
CREATE OR REPLACE FUNCTION pg_temp.wrong_shapes() RETURNS SETOF text LANGUAGE plpgsql AS \$\$
DECLARE
	shape text;
	blocks int[];
	found int[];
	n int := 0;
BEGIN
	FOREACH shape IN ARRAY ARRAY[$all] LOOP
		EXECUTE 'SELECT ARRAY(' || shape || ')' INTO blocks;
		PERFORM evict_rel('$t');
		PERFORM count(*) FROM read_stream_for_blocks('$t', ARRAY[$warm]::int[]);
		found := ARRAY(SELECT blocknum FROM read_stream_for_blocks('$t', blocks));
		IF found <> blocks THEN
			RETURN NEXT shape || ': ' || found::text;
		END IF;
		n := n + 1;
		IF n % 6 = 1 THEN
			RETURN QUERY SELECT shape || ': ' || p FROM problems('$t') p;
		END IF;
	END LOOP;
END \$\$
END
			$alice->gives('SELECT pg_temp.wrong_shapes()', '', 'all shapes, in the buffer pool: ' . ($warm ? 'some' : 'none'));
		}
	}), each => [ combined([''], [ '', 'effective_io_concurrency = 0', 'effective_io_concurrency = 1', 'effective_io_concurrency = 1000', 'io_combine_limit = 1', 'effective_io_concurrency = 3, io_combine_limit = 5' ]),
		combined(['TEMP'], [ 'temp_buffers = 100', 'temp_buffers = 100, effective_io_concurrency = 1000' ]) ], skip => sub ($, $limits) { $limits =~ /^$|, / ? undef : only_long() });

	$aio->scenario('two streams at a time', with('alice', [ t => 120 ], [ u => 60, kind => 'UNLOGGED' ], sub ($alice, $t, $u) {
		$alice->gives("SELECT count(*), sum(t.blk), count(*) FILTER (WHERE t.body = proof('$t', t.blk, 0) AND u.body = proof('$u', u.blk, 0)) FROM $t t JOIN $u u USING (blk)",
			'60|1770|60', 'a join');
	}));

	$aio->scenario('a temporary table of another session', with('alice bob', 10, kind => 'TEMP', sub ($alice, $bob, $) {
		my $t = $alice->sql('SELECT pg_my_temp_schema()::regnamespace') . '.t';
		$bob->fails("SELECT * FROM $_", '0A000', qr/cannot access temporary tables of other sessions/)
		  for "read_stream_for_blocks('$t', ARRAY[1])", "read_stream_run('$t', ARRAY[1])", "evict_rel('$t')", "grow_rel('$t', 1)",
		  map({ "$_('$t', 1)" } qw(read_rel_block_ll modify_rel_block buffer_create_toy invalidate_rel_block)), map { "$_('$t', 1, 1)" } qw(read_buffers start_read_buffers);
	}));

	$aio->scenario('rescans', with_kind('alice', 120, sub ($alice, $t, $) {
		$alice->sql("CREATE INDEX ON $t (blk) WHERE blk % 2 = 0; SET enable_indexscan = off; SET enable_indexonlyscan = off");
		# each query gives up its scan of the table after some blocks
		my %queries = (
			'sequential scans' => [ 'off', "SELECT string_agg(g || ':' || blk, ' ' ORDER BY g, blk) FROM generate_series(1, 6) g, LATERAL (SELECT blk FROM $t WHERE blk >= g LIMIT g % 3 + 1) s",
				'1:1 1:2 2:2 2:3 2:4 3:3 4:4 4:5 5:5 5:6 5:7 6:6' ],
			# blocks that are not adjacent are not combined
			'bitmap scans' => [ 'on', "SELECT string_agg(g || ':' || blk, ' ' ORDER BY g, blk) FROM generate_series(1, 6) g, LATERAL (SELECT blk FROM $t WHERE blk % 2 = 0 AND blk >= 2 * g LIMIT g % 3 + 1) s",
				'1:2 1:4 2:4 2:6 2:8 3:6 4:8 4:10 5:10 5:12 5:14 6:12' ],
			'to the end' => [ 'on', "SELECT sum(n) FROM generate_series(1, 4) g, LATERAL (SELECT count(*) AS n FROM $t WHERE blk % 2 = 0 AND blk >= 20 * g AND body = proof(rel, blk, 0)) s", '140' ]);
		for my $limits ('effective_io_concurrency = 16, io_combine_limit = 16', 'effective_io_concurrency = 2, io_combine_limit = 4', 'effective_io_concurrency = 0, io_combine_limit = 16')
		{
			$alice->sql("SET $_") for split /, /, $limits;
			for my $what (sort keys %queries)
			{
				my ($bitmap, $query, $expected) = @{ $queries{$what} };
				$alice->sql("SET enable_bitmapscan = $bitmap; SET enable_seqscan = " . ($bitmap eq 'on' ? 'off' : 'on'));
				# with none, some and all of the blocks cached
				$aio->evict($t, $alice);
				$alice->gives("$query; $query; SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119))); $query",
					"$expected\n$expected\n120\n$expected", "$what, $limits");
			}
		}
	}), each => [ '', 'TEMP' ], skip => sub ($kind) { $kind ? only_long() : undef });

	# a cached block ends the read before it, and stays pinned for the next one
	$aio->scenario('given up with blocks kept for the next read', with_kind('alice', 60, sub ($alice, $t, $) {
		for my $rows (1 .. 24)
		{
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(4, 59, 5))); SELECT count(*) FROM (SELECT blk FROM $t LIMIT $rows) s;"
				  . " SELECT count(*) FROM generate_series(0, 59) b, buffer_state('$t', b) WHERE refcount > 0; SELECT evict_rel('$t')", "12\n$rows\n0\n", "$rows rows, and no pin is left");
		}
	}), each => [ '', 'TEMP' ], skip => sub ($kind) { $kind ? only_long() : undef });

	# a stream that has read nothing uses one place of its queue
	$aio->scenario('rescans of a table that is evicted between two of them', with('alice', 40, sub ($alice, $t, $limits) {
		$alice->sql("SET $_") for split /, /, $limits;
		$alice->sql("SELECT count(*) FROM $t");
		$alice->gives("SELECT string_agg(n::text, ' ' ORDER BY g) FROM generate_series(1, 3) g,"
			  . " LATERAL (SELECT CASE WHEN g % 3 = 0 THEN evict_rel('$t')::text END AS evicted OFFSET 0) e,"
			  . " LATERAL (SELECT count(*) AS n FROM $t WHERE blk >= g AND body = proof('$t', blk, 0) AND evicted IS DISTINCT FROM 'never') s",
			'39 38 37', $limits);
	}), each => [ 'effective_io_concurrency = 1, io_combine_limit = 1', 'effective_io_concurrency = 4, io_combine_limit = 2' ]);

	$aio->scenario('nothing is looked at after the last row wanted', with('alice', 120, sub ($alice, $t, $rows) {
		$alice->sql("SELECT count(*) FROM $t");
		# the blocks are cached; the scan looks at one more than was wanted
		my $query = "SELECT count(*) FROM (SELECT blk FROM $t LIMIT $rows) s";
		$alice->sql($query);
		my ($hits) = $aio->blocks_during($t, sub { $alice->gives($query, $rows, "$rows rows") }, $alice) =~ /(\d+)$/;
		is_between($hits, $rows, $rows + 1, 'hits');
	}), each => [ 1, 30, 119 ]);
}, leaves => 'nothing', conf => { shared_buffers => '4MB' });

# read_stream_run(): streams of many shapes with all flags and with per-buffer data, and the columns
# of the result.
my @some_shapes = grep { $_->[0] =~ /^(?:nothing|one block many times|all|backward|every other|at random|runs and jumps)$/ } @shapes;

my @flags = ('', 'maintenance => true', 'sequential => true', '"full" => true', 'use_batching => true',
	'maintenance => true, sequential => true, "full" => true, use_batching => true');

# Arguments of a stream that looks ahead at once: its first read has the blocks 0 to 15.
my $ahead = "ARRAY(SELECT generate_series(0, 15)), \"full\" => true";

with_each_io_method('worker; long: all', sub {
	$aio->scenario('shapes and flags, %s, %s bytes of per-buffer data', with_kind('alice', 120, sub ($alice, $t, $, $data) {
		for my $shape (@some_shapes)
		{
			my ($name, $blocks) = @$shape;
			my $calls = join "\nUNION ALL ", map {
				# nruns is 2; it is computed from x, so that the eviction comes first
				"SELECT r.blocks, r.read_bytes FROM (SELECT evict_rel('$t') IS NULL AS x OFFSET 0) e,"
				  . " LATERAL read_stream_run('$t', ARRAY($blocks), per_buffer_data => $data, nruns => CASE WHEN x THEN 2 ELSE 2 END"
				  . ($_ ? ", $_" : '') . ($data % 2 ? ", reset_at => '{0}'" : '') . ') r'
			} @flags;
			$alice->gives("SELECT count(*), bool_and(blocks = 2 * n), bool_and(read_bytes = 8192 * d) FROM ($calls) c, (SELECT count(*) AS n, count(DISTINCT b) AS d FROM ($blocks) b(b)) n",
				@flags . '|t|t', $name);
		}
	}), each => [ combined([ '', 'TEMP' ], [ 0, 1, 7, 8, 100, 1024 ]) ], skip => sub ($kind, $data) { $data == ($kind ? 1024 : 7) || !$kind && !$data ? undef : only_long() });

	$aio->scenario('columns of the result', with_kind('alice', 16, sub ($alice, $t, $) {
		$alice->sql('SET io_combine_limit = 16');
		my $counts = 'runs, blocks, hits, reads, read_bytes';
		$aio->evict($t, $alice);
		$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead)", '1|16|0|1|131072', 'full look-ahead: one read');
		$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead, nruns => 3)", '3|48|48|0|0', 'three runs that find all blocks cached');
		$aio->evict($t, $alice);
		$alice->gives("SELECT blocks, read_bytes, reads > 1 FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 15)))", '16|131072|t', 'without it, a stream begins with small reads');
		$aio->evict($t, $alice);
		$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead, nruns => 2)", '2|32|16|1|131072', 'the first run reads, the second finds all blocks cached');
		$alice->gives("SELECT $counts FROM read_stream_run('$t', '{}')", '1|0|0|0|0', 'no blocks');
		$aio->evict($t, $alice);
		$alice->gives("SELECT CASE WHEN waits IS NULL THEN 'unknown' WHEN waits <= reads THEN 'as many as reads at most' END FROM read_stream_run('$t', $ahead)",
			$aio->major >= 19 ? 'as many as reads at most' : 'unknown', 'waits');
	}), each => [ '', 'TEMP' ]);
}, conf => { shared_buffers => '64MB' });

# Streams that are reset while reads are split and the queue of buffers wraps around: the stream
# drops the buffers that it has pinned ahead, and returns the blocks that it is asked for next.  A scan
# that is executed again resets its stream, too.

for_each_io_method('io_uring; long: all', sub {
	$aio->scenario('at random', with_kind('alice', 200, sub ($alice, $t, $) {
		my @wrong;
		for my $seed (1 .. (only_long() ? 25 : 60))
		{
			my $state = $seed;
			my $rand = sub ($n) { $state = ($state * 1103515245 + 12345) % 2**31; return int($state / 65536) % $n };
			# runs of blocks, some of which are cached, so that reads are split
			my @blocks = map { my $begin = $rand->(190); $begin .. $begin + $rand->(10) } 1 .. 3 + $rand->(12);
			my @warm = map { $rand->(200) } 1 .. 25;
			my %resets = map { $rand->(scalar @blocks) => 1 } 1 .. 1 + $rand->(4);
			my ($limit, $concurrency) = (2 + $rand->(15), 1 + $rand->(4));
			my $full = $rand->(2) ? 'true' : 'false';
			$alice->sql("SET io_combine_limit = $limit; SET effective_io_concurrency = $concurrency; SELECT evict_rel('$t');"
				  . " SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[" . join(',', @warm) . '])');
			# each run begins where the one before has wrapped to
			my $run = $alice->starts("SELECT blocks FROM read_stream_run('$t', ARRAY[" . join(',', @blocks) . "], \"full\" => $full, nruns => 3, reset_at => '{" . join(',', sort { $a <=> $b } keys %resets) . "}')")->wait_for_end;
			my $found = $run->error ? $run->error->{message} : $run->result;
			push @wrong, "seed $seed: $found" if $found ne 3 * @blocks;
		}
		is(join("\n", @wrong), '', 'each stream has its blocks');
	}), each => [ '', 'TEMP' ]);

	$aio->scenario('rescans combine', with('alice', 120, sub ($alice, $t, $scans) {
		$alice->sql('SET io_combine_limit = 16; SET effective_io_concurrency = 4');
		my $query = "SELECT sum(n) FROM generate_series(1, $scans) g, LATERAL (SELECT CASE WHEN g > 0 THEN evict_rel('$t')::text END AS evicted OFFSET 0) e,"
		  . " LATERAL (SELECT count(*) AS n FROM $t WHERE blk >= g AND evicted IS DISTINCT FROM 'never') s";
		$alice->sql($query);
		my ($reads) = split m{/}, $aio->io_during($alice, 'relation/normal', sub { $alice->gives($query, 120 * $scans - $scans * ($scans + 1) / 2, "$scans scans") });
		# of 1, 2, 4, 8 and then 16 blocks
		cmp_ok($reads, '<=', 14 * $scans, 'combined');
	}), each => [ 1, 3 ], skip => sub ($scans) { $scans == 1 ? only_long() : undef });
}, leaves => 'nothing');
