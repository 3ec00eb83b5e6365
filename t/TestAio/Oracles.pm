package TestAio::Oracles;

=head1 NAME

TestAio::Oracles - scenarios, and the checks after every scenario, whatever it has tested

=head1 SYNOPSIS

	$aio->scenario('a session that is terminated', sub {
		my ($bob) = $aio->sessions('bob');
		$bob->starts('SELECT pg_terminate_backend(pg_backend_pid())')->raises('57P01', qr/administrator/, 'ends');
		$aio->logs(qr/bob FATAL:  terminating/, 1, 'its end');
	}, log => $aio->terminated('bob'));

=cut

use v5.36;
use warnings FATAL => 'all';

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

use TestAio::Pool;

# Lines of a server log that are alarming unless a scenario expects them.
my $alarming = qr/
	TRAP: | (?:PANIC|FATAL):\s | terminated\ by\ signal | LOG:\s.*exited\ with\ exit\ code
	| ERROR:\ AddressSanitizer: | runtime\ error:
	| (?:WARNING|ERROR):\s.*(?:leaked|leak:|was\ not\ closed|was\ not\ submitted|open\ AIO\ batch)
	| LOG:\s.*(?:invalid\ page|could\ not(?!\ (?:send\ data\ to|receive\ data\ from)\ client)|zeroing|checksum\ failure|page\ verification)
	| wrong\ state | shouldn't\ get\ here | no\ free\ IOs | no\ idle\ IO
/x;

# Warnings and errors of processes that are not sessions are alarming, too.  log_line_prefix names
# the process: "client backend alice ERROR:", "io worker WARNING:".
my $background = qr/\[\d+\]\ (?!client\ backend|parallel\ worker)[a-z\ ]+(?:WARNING|ERROR|FATAL|PANIC):\s/;

# The text that an expected pattern matches must include a severity, so that the pattern cannot
# excuse a PANIC that quotes an ERROR.
my $severity = qr/\b(?:LOG|WARNING|ERROR|FATAL|PANIC):  |^TRAP: /;

# Lines that are logged when a server restarts, whatever the reason.
my @restart = (
	# the observer stays until a shutdown, and tries to connect until the server lets it in
	qr/client backend observer FATAL:  terminating connection due to administrator command/,
	qr/FATAL:  the database system is (?:starting up|shutting down|in recovery mode|not yet accepting connections)/,
	qr/WARNING:  terminating connection because of crash of another server process/,
	qr/postmaster LOG:  background worker "[^"]+" \(PID \d+\) exited with exit code 2/);

# A server whose user has no locked memory left for rings is started again (TestAio::Server::launch()), and
# autovacuum may be at work when a server stops.
my $harmless = qr/postmaster FATAL:  could not setup io_uring queue: Cannot allocate memory|autovacuum worker FATAL:  terminating autovacuum process/;

# Seconds in which I/O must end that another process finishes.
our $settle = 20;

