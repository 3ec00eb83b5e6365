package TestAio::Session;

=head1 NAME

TestAio::Session - a named session of a scenario; a statement can be started without waiting for its end

=head1 SYNOPSIS

	$alice->gives('SELECT 1', 1);
	$alice->fails('SELECT 1 / 0', '22012', qr/division by zero/, 'fails');
	$alice->waits($aio->pause, 'advisory');
	$aio->resume;
	$alice->returns('', 'goes on');
	$alice->sql("DO 'BEGIN RAISE WARNING ''look''; END'");
	$alice->warns(qr/look/);

=cut

use v5.36;
use warnings FATAL => 'all';

use Carp qw(croak);
use Test::More;
use Time::HiRes qw(time);

use TestAio::Reads;
use TestAio::Wire;

our @ISA = qw(TestAio::Reads);

# Begins to connect to a TestAio::Server; further parameters: dbname, user.
sub connecting ($class, $server, $name, %params)
{
	my $wire = TestAio::Wire->new($server->node->host, $server->node->port,
		user => $params{user} // scalar getpwuid $>, database => $params{dbname} // 'postgres',
		application_name => $name, client_encoding => 'UTF8');
	return bless {
		server => $server, name => $name, wire => $wire, statement => 'connect', collected => 0,
		warnings => [], notices => [], error => undef, result => undef, is_plain => !%params,
	}, $class;
}

# Waits until the session is connected.
sub connected ($self)
{
	$self->wait_for_end;
	die "session $self->{name}: $self->{error}{all}\n" if $self->{error};
	$self->{pid} = $self->{wire}->pid;
	return $self;
}

sub new ($class, @params) { return $class->connecting(@params)->connected }

sub name { return $_[0]->{name} }

sub pid { return $_[0]->{pid} }

