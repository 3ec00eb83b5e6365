# Reads that a process other than their owner completes: an I/O worker, or with io_uring the first
# session that waits.  Reads whose owner has moved on or exited.  Reads that only their owner can
# perform, whichever session waits for them (pgaio_io_wait()).
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('an unreferenced read, wanted by another', sub {
			my ($owner, $reader) = $aio->sessions(qw(owner reader));
			my $t = $aio->table('t', 10);
			$owner->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, wait_complete => false)");
			is($aio->io_during($reader, 'relation/normal', sub {
						$reader->gives("SELECT count(*), min(blocknum) FROM read_stream_for_blocks('$t', ARRAY[3, 4])",
							'2|3', 'reads');
					}), '0/0', 'and nothing is read again');
			$aio->gives("SELECT state, result, raw_result FROM pg_aios", $aio->method eq 'sync' ? '' :
				'COMPLETED_SHARED|OK|24576', 'finished, but its owner does not know');
			$aio->proves($t);
			$owner->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[2])", '1', 'reads it as well');
		});

		$aio->scenario('a wait for one read collects all that have ended', sub {
			my ($owner, $reader) = $aio->sessions(qw(owner reader));
			my $t = $aio->table('t', 10);
			# the kernel may be slower than the reader
			ok($aio->poll(sub {
					$owner->sql("SELECT read_rel_block_ll('$t', $_, wait_complete => false)") for 2, 5, 8;
					$reader->sql("SELECT count(*) FROM read_buffers('$t', 2, 1)");
					my $states = $aio->sql("SELECT string_agg(state, ' ' ORDER BY off) FROM pg_aios WHERE pid = ${\$owner->pid}");
					$owner->sql("SELECT evict_rel('$t')");
					return $states eq 'COMPLETED_SHARED COMPLETED_SHARED COMPLETED_SHARED';
				}), 'three by one look into the ring');
			$aio->proves($t);
		}, skip => $aio->method eq 'io_uring' ? undef : 'only with io_uring somebody has to look');

		$aio->scenario('an unreferenced read that fails is nobody\'s error', sub {
			my ($owner, $reader) = $aio->sessions(qw(owner reader));
			my $t = $aio->table('t', 10);
			$aio->falsify('EIO', pid => $owner->pid);
			$owner->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, wait_complete => false)");
			$aio->wait_for('SELECT NOT EXISTS (SELECT FROM pg_aios WHERE state = \'SUBMITTED\')') if $aio->method eq 'worker';
			# since 19 the reader joins the read of the first block with io_uring, and then reads that anew
			my $reads = $aio->method eq 'io_uring' && $aio->major >= 19 ? qr/[12]/ : 1;
			like($aio->io_during($reader, 'relation/normal', sub {
						$reader->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[2, 3, 4])", '3', 'reads');
					}), qr{^$reads/24576$}, 'all three by itself');
			$aio->proves($t);
			$aio->tell_truth;
			$aio->logs(qr/LOG: .*could not read blocks 2\.\.4 in file "base\S+": Input\/output error/, 1, 'is logged');
			$aio->logs(qr/CONTEXT: .*completing I\/O on behalf of process ${\$owner->pid}$/, 1, 'the log names the owner')
			  if $aio->method eq 'io_uring' && !$aio->no_injection_points;
		}, log => qr/LOG:  could not read blocks 2\.\.4/, skip => $aio->no_faults);

		$aio->scenario('the owner exits', sub {
			my ($owner, $reader) = $aio->sessions(qw(owner reader));
			my $t = $aio->table('t', 10);
			$owner->sql("SELECT read_rel_block_ll('$t', 5, nblocks => 3, wait_complete => false)");
			$aio->end_session($owner);
			$aio->gives('SELECT count(*) FROM pg_aios', 0, 'nothing is left of the read');
			is($aio->cached($t), '5,6,7', 'except the blocks that it has read');
			is($aio->io_during($reader, 'relation/normal', sub {
						$reader->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7])", '3', 'reads');
					}), '0/0', 'without another read');
			$aio->proves($t);
		}, leaves => 'nothing');

		$aio->scenario('the owner exits before the read has ended', sub {
			my ($owner, $reader) = $aio->sessions(qw(owner reader));
			my $t = $aio->table('t', 10);
			$aio->hold(pid => $owner->pid);
			$owner->sql("SELECT read_rel_block_ll('$t', 5, nblocks => 3, wait_complete => false)");
			$owner->disconnect;
			$aio->holds(1, 'held');
			$aio->wait_for('SELECT wait_event = \'' . ($aio->method eq 'worker' ? 'AioIoCompletion' : 'completion_wait')
				  . '\' FROM pg_stat_activity WHERE pid = ' . $owner->pid);
			$aio->gives('SELECT pid FROM pg_aios', $owner->pid, 'the owner stays for its read');
			$reader->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7])");
			$reader->waits_on('AioIoCompletion');
			$aio->release;
			$reader->returns('3', 'reads');
			$aio->end_session($owner);
			$aio->proves($t);
		}, leaves => 'nothing', skip => $aio->method eq 'sync' ? 'with sync a read has ended when it is started' : $aio->no_faults);

		$aio->scenario('six reads in a batch, four handles', sub {
			my ($owner) = $aio->sessions(qw(owner));
			my $t = $aio->table('t', 12);
			# opens the relation, so that the batch reads no catalogs
			$aio->evict($t, $owner);
			$owner->sql($aio->batch(map { "SELECT read_rel_block_ll('$t', 2 * $_, nblocks => 2, wait_complete => false)" } 0 .. 5));
			$owner->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 11)))", '12', 'reads');
			$aio->proves($t);
			is($aio->cached($t), '0,1,2,3,4,5,6,7,8,9,10,11', 'all of them are in the buffer pool');
		});

		$aio->scenario('their owner performs them and others wait', sub {
			my @sessions = $aio->sessions(qw(alice bob carol));
			my $t = $aio->table('t', 60);
			for my $session (@sessions)
			{
				# no read-ahead; nothing can hold such a read while others find it, so there are many
				$session->sql('SET effective_io_concurrency = 0; SET io_combine_limit = 1; SET client_min_messages = error');
				$session->starts("SELECT sum((SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i + j) % 60 FROM generate_series(0, 59) j))))"
					  . " FROM (SELECT i, evict_rel('$t') FROM generate_series(1, 25) i OFFSET 0) e");
			}
			$_->returns(1500, 'gets every block') for @sessions;
			$aio->proves($t);
		}, leaves => 'nothing');
	}, conf => { io_max_concurrency => 4 });
