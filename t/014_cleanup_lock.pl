# LockBufferForCleanup() waits until nobody else has the buffer pinned, the AIO
# subsystem included: when its pin is the last to go, TerminateBufferIO() has to
# wake the waiter.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('vacuum waits for the pin of an I/O', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			my $b = $alice->sql("SELECT buf FROM read_stream_for_blocks('$t', ARRAY[2])");
			$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
			$alice->gives("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 't', 'starts to write');
			$bob->starts("VACUUM (FREEZE) $t");
			$bob->waits_on($aio->major >= 19 ? 'BufferCleanup' : 'BufferPin');
			$alice->sql("SELECT buffer_call_terminate_io($b, false, succeed => false, io_error => false, release_aio => true)");
			$bob->ends('is woken');
			$aio->proves($t);
		});
	});
