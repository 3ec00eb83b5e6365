# Runs the sessions of the stress test against a controller that holds, fails and
# delays their reads, and looks at each result.

package TestAio::Stress;

use strict;
use warnings FATAL => 'all';

use Test::More;
use Time::HiRes qw(time sleep);

use TestAio::Session;
use TestAio::StressMix qw(random_numbers setup settings statement action);

# seconds: between two actions; after which a statement is stuck, since holds end by themselves
use constant { PACE => 0.02, STUCK => 60 };

sub new
{
	my ($class, $aio, $seed, $sessions) = @_;
	my @names = map { "s$_" } 1 .. $sessions;
	return bless {
		aio => $aio, names => \@names, rand => { map { $_ => random_numbers("$seed/$_") } 'controller', @names },
		running => {}, statements => 0, errors => 0, actions => 0,
	}, $class;
}

# Starts to connect a session.  Does not wait: it may have to read a catalog, which is
# held, and only the controller can release it.
sub _connect
{
	my ($self, $name) = @_;
	my $aio = $self->{aio};
	$_->disconnect for grep { defined } delete $aio->{sessions}{$name}, delete $self->{connecting}{$name};
	$self->{connecting}{$name} = TestAio::Session->connecting($aio, $name);
	$self->{connecting_since}{$name} //= time;
	return;
}

# Goes on with a session that is being connected.
sub _go_on_connecting
{
	my ($self, $name) = @_;
	my $session = $self->{connecting}{$name};
	die "session $name cannot connect\n" if time > $self->{connecting_since}{$name} + STUCK;
	return if !$session->has_ended;
	# the read of a catalog may fail, and a session that connects may be terminated
	return $self->_connect($name) if $session->error;
	delete $self->{$_}{$name} for qw(connecting connecting_since);
	$self->{aio}{sessions}{$name} = $session->connected;
	return $self->_start($name, [ settings($self->{rand}{$name}) ]);
}

sub _start
{
	my ($self, $name, $statement) = @_;
	$self->{aio}->sessions($name)->starts($statement->[0]);
	$self->{running}{$name} = { statement => $statement, since => time };
	return;
}

# Is this error of a statement one that was asked for: a read that was made to fail, a
# cancelled statement, a terminated session?  The oracles look for a crash.
sub _is_expected
{
	my ($sql, $error, $sqlstate) = @_;
	# two UPDATEs may deadlock
	return $error->{sqlstate} =~ /^(57014|57P01|40P01|lost)$/
	  || $error->{all} =~ /could not read blocks/
	  # a server bug (doc/reports/create-database-error.md)
	  || $error->{all} =~ /starting batch while batch already in progress/ && $sql =~ /CREATE DATABASE \S+ TEMPLATE \S+ STRATEGY wal_log/
	  || $error->{all} =~ /is in use|is being read by another session/
	  || ($sqlstate && $error->{sqlstate} =~ $sqlstate);
}

sub _check
{
	my ($self, $name) = @_;
	my ($sql, $expected, $sqlstate) = @{ (delete $self->{running}{$name})->{statement} };
	my $session = $self->{aio}->sessions($name);
	$session->forget_warnings;
	if (my $error = $session->error)
	{
		$self->{errors}++;
		fail("$name: $sql: $error->{all}") if !_is_expected($sql, $error, $sqlstate);
	}
	elsif (defined $expected && $session->result !~ $expected)
	{
		fail("$name: $sql: " . $session->result);
	}
	return;
}

# Gives an idle session its next statement.
sub _go_on
{
	my ($self, $name) = @_;
	return $self->_go_on_connecting($name) if $self->{connecting}{$name};
	my $session = $self->{aio}->sessions($name);
	if (my $running = $self->{running}{$name})
	{
		die "$name does not come back from \"$running->{statement}[0]\"\n" if time > $running->{since} + STUCK;
		return if !$session->has_ended;
		$self->_check($name);
	}
	my $statement = statement($self->{rand}{$name}, $name, @{ $self->{names} });
	# a statement that ends its transaction did not come to that if it has failed
	$statement = ['ROLLBACK', qr/^$/] if $session->error && $session->statement =~ /^(?:BEGIN|ROLLBACK)/;
	my $is_lost = $session->error && $session->error->{sqlstate} =~ /^(lost|57P01)$/;
	return $self->_connect($name) if $is_lost || $statement->[0] eq 'DISCONNECT';
	$self->{statements}++;
	return $self->_start($name, $statement);
}

# Returns true if the controller's last action has ended.  An action may wait for the gate's
# worker, which an injected wait holds; after a while another session ends that wait.
sub _controller_is_free
{
	my ($self) = @_;
	my ($controller, $rescuer) = ($self->{aio}{observer}, $self->{rescuer});
	if (!$controller->has_ended)
	{
		$rescuer->starts('SELECT inj_io_completion_continue()') if $rescuer->has_ended && time > $self->{acting_since} + 5 * PACE;
		return 0;
	}
	my $sql = delete $self->{action} // return 1;
	my $error = $controller->error;
	# the table may be gone or be locked by DROP TABLE; there may be too many devices
	fail("$sql: $error->{all}") if $error && !_is_expected($sql, $error, qr/^(42P01|55P03|53400)$/);
	$self->{actions}++;
	return 1;
}

sub _act
{
	my ($self) = @_;
	return if !$self->_controller_is_free;
	my ($aio, $rand) = ($self->{aio}, $self->{rand}{controller});
	my $sql = action($rand, @{ $self->{names} });
	my $victim = $self->{names}[ $rand->(scalar @{ $self->{names} }) ];
	return if $sql =~ /VICTIM/ && $self->{connecting}{$victim};
	$sql =~ s/VICTIM/$aio->sessions($victim)->pid/e;
	$aio->{observer}->starts($sql);
	($self->{action}, $self->{acting_since}) = ($sql, time);
	return;
}

sub _run
{
	my ($self, $seconds) = @_;
	my $aio = $self->{aio};
	$aio->sql($_) for setup();
	$aio->sql("SET lock_timeout = '100ms'");
	$self->{rescuer} = $aio->sessions('rescuer');
	$self->_connect($_) for @{ $self->{names} };
	my ($end, $next_action) = (time + $seconds, 0);
	while (time < $end || $self->{statements} - $self->{errors} < 20 || !$self->{actions})
	{
		$self->_go_on($_) for @{ $self->{names} };
		if (time > $next_action)
		{
			$next_action = time + PACE;
			$self->_act;
		}
		sleep 0.001;
	}
	$aio->poll(sub { $self->_controller_is_free }) or die "the controller does not come back from \"$self->{action}\"\n";
	$aio->end_gate;
	$aio->sql('SELECT inj_io_completion_continue(), inj_io_short_read_detach()');
	for my $name (keys %{ $self->{running} })
	{
		$aio->sessions($name)->wait_for_end;
		$self->_check($name);
	}
	for my $session (values %{ $self->{connecting} })
	{
		$aio->{sessions}{ $session->name } = $session->connected if !$session->wait_for_end->error;
	}
	return;
}

# Test: runs for so many seconds.  Sessions get what they should, or an error that was asked for.
sub run
{
	my ($self, $seconds) = @_;
	my $aio = $self->{aio};
	if (!eval { $self->_run($seconds); 1 })
	{
		my $why = $@;
		diag($aio->sql("SELECT a FROM $_ a")) for qw(pg_stat_activity pg_aios io_held io_filters io_devices);
		die $why;
	}
	return cmp_ok($self->{statements} - $self->{errors}, '>', 0,
		"$self->{statements} statements, $self->{errors} of them failed as they should, $self->{actions} actions");
}

1;
