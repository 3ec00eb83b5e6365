# The right to do a buffer's I/O, which StartBufferIO() gives and TerminateBufferIO() ends:
# in one session, and with other sessions that wait for it (StartSharedBufferIO, WaitIO).
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("one session, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 4, kind => $kind, session => $alice);
				my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
				cmp_ok($b, $kind ? '<' : '>', 0, 'sign of the buffer number');
				$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => false)", 't', 'starts');
				$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => false)", $kind ? ('t', 'starts again: the server does not note I/O on local buffers') : ('f', 'does not start a second time'));
				$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => true)");
				$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 't', 'starts again after an error');
				$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => true, io_error => false, release_aio => false)");
				$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 'f', 'does not start on a valid block');
				$alice->gives("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 'f', 'nor output of a clean block');
				$aio->evict($t, $alice);
				$aio->proves($t, session => $alice);
			});
		}

		$aio->scenario('another waits, the I/O succeeds', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
			$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 't', 'starts');
			$bob->gives("SELECT buffer_call_start_io($b, for_input => true, wait => false)", 'f', 'does not wait');
			$bob->starts("SELECT buffer_call_start_io($b, for_input => true, wait => true)");
			$bob->waits_on('BufferIo');
			$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => true, io_error => false, release_aio => false)");
			$bob->returns('f', 'need not start');
		});

		# a buffer must forget the read that has filled it
		$aio->scenario('another waits to write what has been read', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			$aio->evict($t, $alice);
			my $b = $alice->sql("SELECT buf FROM read_stream_for_blocks('$t', ARRAY[2])");
			$alice->sql("SELECT count(*) FROM (SELECT FROM $t WHERE ctid = '(2,1)' FOR UPDATE) dirtied");
			$alice->gives("SELECT buffer_call_start_io($b, for_input => false, wait => true)", 't', 'starts to write');
			$bob->starts("SELECT buffer_call_start_io($b, for_input => false, wait => true)");
			$bob->waits_on('BufferIo');
			$alice->sql("SELECT buffer_call_terminate_io($b, for_input => false, succeed => false, io_error => false, release_aio => false)");
			$bob->returns('t', 'starts it himself');
			$bob->sql("SELECT buffer_call_terminate_io($b, for_input => false, succeed => false, io_error => false, release_aio => true)");
			$aio->evict($t, $alice);
			$aio->proves($t);
		});

		$aio->scenario('another waits, the I/O fails', sub {
			my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
			my $t = $aio->table('t', 4);
			my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
			$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 't', 'starts');
			$_->starts("SELECT buffer_call_start_io($b, for_input => true, wait => true)")->waits_on('BufferIo') for $bob, $carol;
			$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => false)");
			$aio->poll(sub { $bob->has_ended || $carol->has_ended });
			my ($next, $last) = $bob->has_ended ? ($bob, $carol) : ($carol, $bob);
			$next->returns('t', 'one of the two starts');
			$last->waits_on('BufferIo', 'the other goes on waiting');
			$next->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => true)");
			$last->returns('t', 'and starts when that fails');
			$last->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => false, release_aio => true)");
			$aio->proves($t);
		});

		for my $read ("read_buffers('%s', 1, 3)", "read_stream_for_blocks('%s', ARRAY[1, 2, 3])")
		{
			$aio->scenario("a reader waits: $read", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 4);
				my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
				$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 't', 'starts');
				$bob->starts('SELECT min(blocknum) FROM ' . sprintf $read, $t);
				$bob->waits_on('BufferIo');
				$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => true, release_aio => true)");
				$bob->returns('1', 'reads');
				$aio->proves($t);
			});
		}

		$aio->scenario('a waiting reader is cancelled', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
			$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 't', 'starts');
			$bob->starts("SELECT count(*) FROM read_buffers('$t', 0, 4)");
			$bob->waits_on('BufferIo');
			$aio->sql('SELECT pg_cancel_backend(' . $bob->pid . ')');
			$bob->raises('57014', qr/canceling statement due to user request/, 'is cancelled');
			$alice->sql("SELECT buffer_call_terminate_io($b, for_input => true, succeed => false, io_error => false, release_aio => true)");
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 4)", '4', 'and reads later');
			$aio->proves($t);
		}, leaves => 'COMPLETED_SHARED');

		$aio->scenario('the session ends that has started it', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
			$alice->gives("SELECT buffer_call_start_io($b, for_input => true, wait => true)", 't', 'starts');
			$bob->starts("SELECT sum(nblocks) FROM read_buffers('$t', 0, 4)");
			$bob->waits_on('BufferIo');
			$aio->end_session($alice);
			$bob->returns('4', 'reads');
			$aio->proves($t);
		});
	}, leaves => 'nothing');
