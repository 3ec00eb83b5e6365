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

# Background processes have nothing to complain of either.  Lines of sessions name
# them; those of other processes do not.
my $background = qr/\[\d+\]\ (?:WARNING|ERROR|FATAL|PANIC):\s/;

# I/O that somebody else finishes may take its time, but not that long.
use constant SETTLE => 20;

# The length of the server log.
sub log_size
{
	my ($self) = @_;
	return -s $self->node->logfile // 0;
}

# Has log_text(), logs() and check_log() begin here.
sub forget_log { my ($self) = @_; $self->{log_start} = $self->log_size; return }

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

# Notes the processes that must be the same after every scenario.  A crash restart keeps
# the postmaster and ends the checkpointer.
sub note_state
{
	my ($self) = @_;
	$self->{postmaster} = $self->postmaster_pid;
	# a server may be ready before its checkpointer shows itself
	$self->poll(sub { ($self->{checkpointer}) = $self->pids_of_type('checkpointer') }) or die "there is no checkpointer\n";
	$self->{log_start} //= 0;
	return;
}

# Process id of the postmaster.
sub postmaster_pid
{
	my ($self) = @_;
	return (split /\n/, slurp_file($self->node->data_dir . '/postmaster.pid'))[0];
}

# Names the processes that are not as note_state() has found them.
sub _who_has_gone
{
	my ($self) = @_;
	return join ', ', $self->postmaster_pid == $self->{postmaster} ? () : 'postmaster', kill(0, $self->{checkpointer}) ? () : 'checkpointer';
}

sub begin_scenario
{
	my ($self) = @_;
	$self->forget_log;
	$self->sql('DO $$ BEGIN DROP SCHEMA IF EXISTS scenario CASCADE; CREATE SCHEMA scenario; END $$');
	return;
}

# What is left, as SQL: AIO handles in use, except in these states, and pinned buffers,
# even without a valid page, of which the view tells nothing.
sub _reads_left
{
	my ($self, @states) = @_;
	my @queries = ("SELECT 'in use: ' || a FROM pg_aios a WHERE state <> ALL ('{" . join(',', @states) . "}')");
	# a handle that still refers to its I/O has its buffers pinned, too
	push @queries, "SELECT pinned || ' pinned' FROM pg_buffercache_usage_counts() WHERE pinned > 0"
	  if !@states && !$self->lacks('pg_buffercache');
	return @queries;
}

# Rules, held reads, devices, a running trace and waits that it has not seen the end of,
# buffers with I/O in progress.
sub _control_left
{
	my ($self) = @_;
	my @queries = "SELECT 'in progress: ' || b FROM buffers_in_progress() b";
	push @queries, "SELECT 'rule: ' || r FROM io_rules r" if $self->{has_rules};
	push @queries, "SELECT 'held: ' || h FROM io_held h", "SELECT 'device: ' || d FROM io_devices d" if $self->{has_gate};
	push @queries, "SELECT 'trace: ' || s FROM io_trace_status s WHERE running",
	  "SELECT 'unfinished wait: ' || seq FROM io_trace WHERE array_position(wait_times, NULL) IS NOT NULL" if $self->{has_trace};
	return @queries;
}

# Ends what is left, so that the next scenario does not suffer from it.
sub _end_control
{
	my ($self) = @_;
	$self->sql("SELECT inj_io_$_()") for $self->{has_rules} && !$self->no_faults ? qw(completion_continue short_read_detach reopen_detach) : ();
	$self->sql('SELECT io_hold_end(), io_fail_end(), io_device_end(), io_release_all()') if $self->{has_gate};
	$self->sql('SELECT io_trace_stop(), io_trace_reset()') if $self->{has_trace};
	return;
}

# Notes which parts of test_aio this server has.
sub note_abilities
{
	my ($self) = @_;
	for my $what (qw(rules gate trace))
	{
		my $view = { rules => 'io_rules', gate => 'io_held', trace => 'io_trace_status' }->{$what};
		my $error = $self->{observer}->starts("SELECT count(*) FROM $view")->wait_for_end->error;
		die "$view: $error->{all}\n" if $error && $error->{sqlstate} ne '55000';
		$self->{"has_$what"} = !$error;
		my ($reason) = $error ? ($error->{detail} // $error->{message}) =~ /^(?:The reason is that )?(.*?)\.?$/ : ();
		$self->{lacks}{$what} = $error ? "needs the I/O $what: $reason" : undef;
	}
	return;
}

# Why the server does not have "gate", "trace", "rules" or a contrib module, or undef.
sub lacks
{
	my ($self, $what) = @_;
	$self->{lacks}{$what} = $self->has_extension($what) ? undef : "needs the contrib module $what" if !exists $self->{lacks}{$what};
	return $self->unless_required($what, $self->{lacks}{$what});
}

# Test: soon these queries find nothing.  One statement, since it is sent a thousand
# times.
sub _finds_nothing
{
	my ($self, $name, @queries) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $query = join ' UNION ALL ', @queries;
	my $rows;
	$self->poll(sub { $rows = $self->sql($query); $rows eq '' }, SETTLE);
	my $right = is($rows, '', $name);
	diag($self->sql('SELECT b FROM pg_buffercache b WHERE pinning_backends > 0')) if !$right && !$self->lacks('pg_buffercache');
	return $right;
}

# Has sessions with temporary tables look for pins of local buffers, which no view
# shows: a block that is pinned stays, and that is a warning.
sub _evict_temporary
{
	my ($self, $session) = @_;
	return if !$session->{temporary} || !$session->pid || $session->has_gone;
	$session->starts("SELECT evict_rel(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace = pg_my_temp_schema()")->wait_for_end;
	return;
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
		eval { $session->wait_for_end; $self->_evict_temporary($session); 1 } or fail("session is idle at the end: $@");
		push @warnings, map { $session->name . ": $_" } $session->unexpected_warnings;
	}
	$self->note_abilities if $params{dies};
	my $leaves = $params{leaves} // $self->{leaves};
	$self->_finds_nothing('nothing is left', $self->_reads_left($leaves eq 'nothing' ? () : $leaves));

	# and then without them: nothing may depend on their being there
	my $leaving = $self->log_size;
	$self->end_sessions;
	push @warnings, grep { /\] \S+ (?:WARNING|ERROR|FATAL|PANIC): / } split /\n/, $self->log_text($leaving);
	is(join("\n", @warnings), '', 'no unexpected warning, nor when they leave');
	$self->_finds_nothing('nothing is left without the sessions', $self->_control_left, $leaves eq 'nothing' ? () : $self->_reads_left)
	  || $self->_end_control;

	$self->note_state if $params{dies};
	is($self->_who_has_gone, '', 'the same server');
	my $log = $params{log};
	my @expected = ref $log eq 'ARRAY' ? @$log : defined $log ? ($log) : ();
	# the observer asks until it is let in again
	push @expected, qr/FATAL: .*the database system is/, qr/\] WARNING:  terminating connection because of crash/ if $params{dies};
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
		next if $line !~ $alarming && $line !~ $background;
		next if grep { $line =~ $_ } @expected;
		push @alarms, $line;
	}
	$self->forget_log;
	return is(join("\n", @alarms), '', 'nothing alarming in the log');
}

1;
