# Recordings: all that the statements of a script return, report and count, compared with what
# is kept of an earlier run.
#
#	recordings(['scans', …], …)	runs t/recordings/scans.sql, …, each on a server of its own
#	recorded($aio, 'scans')		runs it in a scenario
#
# t/recordings/scans.18.out has what server 18 did.  A difference is a bug of the server, or a
# change that was meant: TEST_AIO_RECORD_INTO=DIRECTORY writes the file there, for a reviewer to read.
# TEST_AIO_COMPARE_WITH=DIRECTORY compares with the files there, such as those of a server without
# a patch.
#
# TestAio/Script.pm describes the scripts.
#
# TestAio/Observed.pm and TestAio/Steps.pm say what the lines of a recording mean.  One more:
#	waits for NAME	the statement has begun, and waits for a lock of this session

package TestAio::Recording;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio;
use TestAio::Observed;
use TestAio::Script;
use TestAio::Steps;
use Test::More;

our @ISA = qw(TestAio::Observed);
our @EXPORT = qw(recordings recorded);

# Where the recordings are.
sub _directory { return $ENV{TEST_AIO_COMPARE_WITH} || $TestAio::Script::directory }

sub _session
{
	my ($self, $name, $database) = @_;
	return $self->{sessions}{$name} //= do {
		my $session = $self->{aio}->session($name, $database ? (dbname => $database) : ());
		$session->sql('SET search_path = recorded, public; SET client_min_messages = log; SET max_parallel_maintenance_workers = 0');
		$session;
	};
}

# Writes into a file.
sub _write
{
	my ($self, $relation, $block, $offset, $hex) = @_;
	my $aio = $self->{aio};
	$aio->sql('CHECKPOINT');
	$aio->evict("recorded.$relation");
	$aio->overwrite($aio->file_of("recorded.$relation"), 8192 * $block + $offset, pack 'H*', $hex);
	$self->look;
	return;
}

