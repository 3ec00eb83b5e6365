# A test server with one io_method, and what a scenario asks of it.
#
# The observer is a session of the library's own, which watches the sessions of scenarios.

package TestAio::Server;

use v5.36;
use warnings FATAL => 'all';

use Fcntl qw(F_SETFD);
use FindBin;
use IO::Select;
use IPC::Run ();
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

use TestAio::Counters;
use TestAio::Data;
use TestAio::Faults;
use TestAio::Gate;
use TestAio::Oracles;
use TestAio::Pool;
use TestAio::Required ();
use TestAio::Session;
use TestAio::Trace;

our @ISA = qw(TestAio::Counters TestAio::Data TestAio::Faults TestAio::Gate TestAio::Oracles TestAio::Trace);

# Settings of servers that are shared: others are too rare, or disturb the tests of another file.
my %shareable = map { $_ => 1 }
  qw(shared_buffers io_max_combine_limit io_max_concurrency max_worker_processes max_parallel_workers max_prepared_transactions
  test_aio.gate test_aio.reach_synchronous_reads);

# settings of all servers; a test may override them
my %defaults = (
	autovacuum => 'off',
	# only the tests read and write blocks
	bgwriter_lru_maxpages => 0,
	checkpoint_timeout => '1h',
	checkpoint_completion_target => 0,
	max_wal_size => '2GB',
	# the clusters of a run may lie in memory
	wal_recycle => 'off',
	max_connections => 30,
	max_logical_replication_workers => 0,
	shared_buffers => '16MB',
	jit => 'off',
	max_prepared_transactions => 2,
	# the process and the session, for patterns of log lines to name
	log_line_prefix => '%m [%p] %b %q%a ',
	log_statement => 'none',
	max_parallel_workers_per_gather => 0,
	synchronize_seqscans => 'off',
	timezone => 'UTC',
);

# What a file may leave in a shared server, besides extensions and what make_data_functions() makes: nothing.
my $left_behind = <<'END';
SELECT pg_describe_object(c, o, 0) FROM (
	SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relkind NOT IN ('i', 't') AND relpersistence <> 't'
	UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE proname NOT IN ('proof', 'add_pages', 'make_table', 'problems', 'problems_left')
	UNION ALL SELECT 'pg_authid'::regclass, oid FROM pg_roles
	UNION ALL SELECT 'pg_namespace'::regclass, oid FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_') own (c, o)
WHERE o >= 16384 AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = c AND objid = o AND deptype = 'e')
UNION ALL SELECT 'prepared: ' || gid FROM pg_prepared_xacts
UNION ALL SELECT 'settings: ' || s FROM pg_db_role_setting s
END

# Bugs of doc/reports.md: major version => server_version_num of the first release without the bug.
my %fixed_in = (
	'autoprewarm-lock' => {},
	'crash-leaves-files' => {},
	'create-database-error' => {},
	'create-database-minimal' => {},
	'create-database-sequence' => {},
	'dropped-without-file' => {},
	'eviction-counted-twice' => {},
	'hit-not-counted' => {},
	'io_uring-buffer-wait-hang' => {},
	'io_uring-rings-kept' => {},
	'io_uring-wait-hang' => {},
	'many-bad-blocks' => {},
	'pgstatindex-new-page' => {},
	'progress-views' => {},
	'set-tablespace-rollback' => {},
	'stream-end-waits' => {},
	'temporary-file-names' => {},
	# 18 and 19 have these numbers in different places
	'toast-index-progress' => { 18 => 180000, 19 => 190000 },
	'unlogged-rollback-crash' => {},
	'xact-views-leak' => {},
);

# of the pg_config in the PATH
my ($version, @io_methods);

