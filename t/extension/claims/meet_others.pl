# Buffer I/O that SQL has started, and what else happens to the same relation: a sequence
# that is rewritten, locks that do not matter, catalogs, reads into a local buffer.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# of all commands, this one removes a file under the weakest lock
		$aio->scenario('ALTER SEQUENCE', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			$aio->sql("CREATE SEQUENCE scenario.s; SELECT grow_rel('scenario.s', 1)");
			my $b = $alice->sql("SELECT buffer_create_toy('scenario.s', 1)");
			$alice->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'starts');
			$bob->gives("SELECT nextval('scenario.s')", 1, 'can use the sequence');
			$bob->starts('ALTER SEQUENCE scenario.s RESTART 5');
			$bob->waits_on('relation', 'waits for the lock');
			$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
			$bob->raises('57014', qr/user request/, 'and can be cancelled');
			$alice->fails('ALTER SEQUENCE scenario.s RESTART 5', '55006', qr/has started I\/O on a buffer of relation file/, 'the session itself cannot commit it');
			$alice->sql("SELECT buffer_call_terminate_io($b, true, false, false, true)");
			$bob->gives("ALTER SEQUENCE scenario.s RESTART 5; SELECT nextval('scenario.s')", 5, 'is done when the I/O has ended');
		});

		$aio->scenario('an error while another session has locks that do not conflict', sub {
			my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
			my $t = $aio->table('t', 4);
			my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
			$alice->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'starts');
			$bob->sql("BEGIN; LOCK $t IN SHARE UPDATE EXCLUSIVE MODE; LOCK $t IN SHARE ROW EXCLUSIVE MODE");
			$carol->starts("BEGIN; LOCK $t IN SHARE MODE; ROLLBACK");
			$carol->waits_on('relation');
			$alice->fails('SELECT 1 / 0', '22012', qr/division/, 'fails');
			$aio->gives("SELECT 'IO_IN_PROGRESS' = ANY (flags) FROM buffer_state('$t', 2)", 't', 'the I/O goes on');
			$alice->sql("SELECT buffer_call_terminate_io($b, true, false, false, true)");
			$bob->sql('ROLLBACK');
			$carol->ends;
		});

		# the session would read it when it removes its temporary tables at its end
		$aio->scenario('a system catalog', sub {
			my ($alice) = $aio->sessions('alice');
			for my $catalog (qw(pg_depend pg_depend_reference_index pg_toast.pg_toast_2619))
			{
				$alice->sql("SELECT grow_rel('$catalog', 1)") if $catalog =~ /toast/;
				$alice->fails("SELECT buffer_call_start_io(buffer_create_toy('$catalog', 0), true, false)", '55000', qr/is a system catalog/, $catalog);
			}
		});

		# the buffer must keep the reference of the read
		$aio->scenario('a read into a local buffer', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4, kind => 'TEMP', session => $alice);
			my $b = $alice->sql("SELECT buffer_create_toy('$t', 2)");
			$alice->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'starts');
			$alice->sql("SELECT io_hold('$t')");
			$alice->sql("SELECT FROM start_read_buffers('$t', 2, 1)");
			$aio->gate_holds(1);
			for my $release_aio (qw(true false))
			{
				$alice->fails("SELECT buffer_call_terminate_io($b, true, true, false, $release_aio)", '55006', qr/buffer $b is being read/, 'cannot end the I/O');
			}
			$aio->gate_release;
			$aio->proves($t, session => $alice);
			$alice->gives("DROP TABLE $t", '', 'the table can be dropped');
		}, skip => $aio->method eq 'sync' ? 'with sync a read is begun when it is waited for' : $aio->lacks('gate'));
	}, leaves => 'nothing');