# What looks at statements that are under way.
sub _stepper { my ($self) = @_; return $self->{stepper} //= TestAio::Steps->new($self->{aio}) }

# Waits until a session waits for a lock of another; returns the lines about it.
sub _waits
{
	my ($self, $session, $for) = @_;
	my ($pid, $holder) = map { $_->pid } $session, $self->_session($for);
	my $waits;
	$self->{aio}->poll(sub { ($waits = $self->{aio}->sql("SELECT pg_blocking_pids($pid) @> ARRAY[$holder]") eq 't') || $session->has_ended });
	return "does not wait for $for" if !$waits;
	my $progress = TestAio::Steps::differences({}, $self->_stepper->progress($session));
	return "waits for $for", $progress ? "progress $progress" : ();
}

# Waits for a session's statement; returns the lines about what it gives and reports.
sub _outcome
{
	my ($self, $session) = @_;
	my ($error, $result) = ($session->wait_for_end->error, $session->{result});
	my @said = map { $_->{all} } @{ $session->{notices} }, $session->warnings;
	$session->forget_warnings;
	$session->{notices} = [];
	push @said, $error->{all} if $error;
	return $self->rows($result), map { map { "said $_" } split /\n/, $self->masked($_) } @said;
}

# Runs a statement; returns the lines about it.
sub _statement
{
	my ($self, $statement) = @_;
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
	if ($command eq 'end')
	{
		$aio->end_session(delete $self->{sessions}{ $arguments->[0] });
		return $sql, TestAio::Observed::changes($before, $self->look);
	}
	die "$sql: there is no such command\n" if $command;
	my $session = $self->_session($name, $statement->{database});
	$aio->sql("SELECT io_trace_stop(), io_trace_reset(), io_trace_start(pid => ${\$session->pid})") if $aio->{has_trace} && !$sums_only;
	my $log = $aio->log_size;
	if (grep { $_ eq 'step by step' } @how)
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
	$self->{extends_catalogs}{$name} ||= $sql !~ /^(?:SELECT|EXPLAIN|INSERT|UPDATE|DELETE|MERGE|COPY|DECLARE|FETCH|MOVE|CLOSE|EXECUTE|WITH|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b/;
	@changes = grep { !m{^io $name/relation/normal:} } @changes if $self->{extends_catalogs}{$name};
	$self->{extends_catalogs}{$name} = 0 if !$session->in_transaction;
	push @lines, @changes, { from => $from, to => $to, sums_only => $sums_only, records => {} };
	push @lines, $self->reads if !$sums_only;
	return ($name eq 'alice' ? '' : "$name: ") . $sql, @lines;
}

# Parts of a recording: [ statement, lines ].
sub _parts
{
	my ($text) = @_;
	my @parts;
	for (split /^=== /m, $text)
	{
		my ($statement, $lines) = /^(.*?)\n---\n(.*)$/s or next;
		push @parts, [ $statement, $lines ];
	}
	return @parts;
}

# The version that recordings are kept for: all minor versions of a release behave the same, and
# versions under development do not.
sub version
{
	my ($aio) = @_;
	my ($version) = split ' ', $aio->setting('server_version');
	return $version =~ s/^(\d+)\.\d+$/$1/r;
}

# Returns why a server cannot be compared, or undef.
sub _incomparable
{
	my ($aio, $kept_as) = @_;
	# in another cluster, catalogs have other pages, and what is made has other OIDs
	return 'recordings need a cluster that is copied from the template of "make check"' if !$ENV{INITDB_TEMPLATE} || defined $ENV{PG_TEST_INITDB_EXTRA_OPTS};
	my $version = version($aio);
	die "TEST_AIO_COMPARE_WITH=$ENV{TEST_AIO_COMPARE_WITH} has no $kept_as.$version.out\n" if $ENV{TEST_AIO_COMPARE_WITH} && !-e _directory() . "/$kept_as.$version.out";
	return -e _directory() . "/$kept_as.$version.out" || $ENV{TEST_AIO_RECORD_INTO} ? undef : "there are no recordings of PostgreSQL $version";
}

# Runs a script, and compares what it does with what is kept, under its own name or another one.
sub recorded
{
	my ($aio, $name, $kept_as) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $self = TestAio::Recording->observe($aio);
	$aio->sql('CREATE SCHEMA recorded');
	my @parts = map { my ($statement, @lines) = $self->_statement($_); { statement => $statement, lines => \@lines } } script($name);
	my @waiting = grep { !$self->{sessions}{$_}->has_ended } sort keys %{ $self->{sessions} };
	die "$name: nobody has waited for the end of @waiting\n" if @waiting;
	note('no reads are compared: ' . $aio->lacks('trace')) if $aio->lacks('trace');
	$self->fill_in_wal(@parts);
	my @found = map { [ $_->{statement}, join '', map { "$_\n" } @{ $_->{lines} } ] } @parts;
	my $file = join '.', $kept_as // $name, version($aio), 'out';
	if (my $target = $ENV{TEST_AIO_RECORD_INTO})
	{
		open my $out, '>', "$target/$file" or die "$target/$file: $!";
		print $out map { "=== $_->[0]\n---\n$_->[1]\n" } @found;
		close $out;
		return fail("$file is written again; read it");
	}
	my @kept = _parts(slurp_file(_directory() . "/$file"));
	is(join("\n", map { $_->[0] } @found), join("\n", map { $_->[0] } @kept), "$name: the statements") or return;
	for my $number (0 .. $#found)
	{
		my ($statement, $lines) = @{ $found[$number] };
		my $shown = $statement =~ s/\s+/ /gr;
		is($lines =~ s/\n*\z//r, $self->_comparable($kept[$number][1]), "$name, ${\($number + 1)}: $shown");
	}
	return;
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
		'test_aio.trace_completions' => 'on',
		'test_aio.reach_synchronous_reads' => 'off');
}

# Runs scripts, each on a server of its own.  Parameters: modules, names of
# contrib modules that the scripts need; kept_as, the recordings' name if it is not the script's;
# log as of scenarios; and those of for_each_io_method().
sub recordings
{
	my ($names, %params) = @_;
	my ($modules, $kept_as, $log) = delete @params{qw(modules kept_as log)};
	my $target = $ENV{TEST_AIO_RECORD_INTO};
	die "TEST_AIO_RECORD_INTO=$target: not a directory that ${\(scalar getpwuid $>)} can write to\n" if $target && !(-d $target && -w _);
	for my $name (@$names)
	{
		my $kept = $kept_as // $name;
		with_each_io_method(
			sub {
				my ($aio) = @_;
				my @lacks = grep { defined } map { $aio->lacks($_) } split ' ', $modules // '';
				$aio->scenario($kept, sub { recorded($aio, $name, $kept) }, dies => scalar(grep { $_->{command} =~ /^(?:crash|restart)$/ } script($name)), log => $log, skip => $lacks[0] // _incomparable($aio, $kept));
			},
			# with sync, nothing depends on what happens first
			io_methods => 'long: sync',
			suffix => $kept,
			%params,
			conf => { settings(), %{ $params{conf} // {} } });
	}
	return;
}

# A kept text without what this server cannot show.
sub _comparable
{
	my ($self, $text) = @_;
	$text =~ s/^trace .*\n//mg if !$self->{aio}{has_trace};
	$text =~ s/^pool .*\n//mg if $self->{aio}->lacks('pg_buffercache');
	$text =~ s/\n*\z//;
	return $text;
}

1;
