# Scenarios of several sessions that read at the same time.
#
#	use FindBin;
#	use lib $FindBin::RealBin;
#	use TestAio;
#
#	for_each_io_method(
#		sub {
#			my ($aio) = @_;
#
#			$aio->scenario('two sessions want the same block', sub {
#				my ($alice, $bob) = $aio->sessions(qw(alice bob));
#				my $t = $aio->table('t', 8);
#
#				$aio->hold(relation => $t);
#				$alice->starts("SELECT read_rel_block_ll('$t', 3)");
#				$aio->holds(1);
#				$bob->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
#				$bob->waits_on('AioIoCompletion');
#				$aio->release;
#				$alice->returns('', 'reads it');
#				$bob->returns('1', 'gets it too');
#				$aio->proves($t);
#			}, skip => $aio->no_faults);
#		});
#
# Each io_method that the server offers and the machine can run gets a server of
# its own, and each scenario a schema and sessions of its own.  After each, the
# oracles are asked (TestAio/Oracles.pm); they need not be mentioned.
#
# Sessions: starts, returns, raises, waits_on; sql, gives, fails; warns
# (TestAio/Session.pm).  The server: sessions, wait_for (TestAio/Server.pm); hold,
# release, falsify (TestAio/Faults.pm); table, evict, proves (TestAio/Data.pm);
# io_during (TestAio/Counters.pm).

package TestAio;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(basename dirname);
use FindBin;
use PostgreSQL::Test::Utils ();
use Test::More;

use TestAio::Server;

our @EXPORT = (qw(for_each_io_method with_each_io_method), @Test::More::EXPORT);

my $name = basename($0, '.pl');

# All io_methods that the servers of this pg_config know.
sub _io_methods
{
	my $bindir = _pg_config('--bindir');
	# the value is wrong so that the server tells the right ones
	local $ENV{LC_ALL} = 'C';
	my $said = `"$bindir/postgres" -C io_method -c io_method=none_such -D / --config-file=/dev/null 2>&1`;
	my ($methods) = $said =~ /Available values: (.*?)\.?$/m
	  or BAIL_OUT("the server does not tell its io_methods: $said");
	return split /, /, $methods;
}

sub _pg_config
{
	my ($what) = @_;
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
	chomp(my $answer = `"$pg_config" $what`);
	return $answer;
}

# Why this machine cannot run a method, or undef.
sub _obstacle
{
	my ($method) = @_;
	return if $method ne 'io_uring';
	# who runs all tests may have asked already
	my $answer = $ENV{TEST_AIO_IO_URING};
	my $probe = dirname($FindBin::RealBin) . '/servers/io_uring_probe';
	if (!$answer && -x $probe)
	{
		my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
		chomp($answer = `"$probe" "$pg_config"`);
	}
	return !$answer || $answer eq 'usable' ? undef : $answer;
}

sub _run
{
	my ($server, $function, $prepare, @needs) = @_;
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
	my $lived = eval { $body->() };
	fail("$method: runs to its end: $@") if !$lived;
	return;
}

sub _stop
{
	my ($server) = @_;
	ok($server->end_stop, "${\$server->method}: clean shutdown");
	$server->check_log([qr/FATAL:.*terminating connection due to administrator command/]);
	return;
}

# Calls a function with a server of each io_method.  Parameters:
#	conf		settings
#	versioned	further settings, by the version from which on they are meant
#	prepare		a function to be called before
#	workers		number of I/O workers
#	needs		"gate", "trace" or both: skips all where the server has none
#	methods		only these
#	suffix		of the server's name, if there are several
#	initdb, no_data_checksums, streaming: as of PostgreSQL::Test::Cluster
#
# Servers start while the one before them is in use, and stop while the one after
# them is.
sub with_each_io_method
{
	my ($function, %params) = @_;
	my @only = @{ delete $params{methods} // [] };
	my $suffix = delete $params{suffix};
	my @needs = split ' ', delete $params{needs} // '';
	my $prepare = delete $params{prepare};
	$params{name} = $name . (defined $suffix ? "_$suffix" : '');

	my @methods;
	for my $method (_io_methods())
	{
		next if @only && !grep { $_ eq $method } @only;
		my $obstacle = _obstacle($method);
	  SKIP: {
			skip "io_method=$method: $obstacle", 1 if $obstacle;
		}
		push @methods, $method if !$obstacle;
	}
	my $launch = sub { @methods ? TestAio::Server->new(shift @methods, %params)->launch : undef };
	my ($next, $previous) = ($launch->());
	while (my $server = $next)
	{
		$next = $launch->();
		_run($server, $function, $prepare, @needs);
		$server->begin_stop;
		_stop($previous) if $previous;
		$previous = $server;
	}
	_stop($previous) if $previous;
	return;
}

# The same, and ends the test.
sub for_each_io_method
{
	my ($function, %params) = @_;
	with_each_io_method($function, %params);
	done_testing();
	return;
}

1;
