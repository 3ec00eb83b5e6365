# Read streams of all shapes and under all limits: every block comes, in order, with the
# content that was written.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# name, blocks as SQL, on a table of 120 blocks
my @shapes = (
	[ 'nothing' => 'SELECT 1 WHERE false' ],
	[ 'one block' => 'SELECT 77' ],
	[ 'one block many times' => 'SELECT 5 FROM generate_series(1, 500)' ],
	[ 'two blocks in turn' => 'SELECT i % 2 * 60 FROM generate_series(1, 501) i' ],
	[ 'all' => 'SELECT generate_series(0, 119)' ],
	[ 'backward' => 'SELECT generate_series(119, 0, -1)' ],
	[ 'every other' => 'SELECT generate_series(0, 118, 2)' ],
	[ 'every third, backward' => 'SELECT generate_series(119, 0, -3)' ],
	[ 'at random' => 'SELECT (i * 7919 + i / 120) % 120 FROM generate_series(0, 1000) i ORDER BY i' ],
	[ 'runs and jumps' => 'SELECT (i * 11 + j) % 120 FROM generate_series(0, 40) i, generate_series(0, 16) j ORDER BY i, j' ],
	[ 'a sliding window' => 'SELECT i + j FROM generate_series(0, 116) i, generate_series(0, 3) j ORDER BY i, j' ],
	[ 'up and down' => 'SELECT abs(i % 238 - 119) FROM generate_series(0, 500) i ORDER BY i' ]);

# every other block, adjacent ones, a single one, long gaps
my $some = join ',', (map { $_ * 2 } 0 .. 29), 63 .. 66, 100;

# Test: all shapes, with none and with some of the blocks cached.
sub all_shapes
{
	my ($aio, $session, $t) = @_;
	for my $warm ('', $some)
	{
		my $all = join ",\n", map { "\$b\$$_->[1]\$b\$" } @shapes;
		$session->sql(<<"END");
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
		$session->gives('SELECT pg_temp.wrong_shapes()', '', 'all shapes, in the buffer pool: ' . ($warm ? 'some' : 'none'));
	}
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $limits ('', 'effective_io_concurrency = 0', 'effective_io_concurrency = 1', 'effective_io_concurrency = 1000',
			'io_combine_limit = 1', 'effective_io_concurrency = 3, io_combine_limit = 5')
		{
			$aio->scenario('shared: ' . ($limits || 'defaults'), sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 120);
				$alice->sql("SET $_") for split /, /, $limits;
				all_shapes($aio, $alice, $t);
			});
		}
		for my $limits ('temp_buffers = 100', 'temp_buffers = 100, effective_io_concurrency = 1000')
		{
			$aio->scenario("temporary: $limits", sub {
				my ($alice) = $aio->sessions('alice');
				$alice->sql("SET $_") for split /, /, $limits;
				my $t = $aio->table('t', 120, kind => 'TEMP', session => $alice);
				all_shapes($aio, $alice, $t);
			});
		}

		$aio->scenario('two streams at a time', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u) = ($aio->table('t', 120), $aio->table('u', 60, kind => 'UNLOGGED'));
			$alice->gives("SELECT count(*), sum(t.blk), count(*) FILTER (WHERE t.body = proof('$t', t.blk, 0) AND u.body = proof('$u', u.blk, 0)) FROM $t t JOIN $u u USING (blk)",
				'60|1770|60', 'a join');
		});

		$aio->scenario('a temporary table of another session', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			$aio->table('mine', 10, kind => 'TEMP', session => $alice);
			my $schema = $alice->sql('SELECT pg_my_temp_schema()::regnamespace');
			for my $call ("read_stream_for_blocks('$schema.mine', ARRAY[1])", "read_buffers('$schema.mine', 1, 1)", "read_rel_block_ll('$schema.mine', 1)",
				"evict_rel('$schema.mine')", "grow_rel('$schema.mine', 1)", "modify_rel_block('$schema.mine', 1)", "buffer_create_toy('$schema.mine', 1)",
				"invalidate_rel_block('$schema.mine', 1)")
			{
				$bob->fails("SELECT * FROM $call", '0A000', qr/cannot access temporary tables of other sessions/);
			}
			$aio->proves('mine', session => $alice);
		});
	}, leaves => 'nothing', conf => { shared_buffers => '2MB', max_connections => 10 });
