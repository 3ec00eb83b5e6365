# Runs the sessions of the stress test (t/extension/gate/gate_stress.pl) against a controller that
# holds, fails and delays their reads, and looks at each result.
#
# Each session draws from random numbers of its own, so that a seed replays its statements
# whichever session is faster.

package TestAio::Stress;

use v5.36;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use Test::More;
use Time::HiRes qw(time sleep);

use TestAio::Session;

# blocks of the permanent tables, and of the tables that come and go
use constant { BLOCKS => 180, SIDE_BLOCKS => 60 };

# A function that returns a whole number from 0 to n - 1.
sub _random_numbers ($seed)
{
	my $drawn = 0;
	return sub ($n) { return int($n * hex(substr md5_hex("$seed/" . $drawn++), 0, 8) / 2**32) };
}

sub _one_of ($rand, @list) { return $list[ $rand->(scalar @list) ] }

sub _setup
{
	# a database that is copied must have no other connections
	return ('CREATE DATABASE stress TEMPLATE postgres STRATEGY file_copy',
		"SET allow_in_place_tablespaces = on; CREATE TABLESPACE stress LOCATION ''",
		"CALL make_table('scenario.a', ${\BLOCKS}, '', 0); CALL make_table('scenario.b', ${\BLOCKS}, '', 0);"
		  . 'CREATE INDEX ON scenario.a (blk); CREATE TABLE scenario.c (id int PRIMARY KEY, n int, s text);'
		  . "INSERT INTO scenario.c SELECT i, 0, repeat('c', 500) FROM generate_series(1, 3000) i",
		'VACUUM');
}

# Returns the settings of a session that has just connected.
sub _settings ($rand)
{
	my $parallel = $rand->(3) == 0;
	return "SET statement_timeout = '" . _one_of($rand, 0, 0, 0, '50ms') . "';"
	  . 'SET effective_io_concurrency = ' . _one_of($rand, 0, 1, 16, 16, 100) . ';'
	  . 'SET io_combine_limit = ' . _one_of($rand, 1, 16, 32, 128) . ';'
	  . 'SET enable_seqscan = ' . _one_of($rand, 'on', 'off') . ';'
	  . ($parallel ? 'SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET seq_page_cost = 0' : '');
}

# Returns DDL that a session runs on its own table, which comes and goes.
sub _ddl ($rand, $name)
{
	my $table = "scenario.$name";
	my $kind = _one_of($rand, '', '', 'UNLOGGED');
	return _one_of($rand,
		("DROP TABLE IF EXISTS $table; CALL make_table('$table', ${\SIDE_BLOCKS}, '$kind', 0); CREATE INDEX ${name}_blk ON $table (blk)") x 2,
		# one statement, as BEGIN may be the one that is cancelled
		"DO \$\$ BEGIN TRUNCATE $table; INSERT INTO $table SELECT '$table', i, 0, proof('$table', i, 0) FROM generate_series(0, ${\SIDE_BLOCKS} - 1) i; END \$\$",
		"BEGIN; DROP TABLE $table; ROLLBACK",
		"ALTER TABLE $table SET TABLESPACE " . _one_of($rand, qw(stress pg_default)),
		"CLUSTER $table USING ${name}_blk",
		"VACUUM FULL $table",
		"VACUUM $table",
		"REINDEX TABLE $table");
}

