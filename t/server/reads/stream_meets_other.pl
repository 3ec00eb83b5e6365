# A read stream meets blocks that another backend is reading.  Since server commit 999dec9ec6
# (19) the stream joins that I/O and looks further ahead; 18 waits for it at once.  Neither
# reads a block twice unless the other backend's read fails.
#
# The test counts hits by pg_statio_all_tables.  Neither version counts a block that becomes valid
# between two StartReadBuffers() calls.
#
# io_methods: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Alice reads two blocks; bob's stream wants one of them or both, and others.  Returns
# bob's reads, their bytes and his hits.
sub meet
{
	my ($aio, $t, $blocks, $during) = @_;
	my ($alice, $bob) = $aio->sessions(qw(alice bob));
	$aio->hold(pid => $alice->pid);
	$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
	$aio->holds(1, 'the read is held');
	my $io;
	my $blocks_got = $aio->blocks_during($t, sub {
			$io = $aio->io_during($bob, 'relation/normal', sub {
				$bob->starts("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff)"
					  . " FROM read_stream_for_blocks('$t', ARRAY[$blocks])");
				$blocks =~ /^2/ ? $bob->waits_on_others_io : $bob->waits_on('AioIoCompletion');
				$during->($alice, $bob) if $during;
				$aio->release;
				$bob->returns($blocks, 'its blocks in order');
			});
		}, $bob);
	my ($hits) = $blocks_got =~ /(\d+)$/;
	return "$io/$hits";
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $joins = $aio->major >= 19;

		$aio->scenario('the other succeeds', sub {
			my $t = $aio->table('t', 10);
			is(meet($aio, $t, '2,3,4,5'), '2/16384/' . ($aio->method eq 'sync' ? 2 : 1), 'reads two blocks, gets two');
			$aio->sessions('alice')->returns('', 'succeeds');
			$aio->proves($t);
		}, skip => $aio->no_faults);

		$aio->scenario('the other succeeds, only its second block is wanted', sub {
			my $t = $aio->table('t', 10);
			is(meet($aio, $t, '4,9,0'), '2/16384/1', 'reads two blocks, gets one as a hit');
			$aio->sessions('alice')->returns('', 'succeeds');
			$aio->proves($t);
		}, skip => $aio->no_faults);

		$aio->scenario('the other fails', sub {
			my $t = $aio->table('t', 10);
			my $alice = $aio->sessions('alice');
			$aio->falsify('EIO', pid => $alice->pid);
			# after its wait 18 starts again, 19 only for the block that it has joined
			is(meet($aio, $t, '2,3,4,5'), $aio->method eq 'sync' || !$joins ? '2/32768/0' : '3/32768/0',
				'reads all blocks itself');
			$alice->raises('58030', qr/could not read blocks 3\.\.4 in file "base\S+": Input\/output error/, 'fails');
			$aio->tell_truth;
			$aio->proves($t);
		}, skip => $aio->no_faults, log => qr/LOG:  could not read blocks 3\.\.4/);

		$aio->scenario('the other reads one of two blocks only', sub {
			my $t = $aio->table('t', 10);
			my $alice = $aio->sessions('alice');
			$aio->falsify(8192, pid => $alice->pid);
			is(meet($aio, $t, '3,4'), '1/8192/1', 'gets one and reads the other');
			$alice->returns('', 'ends');
			$alice->warns(qr/could not read blocks 3\.\.4 in file "base\S+": read only 8192 of 16384 bytes/);
			$aio->tell_truth;
			$aio->proves($t);
		}, skip => $aio->no_faults);

		$aio->scenario('the other is cancelled', sub {
			my $t = $aio->table('t', 10);
			my $io = meet($aio, $t, '2,3,4,5', sub {
				my ($alice) = @_;
				$aio->sql('SELECT pg_cancel_backend(' . $alice->pid . ')');
				# a session that completes its read itself is cancelled afterwards
				return if $aio->method ne 'worker';
				$alice->raises('57014', qr/canceling statement due to user request/, 'is cancelled');
			});
			is($io, '2/16384/' . ($aio->method eq 'sync' ? 2 : 1), 'gets the blocks of the other\'s read');
			$aio->sessions('alice')->wait_for_end;
			$aio->proves($t);
		}, skip => $aio->no_faults, leaves => 'COMPLETED_SHARED');

		# 19 looks further ahead than the blocks that it has joined
		$aio->scenario('look-ahead beyond the blocks of the other', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			meet($aio, $t, '3,4,10,12,14', sub {
				$aio->gives("SELECT count(*) FROM pg_aios WHERE operation = 'readv' AND pid = ${\$bob->pid}",
					$joins && $aio->method ne 'sync' ? 3 : 0, 'reads started while waiting');
			});
			$alice->returns('', 'succeeds');
		}, skip => $aio->no_faults);
	}, leaves => 'nothing');
