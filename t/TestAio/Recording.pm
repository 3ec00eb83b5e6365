package TestAio::Recording;

=head1 NAME

TestAio::Recording - all that the statements of a script return, report and count, for TestAio::Difference

=head1 SYNOPSIS

	use TestAio::Recording;
	print "$_->{session}: $_->{sql}\n" for script('minimal');
	record('minimal');
	done_testing();

TEST_AIO_RECORD_INTO=DIRECTORY has recordings written there, and TEST_AIO_COMPARE_WITH=DIRECTORY has them compared
with those that are there; servers/compare sets these.  Without them each script runs twice, and is to do the same.
TestAio::Observed describes the lines of a recording.  More lines:

	waits for NAME	the statement has begun, and waits for a lock of this session
	progress	what the view of progress shows while it waits
	step	the block that is to be read next, and what has changed in the view of progress
	pins	other blocks that are pinned meanwhile, if not the same as at the step before

Zeros and nulls are left out; "none" is what has become one.  "a or b": two views show the statement, and differ, as
pg_stat_progress_cluster and pg_stat_progress_repack do in 19 about REPACK.  A step is a read of one block, so scripts
set io_combine_limit to 1.  Steps need pg_buffercache.

The session of a statement is alice, or the name before it: "bob: COMMIT;".  Comments before a statement:

	-- waits for bob	it begins, and waits for a lock of bob; its end comes later:
	-- then bob ends, -- then bob waits for carol	what a session that waits does after the statement
	-- sums only	only sums are the same in each run, such as when several processes share the blocks
	-- step by step, -- without steps	from here on statements read all, and stop before each read, or not
	-- script: NAME	the script has the statements of that one
	-- not replayed: reason	leaves the script out of t/server/recovery/replay.pl

In place of a statement there may be

	\restart, \crash	stops the server and starts it again
	\pages RELATION		a checkpoint, and what is in the relation's files then
	\database NAME		ends all sessions, and copies the database
	\write RELATION BLOCK OFFSET HEX	evicts the relation and writes these bytes into a block's file

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio;
use TestAio::Difference;
use TestAio::Observed;
use TestAio::Kernel;
use TestAio::Required;
use TestAio::Wire;
use Test::More;

our @ISA = qw(TestAio::Observed);
our @EXPORT = qw(record recorded why_no_recordings script all_scripts script_length scripts_in_wal);

our $directory = dirname(dirname(__FILE__)) . '/recordings';

# The names of all scripts.
sub all_scripts { return map { m{(\w+)\.sql$} } sort glob "$directory/*.sql" }

sub script_length ($name) { return length _text($name) }

# The names of the scripts whose writes are all in the WAL; the others have the comment "not replayed".
sub scripts_in_wal { return grep { slurp_file("$directory/$_.sql") !~ /^-- not replayed/m } all_scripts() }

# The text of a script.
sub _text ($name)
{
	my $text = slurp_file("$directory/$name.sql");
	return $text =~ /^-- script: (\w+)$/m ? _text($1) : $text;
}

# The statements of a script, in their order, as hashes: sql, session, sums_only, how (all comments); or
# command, and its arguments.
sub script ($name)
{
	my (@statements, $by_steps);
	for my $text (TestAio::Wire::statements(_text($name) =~ s/^(\\\w+.*)$/$1;/mgr))
	{
		my @how = $text =~ /^\s*-- (.+)$/mg;
		my $known = qr/waits for \w+|then \w+ (?:ends|waits for \w+)|sums only|step by step|without steps/;
		my @unknown = grep { /^(?:waits?|then|sums?|steps?|without)\b/ && !/^$known$/ } @how;
		die "$name.sql: what is \"-- $unknown[0]\"?\n" if @unknown;
		/^(?:(step by step)|without steps)$/ and $by_steps = $1 for @how;
		die "$name.sql: \"step by step\" is for statements that wait for nobody\n" if $by_steps && grep { /^(?:waits|then) / } @how;
		my $sql = $text =~ s/^\s*--.*\n//mgr;
		$sql =~ s/^\s+|\s+$//g;
		my $session = $sql =~ s/^(\w+): // ? $1 : 'alice';
		my ($command, @arguments) = $sql =~ /^\\/ ? split / /, substr $sql, 1 : ();
		push @statements, {
			sql => $sql, session => $session, how => \@how, by_steps => $by_steps,
			sums_only => scalar(grep { $_ eq 'sums only' } @how), command => $command // '', arguments => \@arguments };
	}
	return @statements;
}

sub _session ($self, $name)
{
	return $self->{sessions}{$name} //= do {
		my $session = $self->{aio}->session($name);
		$session->sql('SET search_path = recorded, public; SET client_min_messages = log; SET max_parallel_maintenance_workers = 0');
		$self->watch_calls($name, $session->pid);
		$session;
	};
}

