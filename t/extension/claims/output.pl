# Started buffer I/O for output.  A session that writes the block waits for it and cannot
# be interrupted, so the gate's worker ends it after a while, and at shutdown.
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

		my %writers = (
			'ALTER TABLE SET TABLESPACE' => sub { "SET allow_in_place_tablespaces = on; CREATE TABLESPACE s014 LOCATION ''; ALTER TABLE $_[0] SET TABLESPACE s014;"
				  . " ALTER TABLE $_[0] SET TABLESPACE pg_default; DROP TABLESPACE s014" },
			'CHECKPOINT' => sub { 'CHECKPOINT' },
		);
		for my $what (sort keys %writers)
		{
			$aio->scenario("output, and $what of the same session", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 4);
				$alice->sql("SET test_aio.hold_timeout = '200ms'; UPDATE $t SET gen = gen");
				my $b = $alice->sql("SELECT buffer FROM buffer_state('$t', 2)");
				$alice->gives("SELECT buffer_call_start_io($b, false, true)", 't', 'starts');
				$alice->starts($writers{$what}->($t));
				$alice->ends('goes on after the hold timeout');
				$aio->logs(qr/WARNING:  I\/O on buffer $b, started for output by process/, 1, 'which is logged');
			}, log => qr/WARNING:  I\/O on buffer \d+, started for output by process/);
		}

		$aio->scenario('output, and a fast shutdown while its session cannot be interrupted', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			$alice->sql("UPDATE $t SET gen = gen");
			my $b = $alice->sql("SELECT buffer FROM buffer_state('$t', 2)");
			$alice->gives("SELECT buffer_call_start_io($b, false, true)", 't', 'starts');
			$alice->starts("SET allow_in_place_tablespaces = on; CREATE TABLESPACE s014 LOCATION ''; ALTER TABLE $t SET TABLESPACE s014");
			$alice->waits_on('BufferIo');
			ok($aio->stop_with_sessions('INT'), 'the server stops');
			$aio->node->start;
			$aio->poll(sub { eval { $aio->observe; 1 } }) or die "the server does not come back\n";
			$alice->wait_for_end->forget_warnings;
			$aio->sql("ALTER TABLE $t SET TABLESPACE pg_default");
			$aio->sql('DROP TABLESPACE IF EXISTS s014');
		}, dies => 1, log => $aio->terminated('alice'));
	}, leaves => 'nothing', needs => 'gate');
