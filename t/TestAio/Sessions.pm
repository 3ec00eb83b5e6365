package TestAio::Sessions;

=head1 NAME

TestAio::Sessions - a server's sessions, its observer, which is a session of the library's own, and waiting

=head1 SYNOPSIS

	my ($carol, $dora) = $aio->sessions(qw(carol dora));
	$aio->stages($carol, $t, 3);
	$aio->gives_soon("SELECT count(*) FROM pg_aios WHERE pid = ${\$carol->pid}", $aio->method eq 'sync' ? 0 : 1);
	$aio->resume;
	$carol->ends;
	$aio->poll(sub { $aio->wait_event($carol->pid) eq 'ClientRead' }) or fail('the session is idle');

=cut

use v5.36;
use warnings FATAL => 'all';

use List::Util qw(max min);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use Time::HiRes qw(time sleep);

use TestAio::Session;

# Waits of this process that have taken too long.  After some of them the server hangs
# in most scenarios, and the file is to end all the same.
my ($overdue_waits, $most_overdue_waits) = (0, 3);

# Returns how many seconds a wait may take.
sub timeout
{
	my $timeout = $PostgreSQL::Test::Utils::timeout_default;
	return $overdue_waits < $most_overdue_waits ? $timeout : min($timeout, max(5, $timeout / 10));
}

# Seconds without any activity of the server after which a wait is given up.
our $idle_seconds = 5;

