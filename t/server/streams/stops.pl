# Streams that are reset, ended early or paused (read_stream_run).
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Arguments of a stream that looks ahead at once: its first read has the blocks 0 to 15.
my $ahead = "ARRAY(SELECT generate_series(0, 15)), \"full\" => true";

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("reset, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 16, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 16');
				my $counts = 'blocks, hits, read_bytes';
				my %resets = ('{4}' => '16|12|131072', '{0}' => '16|0|131072', '{16}' => '16|0|131072', '{4,8}' => '16|', '{0,1,2,3,15,16}' => '16|');
				for my $at (sort keys %resets)
				{
					$aio->evict($t, $alice);
					$alice->gives("SELECT $counts FROM read_stream_run('$t', $ahead, reset_at => '$at', per_buffer_data => 20)", qr/^\Q$resets{$at}\E/, "at $at: the stream asks again for the blocks that it had looked ahead to");
				}
				$aio->proves($t, session => $alice);
			});

			$aio->scenario("ended early, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 120, kind => $kind, session => $alice);
				$alice->sql('SET io_combine_limit = 16; SET effective_io_concurrency = 32');
				$alice->gives("SELECT blocks, hits, read_bytes FROM read_stream_run('$t', $ahead, end_at => 3)", '3|0|131072', 'the stream has read more blocks than it has returned');
				$alice->gives("SELECT blocks, hits, read_bytes FROM read_stream_run('$t', $ahead, end_at => 0)", '0|0|0', 'before the first block');
				$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, end_at => 16)", '16', 'after the last block');
				for my $end (0, 1, 2, 17)
				{
					$aio->evict($t, $alice);
					$alice->gives("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 118, 2)), \"full\" => true, nruns => 3, end_at => $end)", 3 * $end, "with many reads in flight, at $end");
				}
				$aio->proves($t, session => $alice);
			});
		}

		$aio->scenario('paused', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 16);
			$alice->sql('SET io_combine_limit = 16');
			if ($aio->major < 19)
			{
				$alice->fails("SELECT * FROM read_stream_run('$t', $ahead, pause_at => '{4}')", '0A000', qr/cannot pause/, 'this server cannot pause streams');
				return;
			}
			$alice->gives("SELECT blocks, reads, read_bytes FROM read_stream_run('$t', $ahead, pause_at => '{4,8}')", '16|3|131072', 'no read crosses a pause');
			for my $at ('{0}', '{16}', '{0,1,2,15,16}', '{' . join(',', 0 .. 16) . '}')
			{
				$aio->evict($t);
				$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', $ahead, pause_at => '$at', per_buffer_data => 9)", '16|131072', "cold, $at");
				$alice->gives("SELECT blocks, hits FROM read_stream_run('$t', $ahead, pause_at => '$at')", '16|16', "cached, $at");
				$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, pause_at => '$at', reset_at => '{0,2,8,16}', nruns => 2, per_buffer_data => 9)", '32', "reset, $at");
				$alice->gives("SELECT blocks FROM read_stream_run('$t', $ahead, pause_at => '$at', end_at => 5)", '5', "ended, $at");
			}
			$aio->proves($t);
		});

		# a stream begins with small reads
		$aio->scenario('the size of reads after a pause', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 80);
			$alice->sql('SET io_combine_limit = 16; SET effective_io_concurrency = 4');
			my ($until, $all) = map {
				$aio->evict($t);
				$alice->sql("SELECT reads FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, $_ - 1)), pause_at => '{40}')");
			} 40, 72;
			is($all - $until, 2, 'the 32 blocks behind it: two reads');
			$aio->proves($t);
		}, skip => $aio->major < 19 ? 'streams pause since 19' : undef);
	}, conf => { shared_buffers => '64MB' });
