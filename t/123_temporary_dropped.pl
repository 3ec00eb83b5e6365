# Temporary tables that go or are emptied while they are being read: their local
# buffers, which the reads write to, must not be used again before these have ended
# (InvalidateLocalBuffer).
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# the last two truncate the file that is being read, which stays open
		for my $case ([ '', '', 'DROP TABLE gone' ], [ '', '', 'TRUNCATE gone' ], [ '', '', 'DISCARD TEMP' ], [ 'BEGIN', '', 'ROLLBACK' ],
			[ 'BEGIN', '', 'TRUNCATE gone; COMMIT' ], [ 'BEGIN', 'ON COMMIT DELETE ROWS', 'COMMIT' ])
		{
			my ($begin, $options, $end) = @$case;
			$aio->scenario(join('; ', grep { $_ } $begin, $options, $end), sub {
				my ($alice) = $aio->sessions('alice');
				$alice->sql('SET temp_buffers = 100');
				for my $round (1 .. 3)
				{
					$alice->sql($begin) if $begin;
					$alice->sql("CREATE TEMP TABLE gone (i int) $options; SELECT grow_rel('gone', 60); SELECT evict_rel('gone')");
					$alice->sql("SELECT read_rel_block_ll('gone', b, nblocks => 4, wait_complete => false) FROM generate_series(0, 56, 4) b");
					$alice->sql($_) for split /; /, $end;
					# all local buffers are used again
					my $t = $aio->table("t$round", 120, kind => 'TEMP', gen => $round, session => $alice);
					$aio->proves($t, gen => $round, session => $alice);
					$alice->sql("DROP TABLE $t");
					$alice->sql('DROP TABLE IF EXISTS gone; SET client_min_messages = warning');
				}
			}, leaves => 'COMPLETED_SHARED');
		}
	}, conf => { io_max_concurrency => 64 });
