# Usage counts of buffers.  Each use raises the count, up to 5.  A ring of buffers does not raise it
# above 1, and does not evict blocks that are in use.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Plan;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# Returns the usage counts of a table's buffers, each once.
		my $counts = sub {
			my ($table) = @_;
			return $aio->sql("SELECT string_agg(DISTINCT usagecount::text, ',') FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0");
		};

		$aio->scenario('usage counts', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			for my $expected (1 .. 5, 5, 5)
			{
				$alice->sql("SELECT count(*) FROM $t");
				is($counts->($t), $expected, "used again: $expected");
			}
			$aio->evict($t);
			$alice->sql("SET vacuum_buffer_usage_limit = '1MB'");
			for my $time (1, 2)
			{
				$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
				is($counts->($t), 1, "with a ring, time number $time");
			}
			$alice->sql("SELECT count(*) FROM $t");
			is($counts->($t), 2, 'without a ring');
			if (!$aio->lacks('pg_prewarm'))
			{
				$aio->evict($t);
				$alice->sql("SELECT pg_prewarm('$t')");
				is($counts->($t), 1, 'pg_prewarm()');
			}

			# larger than the pool
			my $large = $aio->table('l', 2500);
			my $used = $aio->table('o', 200);
			$alice->sql("SELECT count(*) FROM $used") for 1 .. 5;
			my $before = $aio->cached($used);
			$alice->sql("SELECT count(*) FROM $large") for 1 .. 8;
			is($aio->cached($used), $before, 'the ring of a large scan evicts no block that is in use');
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$large', ARRAY(SELECT generate_series(0, 2499)))") for 1 .. 8;
			isnt($aio->cached($used), $before, 'reads without a ring evict such blocks');
		}, skip => $aio->lacks('pg_buffercache'));

		$aio->scenario('usage counts of local buffers', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET temp_buffers = 100');
			my ($often, $once) = map { $aio->table(@$_, kind => 'TEMP', session => $alice) } [ 'often', 10 ], [ 'once', 90 ];
			$aio->evict($_, $alice) for $often, $once;
			$alice->sql("SELECT count(*) FROM $often") for 1 .. 4;
			# the catalogs' buffers are not among these
			my $read = sub { return explained($alice, 'BUFFERS', "SELECT count(*) FROM $_[0]")->{'Local Read Blocks'} };
			is($read->($once), 90, 'the pool is full');
			$aio->table('third', 30, kind => 'TEMP', session => $alice);
			is($read->($often), 0, 'blocks that are used often stay when others come');
			cmp_ok($read->($once), '>', 0, 'blocks that were used once go');
		});

		# a buffer that keeps the usage count 0 is the next that any other session takes, out of the ring
		$aio->scenario('a ring uses buffers that nobody has used lately', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			my $large = $aio->table('l', 2500);
			my $with_usage_count = sub {
				return split /\n/, $aio->sql("SELECT bufferid || '/' || relblocknumber FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0 AND usagecount = $_[0]");
			};
			$alice->sql("SELECT count(*) FROM $t");
			my ($block, @buffers) = (0);
			while (!(@buffers = $with_usage_count->(0)) && $block < 2500)
			{
				$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$large', ARRAY(SELECT generate_series($block, $block + 9)))");
				$block += 10;
			}
			ok(scalar @buffers, 'other reads have taken the usage count of some buffers to 0') || return;
			$alice->sql("SET vacuum_buffer_usage_limit = '128kB'");
			$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			is(join(' ', grep { my $buffer = $_; grep { $_ eq $buffer } @buffers } $with_usage_count->(1)), join(' ', @buffers), 'VACUUM with a ring takes it to 1');
			$aio->proves($t);
		}, skip => $aio->lacks('pg_buffercache'));
	});
