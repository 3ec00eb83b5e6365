# kill -9 of anyone who has to do with a held read, or with one that a simulated
# device has in hand: the server restarts, and nothing is left of holds and devices.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

# who is killed, and what is done to the read: a hold if nothing else
my %killed = (
	controller => undef,
	issuer => undef,
	waiter => undef,
	gate => undef,
	'gate while it serves' => "io_device('30s', keep => true)",
	'io worker' => undef);

for_each_io_method(
	sub {
		my ($aio) = @_;
		for my $who (sort keys %killed)
		{
			next if $who eq 'io worker' && $aio->method ne 'worker';
			$aio->scenario("kill -9 of: $who", sub {
				my $t = $aio->table('t', 20);
				my %pid;
				@pid{qw(controller issuer waiter)} = map { $_->pid } $aio->held_read($t, $killed{$who});
				$pid{gate} = $pid{'gate while it serves'} = $aio->sql('SELECT worker FROM io_gate');
				($pid{'io worker'}) = $aio->pids_of_type('io worker');
				kill 'KILL', $pid{$who};
				$aio->sessions($_)->wait_for_end for qw(issuer waiter);
				$aio->restarted;
				$aio->gives('SELECT (SELECT count(*) FROM io_held), (SELECT count(*) FROM io_rules), (SELECT count(*) FROM io_devices)',
					'0|0|0', 'nothing is held, and nothing in force');
				$aio->proves($t);
			}, dies => 1, log => qr/terminated by signal|terminating connection|because of crash|was interrupted|recovery mode|exited with exit code|not yet accepting connections/);
		}
	},
	conf => { restart_after_crash => 'on' });