# Returns a session's next statement, a pattern of its result, and a pattern of SQLSTATEs that are its own fault.
sub _statement ($rand, $me, @all)
{
	my ($block, $from, $n) = ($rand->(BLOCKS), $rand->(BLOCKS - 128), _one_of($rand, 4, 8, 128));
	my ($side, $side_block) = ('scenario.' . _one_of($rand, @all), $rand->(SIDE_BLOCKS));
	my $strategy = _one_of($rand, qw(wal_log file_copy));
	my $gone = qr/^42P01$/;
	my $own = qr/^(42P01|42P07|42704)$/;
	return _one_of($rand,
		[ "SELECT problems('scenario.a')", qr/^$/ ],
		[ "SELECT problems('scenario.b')", qr/^$/ ],
		[ 'SELECT count(body) FROM scenario.a', qr/^${\BLOCKS}$/ ],
		[ "SELECT count(*) FROM read_stream_for_blocks('scenario.a', ARRAY(SELECT (i * 37 % ${\BLOCKS})::int FROM generate_series(0, 99) i))", qr/^100$/ ],
		[ "SELECT count(*) > 0 FROM read_buffers('scenario.b', $from, $n)", qr/^t$/ ],
		[ "SELECT body = proof('scenario.a', blk, 0) FROM scenario.a WHERE blk = $block", qr/^t$/ ],
		[ "SELECT bool_and(body = proof('scenario.a', blk, 0)), count(*) FROM scenario.a WHERE blk % 30 = $block % 30", qr{^t\|${\(BLOCKS / 30)}$} ],
		[ 'UPDATE scenario.c SET n = n + 1 WHERE id % 7 = ' . $rand->(7), qr/^$/ ],
		[ 'SELECT count(s) FROM scenario.c', qr/^3000$/ ],
		[ 'VACUUM scenario.c', qr/^$/ ],
		[ 'CHECKPOINT', qr/^$/ ],
		[ "SELECT evict_rel('scenario.a')", qr/^$/ ],
		[ "SELECT evict_rel('scenario.b')", qr/^$/ ],
		[ "CREATE TEMP TABLE IF NOT EXISTS own AS SELECT i, repeat('x', 3000) AS s FROM generate_series(1, 400) i; SELECT evict_rel('own'); SELECT count(*) FROM own", qr/400$/ ],
		[ "BEGIN; SELECT read_rel_block_ll('scenario.a', $from, nblocks => $n, wait_complete => false); ROLLBACK", qr/^\s*$/ ],
		[ "SELECT problems('$side')", qr/^$/, $gone ],
		[ "SELECT body = proof('$side', blk, 0) FROM $side WHERE blk = $side_block", qr/^t$/, $gone ],
		[ "SELECT count(*) FROM read_stream_for_blocks('$side', ARRAY(SELECT generate_series(0, ${\SIDE_BLOCKS} - 1)))", qr/^${\SIDE_BLOCKS}$/, $gone ],
		[ "SELECT evict_rel('$side')", qr/^$/, $gone ],
		([ _ddl($rand, $me), qr/^\s*$/, $own ]) x 3,
		$rand->(8) ? [ 'SELECT 1', qr/^1$/ ] : [ "DROP DATABASE IF EXISTS stress_$me; CREATE DATABASE stress_$me TEMPLATE stress STRATEGY $strategy", qr/^$/, qr/^(42P04|55006)$/ ],
		[ 'DISCONNECT', undef ]);
}

# Returns the controller's next action; "VICTIM" stands for the process of a session.
sub _action ($rand, @all)
{
	my $table = 'scenario.' . _one_of($rand, qw(a b c), _one_of($rand, @all));
	my ($block, $n, $bytes) = ($rand->(BLOCKS), $rand->(5), $rand->(_one_of($rand, 20000, 128 * 8192)));
	my ($ms, $depth, $jitter) = (1 + $rand->(3), 1 + $rand->(16), _one_of($rand, 0, 0.5, 1));
	my $filenode = "relfilenode => pg_relation_filenode('$table')";
	return _one_of($rand,
		"SELECT io_hold('$table', times => 1 + $n)",
		"SELECT io_hold('$table', $block)",
		'SELECT io_hold(times => 2, fork => NULL, everybody => true)',
		'SELECT io_hold_end()',
		('SELECT io_release_all()') x 6,
		'SELECT io_release_all(-5)',
		"SELECT io_release_all($bytes)",
		"SELECT io_release(pid, io_id) FROM io_held ORDER BY io_id * 7919 % (1 + $block) LIMIT 1",
		"SELECT io_release(pid, io_id, $bytes) FROM io_held ORDER BY io_id * 7919 % (1 + $block) LIMIT 1",
		"SELECT io_fail('$table', -5, times => 1)",
		"SELECT io_fail('$table', $bytes, skip => $n, times => 2)",
		'SELECT io_fail_end()',
		"SELECT io_device('$table', '${ms}ms', $depth, $jitter)",
		"SELECT io_device(NULL, '1ms', everybody => true)",
		'SELECT io_device_end()',
		"SELECT inj_io_completion_wait($filenode)",
		('SELECT inj_io_completion_continue()') x 3,
		"SELECT inj_io_short_read_attach($bytes, $filenode)",
		'SELECT inj_io_short_read_detach()',
		'SELECT count(*) FROM io_held',
		'SELECT pg_cancel_backend(VICTIM)',
		'SELECT pg_terminate_backend(VICTIM)',
		$rand->(20) ? 'SELECT count(*) FROM io_filters' : 'SELECT pg_terminate_backend(worker) FROM io_gate');
}

