package TestAio::Server;

=head1 NAME

TestAio::Server - a test server with one io_method

=head1 SYNOPSIS

	my $server = TestAio::Server->new('worker', name => 'another', conf => { jit => 'on' })->launch->start;
	$server->alter_system(io_combine_limit => "'8kB'");
	$server->scenario('settings', sub ($aio) { is($aio->setting('io_method'), 'worker', 'io_method') });
	ok($server->stop, 'a clean shutdown');

=cut

use v5.36;
use warnings FATAL => 'all';

use Fcntl qw(F_SETFD);
use IO::Select;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use TestAio::Counters;
use TestAio::Oracles;
use TestAio::Pool;
use TestAio::Reads;
use TestAio::Required ();
use TestAio::Sessions;
use TestAio::Tables;

our @ISA = map { "TestAio::$_" } qw(Counters Oracles Reads Required Sessions Tables);

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

# of the pg_config in the PATH
my ($version, @io_methods);

sub new ($class, $method, %params)
{
	my $self = bless {
		method => $method, sessions => {}, conf => $params{conf} // {}, leaves => $params{leaves} // 'COMPLETED_SHARED',
	}, $class;
	my %conf = (%defaults, %{ $self->{conf} });
	# a checkpoint is not to remove what a standby has not received yet; pages in the WAL because of hint bits would do
	# replay's work (PostgreSQL::Test::Cluster turns this on)
	%conf = (wal_keep_size => '1GB', wal_log_hints => 'off', %conf) if $params{streaming};
	$conf{shared_preload_libraries} = 'test_aio' unless exists $conf{shared_preload_libraries};
	$conf{io_method} = $method;
	$self->{settings} = join '', map { "$_ = '$conf{$_}'\n" } sort keys %conf;
	if (TestAio::Pool::is_shared() && !grep({ !$shareable{$_} } keys %{ $self->{conf} }) && !grep { $params{$_} } qw(own streaming no_data_checksums))
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
	else { $self->{node}->_update_pid(-1); $self->forget_log }
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

# Gives up a shared server that the scenario has crashed, and takes another one.
sub renew_if_crashed ($self, $name)
{
	return if !$self->{slot} || !$self->{observer}->has_gone && eval { $self->_who_has_gone eq '' };
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

# Makes a standby of this server, and starts it.
sub make_standby ($self)
{
	return $self->make_from_backup('standby', sub ($node) { $self->node->backup('b'); $node->init_from_backup($self->node, 'b', has_streaming => 1) });
}

# Makes a server by a function that fills its node's directory from a backup of this one, and starts it.
sub make_from_backup ($self, $name, $make)
{
	my $node = PostgreSQL::Test::Cluster->new($self->node->name . "_$name");
	$make->($node);
	my $made = bless {
		node => $node, method => $self->method, sessions => {}, conf => {}, replicates => 1, lacks => { pg_buffercache => $self->lacks('pg_buffercache') }, leaves => $self->{leaves},
	}, ref $self;
	push @{ $self->{standbys} }, $made;
	$made->start_again;
	return $made;
}

# Returns the servers that were made from this one, and from those, in the order in which to stop them.
sub standbys { return map { ($_->standbys, $_) } @{ $_[0]->{standbys} // [] } }

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
	# the node stops a server at its end if it knows the process; one that lacks memory may end just now
	$self->{node}->_update_pid(-1);
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

# Starts a server again that was stopped while sessions were at work.
sub start_with_sessions ($self) { return $self->launch->wait_until_ready->wait_for_connections }

# Starts the server after stop(), and waits until it is ready.
sub start_again ($self)
{
	my ($size, $was_clean) = ($self->log_size, $self->{was_clean});
	$self->launch->wait_until_ready;
	unlike($self->log_text($size), qr/was not properly shut down/, 'there was nothing to recover') if $was_clean && !-e $self->node->data_dir . '/standby.signal';
	$self->observe;
	$self->note_abilities;
	$self->note_state;
	return;
}

# Test: the server recovers from an immediate shutdown, after which a function may change files.  The scenario says
# "dies".  Returns what the server logs.
sub recovers ($self, $function = sub { })
{
	my $size = $self->log_size;
	ok($self->stop_with_sessions('QUIT'), 'an immediate shutdown');
	$function->();
	$self->start_with_sessions;
	my $log = $self->log_text($size);
	# before its end it is not
	unlike($log, qr/consistent recovery state/, 'crash recovery does not say that it is consistent');
	like($log, qr/redo done at/, 'the server has recovered');
	return $log;
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

sub signal ($self, $signal) { return kill $signal, $self->{node}{_pid} // return 0 }

# Closes all sessions and asks the server to stop, by a signal as pg_ctl does.  Does not wait until it has stopped.
sub begin_stop ($self)
{
	$self->_leave;
	# a server that has crashed logs nothing more
	@$self{qw(stop_began stopping)} = ($self->log_size, -e $self->_pid_file ? $self->signal('INT') : 0);
	return $self;
}

# Waits until the server has stopped.  Returns true if it was a clean shutdown.
sub end_stop ($self)
{
	$self->{was_clean} = 0;
	$self->poll(sub { !-e $self->_pid_file }) or return 0;
	$self->{node}->_update_pid(0);
	return 0 if !$self->{stopping};
	# the last line of its log, which may be from before if the server was about to end
	my $is_logged = sub { $self->log_text($self->{stop_began}) =~ /database system is shut down/ };
	my $has_stopped = $self->poll(sub { $is_logged->() || $self->{ended} && $self->_has_ended(0) }) && $is_logged->();
	# an immediate shutdown logs the same line
	$self->{was_clean} = $has_stopped && $self->log_text($self->{stop_began}) !~ /received immediate shutdown request/;
	return $has_stopped;
}

# Asks for a smart shutdown, calls a function while sessions are at work, closes them and
# waits until the server has stopped.  Returns true if it was a clean shutdown.
sub smart_stop ($self, $function)
{
	$self->end_kept_sessions;
	@$self{qw(stop_began stopping)} = ($self->log_size, $self->signal('TERM'));
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

# Test: the server ends by itself.
sub ends ($self, $name)
{
	my $ended = $self->poll(sub { !$self->is_running });
	$self->node->_update_pid(0) if $ended;
	return ok($ended, $name);
}

# Stops the server by a signal while sessions are at work.  Returns true if it was a clean shutdown.
sub stop_with_sessions ($self, $signal)
{
	$self->end_kept_sessions;
	$self->{observer}->disconnect;
	@$self{qw(stop_began stopping)} = ($self->log_size, $self->signal($signal));
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

# Changes settings of the running server; those that a scenario changes are restored at its end.
sub alter_system ($self, %settings)
{
	$self->sql("ALTER SYSTEM SET $_ = $settings{$_}") for sort keys %settings;
	$self->sql('SELECT pg_reload_conf()');
	return;
}

# Makes a tablespace "elsewhere".
sub make_tablespace ($self)
{
	my $directory = $self->node->basedir . '/elsewhere';
	-d $directory or mkdir $directory or die "mkdir $directory: $!";
	$self->sql("CREATE TABLESPACE elsewhere LOCATION '$directory'");
	return;
}

1;
