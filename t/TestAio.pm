package TestAio;

=head1 NAME

TestAio - scenarios of several sessions that read at the same time

=head1 SYNOPSIS

	for_each_io_method('worker; long: all', sub {
		$aio->scenario('two sessions want the same block', with('alice bob', 8, sub ($alice, $bob, $t) {
			$aio->read_at_completion_wait($alice, "SELECT read_rel_block_ll('$t', 3)", relation => $t);
			$bob->waits("SELECT count(*) FROM read_buffers('$t', 3, 1)", 'AioIoCompletion');
			$aio->completion_continue;
			$_->ends for $alice, $bob;
		}), skip => $aio->no_faults);
	});

The first argument of for_each_io_method() says with which io_methods the scenarios run:

	'worker io_uring'	with each of these
	'worker; long: all'	with worker; with TEST_AIO_LONG=1 ("make check-long") with all of the server's
	'long: sync'		not at all without TEST_AIO_LONG=1

If the machine cannot run the first ones, one of those after "long:" takes their place.

Each scenario gets a schema and sessions of its own, and what it sets by ALTER SYSTEM is restored at its end.  Then
the oracles look for what it has left; no scenario mentions them.
The methods of servers and sessions are in Session, Sessions, Tables, Reads, Required, Server and Counters, each with
an example ("perldoc t/TestAio/Session.pm").
TestAio exports the functions of Counters, Kernel and Tables, and switches strict, warnings and signatures on.  A test
that wants more says "use" with TestAio::Recording, TestAio::Pages or TestAio::Neighbours.

for_each_io_method(io_methods, sub, ...) calls the sub with each server, which is also $aio, and ends the test;
with_each_io_method(io_methods, sub, ...) does not end it.  Parameters of both:

	conf		settings
	needs		"gate", "trace", modules of contrib: skips all scenarios on a server without one of them
	prepare		a sub that is called before the other one
	leaves		what scenarios may leave, see below
	own		true for a server of this file alone; else files that need the same settings share one
	suffix		a part of the server's name, if the test makes several servers
	no_data_checksums	a cluster without checksums
	streaming	a cluster that a standby can follow

Parameters of scenario(name, sub, ...):

	leaves		the state in which idle sessions may leave AIO handles, or "nothing";
			COMPLETED_SHARED if not given, which a read keeps until its owner looks
	log		patterns of log lines that are expected, one or an array; each names the
			severity, and the session or process if it can be told: a line is
			"client backend alice FATAL:  message", "postmaster LOG:  message"
	dies		true if the server restarts in the scenario
	skip		the reason to skip the scenario, or undef
	each		rows, a value or an array each: the scenario runs for each of them.  Its body gets the row
			after all else, its name has the row's first value at its end or values for each "%s", and
			a parameter that is a function gets the row, too

=cut

use v5.36;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use Exporter;
use feature ();
use File::Basename qw(dirname);
use FindBin;
use PostgreSQL::Test::Utils ();
use Test2::API qw(test2_add_callback_context_init);
use Test::More;

use TestAio::Counters;
use TestAio::Kernel;
use TestAio::Required;
use TestAio::Server;
use TestAio::Tables;

our @ISA = qw(Exporter);
our @EXPORT = (qw($aio for_each_io_method with_each_io_method only_long is_between), @Test::More::EXPORT,
	@TestAio::Kernel::EXPORT, @TestAio::Counters::EXPORT, @TestAio::Tables::EXPORT);

sub import
{
	strict->import;
	warnings->import(FATAL => 'all');
	feature->import('signatures');
	return __PACKAGE__->export_to_level(1, @_);
}

# An assertion fails in the line of the test, whichever function of TestAio has made it.
my $ours = qr{/TestAio(?:/\w+)?\.pm$};
test2_add_callback_context_init(
	sub ($context) {
		my $frame = $context->trace->frame;
		return if $frame->[1] !~ $ours;
		for (my $depth = 1; my @caller = caller $depth; $depth++)
		{
			next if $caller[1] =~ $ours || $caller[0] =~ /^Test(?:2|::Builder|::More)\b/;
			@$frame[ 0 .. 3 ] = @caller[ 0 .. 3 ];
			return;
		}
});

# The server of the scenarios that are running.
our $aio;

# The checkout.
our $root;

# The file's path below t/, which names logs and servers: server-streams-distance.
my $name;