# Writes into a file.
sub _write ($self, $relation, $block, $offset, $hex)
{
	my $aio = $self->{aio};
	$aio->sql('CHECKPOINT');
	$aio->evict("recorded.$relation");
	$aio->overwrite($aio->file_of("recorded.$relation"), 8192 * $block + $offset, pack 'H*', $hex);
	$self->look;
	return;
}

# Columns that say nothing about progress, or differ between builds.
my @ignored = qw(pid datid datname dead_tuple_bytes delay_time);

# Prepares what is asked at each step.  The observer knows relations by the view "named" (TestAio/Observed.pm).
sub _prepare_steps ($self)
{
	return if $self->{has_prepared_steps}++;
	my $aio = $self->{aio};
	my $views = join ' UNION ALL ', map { "SELECT pid, to_jsonb(v) AS row FROM $_ v" }
	  split /\n/, $aio->sql(q{SELECT viewname FROM pg_views
		WHERE viewname ~ '^pg_stat_progress_(analyze|vacuum|repack|cluster|create_index|copy)$' ORDER BY 1});
	my $ignored = join ', ', map { "'$_'" } @ignored;
	$aio->sql(<<"END");
PREPARE progress (int) AS
	SELECT DISTINCT key, CASE WHEN key ~ 'relid\$' THEN coalesce((SELECT name FROM named WHERE oid = value::oid), 'another')
			WHEN key = 'current_locker_pid' THEN (SELECT application_name FROM pg_stat_activity WHERE pid = value::int) ELSE value END
	FROM ($views) v, jsonb_each_text(row)
	WHERE pid = \$1 AND key NOT IN ($ignored) AND value NOT IN ('', '0')
	ORDER BY 1, 2;
PREPARE named_by_file (oid) AS SELECT name FROM named WHERE pg_relation_filenode(oid) = \$1;
END
	return;
}

# Returns the blocks that are pinned.
sub _pins ($self)
{
	return split /\n/, $self->{aio}->sql(<<'END');
	SELECT format('%s %s %s', name, (ARRAY['main', 'fsm', 'vm', 'init'])[relforknumber + 1], relblocknumber)
	FROM pg_buffercache JOIN named ON relfilenode = pg_relation_filenode(oid)
	WHERE pinning_backends > 0
	ORDER BY name, relforknumber, relblocknumber
END
}

