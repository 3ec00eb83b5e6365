# Recordings: all that the statements of a script return, report and count, for comparison with
# what another server does (TestAio/Difference.pm).
#
#	recorded($aio, 'scans')		runs t/recordings/scans.sql in a scenario, and returns its recording
#	record('scans', …)		is a test of a server of its own, which does so and compares
#
# TEST_AIO_RECORD_INTO=DIRECTORY has recordings written there instead, and TEST_AIO_COMPARE_WITH=DIRECTORY
# has them compared with those that are there; servers/compare sets these.  Without them each
# script runs twice, and is to do the same.
#
# TestAio/Script.pm describes the scripts, TestAio/Observed.pm and TestAio/Steps.pm say what the
# lines of a recording mean.  One more:
#	waits for NAME	the statement has begun, and waits for a lock of this session

package TestAio::Recording;

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use TestAio;
use TestAio::Difference;
use TestAio::Observed;
use TestAio::Required;
use TestAio::Script;
use TestAio::Steps;
use Test::More;

our @ISA = qw(TestAio::Observed);
our @EXPORT = qw(record recorded why_no_recordings);

sub _session ($self, $name)
{
	return $self->{sessions}{$name} //= do {
		my $session = $self->{aio}->session($name);
		$session->sql('SET search_path = recorded, public; SET client_min_messages = log; SET max_parallel_maintenance_workers = 0');
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

# What looks at statements that are under way.
sub _stepper ($self) { return $self->{stepper} //= TestAio::Steps->new($self->{aio}) }

# Waits until a session waits for a lock of another; returns the lines about it.
sub _waits ($self, $session, $for)
{
	my ($pid, $holder) = map { $_->pid } $session, $self->_session($for);
	my $waits;
	my $query = "SELECT pg_blocking_pids($pid) @> ARRAY[$holder]";
	$self->{aio}->poll(sub { ($waits = $self->{aio}->sql($query) eq 't') || $session->has_ended });
	return "does not wait for $for" if !$waits;
	my $progress = TestAio::Steps::differences({}, $self->_stepper->progress($session));
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
		delete $self->{stepper};
		$self->begin;
		# a crash resets the counters, and those of sessions end with them
		return $sql, grep { /^(?:class|pool) / } TestAio::Observed::changes($before, $self->{seen});
	}
	return $sql, $self->pages(@$arguments), TestAio::Observed::changes($before, $self->look) if $command eq 'pages';
	return $sql, $self->_write(@$arguments) if $command eq 'write';
	die "$sql: there is no such command\n" if $command;
	my $session = $self->_session($name);
	$aio->sql("SELECT io_trace_stop(), io_trace_reset(), io_trace_start(pid => ${\$session->pid})") if $aio->{has_trace} && !$sums_only;
	my $log = $aio->log_size;
	if ($statement->{by_steps})
	{
		my @steps = $self->_stepper->steps($session, $sql);
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
	push @lines, $self->reads if !$sums_only;
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
	$self->fill_in_wal(@parts);
	my %lacks = (trace => $aio->lacks('trace'), pool => $aio->lacks('pg_buffercache'));
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
	my $directory = $ENV{TEST_AIO_COMPARE_WITH};
	my $before = $directory ? TestAio::Difference::read("$directory/$name.out") : _record_once($name, 2, %params);
	return if !ref $before;
	my @found = differences($before, $after, $name);
	my $text = join "\n", summary(@found);
	my $number = @{ $after->{parts} };
	ok(!(grep { !defined $_->{expected} } @found), "$name: $number statements do what they did before") ? note($text) : diag($text);
	return;
}

1;
