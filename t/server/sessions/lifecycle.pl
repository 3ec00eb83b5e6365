# Statements, transactions, sessions and temporary tables that end while reads are in flight.
# A local buffer must not be used again before the read into it has ended
# (InvalidateLocalBuffer).
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $sync = $aio->method eq 'sync';

		# without faults, at any point
		$aio->scenario('cancelled at any time', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 120);
			# works for minutes: it names i, so it runs again for each i
			my $reads = "SELECT count(*) FROM generate_series(1, 100000) i, LATERAL (SELECT count(*) FROM evict_rel(CASE WHEN i > 0 THEN '$t'::regclass END),"
			  . " read_stream_for_blocks('$t', ARRAY(SELECT (i * 7 + j * 13) % 120 FROM generate_series(0, 59) j))) r";
			for my $round (1 .. 6)
			{
				$aio->evict($t);
				$alice->starts($reads)->is_executed;
				# pg_aios may never show a short read; the cancel is sent all the same
				$aio->poll(sub { $aio->sql("SELECT count(*) > 0 FROM pg_aios WHERE pid = ${\$alice->pid}") eq 't' }, 2) if !$sync && $round % 3 > 0;
				$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
				$alice->raises('57014', qr/canceling statement due to user request/, "round $round");
			}
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119)))", 120, 'reads');
			$aio->proves($t);
		});

		for my $how ('ROLLBACK TO s', 'ROLLBACK', 'COMMIT', 'RELEASE s')
		{
			$aio->scenario("$how with reads under way", sub {
				my ($alice) = $aio->sessions('alice');
				for my $kind ('', 'TEMP')
				{
					my $t = $aio->table("t$kind", 40, kind => $kind, session => $alice);
					$alice->sql('BEGIN; SAVEPOINT s');
					$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
					$alice->sql($how);
					$alice->sql('COMMIT') if $how =~ / s/;
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 40)", 40, 'reads');
					$aio->proves($t, session => $alice);
				}
			});
		}

		# a temporary table cannot be dropped while its session still writes to its memory
		$aio->scenario('exit with reads of a temporary table', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40, kind => 'TEMP', session => $alice);
			$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b");
			$aio->end_session($alice);
			my ($bob) = $aio->sessions('bob');
			my $u = $aio->table('u', 40, kind => 'TEMP', session => $bob);
			$bob->sql("SELECT read_rel_block_ll('$u', b, nblocks => 2, wait_complete => false) FROM generate_series(0, 18, 2) b; DROP TABLE u");
			$bob->gives('SELECT 1', 1, 'lives');
		});

		# the last two truncate the file in place while it is read
		for my $case ([ '', '', 'DROP TABLE gone' ], [ '', '', 'TRUNCATE gone' ], [ '', '', 'DISCARD TEMP' ], [ 'BEGIN', '', 'ROLLBACK' ],
			[ 'BEGIN', '', 'TRUNCATE gone; COMMIT' ], [ 'BEGIN', 'ON COMMIT DELETE ROWS', 'COMMIT' ])
		{
			my ($begin, $options, $end) = @$case;
			$aio->scenario(join('; ', grep { $_ } $begin, $options, $end), sub {
				my ($alice) = $aio->sessions('alice');
				$alice->sql('SET temp_buffers = 100');
				for my $round (1 .. 2)
				{
					$alice->sql($begin) if $begin;
					$alice->sql("CREATE TEMP TABLE gone (i int) $options; SELECT grow_rel('gone', 60); SELECT evict_rel('gone')");
					$alice->sql("SELECT read_rel_block_ll('gone', b, nblocks => 4, wait_complete => false) FROM generate_series(0, 56, 4) b");
					$alice->sql($_) for split /; /, $end;
					# uses all local buffers again
					my $t = $aio->table("t$round", 120, kind => 'TEMP', gen => $round, session => $alice);
					$aio->proves($t, gen => $round, session => $alice);
					$alice->sql("DROP TABLE $t");
					$alice->sql('DROP TABLE IF EXISTS gone; SET client_min_messages = warning');
				}
			});
		}
	}, conf => { io_max_concurrency => 64 });
