# Reads that a process performs for another process although it cannot open the file.  Opening
# raises an error, as it would for lack of memory: the server opens files for reading and writing,
# and here the file is read-only.
#
# io_methods: io_uring; long: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

with_each_io_method(
	sub {
		my ($aio) = @_;

		# process that performs the read => how the read is delayed
		my %performers = (
			'the session that releases the read' => { hold => "io_hold('%s')", release => 'SELECT io_release_all()' },
			"the gate's worker, for a device" => { hold => "io_device('100 ms', rel => '%s')", reads => 'SELECT reads FROM io_devices' },
			"the gate's worker, after the hold timeout" => { hold => "io_hold('%s')", hold_timeout => '100ms' });

		for my $performer (sort keys %performers)
		{
			my %its = %{ $performers{$performer} };
			$aio->scenario("performed by $performer", sub {
				my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
				my $t = $aio->table('t', 20);
				my $file = $aio->file_of($t);
				# this session has the file open; no other can open it
				$alice->sql("SELECT read_rel_block_ll('$t', 12)");
				chmod 0444, $file or die "$file: $!";
				$carol->fails("SELECT count(*) FROM $t", '42501', qr/could not open file "\S+": Permission denied/, 'the server cannot open the file');
				$aio->sql("SET test_aio.hold_timeout = '$its{hold_timeout}'") if $its{hold_timeout};
				$aio->sql('SELECT ' . sprintf $its{hold}, $t);
				$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
				if ($its{release})
				{
					$alice->waits_on('IoGateHeld');
					$bob->sql($its{release});
				}
				$alice->returns('', 'gets its blocks');
				$aio->gives($its{reads}, 1, 'from the device') if $its{reads};
				$aio->logs(qr/read of blocks 3\.\.6 .* was held for too long/, 1, 'when the hold is over') if $its{hold_timeout};
				$aio->sql('RESET test_aio.hold_timeout');
				chmod 0644, $file or die "$file: $!";
				$aio->end_gate;
				$carol->gives("SELECT count(*) FROM read_buffers('$t', 3, 4) WHERE NOT io_reqd", 4, 'the four blocks are cached');
				$aio->proves($t);
			}, log => $aio->hold_expired, skip => $< ? undef : 'root may write to any file');
		}
	},
	needs => 'gate');

done_testing();
