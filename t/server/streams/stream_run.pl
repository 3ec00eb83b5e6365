# read_stream_run(): streams of many shapes with all flags and with per-buffer data, the columns
# of the result, and errors.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Shapes of streams: name, and blocks of a table of 120 blocks as SQL.
my @shapes = (
	[ 'nothing' => 'SELECT 1 WHERE false' ],
	[ 'one block many times' => 'SELECT 5 FROM generate_series(1, 300)' ],
	[ 'all' => 'SELECT generate_series(0, 119)' ],
	[ 'backward' => 'SELECT generate_series(119, 0, -1)' ],
	[ 'every other' => 'SELECT generate_series(0, 118, 2)' ],
	[ 'at random' => 'SELECT (i * 7919 + i / 120) % 120 FROM generate_series(0, 600) i ORDER BY i' ],
	[ 'runs and jumps' => 'SELECT (i * 11 + j) % 120 FROM generate_series(0, 40) i, generate_series(0, 16) j ORDER BY i, j' ]);

my @flags = ('', 'maintenance => true', 'sequential => true', '"full" => true', 'use_batching => true',
	'maintenance => true, sequential => true, "full" => true, use_batching => true');

# Arguments of a stream that looks ahead at once: its first read has the blocks 0 to 15.
my $ahead = "ARRAY(SELECT generate_series(0, 15)), \"full\" => true";

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			for my $data (0, 1, 7, 8, 100, 1024)
			{
				$aio->scenario("shapes and flags, $data bytes of per-buffer data, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 120, kind => $kind, session => $alice);
					for my $shape (@shapes)
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
					$aio->proves($t, session => $alice);
				});
			}

			$aio->scenario("columns of the result, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 16, kind => $kind, session => $alice);
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
				$aio->proves($t, session => $alice);
			});
		}

		$aio->scenario('errors and interrupts', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			my $all = 'ARRAY(SELECT generate_series(0, 39))';
			$alice->sql("SELECT modify_rel_block('$t', 30, corrupt_header => true)");
			$alice->fails("SELECT * FROM read_stream_run('$t', $all, \"full\" => true, per_buffer_data => 100, context => 'vacuum')", 'XX001', qr/invalid page in block 30/, 'a bad page');
			$alice->gives("SELECT count(*) FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 29)))", 1, 'the session goes on');
			# takes minutes if it is not cancelled
			$alice->fails("SET statement_timeout = '100ms'; SELECT * FROM read_stream_run('$t', ARRAY(SELECT i % 30 FROM generate_series(0, 2999) i), nruns => 1000000)", '57014', qr/statement timeout/, 'a run can be cancelled');
			$alice->sql('RESET statement_timeout');
		}, log => qr/LOG:  invalid page in block 30/);
	}, conf => { shared_buffers => '64MB' });