BEGIN
{
	$root = abs_path(dirname(__FILE__));
	$root = dirname($root) until -e "$root/test_aio.control";
	my $file = "$FindBin::RealBin/$FindBin::RealScript";
	$name = (($file =~ m{^\Q$root\E/t/(.*)} ? $1 : $FindBin::RealScript) =~ s/\.pl$//r) =~ tr{/}{-}r;
	# a file that runs parts of it in processes of their own
	$name .= "-$ARGV[0]" if @ARGV;
	# PostgreSQL::Test::Utils and Cluster make their names of it
	$0 = "$name.pl";
}

# Returns why what takes long does not run, or undef.
sub only_long { return $ENV{TEST_AIO_LONG} ? undef : 'runs only in "make check-long", or if TEST_AIO_LONG=1' }

# Test: a number is in this range.
sub is_between ($found, $from, $to, $name)
{
	return ok($found >= $from && $found <= $to, "$name: $found") || diag("not between $from and $to");
}

# Returns why this machine cannot run a method, or undef.
sub _reason ($method)
{
	return if $method ne 'io_uring';
	# servers/check may have asked already
	my $answer = $ENV{TEST_AIO_IO_URING};
	my $probe = "$root/servers/io_uring_probe";
	if (!$answer && -x $probe)
	{
		my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
		chomp($answer = `"$probe" --brief "$pg_config"`);
	}
	return unless_required('io_uring', !$answer || $answer eq 'usable' ? undef : $answer);
}

# Calls a function, and notes for servers/check that assertions about a server have failed in it.
sub _noting_failures ($server, $function)
{
	my $failures = sub { scalar grep { !$_ } Test::More->builder->summary };
	my ($node, $before) = ($server->node, $failures->());
	$function->();
	return if $failures->() == $before;
	open my $notes, '>>', "$PostgreSQL::Test::Utils::log_path/failed_servers" or die "failed_servers: $!\n";
	print $notes join("\t", $name, $node->basedir, $node->logfile), "\n";
	return;
}

sub _run ($server, $function, $prepare, @needs)
{
	my $method = $server->method;
	my $body = sub {
		$server->start;
		$server->is_method($method);
		my ($reason) = grep { defined } map { $server->lacks($_) } @needs;
		SKIP: {
			skip "$method: $reason", 1 if $reason;
			$prepare->($server) if $prepare;
			$function->($server);
		}
		return 1;
	};
	_noting_failures($server, sub { eval { $body->() } || fail("$method: runs to its end: $@") });
	return;
}

sub _stop ($server)
{
	_noting_failures($server, sub {
		return $server->give_back if $server->{slot};
		ok($server->end_stop, "${\$server->method}: clean shutdown of " . $server->node->name);
		$server->check_log;
	});
	return;
}

# Returns those of the server's io_methods that are named before "long:", and those after it.
sub _named ($words, @known)
{
	my ($always, $long) = $words =~ /^([\w ]*?);? ?(?:long: ([\w ]+))?$/ or die "what is \"io_methods: $words\"?\n";
	return map { my @named = split ' ', $_ // ''; [ "@named" eq 'all' ? @known : @named ] } $always, $long;
}

# How many calls there have been.
my $groups = 0;

# Calls a function with a server of each io_method.  A server stops while the one after it is in use.
sub with_each_io_method ($methods, $function, %params)
{
	my $suffix = delete $params{suffix};
	my @needs = split ' ', delete $params{needs} // '';
	my $prepare = delete $params{prepare};
	$suffix //= $groups if $groups++;
	$params{name} = $name . (defined $suffix ? "_$suffix" : '');

	my @known = TestAio::Server::io_methods();
	my ($always, $long) = _named($methods, @known);
	my @usable;
	for my $method (@known)
	{
		next if !grep { $_ eq $method } @$always, @$long;
		my $reason = _reason($method);
		SKIP: {
			skip "io_method=$method: $reason", 1 if $reason;
		}
		push @usable, $method if !$reason;
	}
	my @now = grep { my $method = $_; !only_long() || grep { $_ eq $method } @$always } @usable;
	@now = $usable[0] if !@now && @usable && @$always;
	SKIP: {
		skip only_long(), 1 if @usable && !@now;
		skip 'runs with all io_methods in "make check-long", or if TEST_AIO_LONG=1', 1 if @now < @usable;
	}
	my $previous;
	for my $method (@now)
	{
		my $server = TestAio::Server->new($method, %params)->launch;
		$server->{repeats} = defined $previous;
		$aio = $server;
		_run($server, $function, $prepare, @needs);
		_stop($_->begin_stop) for grep { $_->is_running } $server->standbys;
		$server->begin_stop if !$server->{slot};
		_stop($previous) if $previous;
		$previous = $server;
	}
	_stop($previous) if $previous;
	return;
}

# The same, and ends the test.
sub for_each_io_method ($methods, $function, %params)
{
	with_each_io_method($methods, $function, %params);
	done_testing();
	return;
}

1;
