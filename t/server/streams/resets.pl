# Streams that are reset while reads are split and the queue of buffers wraps around: the stream
# drops the buffers that it has pinned ahead, and returns the blocks that it is asked for next.  A scan
# that is executed again resets its stream, too.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Numbers from 0 to below n, by a seed that the test prints.
sub random_numbers
{
	my ($seed) = @_;
	return sub { my ($n) = @_; $seed = ($seed * 1103515245 + 12345) % 2**31; return int($seed / 65536) % $n };
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("at random, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 200, kind => $kind, session => $alice);
				my @wrong;
				for my $seed (1 .. 60)
				{
					my $rand = random_numbers($seed);
					# runs of blocks, some of which are cached, so that reads are split
					my @blocks = map { my $begin = $rand->(190); $begin .. $begin + $rand->(10) } 1 .. 3 + $rand->(12);
					my @warm = map { $rand->(200) } 1 .. 25;
					my %resets = map { $rand->(scalar @blocks) => 1 } 1 .. 1 + $rand->(4);
					my ($limit, $concurrency) = (2 + $rand->(15), 1 + $rand->(4));
					my $full = $rand->(2) ? 'true' : 'false';
					$alice->sql("SET io_combine_limit = $limit; SET effective_io_concurrency = $concurrency; SELECT evict_rel('$t')");
					$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[" . join(',', @warm) . '])');
					# each run begins where the one before has wrapped to
					my $run = $alice->starts("SELECT blocks FROM read_stream_run('$t', ARRAY[" . join(',', @blocks) . "], \"full\" => $full, nruns => 3, reset_at => '{" . join(',', sort { $a <=> $b } keys %resets) . "}')")->wait_for_end;
					my $found = $run->error ? $run->error->{message} : $run->result;
					push @wrong, "seed $seed: $found" if $found ne 3 * @blocks;
				}
				is(join("\n", @wrong), '', 'each stream has its blocks');
				$aio->proves($t, session => $alice);
			});
		}

		$aio->scenario('rescans combine', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 120);
			$alice->sql('SET io_combine_limit = 16; SET effective_io_concurrency = 4');
			for my $scans (1, 3)
			{
				my $query = "SELECT sum(n) FROM generate_series(1, $scans) g, LATERAL (SELECT CASE WHEN g > 0 THEN evict_rel('$t')::text END AS evicted OFFSET 0) e,"
				  . " LATERAL (SELECT count(*) AS n FROM $t WHERE blk >= g AND evicted IS DISTINCT FROM 'never') s";
				$alice->sql($query);
				my ($reads) = split m{/}, $aio->io_during($alice, 'relation/normal', sub { $alice->gives($query, 120 * $scans - $scans * ($scans + 1) / 2, "$scans scans") });
				# of 1, 2, 4, 8 and then 16 blocks
				cmp_ok($reads, '<=', 14 * $scans, 'combined');
			}
		});
	}, leaves => 'nothing', conf => { shared_buffers => '16MB' });
