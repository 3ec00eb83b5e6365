# Batch mode: the session submits its staged reads at the end of the batch, and earlier
# before it waits, before it closes a file, and when a batch is full.  A batch that is left
# open over ROLLBACK is a gap in the server's own tests.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

sub staged
{
	my ($aio, $session) = @_;
	return $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$session->pid} AND state = 'STAGED'");
}

# Makes a table, and a session that has staged a read of blocks 0 and 1 and has paused in
# the middle of the statement.  SELECTs in "more" run before the pause, in "then" after it.
sub stage
{
	my ($aio, %params) = @_;
	my $alice = $aio->sessions('alice');
	my $t = $aio->table('t', 60);
	# opens the relation, so that the batch reads no catalogs
	$aio->evict($t, $alice);
	$alice->sql('BEGIN; SAVEPOINT s');
	$alice->starts(join ' UNION ALL ', 'SELECT batch_start()',
		"SELECT read_rel_block_ll('$t', 0, nblocks => 2, wait_complete => false)",
		@{ $params{more} // [] }, $aio->pause, @{ $params{then} // [] });
	$alice->waits_on('advisory');
	is(staged($aio, $alice), $aio->method eq 'sync' ? 0 : $params{staged} // 1, 'staged');
	return ($alice, $t);
}

# counts blocks 0 and 1, which are cached
my $both = q{SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY[0, 1])};

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $sync = $aio->method eq 'sync';

		# name, rest of the statement, rest of the transaction, function that ends it or warnings
		for my $end (
			[ 'the batch ends' => 'SELECT batch_end()', 'COMMIT' ],
			[ 'the statement ends, then COMMIT' => 'SELECT NULL::text::void', 'COMMIT', qr/AIO handle was not submitted/, qr/open AIO batch at end of \(sub-\)transaction/ ],
			[ 'the statement ends, then ROLLBACK' => 'SELECT NULL::text::void', 'ROLLBACK', qr/AIO handle was not submitted/ ],
			[ 'the statement ends, then ROLLBACK TO' => 'SELECT NULL::text::void', 'ROLLBACK TO s', qr/AIO handle was not submitted/ ],
			[ 'an error' => 'SELECT handle_get_and_error()', 'ROLLBACK' ],
			[ 'an error of a subtransaction' => 'SELECT handle_get_and_error()', 'ROLLBACK TO s' ],
			[ 'the batch is begun twice' => 'SELECT batch_start()', 'ROLLBACK TO s' ],
			[ 'cancelled' => 'SELECT pg_sleep(3600)', 'ROLLBACK', 'pg_cancel_backend' ],
			[ 'terminated' => 'SELECT pg_sleep(3600)', undef, 'pg_terminate_backend' ])
		{
			my ($what, $then, $transaction, @expected) = @$end;
			my $kill = @expected && !ref $expected[0] ? shift @expected : undef;
			$aio->scenario("a read is staged, and $what", sub {
				my ($bob) = $aio->sessions('bob');
				my ($alice, $t) = stage($aio, then => [$then]);
				$aio->sql("SELECT $kill(${\$alice->pid})") if $kill;
				$aio->resume;
				$transaction ? $alice->wait_for_end : $alice->quit;
				my $warning = $sync && @expected ? shift @expected : undef;
				is(staged($aio, $alice), 0, 'nothing is staged any more');
				is($aio->io_during($bob, 'relation/normal', sub {
							$bob->gives(sprintf($both, $t), 2, 'another can have the blocks');
						}), '0/0', 'without reading them');
				return if !$transaction;
				$alice->sql($transaction);
				$alice->warns($_) for @expected;
				$alice->gives('SELECT batch_start() UNION ALL SELECT batch_end()', "\n", 'the next batch can begin');
				$alice->gives(sprintf($both, $t), 2, 'and the session has the blocks too');
				$aio->proves($t);
			}, log => [ qr/alice WARNING:  (?:open AIO batch at end|AIO handle was not submitted)/, $aio->terminated('alice') ]);
		}

		$aio->scenario('more than a batch can take', sub {
			my ($alice, $t) = stage($aio, staged => 32, then => ['SELECT batch_end()'],
				more => ["SELECT read_rel_block_ll('scenario.t', b, wait_complete => false) FROM generate_series(2, 32) b"]);
			$aio->resume;
			$alice->wait_for_end->sql('COMMIT');
			$aio->proves($t);
		});

		$aio->scenario('one more than a batch can take', sub {
			my ($alice, $t) = stage($aio, staged => 1, then => ['SELECT batch_end()'],
				more => ["SELECT read_rel_block_ll('scenario.t', b, wait_complete => false) FROM generate_series(2, 33) b"]);
			$aio->resume;
			$alice->wait_for_end->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 60)", 60, 'all blocks are there');
			$alice->sql('COMMIT');
			$aio->proves($t);
		});

		$aio->scenario('files are closed', sub {
			my ($alice, $t) = stage($aio, staged => 0, then => ['SELECT batch_end()'],
				more => ["SELECT read_rel_block_ll('scenario.t', 10, nblocks => 3, wait_complete => false, smgrreleaseall => true)"]);
			$aio->resume;
			$alice->wait_for_end->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 16)", 16, 'all blocks are there');
			$alice->sql('COMMIT');
			$aio->proves($t);
		});

		# pgaio_closing_fd() submits what is staged, be it one read or a full batch
		$aio->scenario('a file is closed under one staged read, and under many', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			for my $staged (1, 2, 31, 32)
			{
				# opens the relation, so that the batch reads no catalogs
				$aio->evict($t, $alice);
				my $last = $staged - 1;
				$alice->sql($aio->batch((map { "SELECT read_rel_block_ll('$t', $_, wait_complete => false)" } 0 .. $last - 1),
						"SELECT read_rel_block_ll('$t', $last, wait_complete => false, smgrreleaseall => true)"));
				my $buffers = "SELECT sum(nblocks) FROM read_buffers('$t', 0, $staged)";
				is($aio->io_during($alice, 'relation/normal', sub { $alice->gives($buffers, $staged, "$staged: all blocks are there") }), '0/0', 'without reading them again');
			}
			$aio->evict($t, $alice);
			$alice->gives("SELECT read_rel_block_ll('$t', 7, batchmode_enter => true, smgrreleaseall => true, batchmode_exit => true)", '', 'one that is waited for');
			$aio->proves($t);
		});

		$aio->scenario('another session waits for a staged read', sub {
			my ($bob) = $aio->sessions('bob');
			# with io_uring a session must look for the completion, and bob does not (18.6, 19rc1)
			my ($alice, $t) = stage($aio, then => [ 'SELECT batch_end()', "SELECT read_rel_block_ll('scenario.t', 0, 2)" ]);
			$bob->starts(sprintf $both, $t);
			# servers with the fix of doc/reports/io_uring-wait-hang.md wait for the submission first
			ok($bob->gets_to_wait(qr/^AioIo(?:Completion|Submit)$/), 'bob waits') if !$sync;
			$aio->resume;
			$bob->returns(2, 'gets it');
			$alice->wait_for_end->sql('COMMIT');
			$aio->proves($t);
		});
	}, conf => { io_max_concurrency => 64 });