sub new ($class, $method, %params)
{
	my $self = bless {
		method => $method, sessions => {}, conf => $params{conf} // {}, leaves => $params{leaves} // 'COMPLETED_SHARED',
	}, $class;
	my %conf = (%defaults, %{ $self->{conf} });
	# a checkpoint is not to remove what a standby has not received yet
	$conf{wal_keep_size} //= '1GB' if $params{streaming};
	# the number of I/O workers, in the server's own settings
	for my $version (grep { $self->major >= $_ } sort keys %{ $params{versioned} // {} })
	{
		%conf = (%conf, %{ $params{versioned}{$version} });
	}
	$conf{$_} = $params{workers} for !$params{workers} ? () : $self->major < 19 ? 'io_workers' : qw(io_min_workers io_max_workers);
	$conf{shared_preload_libraries} = 'test_aio' unless exists $conf{shared_preload_libraries};
	$conf{io_method} = $method;
	$self->{settings} = join '', map { "$_ = '$conf{$_}'\n" } sort keys %conf;
	if (TestAio::Pool::is_shared() && !grep({ !$shareable{$_} } keys %{ $self->{conf} }) && !grep { $params{$_} } qw(own streaming no_data_checksums workers versioned))
	{
		$self->_take;
		return $self;
	}
	$self->{node} = PostgreSQL::Test::Cluster->new("$params{name}_$method");
	$self->_init(allows_streaming => $params{streaming});
	$self->_disable_data_checksums if $params{no_data_checksums};
	return $self;
}

sub _init ($self, %params)
{
	$self->{node}->init(%params);
	$self->{node}->append_conf('postgresql.conf', $self->{settings});
	return;
}

# Takes one of the servers that files share, which may run already.
sub _take ($self)
{
	($self->{slot}, my $is_new) = TestAio::Pool::take($self->{settings});
	$self->{node} = $self->{slot}{node};
	TestAio::Pool::note_scenario($self->{slot}, $0);
	$self->{is_prepared} = !$is_new;
	if ($is_new) { $self->_init }
	else { $self->{node}->_update_pid(1); $self->forget_log }
	return;
}

# Gives a shared server to the next file that needs it.  Test: it is as it was.
sub give_back ($self)
{
	$self->restore_shared_state($self->{before});
	# no dirty buffers and no WAL for the next file
	$self->sql("DROP SCHEMA IF EXISTS scenario CASCADE; CHECKPOINT");
	my $is_clean = is($self->sql($left_behind), '', "${\$self->method}: nothing is left in ${\$self->node->name}");
	$self->_leave;
	$is_clean = $self->check_log && $is_clean;
	$is_clean ? TestAio::Pool::give_back($self->{slot}) : TestAio::Pool::drop($self->{slot});
	return;
}

# Has an unexpected thing happened to the server's processes?
sub _has_crashed ($self) { return $self->{observer}->has_gone || !eval { $self->_who_has_gone eq '' } }

# Gives up a shared server that the scenario has crashed, and takes another one.
sub _renew ($self, $name)
{
	fail("$name has crashed its server: " . $self->node->logfile);
	$self->check_log;
	TestAio::Pool::drop($self->{slot});
	$self->{sessions} = {};
	delete $self->{observer};
	$self->_take;
	$self->launch->start;
	return;
}

# Disables data checksums before the first start.  With initdb's option this would take seconds, since
# PostgreSQL::Test::Cluster would not use its template.
sub _disable_data_checksums ($self)
{
	my $node = $self->{node};
	my $output = '';
	IPC::Run::run [ $node->config_data('--bindir') . '/pg_checksums', '--disable', '--no-sync', '-D', $node->data_dir ], '>&', \$output
	  or $output =~ /already disabled/ or die "pg_checksums: $output";
	return;
}

# A standby of another server, made from a backup of it, started.
sub of_backup ($class, $primary, $backup)
{
	my $node = PostgreSQL::Test::Cluster->new($primary->node->name . '_standby');
	$node->init_from_backup($primary->node, $backup, has_streaming => 1);
	my $self = bless {
		node => $node, method => $primary->method, sessions => {}, conf => {}, replicates => 1, lacks => { pg_buffercache => $primary->lacks('pg_buffercache') }, leaves => $primary->{leaves},
	}, $class;
	push @{ $primary->{standbys} }, $self;
	$self->start_again;
	return $self;
}

# The standbys of this server.
sub standbys { return @{ $_[0]->{standbys} // [] } }

# Waits until a standby has replayed all WAL.  VACUUM may end before its WAL is written, so this sub writes some more.
sub replayed_by ($self, $standby)
{
	my $end = $self->sql("SELECT pg_logical_emit_message(false, 'test_aio', '', flush => true)");
	$standby->wait_for("SELECT pg_last_wal_replay_lsn() >= '$end'");
	return;
}

# Returns what pg_waldump says of each record between two positions in the WAL.
sub wal_records ($self, $from, $to)
{
	my $node = $self->{node};
	# left to itself, pg_waldump reads the segment size from any file, also from one that is still empty
	my @files = split /\|/, $self->sql("SELECT pg_walfile_name('$from'), pg_walfile_name('$to'::pg_lsn - 1)");
	my $errors = $node->basedir . '/pg_waldump.errors';
	my $command = "'${\$node->config_data('--bindir')}/pg_waldump' --path='${\$node->data_dir}/pg_wal' --start=$from --end=$to @files 2>'$errors'";
	open my $records, '-|', $command or die "pg_waldump: $!";
	my @records = <$records>;
	close $records or die "pg_waldump from $from to $to: " . slurp_file($errors) . "\n";
	return @records;
}

# Test: the server says that it has this io_method.
sub is_method ($self, $method) { return is($self->setting('io_method'), $method, "$method: SHOW io_method") }

# Starts the server.  Returns false if the server ends.  This is faster than pg_ctl, which runs
# postgres once more to ask for its version.
sub _begins_to_run ($self)
{
	my $node = $self->{node};
	# or each of its processes looks up by itself which functions of libraries it calls
	local %ENV = $node->_get_env(PGAPPNAME => undef, LD_BIND_NOW => 1);
	# the server inherits an end of the pipe, which closes when the server ends
	pipe $self->{ended}, my $inherited or die "pipe: $!";
	fcntl $inherited, F_SETFD, 0 or die "fcntl: $!";
	PostgreSQL::Test::Utils::system_or_bail('sh', '-c', 'exec setsid --fork "$@" </dev/null >>"$0" 2>&1',
		$node->logfile, 'postgres', '-D', $node->data_dir, '--cluster-name=' . $node->name);
	close $inherited;
	$self->poll(sub { -s $self->_pid_file || $self->_has_ended(0) });
	return -s $self->_pid_file;
}

# Has the server ended, with all of its processes?  Waits for it for so many seconds.
sub _has_ended ($self, $seconds) { return IO::Select->new($self->{ended})->can_read($seconds) }

# Did the server end because no memory was left for its rings of io_uring?  They are locked memory,
# of which each user has a limited amount, and servers of other tests may use all of it.
sub _lacked_memory ($self)
{
	# the server removes its status file before it writes the last line of its log
	$self->_has_ended($self->timeout);
	return $self->log_text(0) =~ /could not setup io_uring queue: Cannot allocate memory\n.*\n\z/;
}

# Starts the server, again if it lacked memory for its rings.  Does not wait until it is ready;
# start() does.
sub launch ($self)
{
	return $self if $self->{slot} && $self->is_running;
	$self->poll(sub { return 1 if $self->_begins_to_run || !$self->_lacked_memory; TestAio::Pool::drop_idle(qr/io_method = 'io_uring'/); return 0 });
	# the node stops a server at its end if it knows the process
	$self->{node}->_update_pid(1) if -s $self->_pid_file;
	return $self;
}

sub _pid_file ($self) { return $self->{node}->data_dir . '/postmaster.pid' }

# Waits until the server is ready, makes the extensions, and notes what the server can do.
sub start ($self)
{
	$self->wait_until_ready;
	$self->observe;
	$self->sql('CREATE EXTENSION IF NOT EXISTS test_aio') if !$self->{is_prepared};
	$self->lacks('pg_buffercache');
	$self->warm_catalogs;
	$self->make_data_functions if !$self->{is_prepared};
	$self->note_abilities;
	$self->note_state;
	$self->{before} = $self->shared_state;
	return $self;
}

# Waits until the server is ready.  Dies with its log if it has ended.
sub wait_until_ready ($self)
{
	$self->poll(sub {
		if (!-e $self->_pid_file)
		{
			$self->_lacked_memory or die "the server has not started; its log:\n" . $self->log_text(0) . "\n";
			TestAio::Pool::drop_idle(qr/io_method = 'io_uring'/);
			$self->launch;
			return 0;
		}
		# a server that lacks memory removes the file at any time
		return ((split /\n/, eval { slurp_file($self->_pid_file) } // '')[7] // '') =~ /^ready/;
	}) or die "timed out waiting for the server to start\n";
	return $self;
}

# Waits until a server that has crashed has started again.  It learns of the crash late, and would then end a new
# connection; its status file says "ready" until then.  Like any start, this one may lack memory for its rings.
sub wait_for_restart ($self)
{
	$self->poll(sub {
		$self->wait_until_ready if !-e $self->_pid_file;
		return $self->log_text =~ /ready to accept connections/;
	}) or die "no restart\n";
	$self->observe;
	return;
}

# (Re)connects the observer, for example after a crash restart.
sub observe ($self)
{
	$self->{observer}->disconnect if $self->{observer};
	$self->{observer} = TestAio::Session->new($self, 'observer');
	$self->forget_faults;
	$self->sql('SET client_min_messages = error');
	return;
}

# Waits until the server accepts connections again, and forgets the sessions' warnings about the restart.
sub restarted ($self)
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

# Starts a server again that was stopped while sessions were at work.
sub comes_back ($self) { return $self->launch->wait_until_ready->restarted }

# Starts the server after stop(), and waits until it is ready.
sub start_again ($self)
{
	$self->launch->wait_until_ready;
	$self->observe;
	$self->note_abilities;
	$self->note_state;
	return;
}

# Test: the server recovers from an immediate shutdown.  The scenario says "dies".
sub recovers ($self)
{
	my $size = $self->log_size;
	ok($self->stop_with_sessions('QUIT'), 'an immediate shutdown');
	$self->comes_back;
	return like($self->log_text($size), qr/redo done at/, 'the server has recovered');
}

# Closes all sessions and waits until their backends have gone.
sub end_sessions ($self)
{
	my @sessions = map { values %{ delete $self->{$_} // {} } } qw(sessions resting);
	$_->disconnect for @sessions;
	$_->quit for @sessions;
	return;
}

# Closes the sessions of earlier scenarios.
sub end_resting ($self)
{
	return if !$self->{resting};
	my $sessions = delete $self->{sessions};
	$self->end_sessions;
	$self->{sessions} = $sessions;
	return;
}

# Leaves the sessions from which nothing is left for the file's next scenario, since to connect takes longer than many
# a scenario; closes the others.
sub rest_sessions ($self)
{
	my %resting = map { $_->rests ? ($_->name => $_) : () } values %{ $self->{sessions} };
	delete @{ $self->{sessions} }{ keys %resting };
	%resting = (%{ delete $self->{resting} // {} }, %resting);
	$self->end_sessions;
	$self->{resting} = \%resting;
	return;
}

# Closes all sessions, the observer too.  Waits until all clients have gone, those that are
# not sessions as well: a backend that has yet to notice would log an error at shutdown.
sub _leave ($self)
{
	$self->end_sessions;
	# a server that has crashed has no observer to ask
	eval { $self->wait_for("SELECT count(*) = 1 FROM pg_stat_get_activity(NULL) WHERE backend_type = 'client backend'") }
	  if $self->{observer};
	$self->{observer}->quit if $self->{observer};
	$self->{observer} = undef;
	return;
}

# Sends a signal to the postmaster.
sub signal ($self, $signal) { return kill $signal, $self->{node}{_pid} // return 0 }

# Closes all sessions and asks the server to stop, by a signal as pg_ctl does.  Does not wait until it has stopped.
sub begin_stop ($self)
{
	$self->_leave;
	$self->{stop_began} = $self->log_size;
	$self->{stopping} = 0;
	# a server that has crashed logs nothing more
	$self->{stopping} = $self->signal('INT') if -e $self->_pid_file;
	return $self;
}

# Waits until the server has stopped.  Returns true if it was a clean shutdown.
sub end_stop ($self)
{
	$self->poll(sub { !-e $self->_pid_file }) or return 0;
	$self->{node}->_update_pid(0);
	return 0 if !$self->{stopping};
	# the last line of its log
	return $self->poll(sub { $self->log_text($self->{stop_began}) =~ /database system is shut down/ });
}

# Asks for a smart shutdown, calls a function while sessions are at work, closes them and
# waits until the server has stopped.  Returns true if it was a clean shutdown.
sub smart_stop ($self, $function)
{
	$self->end_resting;
	$self->{stop_began} = $self->log_size;
	$self->{stopping} = $self->signal('TERM');
	$function->();
	# the server may have stopped before the sessions are told
	$self->_leave;
	return $self->end_stop;
}

sub is_running { return -e $_[0]->_pid_file }

sub stop ($self)
{
	$self->begin_stop;
	return $self->end_stop;
}

# Stops the server by a signal while sessions are at work.  Returns true if it was a clean shutdown.
sub stop_with_sessions ($self, $signal)
{
	$self->end_resting;
	$self->{observer}->disconnect;
	$self->{stop_began} = $self->log_size;
	$self->{stopping} = $self->signal($signal);
	return $self->end_stop;
}

# Has the test run with another io_method before?
sub repeats { return $_[0]->{repeats} }

sub node { return $_[0]->{node} }
sub method { return $_[0]->{method} }
sub version { return $version //= PostgreSQL::Version->new(scalar `pg_config --version`) }
sub major { return version()->major }

# Returns the io_methods that the server knows.
sub io_methods
{
	return @io_methods if @io_methods;
	# a server that gets a wrong value names the right ones
	local $ENV{LC_ALL} = 'C';
	my $said = `"\$(pg_config --bindir)/postgres" -C io_method -c io_method=none_such -D / --config-file=/dev/null 2>&1`;
	my ($methods) = $said =~ /Available values: (.*?)\.?$/m
	  or BAIL_OUT("the server does not tell its io_methods: $said");
	@io_methods = split /, /, $methods;
	TestAio::Required::unless_required('io_uring', 'the server does not know io_uring') if !grep { $_ eq 'io_uring' } @io_methods;
	return @io_methods;
}

# Waits of this process that have taken too long.  After some of them the server hangs
# in most scenarios, and the file is to end all the same.
my $overdue_waits = 0;
my $most_overdue_waits = 3;

# Returns how many seconds a wait may take.
sub timeout
{
	my $timeout = $PostgreSQL::Test::Utils::timeout_default;
	return $overdue_waits < $most_overdue_waits ? $timeout : min($timeout, max(5, $timeout / 10));
}

# Seconds without any activity of the server after which a wait is given up.
our $rest = 5;

# Tells that a wait has been in vain: what was asked last, what came, and what the server's processes do.
sub tell_vain_wait ($self, $why, $asked, $came, $rest)
{
	diag(join "\n  ", "waited in vain: $why", defined $asked ? "asked: $asked" : (), defined $asked ? 'came: ' . ($came // 'an error') : (),
		grep { !/^\d+\|idle\|Client\||\|Activity\|/ } split /\n/, $rest // '');
	diag("further waits end after ${\$self->timeout} s") if ++$overdue_waits == $most_overdue_waits;
	return;
}

# Returns what the server's processes do and have done, or undef if one of them is at work, is about to be, or cannot be
# seen: processes that wait for each other, or for what is held, wait until somebody does something about it.
sub _state_of_rest ($self)
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

# Returns a function that returns what the server's processes do, once they have been at rest for some time.
sub watch ($self)
{
	my ($state, $since, $next) = ('', 0, time + 2);
	return sub {
		return if time < $next;
		my $now = $self->_state_of_rest // '';
		($state, $since) = ($now, time) if !$now || $now ne $state;
		$next = time + 0.5;
		return time - $since >= $rest ? $state : undef;
	};
}

# Runs a statement in the observer.
sub sql ($self, $sql)
{
	# a database that is copied must not be in use
	$self->end_resting if $sql =~ /^CREATE DATABASE/;
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
sub comes_to_give ($self, $sql, $expected, $name = $sql)
{
	my $found;
	$self->poll(sub { $found = $self->sql($sql); $found eq $expected });
	return is($found, $expected, $name);
}

sub setting ($self, $name) { return $self->sql("SELECT current_setting('$name')") }

# Makes the extension of a contrib module.  Returns false if the module is not installed.
sub has_extension ($self, $extension)
{
	my $error = $self->{observer}->starts("CREATE EXTENSION IF NOT EXISTS $extension SCHEMA public")->wait_for_end->error;
	die "$extension: $error->{all}\n" if $error && $error->{sqlstate} ne '0A000';
	$self->unless_required($extension, $error ? $error->{message} : undef) if $extension ne 'test_aio';
	return !$error;
}

# Returns why this server lacks a thing, or undef if it does not.  Dies if the thing is
# required, unless the test has set the server up without it.
sub unless_required ($self, $thing, $reason)
{
	my $conf = $self->{conf};
	my $without = ($conf->{shared_preload_libraries} // 'test_aio') !~ /test_aio/
	  || $thing =~ /gate|faults/ && exists $conf->{'test_aio.gate'}
	  || $thing eq 'faults' && $self->method eq 'sync' && ($conf->{'test_aio.reach_synchronous_reads'} // '') eq 'off'
	  || $thing eq 'trace' && exists $conf->{'test_aio.trace_size'};
	return $without ? $reason : TestAio::Required::unless_required($thing, $reason);
}

# Returns true if this server has a bug of doc/reports.md.  The tests of t/server/bugs fail if that is not so:
# if a release has the fix, %fixed_in says so; if a tree has, TEST_AIO_FIXED='name ...' does.
sub has_bug ($self, $bug)
{
	my $fixed_in = $fixed_in{$bug} or die "%fixed_in does not know the bug \"$bug\"\n";
	my $fixed = $fixed_in->{ $self->major };
	my $has = !grep({ $_ eq $bug } split ' ', $ENV{TEST_AIO_FIXED} // '') && (!defined $fixed || $self->setting('server_version_num') < $fixed);
	# servers/check prints these notes
	note('this server ' . ($has ? 'has the' : 'is without the') . " bug $bug");
	return $has;
}

sub has_assertions ($self) { return $self->setting('debug_assertions') eq 'on' }

# Sessions of these names, connected now or already.
sub sessions ($self, @names)
{
	my @new = map { $self->{sessions}{$_} ? () : delete $self->{resting}{$_} // TestAio::Session->connecting($self, $_) } @names;
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
	my $pause = $self->pause;
	# with sync, StartReadBuffers() starts nothing
	return $session->waits($self->batch("SELECT read_rel_block_ll('$table', $block, wait_complete => false)", $pause), 'advisory')
	  if $self->method eq 'sync';
	return $session->waits("SELECT stage_reads('$table', $block, 1, advisory_lock => 4711, wait_complete => false)", 'IoStaged');
}

# Lets paused statements and staged reads go on.
sub resume ($self)
{
	$self->sql('SELECT pg_advisory_unlock(4711)');
	$self->{is_pausing} = 0;
	return;
}

# Calls a function every few milliseconds until it returns true.  Dies with the function; returns 0 when
# it takes too long or, without a timeout of its own, when nothing happens any more.
sub poll ($self, $function, $timeout = undef)
{
	my $deadline = time + ($timeout // $self->timeout);
	my $watch = $self->watch;
	my $wait = 0.001;
	until ($function->())
	{
		my $observer = $self->{observer};
		my ($asked, $came) = $observer ? ($observer->statement, $observer->result) : ();
		my $at_rest = defined $timeout ? undef : $watch->();
		if ($at_rest || time > $deadline)
		{
			$self->tell_vain_wait($at_rest ? 'nothing happens any more' : "it took ${\$self->timeout} s", $asked, $came, $at_rest) if !defined $timeout;
			return 0;
		}
		sleep $wait;
		$wait = $wait * 1.5 < 0.02 ? $wait * 1.5 : 0.02;
	}
	return 1;
}

# Waits until so many seconds have passed by the server's own clock.
sub wait_seconds ($self, $seconds)
{
	my $since = $self->sql('SELECT extract(epoch FROM clock_timestamp())');
	return $self->wait_for("SELECT extract(epoch FROM clock_timestamp()) > $since + $seconds");
}

# Waits until a query of the observer returns true.
sub wait_for ($self, $query)
{
	return 1 if $self->poll(sub { $self->sql($query) eq 't' });
	# what a comparison has on its left
	my $figure = $query =~ /^SELECT ([^=<>]+?) (?:=|[<>]=?) (?:\d+|'[^']*'(?:::\w+)?)( FROM .+)?$/s ? "SELECT $1" . ($2 // '') : undef;
	my $came = $figure ? eval { $self->sql($figure) } : undef;
	die "waited in vain for: $query" . (defined $came ? "; came: $came" : '') . "\n";
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

# Changes settings of the running server; those that a scenario changes are restored at its end.
sub alter_system ($self, %settings)
{
	$self->sql("ALTER SYSTEM SET $_ = $settings{$_}") for sort keys %settings;
	$self->sql('SELECT pg_reload_conf()');
	return;
}

# Waits until there are so many I/O workers, or a number that compares so: ">= 2".
sub wait_for_workers ($self, $number)
{
	$number = "= $number" if $number =~ /^\d/;
	return $self->wait_for("SELECT count(*) $number FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker'");
}

# Makes a tablespace "elsewhere".
sub make_tablespace ($self)
{
	my $directory = $self->node->basedir . '/elsewhere';
	-d $directory or mkdir $directory or die "mkdir $directory: $!";
	$self->sql("CREATE TABLESPACE elsewhere LOCATION '$directory'");
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
		$self->end_resting if $params{dies};
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
		$self->_renew($name) if $self->{slot} && $self->_has_crashed;
	};
}

1;