# Reports that a wait was in vain: the last query, its result, and what the server's processes do.
sub report_timeout ($self, $why, $asked, $came, $idle)
{
	diag(join "\n  ", "waited in vain: $why", defined $asked ? "asked: $asked" : (), defined $asked ? 'came: ' . ($came // 'an error') : (),
		grep { !/^\d+\|idle\|Client\||\|Activity\|/ } split /\n/, $idle // '');
	diag("further waits end after ${\$self->timeout} s") if ++$overdue_waits == $most_overdue_waits;
	return;
}

# Notes a wait that took ten times longer than it should, though it was not in vain; servers/check prints such waits.
sub note_wait ($self, $begin)
{
	my ($seconds, $level) = (time - $begin, 1);
	return if $seconds < 5;
	$level++ while (caller $level)[1] =~ /\bTestAio\b/ && caller $level + 1;
	note(sprintf 'waited %.0f s at %s line %d', $seconds, (caller $level)[ 1, 2 ]);
	return;
}

# Returns what the server's processes do and have done, or undef if one of them is at work, is about to be, or cannot be
# seen: processes that wait for each other, or for what is held, wait until somebody does something about it.
sub _idle_activity ($self)
{
	my $observer = $self->{observer};
	return if !$observer || $self->{replicates} || $self->standbys || !$observer->is_free;
	my $activities = eval { $self->sql(<<'END') } // return;
SELECT string_agg(concat_ws('|', pid, coalesce(state, ''), coalesce(wait_event_type, ''), coalesce(wait_event, ''), backend_type), E'\n' ORDER BY pid) || E'\n'
	|| (SELECT concat_ws('|', sum(reads), sum(writes), sum(extends), sum(evictions)) FROM pg_stat_io)
FROM pg_stat_get_activity(NULL) WHERE pid <> pg_backend_pid()
END
	for (split /\n/, $activities)
	{
		my ($pid, $state, $type, $event, $backend) = split /\|/;
		next if !defined $backend;
		# a timer will wake it up; its client is to send or take something; it starts other processes
		return if $type =~ /^(?:|Timeout)$/ || $event eq 'IoDevice' || $state eq 'active' && $type eq 'Client' || $backend =~ /^autovacuum/;
		# a process that has been woken up on a busy machine is running, for the kernel
		return if -r "/proc/$pid/stat" && slurp_file("/proc/$pid/stat") !~ /\) S /;
	}
	return $activities;
}

# Returns a function that returns what the server's processes do, once they have been idle for some time.
sub idle_check ($self)
{
	my ($state, $since, $next) = ('', 0, time + 2);
	return sub {
		return if time < $next;
		my $now = $self->_idle_activity // '';
		($state, $since) = ($now, time) if !$now || $now ne $state;
		$next = time + 0.5;
		return time - $since >= $idle_seconds ? $state : undef;
	};
}

# Calls a function every few milliseconds until it returns true.  Dies with the function; returns 0 when
# it takes too long or, without a timeout of its own, when nothing happens any more.
sub poll ($self, $function, $timeout = undef)
{
	my $begin = time;
	my $deadline = $begin + ($timeout // $self->timeout);
	my $idle_check = $self->idle_check;
	my $wait = 0.001;
	until ($function->())
	{
		my $observer = $self->{observer};
		my ($asked, $came) = $observer ? ($observer->statement, $observer->result) : ();
		my $idle = defined $timeout ? undef : $idle_check->();
		if ($idle || time > $deadline)
		{
			$self->report_timeout($idle ? 'nothing happens any more' : "it took ${\$self->timeout} s", $asked, $came, $idle) if !defined $timeout;
			return 0;
		}
		sleep $wait;
		$wait = $wait * 1.5 < 0.02 ? $wait * 1.5 : 0.02;
	}
	$self->note_wait($begin);
	return 1;
}

# Runs a statement in the observer.
sub sql ($self, $sql)
{
	# a database that is copied must not be in use
	$self->end_kept_sessions if $sql =~ /^CREATE DATABASE/;
	return $self->{observer}->sql($sql);
}

# Runs a query in the observer that the suite sends a thousand times.
sub prepared ($self, $query)
{
	my $prepared = $self->{observer}{prepared} //= {};
	my $name = $prepared->{$query} // 'prepared' . keys %$prepared;
	$self->sql("PREPARE $name AS $query") if !$prepared->{$query};
	return $self->sql('EXECUTE ' . ($prepared->{$query} = $name));
}

# Test: the observer gets these rows.
sub gives ($self, $sql, $expected, $name = undef) { return is($self->sql($sql), $expected, $name // $sql) }

# Test: the observer gets these rows, now or soon.
sub gives_soon ($self, $sql, $expected, $name = $sql)
{
	my $found;
	$self->poll(sub { $found = $self->sql($sql); $found eq $expected });
	return is($found, $expected, $name);
}

sub setting ($self, $name) { return $self->sql("SELECT current_setting('$name')") }

# Waits until a query of the observer returns true.
sub wait_for ($self, $query)
{
	return 1 if $self->poll(sub { $self->sql($query) eq 't' });
	# what a comparison has on its left
	my $figure = $query =~ /^SELECT ([^=<>]+?) (?:=|[<>]=?) (?:\d+|'[^']*'(?:::\w+)?)( FROM .+)?$/s ? "SELECT $1" . ($2 // '') : undef;
	my $came = $figure ? eval { $self->sql($figure) } : undef;
	die "waited in vain for: $query" . (defined $came ? "; came: $came" : '') . "\n";
}

# Waits until so many seconds have passed by the server's own clock.
sub wait_seconds ($self, $seconds)
{
	my $since = $self->sql('SELECT extract(epoch FROM clock_timestamp())');
	return $self->wait_for("SELECT extract(epoch FROM clock_timestamp()) > $since + $seconds");
}

# Returns what a process waits for, or "".
sub wait_event ($self, $pid) { return $self->sql("SELECT wait_event FROM pg_stat_get_activity($pid)") }

# Returns what a process does, for messages.
sub activity ($self, $pid)
{
	return $self->sql("SELECT concat_ws(', ', backend_type, state, 'waits on ' || wait_event, query) FROM pg_stat_activity WHERE pid = $pid");
}

# Process ids of the processes of this type.
sub pids_of_type ($self, $type)
{
	return split /\n/, $self->sql("SELECT pid FROM pg_stat_get_activity(NULL) WHERE backend_type = '$type' ORDER BY pid");
}

# Waits until there are so many I/O workers, or a number that compares so: ">= 2".
sub wait_for_workers ($self, $number)
{
	$number = "= $number" if $number =~ /^\d/;
	return $self->wait_for("SELECT count(*) $number FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker'");
}

# Sessions of these names, connected now or already.
sub sessions ($self, @names)
{
	my @new = map { $self->{sessions}{$_} ? () : delete $self->{kept}{$_} // TestAio::Session->connecting($self, $_) } @names;
	$self->{sessions}{ $_->name } = $_->connected for @new;
	return wantarray ? @{ $self->{sessions} }{@names} : $self->{sessions}{ $names[0] };
}

# A session with parameters: dbname, user.
sub session ($self, $name, %params)
{
	return $self->{sessions}{$name} = TestAio::Session->new($self, $name, %params);
}

# Closes a session and waits until its backend has gone.
sub end_session ($self, $session)
{
	$session->quit;
	delete $self->{sessions}{ $session->name };
	return;
}

# Closes all sessions and waits until their backends have gone.
sub end_sessions ($self)
{
	my @sessions = map { values %{ delete $self->{$_} // {} } } qw(sessions kept);
	$_->disconnect for @sessions;
	$_->quit for @sessions;
	return;
}

# Closes the sessions of earlier scenarios.
sub end_kept_sessions ($self)
{
	return if !$self->{kept};
	my $sessions = delete $self->{sessions};
	$self->end_sessions;
	$self->{sessions} = $sessions;
	return;
}

# Keeps clean sessions for the next scenario of the file, since connecting takes longer than many a scenario; closes the
# others.
sub keep_clean_sessions ($self)
{
	my %kept = map { $_->discard_all ? ($_->name => $_) : () } values %{ $self->{sessions} };
	delete @{ $self->{sessions} }{ keys %kept };
	%kept = (%{ delete $self->{kept} // {} }, %kept);
	$self->end_sessions;
	$self->{kept} = \%kept;
	return;
}

# Waits until the server accepts connections again, and forgets the sessions' warnings about the restart.
sub wait_for_connections ($self)
{
	$self->poll(sub {
		return 1 if eval { $self->observe; 1 };
		# another server may have taken the memory meanwhile
		$self->wait_until_ready if !-e $self->_pid_file;
		return 0;
	}) or die "the server does not come back\n";
	$_->wait_for_end->forget_warnings for values %{ $self->{sessions} };
	return;
}

# Returns SQL for the middle of a statement, which pauses there until resume(), on the wait event "advisory".
sub pause ($self)
{
	$self->sql('SELECT pg_advisory_lock(4711)') if !$self->{is_pausing}++;
	return 'SELECT pg_advisory_xact_lock_shared(4711)';
}

# Returns SQL that runs these SELECTs, which return void, in one batch.
sub batch ($self, @selects) { return join ' UNION ALL ', 'SELECT batch_start()', @selects, 'SELECT batch_end()' }

# Has a session stage a read of a block, and submit the read at resume().  It does not wait for the read then.
sub stages ($self, $session, $table, $block)
{
	return $session->waits($self->batch("SELECT read_rel_block_ll('$table', $block, wait_complete => false)", $self->pause), 'advisory');
}

# Lets paused statements and staged reads go on.
sub resume ($self)
{
	$self->sql('SELECT pg_advisory_unlock(4711)');
	$self->{is_pausing} = 0;
	return;
}

# Sessions of these names, and a table "t" of so many pages.  Parameters are those of table(); with a kind,
# the first of the sessions makes the table.
sub sessions_and_table ($self, $names, $nblocks, %params)
{
	my @sessions = $self->sessions(split ' ', $names);
	return (@sessions, $self->table('t', $nblocks, exists $params{kind} ? (session => $sessions[0]) : (), %params));
}

1;