# Takes the outcome of the statement in progress, which has ended.
sub _collect ($self)
{
	my $wire = $self->{wire};
	$self->{collected} = 1;
	$self->{result} = join "\n", $wire->rows;
	$self->{error} = undef;
	for my $message ($wire->messages)
	{
		if ($message->{severity} =~ /^(ERROR|FATAL|PANIC)$/) { $self->{error} //= $message }
		elsif ($message->{severity} eq 'WARNING') { push @{ $self->{warnings} }, $message }
		else { push @{ $self->{notices} }, $message }
	}
	$self->{error} //= { severity => 'FATAL', sqlstate => 'lost', message => $wire->lost, all => 'connection lost: ' . $wire->lost }
	  if $wire->lost;
	return;
}

# Starts a statement and does not wait for its end.
sub starts ($self, $sql)
{
	die "session $self->{name}: a statement is in progress already\n" if !$self->{collected};
	$self->{collected} = 0;
	$self->{statement} = $sql;
	$self->{wire}->send_sql($sql);
	return $self;
}

# Waits until the server executes the statement that was started: a cancel ends it from then on; one
# that comes earlier is ignored.  The statement must not end by itself.
sub wait_until_active ($self)
{
	$self->{server}->wait_for("SELECT state = 'active' FROM pg_stat_activity WHERE pid = ${\$self->pid}");
	return $self;
}

sub in_transaction { return $_[0]->{wire}->in_transaction }

# Returns true if the statement has ended.  Waits so many seconds for its end.
sub has_ended ($self, $wait = undef)
{
	return 1 if $self->{collected};
	$self->{wire}->receive($wait // 0);
	return 0 if !$self->{wire}->is_idle;
	$self->_collect;
	return 1;
}

# Returns true if the session can run a statement that sees what other sessions do.
sub is_free ($self) { return $self->{collected} && !$self->has_gone && !$self->in_transaction }

# Makes the session like a new one.  Returns false if that is not possible.
sub discard_all ($self)
{
	return 0 if !$self->{is_plain} || $self->{temporary} || $self->{stuck} || !$self->is_free;
	$self->starts('DISCARD ALL')->wait_for_end->forget_warnings;
	$self->{notices} = [];
	return !$self->{error};
}

# Waits until the statement has ended, with or without an error.
sub wait_for_end ($self)
{
	my ($server, $begin) = ($self->{server}, time);
	my ($deadline, $idle_check) = ($begin + $server->timeout, $server->idle_check);
	until ($self->has_ended(0.5))
	{
		my $idle = $idle_check->();
		next if !$idle && time < $deadline;
		$self->{stuck} = 1;
		$server->report_timeout($idle ? 'nothing happens any more' : "it took ${\$server->timeout} s", undef, undef, $idle);
		my $where = $self->{pid} ? $server->activity($self->{pid}) : 'connecting';
		die "session $self->{name} is still at \"$self->{statement}\": $where\n";
	}
	$server->note_wait($begin);
	return $self;
}

# Runs a statement and returns its rows, one a line, columns separated by "|".  An error ends the scenario.
sub sql ($self, $sql)
{
	$self->starts($sql)->wait_for_end;
	die "session $self->{name}: \"$sql\" failed: $self->{error}{all}\n" if $self->{error};
	return $self->{result};
}

# Test: the statement returns these rows.
sub gives ($self, $sql, $expected, $name = undef) { return $self->starts($sql)->returns($expected, $name // $sql) }

# Test: the statement fails with this SQLSTATE, and the whole error report matches.
sub fails ($self, $sql, $sqlstate, $pattern, $name = undef)
{
	return $self->starts($sql)->raises($sqlstate, $pattern, $name // $sql);
}

# Test: the statement that was started ends with these rows.
sub returns ($self, $expected, $name)
{
	$self->wait_for_end;
	my $found = $self->{error} ? $self->{error}{all} : $self->{result};
	return ref $expected eq 'Regexp' && !$self->{error}
	  ? like($found, $expected, "$self->{name}: $name")
	  : is($found, $expected, "$self->{name}: $name");
}

# Test: the statement that was started ends without an error.
sub ends ($self, $name = undef)
{
	$self->wait_for_end;
	return is($self->{error} ? $self->{error}{all} : '', '', "$self->{name}: " . ($name // 'ends'));
}

# Test: the statement that was started fails with this SQLSTATE, and the report matches.
sub raises ($self, $sqlstate, $pattern, $name = undef)
{
	croak 'raises(SQLSTATE, qr/PATTERN/, NAME), and fails(SQL, …) alike' if ($sqlstate // '') !~ /^(?:[0-9A-Z]{5}|lost)$/ || !defined $name;
	$self->wait_for_end;
	$name = "$self->{name}: $name";
	return fail("$name: succeeded, with \"$self->{result}\"") if !$self->{error};
	return fail("$name: SQLSTATE $sqlstate expected, got: $self->{error}{all}")
	  if $self->{error}{sqlstate} ne $sqlstate;
	return like($self->{error}{all}, $pattern, $name);
}

# Waits until the statement that was started blocks on this wait event, a name or a pattern.
# Returns false if the statement ends first.
sub reaches_wait_event ($self, $event)
{
	my $pattern = ref $event ? $event : qr/^\Q$event\E$/;
	my $waits;
	$self->{server}->poll(sub {
		my $found = $self->{server}->wait_event($self->pid) // '';
		$waits = $found =~ $pattern;
		return $waits || $self->has_ended;
	});
	return $waits;
}

# Test: the statement that was started blocks on this wait event, a name or a pattern.
sub waits_on ($self, $event, $name = undef)
{
	my $reached = $self->reaches_wait_event($event);
	die "ended, with: " . ($self->{error} ? $self->{error}{all} : "\"$self->{result}\"") . "\n" if !$reached && $self->has_ended;
	return ok($reached, "$self->{name}: " . ($name // "waits on $event")) || diag($self->{server}->activity($self->pid));
}

# Starts a statement.  Test: it blocks on this wait event.
sub waits ($self, $sql, $event, $name = undef) { return $self->starts($sql)->waits_on($event, $name) }

# Test: the statement that was started blocks on I/O that is not its own.
sub waits_on_others_io ($self, $name = undef)
{
	$self->waits_on('AioIoCompletion', 'waits on I/O') or return;
	# the session may wait for a read of its own, unless it has none left
	$self->{server}->wait_for("SELECT NOT EXISTS (SELECT FROM pg_aios WHERE pid = $self->{pid} AND operation = 'readv')");
	return $self->waits_on('AioIoCompletion', $name // "waits on another's I/O");
}

# Test: the session has got a warning like this.  Takes that warning; a scenario fails if one is left.
sub warns ($self, $pattern, $name = undef)
{
	my @warnings = @{ $self->{warnings} };
	my ($index) = grep { $warnings[$_]{all} =~ $pattern } 0 .. $#warnings;
	$name = "$self->{name}: " . ($name // "warns");
	return fail("$name: no such warning, but: " . (join(' / ', map { $_->{all} } @warnings) || 'none'))
	  if !defined $index;
	splice @{ $self->{warnings} }, $index, 1;
	return like($warnings[$index]{all}, $pattern, $name);
}

# Returns true if the server has closed the connection.
sub has_gone { return defined $_[0]->{wire}->lost }

# Warnings that no "warns" has taken, as hashes.
sub warnings { return @{ $_[0]->{warnings} } }
sub forget_warnings ($self) { $self->{warnings} = []; return }

# Notes that the session has temporary tables; the oracles look for pins of their buffers.
sub note_temporary_tables ($self) { $self->{temporary} = 1; return }
sub has_temporary_tables { return $_[0]->{temporary} }

# The statement that was started last; of the last one that has ended, the rows, one a line, and the error, a hash or undef.
sub statement { return $_[0]->{statement} }
sub result { return $_[0]->{result} }
sub error { return $_[0]->{error} }

# Notices (and debug messages, with client_min_messages) so far; forgets them.
sub notices ($self) { return map { $_->{message} } splice @{ $self->{notices} } }

# Closes the connection, after the end of the statement in progress.
sub disconnect ($self)
{
	$self->wait_for_end if !$self->{stuck};
	$self->{wire}->close;
	return;
}

# Closes the connection and waits until the backend has exited.
sub quit ($self)
{
	$self->disconnect;
	my $pid = $self->{pid};
	$self->{server}->poll(sub { !kill 0, $pid })
	  or die "backend $pid of session $self->{name} does not go\n";
	return;
}

1;
