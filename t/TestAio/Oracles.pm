# What must hold after every scenario, whatever it has tested.

package TestAio::Oracles;

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Utils;
use Test::More;

# Lines of a server log that are never right unless a scenario has said so.
my $alarming = qr/
	TRAP: | (?:PANIC|FATAL):\s | terminated\ by\ signal | exited\ with\ exit\ code
	| ERROR:\ AddressSanitizer: | runtime\ error:
	| (?:WARNING|ERROR):\s.*(?:leaked|leak:|was\ not\ closed|was\ not\ submitted|open\ AIO\ batch)
	| LOG:\s.*(?:invalid\ page|could\ not(?!\ (?:send\ data\ to|receive\ data\ from)\ client)|zeroing|checksum\ failure|page\ verification)
	| wrong\ state | shouldn't\ get\ here | no\ free\ IOs | no\ idle\ IO
/x;

# I/O that somebody else finishes may take its time, but not that long.
use constant SETTLE => 20;

sub log_size
{
	my ($self) = @_;
	return -s $self->node->logfile // 0;
}

# The server log since the scenario began, or since an earlier log_size().
sub log_text
{
	my ($self, $since) = @_;
	return slurp_file($self->node->logfile, $since // $self->{log_start});
}

# Test: number of log lines that match, or ">0".
sub logs
{
	my ($self, $pattern, $count, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @found = grep { $_ =~ $pattern } split /\n/, $self->log_text;
	my $right = $count eq '>0' ? @found > 0 : @found == $count;
	return ok($right, "$name: $count lines of the log match") || diag($self->log_text);
}

# Who is there now: the same must be there after every scenario.  A crash restart
# leaves the postmaster alone, and ends the checkpointer.
sub note_state
{
	my ($self) = @_;
	$self->{postmaster} = $self->_postmaster;
	($self->{checkpointer}) = $self->pids_of_type('checkpointer') or die "there is no checkpointer\n";
	$self->{log_start} //= 0;
	return;
}

sub _postmaster
{
	my ($self) = @_;
	return (split /\n/, slurp_file($self->node->data_dir . '/postmaster.pid'))[0];
}

# What is not as note_state() has found it.
sub _who_has_gone
{
	my ($self) = @_;
	return join ', ', $self->_postmaster == $self->{postmaster} ? () : 'postmaster', kill(0, $self->{checkpointer}) ? () : 'checkpointer';
}

sub begin_scenario
{
	my ($self) = @_;
	$self->{log_start} = $self->log_size;
	$self->sql('DO $$ BEGIN DROP SCHEMA IF EXISTS scenario CASCADE; CREATE SCHEMA scenario; END $$');
	return;
}

# Test: soon there is no AIO handle in use, except in these states, and no pinned
# buffer, not even one without a valid page, of which the view tells nothing.  One
# query for both, since it is asked a thousand times.
sub _nothing_is_left
{
	my ($self, $name, @states) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $query = "SELECT 'in use: ' || a FROM pg_aios a WHERE state <> ALL ('{" . join(',', @states) . "}')";
	# a handle that still refers to its I/O has its buffers pinned, too
	my $pins = $self->{has_buffercache} && !@states;
	$query .= " UNION ALL SELECT pinned || ' pinned' FROM pg_buffercache_usage_counts() WHERE pinned > 0" if $pins;
	my $rows;
	$self->poll(sub { $rows = $self->sql($query); $rows eq '' }, SETTLE);
	return is($rows, '', $name)
	  || $pins && diag($self->sql('SELECT b FROM pg_buffercache b WHERE pinning_backends > 0'));
}

sub end_scenario
{
	my ($self, %params) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $gone = $params{dies} ? eval { $self->observe; 1 } : 1;
	return fail("the server is there: $@") if !$gone;

	is(join(', ', $self->end_faults), '', 'no fault left in effect');

	# first while the sessions are there: they are idle, so what they hold they leak
	my @sessions = values %{ $self->{sessions} };
	my @warnings;
	for my $session ($params{dies} ? () : @sessions)
	{
		eval { $session->wait_for_end; 1 } or fail("session is idle at the end: $@");
		push @warnings, map { $session->name . ": $_" } $session->unexpected_warnings;
	}
	is(join("\n", @warnings), '', 'no unexpected warning');
	$self->_nothing_is_left('nothing is left', $params{leaves} // ());

	# and then without them: nothing may depend on their being there
	$_->disconnect for @sessions;
	$_->quit for @sessions;
	$self->{sessions} = {};
	$self->_nothing_is_left('nothing is left without the sessions') if $params{leaves};

	$self->note_state if $params{dies};
	is($self->_who_has_gone, '', 'the same server');
	my $log = $params{log};
	my @expected = ref $log eq 'ARRAY' ? @$log : defined $log ? ($log) : ();
	# the observer asks until it is let in again
	push @expected, qr/FATAL: .*the database system is/ if $params{dies};
	$self->check_log(\@expected);
	return;
}

# Test: nothing alarming in the log, except what is expected.
sub check_log
{
	my ($self, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @expected = ref $expected eq 'ARRAY' ? @$expected : defined $expected ? ($expected) : ();
	my @alarms;
	for my $line (split /\n/, $self->log_text)
	{
		next if $line !~ $alarming;
		next if grep { $line =~ $_ } @expected;
		push @alarms, $line;
	}
	$self->{log_start} = $self->log_size;
	return is(join("\n", @alarms), '', 'nothing alarming in the log');
}

1;