# What the views of progress say of a session.
sub _progress ($self, $session)
{
	$self->_prepare_steps;
	my %shown;
	for (split /\n/, $self->{aio}->sql("EXECUTE progress (${\$session->pid})"))
	{
		my ($key, $value) = split /\|/;
		$shown{$key} = defined $shown{$key} ? "$shown{$key} or $value" : $value;
	}
	# the snapshots that are waited for include those of queries that look at the session, too, by luck;
	# the number of them is not reset for the next phases
	delete @shown{qw(lockers_done lockers_total)} if ($shown{phase} // '') !~ /^waiting for writers/;
	return \%shown;
}

# What differs between two looks at the progress, in one line.
sub _progress_changes ($before, $after)
{
	return join ', ', map { "$_ " . ($after->{$_} // 'none') }
	  grep { ($before->{$_} // '') ne ($after->{$_} // '') } sort keys %{ { %$before, %$after } };
}

# Performs the read that is held, if its process and number are given, and waits until the session
# has come to the next.  Returns the session's state and what is held: number, file, fork and block.
sub _next_read ($self, $pid, @performed)
{
	$self->{aio}->sql('SELECT ' . (@performed ? 'io_release(' . join(', ', @performed) . '), ' : '') . 'io_settle()');
	my ($state, @held) = split /\n/, $self->{aio}->sql("SELECT coalesce((SELECT coalesce(wait_event, state) FROM pg_stat_activity WHERE pid = $pid), 'gone')"
		  . " UNION ALL SELECT concat_ws('|', io_id, relfilenode, fork, blockno) FROM io_handles_get() WHERE held");
	return ($state, map { [ split /\|/ ] } @held);
}

# Runs a statement step by step, with no block in the pool that can be evicted, and returns the
# lines about it.  The caller takes its outcome.
sub _steps ($self, $session, $sql)
{
	$self->_prepare_steps;
	my $aio = $self->{aio};
	my $pid = $session->pid;
	my ($seen, $pinned, @lines) = ({}, '');
	$aio->sql('SELECT pg_buffercache_evict_relation(oid) FROM named'
		  . q{ WHERE pg_relation_filenode(oid) IS NOT NULL AND name !~ '^(.* of )?temp '});
	my $filter = $aio->sql("SELECT io_hold(fork => NULL, pid => $pid)");
	$session->starts($sql);
	my $latest = time + $aio->timeout;
	my @performed;
	while (!$session->has_ended)
	{
		my ($state, @held) = $self->_next_read($pid, @performed);
		# the session has not begun the statement or has ended it, waits for the snapshot of this very
		# query, or for a moment for whatever else; only a held read is the next step
		($state, @held) = $self->_next_read($pid) while ($state ne 'IoGateHeld' || @held != 1) && !$session->has_ended && time < $latest;
		last if $session->has_ended;
		die "$sql: $state, ${\scalar @held} reads are held\n" if $state ne 'IoGateHeld' || @held != 1;
		my ($io_id, $file, $fork, $block) = @{ $held[0] };
		@performed = ($pid, $io_id);
		# catalogs are read, too
		my $name = $aio->sql("EXECUTE named_by_file ($file)");
		next if $name eq '';
		my $now = $self->_progress($session);
		push @lines, "step $name $fork $block" . (%$now || %$seen ? ': ' . (_progress_changes($seen, $now) || 'the same') : '');
		$seen = $now;
		my $pins = join ', ', grep { $_ ne "$name $fork $block" } $self->_pins;
		push @lines, 'pins ' . ($pins || 'none') if $pins ne $pinned;
		$pinned = $pins;
	}
	$aio->sql("SELECT io_hold_end($filter)");
	return @lines;
}

# Waits until a session waits for a lock of another; returns the lines about it.
sub _waits ($self, $session, $for)
{
	my ($pid, $holder) = map { $_->pid } $session, $self->_session($for);
	my $waits;
	my $query = "SELECT pg_blocking_pids($pid) @> ARRAY[$holder]";
	$self->{aio}->poll(sub { ($waits = $self->{aio}->sql($query) eq 't') || $session->has_ended });
	return "does not wait for $for" if !$waits;
	my $progress = _progress_changes({}, $self->_progress($session));
	return "waits for $for", $progress ? "progress $progress" : ();
}

# Waits for a session's statement; returns the lines about what it gives and reports.
sub _outcome ($self, $session)
{
	my ($error, $result) = ($session->wait_for_end->error, $session->{result});
	my @said = map { $_->{all} } @{ $session->{notices} }, $session->warnings;
	$session->forget_warnings;
	$session->{notices} = [];
	push @said, $error->{all} if $error;
	return $self->rows($result), map { map { "said $_" } split /\n/, $self->masked($_) } @said;
}

# Runs a statement; returns the lines about it.
sub _statement ($self, $statement)
{
	my $aio = $self->{aio};
	my ($sql, $name, $command, $sums_only) = @$statement{qw(sql session command sums_only)};
	my ($arguments, @how) = ($statement->{arguments}, @{ $statement->{how} });

	my ($before, $from) = ($self->{seen}, $self->end_of_wal);
	my @lines;
	if ($command =~ /^(?:restart|crash)$/)
	{
		$aio->end_sessions;
		my $is_clean = $aio->stop_with_sessions($command eq 'crash' ? 'QUIT' : 'INT');
		die "$sql: the shutdown is not clean\n" if !$is_clean && $command eq 'restart';
		$aio->start_again;
		$aio->warm_catalogs;
		$self->{sessions} = {};
		delete $self->{has_prepared_steps};
		$self->begin;
		# a crash resets the counters, and those of sessions end with them
		return $sql, grep { /^(?:class|pool) / } TestAio::Observed::changes($before, $self->{seen});
	}
	return $sql, $self->pages(@$arguments), TestAio::Observed::changes($before, $self->look) if $command eq 'pages';
	return $sql, $self->_write(@$arguments) if $command eq 'write';
	if ($command eq 'database')
	{
		# nobody else may be connected to the template
		$aio->end_sessions;
		$self->{sessions} = {};
		$aio->sql("CREATE DATABASE $arguments->[0] TEMPLATE postgres STRATEGY wal_log");
		return $sql, grep { /^file / } TestAio::Observed::changes($before, $self->look);
	}
	die "$sql: there is no such command\n" if $command;
	my $session = $self->_session($name);
	$aio->sql("SELECT io_trace_stop(), io_trace_reset(), io_trace_start(pid => ${\$session->pid})") if $aio->{has_trace} && !$sums_only;
	my $log = $aio->log_size;
	if ($statement->{by_steps})
	{
		my @steps = $self->_steps($session, $sql);
		push @lines, $self->_outcome($session), @steps;
	}
	else
	{
		$session->starts($sql);
		push @lines, map { /^waits for (\w+)$/ ? $self->_waits($session, $1) : () } @how;
		push @lines, $self->_outcome($session) if !@lines;
	}
	for (@how)
	{
		my ($whose, $for) = /^then (\w+) (?:ends|waits for (\w+))$/ or next;
		my $other = $self->_session($whose);
		push @lines, map { "$whose: $_" } $for ? $self->_waits($other, $for) : $self->_outcome($other);
		$other->starts('SELECT pg_stat_force_next_flush()')->wait_for_end if !$for;
	}
	$aio->sql('SELECT io_trace_stop()') if $aio->{has_trace};
	push @lines, map { "log $_" } grep { my $logged = $_; !grep { index($_, $logged) >= 0 } @lines }
	  map { /client backend $name (?!STATEMENT)(?:\w+):  (.*)/ ? $self->masked($1) : () } split /\n/, $aio->log_text($log);
	# it fails in an aborted transaction, which counts nothing yet
	$session->starts('SELECT pg_stat_force_next_flush()')->wait_for_end if $session->has_ended;
	my $to = $self->end_of_wal;
	# what is left in the pool is luck, too
	$aio->sql("SELECT evict_rel(oid) FROM named WHERE pg_relation_filenode(oid) IS NOT NULL AND name !~ '^(.* of )?temp '") if $sums_only;
	my @changes = TestAio::Observed::changes($before, $self->look, $sums_only);
	# the rest reads and extends catalogs, and how many pages these have is not the same in each build;
	# a transaction counts when it ends
	$self->{extends_catalogs}{$name} ||= $sql !~ /^(?:SELECT|EXPLAIN|INSERT|UPDATE|DELETE|MERGE|COPY|WITH
		|DECLARE|FETCH|MOVE|CLOSE|EXECUTE|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b/x;
	@changes = grep { !m{^io $name/relation/normal:} } @changes if $self->{extends_catalogs}{$name};
	$self->{extends_catalogs}{$name} = 0 if !$session->in_transaction;
	push @lines, @changes, { from => $from, to => $to, sums_only => $sums_only, records => {} };
	my @calls = $self->calls;
	push @lines, $self->reads, @calls if !$sums_only;
	return ($name eq 'alice' ? '' : "$name: ") . $sql, @lines;
}

# Runs a script, and returns its recording.
sub recorded ($aio, $name)
{
	my $self = TestAio::Recording->observe($aio);
	$aio->sql('CREATE SCHEMA recorded');
	my @parts;
	for my $statement (script($name))
	{
		my ($text, @lines) = eval { $self->_statement($statement) } or die "statement ${\(@parts + 1)}, $statement->{sql}: $@";
		push @parts, { statement => $text, lines => \@lines };
	}
	my @waiting = grep { !$self->{sessions}{$_}->has_ended } sort keys %{ $self->{sessions} };
	die "$name: nobody has waited for the end of @waiting\n" if @waiting;
	unwatch(@{ $self->{tracers} // [] });
	$self->fill_in_wal(@parts);
	my %lacks = (trace => $aio->lacks('trace'), pool => $aio->lacks('pg_buffercache'), call => no_strace());
	return {
		version => $aio->setting('server_version'),
		lacks => { map { defined $lacks{$_} ? ($_ => 1) : () } keys %lacks },
		parts => [ map { [ $_->{statement}, map { split /\n/ } @{ $_->{lines} } ] } @parts ] };
}

# Settings of a server for recordings.
sub settings
{
	return (
		# no buffer is needed a second time, or it would be luck which
		shared_buffers => '64MB',
		# until pg_waldump has read it
		wal_keep_size => '2GB',
		wal_writer_delay => '10s',
		track_io_timing => 'on',
		# how long a session waits is luck
		log_lock_waits => 'off',
		'test_aio.reach_synchronous_reads' => 'off');
}

# Returns why nothing can be recorded here, or undef.
sub why_no_recordings
{
	# in another cluster, catalogs have other pages, and what is made has other OIDs
	my $possible = $ENV{INITDB_TEMPLATE} && !defined $ENV{PG_TEST_INITDB_EXTRA_OPTS};
	return unless_required('recordings', $possible ? undef : 'recordings need a cluster that is copied from the template of "make check"');
}

# Writes a file into the directory for recordings.
sub _write_file ($file, $text)
{
	my $path = "$ENV{TEST_AIO_RECORD_INTO}/$file";
	open my $out, '>', $path or die "$path: $!";
	print $out $text;
	close $out;
	return;
}

# Records a script on a server of its own.  Returns the recording, or the reason why there is none.
sub _record_once ($name, $suffix, %params)
{
	my ($needs, $log) = delete @params{qw(needs log)};
	my $made = 'the server did not start';
	with_each_io_method(
		'sync',
		sub ($aio) {
			my ($reason) = map { unless_required('recordings', $_) } grep { defined } map { $aio->lacks($_) } split ' ', $needs // '';
			$made = $reason // 'the script did not run to its end';
			$aio->scenario($name, sub { $made = recorded($aio, $name) },
				dies => scalar(grep { $_->{command} =~ /^(?:crash|restart)$/ } script($name)), log => $log, skip => $reason);
		},
		# nothing depends on what has been before, and with sync on what happens first
		own => 1,
		suffix => $suffix,
		%params,
		conf => { settings(), %{ $params{conf} // {} } });
	return $made;
}

# Tests a script.  Parameters: needs, what the script needs of the server; log as of scenarios; and
# those of with_each_io_method().
sub record ($name, %params)
{
	my $after = _record_once($name, 1, %params);
	if ($ENV{TEST_AIO_RECORD_INTO})
	{
		# what failed is told by t/recordings.pl
		if (ref $after) { _write_file("$name.out", TestAio::Difference::text($after)) }
		elsif (Test::More->builder->is_passing) { _write_file("$name.skipped", $after) }
		return;
	}
	return if !ref $after;
	my $other = $ENV{TEST_AIO_COMPARE_WITH};
	my $before = $other ? TestAio::Difference::read("$other/$name.out") : _record_once($name, 2, %params);
	return if !ref $before;
	my @found = differences($before, $after, $name);
	my $text = join "\n", summary(@found);
	my $number = @{ $after->{parts} };
	ok(!(grep { !defined $_->{expected} } @found), "$name: $number statements do what they did before") ? note($text) : diag($text);
	return;
}

1;