sub log_size ($self) { return -s $self->node->logfile // 0 }

# Makes this the beginning of the log for log_text(), logs() and check_log().
sub forget_log ($self) { $self->{log_start} = $self->log_size; return }

# The server log since the scenario began, or since an earlier log_size().
sub log_text ($self, $since = undef) { return slurp_file($self->node->logfile, $since // $self->{log_start}) }

# Test: so many lines of the log match, now or soon, since a process may write them after others have
# gone on; the count may be ">0".
sub logs ($self, $pattern, $count, $name)
{
	my @found;
	$self->poll(sub { @found = grep { $_ =~ $pattern } split /\n/, $self->log_text; @found >= ($count eq '>0' ? 1 : $count) }, 10);
	my $right = $count eq '>0' ? @found > 0 : @found == $count;
	return ok($right, "$name: $count lines of the log match") || diag($self->log_text);
}

# Notes the processes that must be the same after every scenario.  A crash restart keeps
# the postmaster and ends the checkpointer.
sub note_state ($self)
{
	$self->{postmaster} = $self->postmaster_pid;
	# a server may be ready before its checkpointer shows itself
	$self->poll(sub { ($self->{checkpointer}) = $self->pids_of_type('checkpointer') }) or die "there is no checkpointer\n";
	$self->{log_start} //= 0;
	return;
}

sub postmaster_pid ($self) { return (split /\n/, slurp_file($self->node->data_dir . '/postmaster.pid'))[0] }

# Returns the names of processes that have changed since note_state().
sub _who_has_gone ($self)
{
	return join ', ', $self->postmaster_pid == $self->{postmaster} ? () : 'postmaster', kill(0, $self->{checkpointer}) ? () : 'checkpointer';
}

sub begin_scenario ($self)
{
	$self->forget_log;
	$self->{unchanged} = [];
	$self->sql('DO $$ BEGIN DROP SCHEMA IF EXISTS scenario CASCADE; CREATE SCHEMA scenario; END $$');
	return;
}

# Returns SQL that finds AIO handles in use, except in these states, and pinned buffers.
# pg_buffercache does not show a pinned buffer without a valid page; its counts do.
sub _reads_left ($self, @states)
{
	my @queries = ("SELECT 'in use: ' || a FROM pg_aios a WHERE state <> ALL ('{" . join(',', @states) . "}')");
	# a handle in use has its buffers pinned
	push @queries, "SELECT pinned || ' pinned' FROM pg_buffercache_usage_counts() WHERE pinned > 0"
	  if !@states && !$self->lacks('pg_buffercache');
	return @queries;
}

# Returns SQL that finds buffers with I/O in progress, filters, held reads, and a running trace.
sub _control_left ($self)
{
	my @queries = "SELECT 'in progress: ' || b FROM buffers_in_progress() b";
	push @queries, "SELECT 'filter: ' || r FROM io_filters r" if $self->{has_filters};
	push @queries, "SELECT 'held: ' || h FROM io_held h" if $self->{has_gate};
	push @queries, "SELECT 'trace: ' || s FROM io_trace_status s WHERE running" if $self->{has_trace};
	return @queries;
}

# Ends what a scenario has left, so that the next scenario does not see it.
sub _end_control ($self)
{
	$self->sql("SELECT inj_io_$_()") for $self->{has_filters} && !$self->no_faults ? qw(completion_continue short_read_detach reopen_detach) : ();
	$self->end_filters if $self->{has_gate};
	$self->sql('SELECT io_trace_stop(), io_trace_reset()') if $self->{has_trace};
	return;
}

# Fails if an oracle has found something.  An assertion that passes for each of them would take a tenth of a scenario's time.
sub is_nothing ($found, $name) { return $found eq '' || is($found, '', $name) }

# Fails if these queries find something, which may go soon.
sub _finds_nothing ($self, $name, @queries)
{
	my $query = join ' UNION ALL ', @queries;
	my $rows;
	$self->poll(sub { $rows = $self->prepared($query); $rows eq '' }, $settle);
	return 1 if is_nothing($rows, $name);
	diag($self->sql('SELECT b FROM pg_buffercache b WHERE pinning_backends > 0')) if !$self->lacks('pg_buffercache');
	return 0;
}

# Has a session with temporary tables evict them, since no view shows pins of local
# buffers: evict_rel() warns of a pinned block.
sub _evict_temporary ($self, $session)
{
	return if !$session->has_temporary_tables || !$session->pid || $session->has_gone;
	$session->starts("SELECT evict_rel(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace = pg_my_temp_schema()")->wait_for_end;
	return;
}

# Asks the oracles, with the parameters of scenario().
sub end_scenario ($self, %params)
{
	return fail("the server is there: $@") if $params{dies} && !eval { $self->observe; 1 };

	$_->end_sessions for $self->standbys;
	is_nothing(join(', ', $self->end_faults), 'no fault left in effect');
	# those of sessions end with them; one of the observer's would have the oracles wait
	my $filters = "SELECT 'filter: ' || r FROM io_filters r WHERE holder IS NULL OR holder = pg_backend_pid()";
	is_nothing($self->{has_filters} && !$params{dies} ? $self->prepared($filters) : '', 'no filter is left: $aio->end_filters') || $self->_end_control;

	# first with the sessions, which are idle: whatever they hold is leaked
	my @sessions = values %{ $self->{sessions} };
	my @warnings;
	for my $session ($params{dies} ? () : @sessions)
	{
		eval { $session->wait_for_end; $self->_evict_temporary($session); 1 } or fail("session is idle at the end: $@");
		push @warnings, map { $session->name . ": $_->{all}" } $session->warnings;
	}
	eval { $self->check_unchanged_tables; 1 } or fail("tables can be read at the end: $@");
	$self->note_abilities if $params{dies};
	my $leaves = $params{leaves} // $self->{leaves};
	my $leaving = $self->log_size;
	my @control = $self->_control_left;
	if (!$params{dies} && $self->prepared(join ' UNION ALL ', @control, $self->_reads_left) eq '') { $self->keep_clean_sessions }
	else
	{
		$self->_finds_nothing('nothing is left', $self->_reads_left($leaves eq 'nothing' ? () : $leaves));
		# then without the sessions: a session that exits gives back what it has
		$self->end_sessions;
		$self->_finds_nothing('nothing is left after the sessions', @control, $leaves eq 'nothing' ? () : $self->_reads_left)
		  || $self->_end_control;
	}
	push @warnings, grep { /\] client backend \S+ (?:WARNING|ERROR|FATAL|PANIC): / } split /\n/, $self->log_text($leaving);
	is_nothing(join("\n", @warnings), 'no unexpected warning, also while the sessions leave');

	my $no_pins = $self->lacks('pg_buffercache');
	SKIP: { skip "no pin is looked for: $no_pins", 1 if $no_pins }
	$self->note_state if $params{dies};
	is($self->_who_has_gone, '', 'the same server');
	my @expected = ref $params{log} eq 'ARRAY' ? @{ $params{log} } : $params{log} // ();
	$self->check_log([ @expected, $params{dies} ? @restart : () ]);
	return;
}

# Matches what the server logs when one of these sessions is terminated.
sub terminated ($self, @names)
{
	my $names = join '|', @names;
	return qr/client backend (?:$names) FATAL:  terminating connection due to administrator command/;
}

# Matches what walsender and walreceiver may log when one of the servers stops.
my $replication_ends = qr/walreceiver\ FATAL:\ \ (?:terminating\ walreceiver\ process\ due\ to\ administrator\ command|streaming\ replication\ receiver\ \S+\ could\ not\ connect
		|(?:could\ not\ (?:receive\ (?:data|database\ system\ identifier\ and\ timeline\ ID|timeline\ history\ file)\ from|send\ data\ to|send\ end-of-streaming\ message\ to|start\ WAL\ streaming:|create\ replication\ slot)
			|error\ (?:while\ shutting\ down\ streaming\ COPY|reading\ result\ of\ streaming\ command):)\ (?!.*\bERROR:))
	|walsender\ \S+\ (?:LOG|FATAL):\ \ (?:could\ not\ send\ data\ to\ client:\ Broken\ pipe|connection\ to\ client\ lost)/x;

# Kills a process (SIGKILL).  The log may say so.
sub kill_process ($self, $pid)
{
	push @{ $self->{killed} }, qr/postmaster LOG:  [^()]+ \(PID $pid\) was terminated by signal 9: Killed/;
	kill 'KILL', $pid or die "cannot kill $pid: $!\n";
	return;
}

# Fails if something alarming is in the log, except lines that match an expected pattern.  The
# pattern must match the severity, too: qr/alice FATAL:  terminating connection/.
sub check_log ($self, $expected = undef)
{
	my @expected = (ref $expected eq 'ARRAY' ? @$expected : $expected // (), @{ delete $self->{killed} // [] }, $self->{replicates} || $self->standbys ? $replication_ends : ());
	# of a worker that fails the postmaster tells later
	my $untold = sub ($log) { return grep { $log !~ /background worker "parallel worker" \(PID $_\) exited/ } $log =~ /\[(\d+)\] parallel worker (?:\S+ )?(?:ERROR|FATAL):/g };
	$self->poll(sub { !$untold->($self->log_text) }, 10);
	my @alarms;
	for my $line (split /\n/, $self->log_text)
	{
		next if $line !~ $alarming && $line !~ $background || $line =~ $harmless;
		my @matching = grep { $line =~ $_ } @expected;
		next if grep { $line =~ /($_)/ && $1 =~ $severity } @matching;
		push @alarms, $line . (@matching ? " (the expected pattern $matching[0] does not match the severity)" : '');
	}
	$self->forget_log;
	return is_nothing(join("\n", @alarms), 'nothing alarming in the log');
}

# Returns what ALTER SYSTEM has set, as setting => value.
sub _altered ($self)
{
	return { map { /^([\w.]+) = (.*)/ ? ($1 => $2) : () } split /\n/, slurp_file($self->node->data_dir . '/postgresql.auto.conf') };
}

# Returns the databases and tablespaces, as DROP names them, databases first.
sub _databases_and_tablespaces ($self)
{
	return split /\n/, $self->sql(q{SELECT format('DATABASE %I', datname) FROM pg_database UNION ALL SELECT format('TABLESPACE %I', spcname) FROM pg_tablespace ORDER BY 1});
}

# Returns the directories of databases and tablespaces, which tell faster than a query that there is no other.
sub _directories ($self) { my $data = $self->node->data_dir; return join ' ', glob "$data/base/* $data/pg_tblspc/* $data/pg_tblspc/*/*/*" }

# Returns what a scenario may change that is not in its schema, for restore_shared_state().
sub shared_state ($self)
{
	my ($last, $directories) = ($self->{last_state}, $self->_directories);
	my $objects = $last && $last->{directories} eq $directories ? $last->{objects} : { map { $_ => 1 } $self->_databases_and_tablespaces };
	return $self->{last_state} = { altered => $self->_altered, objects => $objects, directories => $directories };
}

# Undoes what ALTER SYSTEM has changed since shared_state() returned this, and drops new databases and tablespaces.
sub restore_shared_state ($self, $state)
{
	my ($before, $now) = ($state->{altered}, $self->_altered);
	my @changed = grep { ($before->{$_} // '') ne ($now->{$_} // '') } sort keys %{ { %$before, %$now } };
	$self->alter_system(map { $_ => $before->{$_} // 'DEFAULT' } @changed) if @changed;
	return if $self->_directories eq $state->{directories};
	my @new = grep { !$state->{objects}{$_} } $self->_databases_and_tablespaces or return;
	eval { $self->sql($_) } // fail("the scenario leaves nothing: $@") for 'DROP SCHEMA IF EXISTS scenario CASCADE', map { "DROP $_" } @new;
	return;
}

# Runs a scenario for each of these rows, a value or an array.
sub _scenario_of_each ($self, $rows, $name, $body, %params)
{
	for my $row (map { ref eq 'ARRAY' ? $_ : [$_] } @$rows)
	{
		my %of_row = map { $_ => ref $params{$_} eq 'CODE' ? $params{$_}->(@$row) : $params{$_} } keys %params;
		my $places = () = $name =~ /%s/g;
		$self->scenario($places ? sprintf($name, @$row[ 0 .. $places - 1 ]) : "$name, $row->[0]", sub ($aio) { $body->($aio, @$row) }, %of_row);
	}
	return;
}

# The line of the test's file that is being executed.
sub _line_of_test
{
	my $frame = 0;
	while (my (undef, $file, $line) = caller $frame++) { return $line if $file =~ m{/\Q$FindBin::RealScript\E$} }
	return '?';
}

# Runs one scenario with a schema and sessions of its own, and asks the oracles.  TestAio.pm describes the parameters.
sub scenario ($self, $name, $body, %params)
{
	return $self->_scenario_of_each(delete $params{each}, $name, $body, %params) if $params{each};
	return subtest "$self->{method}: $name" => sub {
		plan skip_all => $params{skip} if $params{skip};
		# prove's output tells how far a hanging test has come
		note("scenario: $name");
		TestAio::Pool::note_scenario($self->{slot}, "$0, $name") if $self->{slot};
		my $state = $self->shared_state;
		$self->end_kept_sessions if $params{dies};
		$self->begin_scenario;
		my $line;
		my $lived = eval {
			local $SIG{__DIE__} = sub { $line = _line_of_test() };
			$body->($self);
			1;
		};
		fail("the scenario runs to its end: $@") || diag("it ended in line $line") if !$lived;
		$lived = eval { $self->end_scenario(%params); $self->restore_shared_state($state); 1 };
		fail("the scenario can be ended: $@") if !$lived;
		$self->renew_if_crashed($name);
	};
}

1;
