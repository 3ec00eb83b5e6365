# A session in batch mode submits its staged reads before it waits for another session, so
# that two sessions cannot wait for each other (ReadBuffersCanStartIO in 18,
# StartSharedBufferIO in 19, pgaio_io_wait_for_free).
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

my $both = q{SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY[0, 1])};

sub staged
{
	my ($aio, $session) = @_;
	return $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$session->pid} AND state IN ('DEFINED', 'STAGED')");
}

# Alice stages a read of blocks 0 and 1 and then reads other blocks.
sub stage_and_want
{
	my ($alice, $t, $want) = @_;
	return $alice->starts('SELECT batch_start()::text UNION ALL'
		  . " SELECT read_rel_block_ll('$t', 0, nblocks => 2, wait_complete => false)::text UNION ALL"
		  . " SELECT sum(nblocks)::text FROM $want UNION ALL SELECT batch_end()::text");
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $want ("read_buffers('%s', 5, 1)", "read_buffers('%s', 4, 3)")
		{
			$aio->scenario("a wait for the buffer I/O of another: $want", sub {
				my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
				my $t = $aio->table('t', 60);
				$aio->evict($t, $alice);
				my $b = $bob->sql("SELECT buffer_create_toy('$t', 5)");
				$bob->gives("SELECT buffer_call_start_io($b, true, true)", 't', 'starts');
				stage_and_want($alice, $t, sprintf $want, $t);
				$alice->waits_on('BufferIo');
				is(staged($aio, $alice), 0, 'she has submitted before she waits');
				$carol->gives(sprintf($both, $t), 2, 'so that no session waits for her');
				$bob->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)");
				$alice->returns(qr/^\n\n[13]\n$/, 'goes on');
				$aio->proves($t);
			});

			$aio->scenario("a wait for the read of another: $want", sub {
				my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
				my $t = $aio->table('t', 60);
				$aio->evict($t, $alice);
				$aio->hold(pid => $bob->pid);
				$bob->starts("SELECT read_rel_block_ll('$t', 5)");
				$aio->holds(1);
				stage_and_want($alice, $t, sprintf $want, $t);
				$alice->waits_on('AioIoCompletion');
				is(staged($aio, $alice), 0, 'she has submitted before she waits');
				$carol->gives(sprintf($both, $t), 2, 'so that no session waits for her');
				$aio->release;
				$alice->returns(qr/^\n\n[13]\n$/, 'goes on');
				$bob->returns('', 'goes on, too');
				$aio->proves($t);
			}, skip => $aio->no_faults);
		}

		# each has staged what the other wants
		$aio->scenario('two batches that cross', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 60);
			my $batch = sub {
				my ($mine, $wanted) = @_;
				return "SELECT batch_start()::text UNION ALL SELECT read_rel_block_ll('$t', $mine, wait_complete => false)::text UNION ALL "
				  . $aio->pause . "::text UNION ALL SELECT string_agg(blocknum::text, ',') FROM read_buffers('$t', $wanted, 1)"
				  . " UNION ALL SELECT batch_end()::text UNION ALL SELECT string_agg(blocknum::text, ',') FROM read_buffers('$t', $mine, 1)";
			};
			$aio->evict($t, $_) for $alice, $bob;
			$alice->starts($batch->(1, 2))->waits_on('advisory');
			$bob->starts($batch->(2, 1))->waits_on('advisory');
			$aio->resume;
			$alice->returns("\n\n\n2\n\n1", 'has both');
			$bob->returns("\n\n\n1\n\n2", 'has both');
			$aio->proves($t);
		});
	});