# seconds: between two actions; after which a statement is stuck, since holds end by themselves
use constant { PACE => 0.02, STUCK => 60 };

sub new ($class, $aio, $seed, $sessions)
{
	my @names = map { "s$_" } 1 .. $sessions;
	return bless {
		aio => $aio, names => \@names, rand => { map { $_ => _random_numbers("$seed/$_") } 'controller', @names },
		running => {}, statements => 0, errors => 0, actions => 0,
	}, $class;
}

# Starts to connect a session.  Does not wait: it may have to read a catalog, which is
# held, and only the controller can release it.
sub _connect ($self, $name)
{
	my $aio = $self->{aio};
	$_->disconnect for grep { defined } delete $aio->{sessions}{$name}, delete $self->{connecting}{$name};
	$self->{connecting}{$name} = TestAio::Session->connecting($aio, $name);
	$self->{connecting_since}{$name} //= time;
	return;
}

# Goes on with a session that is being connected.
sub _go_on_connecting ($self, $name)
{
	my $session = $self->{connecting}{$name};
	die "session $name cannot connect\n" if time > $self->{connecting_since}{$name} + STUCK;
	return if !$session->has_ended;
	# the read of a catalog may fail, and a session that connects may be terminated
	return $self->_connect($name) if $session->error;
	delete $self->{$_}{$name} for qw(connecting connecting_since);
	$self->{aio}{sessions}{$name} = $session->connected;
	return $self->_start($name, [ _settings($self->{rand}{$name}) ]);
}

sub _start ($self, $name, $statement)
{
	$self->{aio}->sessions($name)->starts($statement->[0]);
	$self->{running}{$name} = { statement => $statement, since => time };
	return;
}

# Is this error of a statement one that was asked for: a read that was made to fail, a
# cancelled statement, a terminated session?  The oracles look for a crash.
sub _is_expected ($sql, $error, $sqlstate)
{
	# two UPDATEs may deadlock
	return $error->{sqlstate} =~ /^(57014|57P01|40P01|lost)$/
	  || $error->{all} =~ /could not read blocks/
	  # a server bug (doc/reports.md#create-database-error)
	  || $error->{all} =~ /starting batch while batch already in progress/ && $sql =~ /CREATE DATABASE \S+ TEMPLATE \S+ STRATEGY wal_log/
	  || $error->{all} =~ /is in use|is being read by another session/
	  || ($sqlstate && $error->{sqlstate} =~ $sqlstate);
}

sub _check ($self, $name)
{
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
sub _go_on ($self, $name)
{
	return $self->_go_on_connecting($name) if $self->{connecting}{$name};
	my $session = $self->{aio}->sessions($name);
	if (my $running = $self->{running}{$name})
	{
		die "$name does not come back from \"$running->{statement}[0]\"\n" if time > $running->{since} + STUCK;
		return if !$session->has_ended;
		$self->_check($name);
	}
	my $statement = _statement($self->{rand}{$name}, $name, @{ $self->{names} });
	# a statement that ends its transaction did not come to that if it has failed
	$statement = [ 'ROLLBACK', qr/^$/ ] if $session->error && $session->statement =~ /^(?:BEGIN|ROLLBACK)/;
	my $is_lost = $session->error && $session->error->{sqlstate} =~ /^(lost|57P01)$/;
	return $self->_connect($name) if $is_lost || $statement->[0] eq 'DISCONNECT';
	$self->{statements}++;
	return $self->_start($name, $statement);
}

# Returns true if the controller's last action has ended.  An action may wait for the gate's
# worker, which an injected wait holds; after a while another session ends that wait.
sub _controller_is_free ($self)
{
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

sub _act ($self)
{
	return if !$self->_controller_is_free;
	my ($aio, $rand) = ($self->{aio}, $self->{rand}{controller});
	my $sql = _action($rand, @{ $self->{names} });
	my $victim = $self->{names}[ $rand->(scalar @{ $self->{names} }) ];
	return if $sql =~ /VICTIM/ && $self->{connecting}{$victim};
	$sql =~ s/VICTIM/$aio->sessions($victim)->pid/e;
	$aio->{observer}->starts($sql);
	($self->{action}, $self->{acting_since}) = ($sql, time);
	return;
}

sub _run ($self, $seconds)
{
	my $aio = $self->{aio};
	$aio->sql($_) for _setup();
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
sub run ($self, $seconds)
{
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
