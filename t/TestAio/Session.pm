# A named session of a scenario: a psql of its own, whose statements can be
# started without waiting for their end.
#
# psql is told to report errors verbosely, so that every message comes with its
# SQLSTATE.  After each statement it prints a mark on both its outputs; what has
# come before the marks belongs to the statement.
#
# What a statement says must be asked for: a warning that no "warns" has taken
# makes the scenario fail at its end.

package TestAio::Session;

use strict;
use warnings FATAL => 'all';

use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use IO::Select;
use IPC::Open3;
use Symbol qw(gensym);
use Test::More;
use Time::HiRes qw(time sleep);

use constant TICK => 0.002;

# $server is a TestAio::Server; further parameters: dbname, user.
sub new
{
	my ($class, $server, $name, %params) = @_;
	my $connection = $server->node->connstr($params{dbname} // 'postgres')
	  . " application_name='$name'"
	  . ($params{user} ? " user=$params{user}" : '');
	local $SIG{PIPE} = 'IGNORE';
	local %ENV = (%ENV, PGCLIENTENCODING => 'UTF8');
	delete $ENV{PGOPTIONS};

	my $err = gensym;
	my $pid = open3(my $in, my $out, $err, 'psql',
		'-XAtq', '-v', 'VERBOSITY=verbose', '-v', 'ON_ERROR_STOP=0', '-d', $connection);
	my $self = bless {
		server => $server, name => $name, psql => $pid,
		in => $in, out => $out, err => $err,
		out_text => '', err_text => '', sent => 0, done => 0,
		open => { out => 1, err => 1 },
		warnings => [], notices => [], error => undef, result => undef,
	}, $class;
	for my $fh ($out, $err)
	{
		fcntl $fh, F_SETFL, fcntl($fh, F_GETFL, 0) | O_NONBLOCK;
	}
	$self->{pid} = $self->sql('SELECT pg_backend_pid()');
	return $self;
}

sub name { return $_[0]->{name} }

# process id of the backend
sub pid { return $_[0]->{pid} }

# Reads what psql has printed so far, waiting at most $wait seconds for the
# first of it.
sub _pump
{
	my ($self, $wait) = @_;
	my @open = map { $self->{$_} } grep { $self->{open}{$_} } qw(out err);
	if (!@open)
	{
		sleep $wait if $wait;
		return;
	}
	my $select = IO::Select->new(@open);
	for my $fh ($select->can_read($wait))
	{
		my $which = $fh == $self->{out} ? 'out' : 'err';
		my $n = sysread $fh, $self->{"${which}_text"}, 65536, length $self->{"${which}_text"};
		$self->{open}{$which} = 0 if defined $n && $n == 0;
	}
	return;
}

# Takes the outcome of the statement in progress, if it has ended.
sub _collect
{
	my ($self) = @_;
	my $mark = "=== end of $self->{sent} ===\n";
	my $lost = !$self->{open}{out} && !$self->{open}{err};
	return if $self->{done} == $self->{sent};

	my ($out_end, $err_end) = (index($self->{out_text}, $mark), index($self->{err_text}, $mark));
	return if !$lost && ($out_end < 0 || $err_end < 0);

	my $out = $out_end < 0 ? $self->{out_text} : substr $self->{out_text}, 0, $out_end;
	my $err = $err_end < 0 ? $self->{err_text} : substr $self->{err_text}, 0, $err_end;
	$self->{out_text} = $out_end < 0 ? '' : substr $self->{out_text}, $out_end + length $mark;
	$self->{err_text} = $err_end < 0 ? '' : substr $self->{err_text}, $err_end + length $mark;
	chomp $out;
	$self->{result} = $out;
	$self->{error} = undef;
	for my $message (_parse_messages($err))
	{
		if ($message->{severity} =~ /^(ERROR|FATAL|PANIC)$/)
		{
			$self->{error} //= $message;
		}
		elsif ($message->{severity} eq 'WARNING') { push @{ $self->{warnings} }, $message }
		else                                      { push @{ $self->{notices} }, $message }
	}
	$self->{error} //= { severity => 'FATAL', sqlstate => 'lost', message => "connection lost: $err", all => $err }
	  if $lost && $out_end < 0;
	$self->{done} = $self->{sent};
	return;
}

# psql's verbose messages as hashes: severity, sqlstate, message, detail, hint,
# context; "all" is the whole text.
sub _parse_messages
{
	my ($text) = @_;
	my @messages;
	my $part;
	for my $line (split /\n/, $text)
	{
		if ($line =~ /^(DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):  ([0-9A-Z]{5}): (.*)/)
		{
			push @messages, { severity => $1, sqlstate => $2, message => $3, all => $line };
			$part = 'message';
			next;
		}
		next if !@messages;
		$messages[-1]{all} .= "\n$line";
		if ($line =~ /^(DETAIL|HINT|CONTEXT|LOCATION|STATEMENT):  (.*)/)
		{
			$part = lc $1;
			$messages[-1]{$part} = $2;
		}
		elsif ($line =~ /^LINE \d+:/) { $part = 'line' }
		else                          { $messages[-1]{$part} .= "\n$line" }
	}
	return @messages;
}

# Starts a statement and does not wait for its end.
sub starts
{
	my ($self, $sql) = @_;
	die "session $self->{name}: a statement is in progress already\n"
	  if $self->{done} != $self->{sent};
	$self->{sent}++;
	$self->{statement} = $sql;
	local $SIG{PIPE} = 'IGNORE';
	my $text = "$sql\n;\n\\echo '=== end of $self->{sent} ==='\n\\warn '=== end of $self->{sent} ==='\n";
	my $fh = $self->{in};
	print $fh $text;
	$fh->flush;
	return $self;
}

# Has the statement ended?
sub has_ended
{
	my ($self) = @_;
	$self->_pump(0);
	$self->_collect;
	return $self->{done} == $self->{sent};
}

# Waits until the statement has ended, for good or for bad.
sub wait_for_end
{
	my ($self) = @_;
	my $deadline = time + $self->{server}->timeout;
	until ($self->has_ended)
	{
		if (time > $deadline)
		{
			my $where = $self->{server}->activity($self->pid);
			die "session $self->{name} is still at \"$self->{statement}\": $where\n";
		}
		$self->_pump(0.05);
	}
	return $self;
}

# Runs a statement and returns its rows, one a line, columns separated by "|".
# An error ends the scenario.
sub sql
{
	my ($self, $sql) = @_;
	$self->starts($sql)->wait_for_end;
	die "session $self->{name}: \"$sql\" failed: $self->{error}{all}\n" if $self->{error};
	return $self->{result};
}

# Test: the statement returns these rows.
sub gives
{
	my ($self, $sql, $expected, $name) = @_;
	return $self->starts($sql)->returns($expected, $name // $sql);
}

# Test: the statement fails so: SQLSTATE, pattern of the whole error report.
sub fails
{
	my ($self, $sql, $sqlstate, $pattern, $name) = @_;
	return $self->starts($sql)->raises($sqlstate, $pattern, $name // $sql);
}

# Test: the statement that was started ends with these rows.
sub returns
{
	my ($self, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$self->wait_for_end;
	my $found = $self->{error} ? $self->{error}{all} : $self->{result};
	return ref $expected eq 'Regexp' && !$self->{error}
	  ? like($found, $expected, "$self->{name}: $name")
	  : is($found, $expected, "$self->{name}: $name");
}

# Test: the statement that was started ends without an error.
sub ends
{
	my ($self, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$self->wait_for_end;
	return is($self->{error} ? $self->{error}{all} : '', '', "$self->{name}: " . ($name // 'ends'));
}

# Test: the statement that was started fails so.
sub raises
{
	my ($self, $sqlstate, $pattern, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$self->wait_for_end;
	$name = "$self->{name}: $name";
	return fail("$name: succeeded, with \"$self->{result}\"") if !$self->{error};
	return fail("$name: SQLSTATE $sqlstate expected, got: $self->{error}{all}")
	  if $self->{error}{sqlstate} ne $sqlstate;
	return like($self->{error}{all}, $pattern, $name);
}

# Test: the statement that was started blocks on this wait event.
sub waits_on
{
	my ($self, $event, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$name = "$self->{name}: " . ($name // "waits on $event");
	my $reached = $self->{server}->poll(sub {
			return 1 if $self->{server}->wait_event($self->pid) eq $event;
			die "ended, with: " . ($self->{error} ? $self->{error}{all} : "\"$self->{result}\"") . "\n"
			  if $self->has_ended;
			return 0;
		});
	return ok(1 == $reached, $name) || diag($self->{server}->activity($self->pid));
}

# Test: the statement that was started blocks on I/O that is not its own.
sub waits_on_others_io
{
	my ($self, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$self->waits_on('AioIoCompletion', 'waits on I/O') or return;
	# that may have been a read of its own; it is not when there is none left
	$self->{server}->wait_for("SELECT NOT EXISTS (SELECT FROM pg_aios WHERE pid = $self->{pid} AND operation = 'readv')");
	return $self->waits_on('AioIoCompletion', $name // "waits on another's I/O");
}

# Test: there was a warning like this since the last look, and takes it.
sub warns
{
	my ($self, $pattern, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @warnings = @{ $self->{warnings} };
	my ($index) = grep { $warnings[$_]{all} =~ $pattern } 0 .. $#warnings;
	$name = "$self->{name}: " . ($name // "warns");
	return fail("$name: no such warning, but: " . (join(' / ', map { $_->{all} } @warnings) || 'none'))
	  if !defined $index;
	splice @{ $self->{warnings} }, $index, 1;
	return like($warnings[$index]{all}, $pattern, $name);
}

# Warnings that nobody has asked for.
sub unexpected_warnings { return map { $_->{all} } @{ $_[0]->{warnings} } }

# The last statement's error, as a hash, or undef.
sub error { return $_[0]->{error} }

# Notices (and debug messages, with client_min_messages) so far; forgets them.
sub notices
{
	my ($self) = @_;
	return map { $_->{message} } splice @{ $self->{notices} };
}

# Closes the connection and waits until psql has gone.
sub disconnect
{
	my ($self) = @_;
	return if !$self->{psql};
	local $SIG{PIPE} = 'IGNORE';
	close $self->{in};
	my $deadline = time + $self->{server}->timeout;
	$self->_pump(0.05) while ($self->{open}{out} || $self->{open}{err}) && time < $deadline;
	kill 'KILL', $self->{psql} if $self->{open}{out} || $self->{open}{err};
	waitpid $self->{psql}, 0;
	$self->{psql} = undef;
	$? = 0;
	return;
}

# The same, and until the backend has gone as well.
sub quit
{
	my ($self) = @_;
	$self->disconnect;
	my $pid = $self->{pid};
	$self->{server}->poll(sub { !kill 0, $pid })
	  or die "backend $pid of session $self->{name} does not go\n";
	return;
}

1;
