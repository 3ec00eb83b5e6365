# Tables of three segments: reads at a boundary of segments that are held, are short or fail, and
# a segment that is gone.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Segments;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $segment = (boundaries($aio))[0];

		$aio->scenario('a read that is held, is short, or fails', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t) = long_table($aio, 't');
			$aio->evict($t);
			my $boundary = 2 * $segment;
			my $read = "SELECT sum(nblocks) FROM read_buffers('$t', $boundary - 4, 8)";
			for my $held ($boundary - 4, $boundary + 3)
			{
				my $other = $held < $boundary ? $boundary : $boundary - 1;
				my ($first, $offset) = $held < $boundary ? ($boundary - 4, ($segment - 4) * 8192) : ($boundary, 0);
				$aio->evict($t);
				$aio->hold(relation => $t, block => $held);
				$alice->starts($read);
				$alice->gets_to_wait(qr/^(?:AioIoCompletion|completion_wait)$/);
				$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid} AND state <> 'COMPLETED_SHARED'"
					  . " AND off = $offset AND length = 32768 AND target_desc ~ '^blocks $first\.\.${\($first + 3)} in'", 1, "block $held is held: pg_aios");
				# an injection point of io_uring holds all reads of the session
				$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', $other, 1)", 1, 'the other side is read') if $aio->method ne 'io_uring' || $aio->no_injection_points;
				$bob->starts("SELECT sum(nblocks) FROM read_buffers('$t', $held, 1)");
				$bob->waits_on('AioIoCompletion');
				$aio->release;
				$alice->returns(8, 'all blocks');
				$bob->returns(1, 'what was held');
				is(right_rows($bob, $t, $boundary - 4, 8), 8, 'the rows');
			}
			for my $bytes (8192, 3 * 8192 + 100)
			{
				$aio->evict($t);
				$aio->falsify($bytes, pid => $alice->pid, relation => $t);
				$alice->gives($read, 8, "only $bytes bytes at a time");
				$aio->tell_truth;
				is(right_rows($bob, $t, $boundary - 4, 8), 8, 'the rows');
			}
			for my $first ($boundary - 4, $boundary)
			{
				$aio->evict($t);
				$aio->falsify('EIO', pid => $alice->pid, relation => $t);
				$alice->fails("SELECT * FROM read_buffers('$t', $first, 4)", '58030', qr/could not read blocks $first\.\.${\($first + 3)} in file "base\S+": Input\/output error/, 'fails');
				$aio->tell_truth;
				is(right_rows($bob, $t, $first, 4), 4, 'the rows');
			}
			# a page that is bad
			$aio->sql("SELECT modify_rel_block('$t', $boundary + 1, corrupt_checksum => true)");
			$alice->fails($read, 'XX001', qr/invalid page in block ${\($boundary + 1)} of relation/, 'a bad page');
			is(right_rows($bob, $t, $boundary - 4, 5), 5, 'the rows before the bad page');
			$aio->sql("SELECT modify_rel_block('$t', $boundary + 1)");
			$aio->evict($t);
			is(right_rows($bob, $t, $boundary - 4, 8), 8, 'mended');
		}, skip => $aio->no_faults, log => qr/LOG:  (?:could not read blocks|invalid page in block|page verification failed, calculated checksum) \d/);

		$aio->scenario('the third segment is gone', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $file) = long_table($aio, 't');
			$aio->evict($t);
			my $first = 2 * $segment - SIDE;
			$alice->sql("SET effective_io_concurrency = 0; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid >= '($first,0)'; FETCH 1 FROM c");
			$alice->sql("SELECT read_rel_block_ll('$t', 2 * $segment - 1, smgrreleaseall => true)");
			rename "$file.2", "$file.away" or die "$file.2: $!";
			$alice->fails('MOVE ALL FROM c', '58P01', qr/could not open file "\S+\.2"/, 'an error that names it');
			ok(!-e "$file.2", 'no read makes it');
			rename "$file.away", "$file.2" or die "$file.2: $!";
			$alice->sql('ROLLBACK');
			is(right_rows($alice, $t, $first, 2 * SIDE), 2 * SIDE, 'the rows, when it is there again');
		}, leaves => 'nothing');
	});
