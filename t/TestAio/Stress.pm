# Runs the sessions of the stress test against a controller that holds, fails and
# delays their reads, and looks at each result.

package TestAio::Stress;

use strict;
use warnings FATAL => 'all';

use Test::More;
use Time::HiRes qw(time sleep);

use TestAio::StressMix qw(random_numbers setup settings statement action);

# seconds: between two actions; that no statement takes, as holds end after two
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

sub _connect
{
	my ($self, $name) = @_;
	my $aio = $self->{aio};
	$aio->sessions($name)->disconnect if $aio->{sessions}{$name};
	delete $aio->{sessions}{$name};
	# the read of a catalog may fail, and who connects may be terminated
	$aio->poll(sub { eval { $aio->sessions($name); 1 } }) or die "session $name cannot connect\n";
	$aio->sessions($name)->starts(settings($self->{rand}{$name}))->wait_for_end;
	return;
}

# An error that was asked for: a read that was made to fail, a cancelled statement,
# a terminated session.  Whether the server has crashed is for the oracles.
sub _is_expected
{
	my ($error, $sqlstate) = @_;
	return $error->{sqlstate} =~ /^(57014|57P01|lost)$/
	  || $error->{all} =~ /could not read blocks/
	  # a server bug: CREATE DATABASE that fails in a batch cleans up by a scan, which begins another
	  || $error->{all} =~ /starting batch while batch already in progress/
	  || $error->{all} =~ /is in use|is being read by another session/
	  || ($sqlstate && $error->{sqlstate} =~ $sqlstate);
}

sub _check
{
	my ($self, $name) = @_;
	my ($sql, $expected, $sqlstate) = @{ (delete $self->{running}{$name})->{statement} };
	my $session = $self->{aio}->sessions($name);
	$session->{warnings} = [];
	if (my $error = $session->error)
	{
		$self->{errors}++;
		fail("$name: $sql: $error->{all}") if !_is_expected($error, $sqlstate);
	}
	elsif (defined $expected && $session->{result} !~ $expected)
	{
		fail("$name: $sql: $session->{result}");
	}
	return;
}

# Lets a session go on, if it is idle.
sub _go_on
{
	my ($self, $name) = @_;
	my $session = $self->{aio}->sessions($name);
	if (my $running = $self->{running}{$name})
	{
		die "$name does not come back from \"$running->{statement}[0]\"\n" if time > $running->{since} + STUCK;
		return if !$session->has_ended;
		$self->_check($name);
	}
	my $statement = statement($self->{rand}{$name}, $name, @{ $self->{names} });
	my $is_lost = $session->error && $session->error->{sqlstate} =~ /^(lost|57P01)$/;
	return $self->_connect($name) if $is_lost || $statement->[0] eq 'DISCONNECT';
	$session->starts($statement->[0]);
	$self->{running}{$name} = { statement => $statement, since => time };
	$self->{statements}++;
	return;
}

sub _act
{
	my ($self) = @_;
	my ($aio, $rand) = ($self->{aio}, $self->{rand}{controller});
	my $sql = action($rand, @{ $self->{names} });
	my $victim = $self->{names}[ $rand->(scalar @{ $self->{names} }) ];
	$sql =~ s/VICTIM/$aio->sessions($victim)->pid/e;
	my $error = $aio->{observer}->starts($sql)->wait_for_end->error;
	# the table may be gone, or somebody has it who drops it; or there are many devices
	fail("$sql: $error->{all}") if $error && !_is_expected($error, qr/^(42P01|55P03|53400)$/);
	$self->{actions}++;
	return;
}

sub _run
{
	my ($self, $seconds) = @_;
	my $aio = $self->{aio};
	my ($end, $next_action) = (time + $seconds, 0);
	$aio->sql($_) for setup();
	$aio->sql("SET lock_timeout = '100ms'");
	$self->_connect($_) for @{ $self->{names} };
	while (time < $end)
	{
		$self->_go_on($_) for @{ $self->{names} };
		if (time > $next_action)
		{
			$next_action = time + PACE;
			$self->_act;
		}
		sleep 0.001;
	}
	$aio->end_gate;
	$aio->sql('SELECT inj_io_completion_continue(), inj_io_short_read_detach()');
	for my $name (keys %{ $self->{running} })
	{
		$aio->sessions($name)->wait_for_end;
		$self->_check($name);
	}
	return;
}

# Test: it goes well for so long.
sub run
{
	my ($self, $seconds) = @_;
	my $aio = $self->{aio};
	if (!eval { $self->_run($seconds); 1 })
	{
		my $why = $@;
		diag($aio->sql("SELECT a FROM $_ a")) for qw(pg_stat_activity pg_aios io_held io_rules io_devices);
		die $why;
	}
	return cmp_ok($self->{statements} - $self->{errors}, '>', 0,
		"$self->{statements} statements, $self->{errors} of them failed as they should, $self->{actions} actions");
}

1;
