package TestAio::Pool;

=head1 NAME

TestAio::Pool - servers that live as long as a run of the tests, for all files that need the same settings

=head1 SYNOPSIS

	my ($slot, $is_new) = TestAio::Pool::take("shared_buffers = '16MB'\n");
	TestAio::Pool::note_scenario($slot, 'a scenario');
	TestAio::Pool::give_back($slot);

servers/check makes the directory TEST_AIO_POOL and has the servers stopped at the end of the run.  A test's process
takes a server that no other process has, or else starts one, and locks the file TEST_AIO_POOL/NUMBER, which has the
server's settings and the scenario that is under way.  Without TEST_AIO_POOL each process has servers of its own.

=cut

use v5.36;
use warnings FATAL => 'all';

use Fcntl qw(:flock O_CREAT O_EXCL O_RDWR);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use Time::HiRes qw(sleep time);

my $pool = $ENV{TEST_AIO_POOL};

sub is_shared { return defined $pool }

# Returns the node of a server.  PostgreSQL::Test::Cluster does not know of it, and so does not stop the
# server when the test ends.
sub _node ($number)
{
	my $name = "shared$number";
	my $logs = "$PostgreSQL::Test::Utils::log_path/$name";
	my $node = bless {
		_port => 5432, _host => "$pool/$number.socket", _basedir => "$PostgreSQL::Test::Utils::tmp_check/$name", _name => $name,
		_logfile_generation => 0, _logfile_base => $logs, _logfile => "$logs.log",
		_pg_version => TestAio::Server::version(),
	}, 'PostgreSQL::Test::Cluster';
	return $node;
}

sub _numbers { return sort { $a <=> $b } map { m{/(\d+)$} } glob "$pool/*" }

# Returns the locked file of a server, or undef if another process has it.
sub _lock ($number, $flags = undef)
{
	sysopen my $file, "$pool/$number", O_RDWR | ($flags // 0) or return;
	return flock($file, LOCK_EX | LOCK_NB) ? $file : undef;
}

sub _write ($file, $settings, $scenario)
{
	seek $file, 0, 0;
	truncate $file, 0;
	syswrite $file, $settings eq '' ? '' : "$scenario\n$settings";
	return;
}

# Returns the scenario under way, or "", and the settings; nothing if there is no server any more.
sub _read ($file)
{
	seek $file, 0, 0;
	read $file, my $text, 1e6;
	return $text eq '' ? () : split /\n/, $text, 2;
}

# Takes a server with these settings.  Returns a reference to its number, file and node; and whether it is new.
sub take ($settings)
{
	for my $number (_numbers())
	{
		my $file = _lock($number) or next;
		my ($scenario, $found) = _read($file) or next;
		my $slot = { number => $number, file => $file, settings => $found };
		if ($scenario ne '')
		{
			diag("$scenario: has not given its server back");
			drop($slot);
		}
		next if $scenario ne '' || $found ne $settings;
		$slot->{node} = _node($number);
		return ($slot, 0);
	}
	my $number = 1;
	my $file;
	$number++ until $file = _lock($number, O_CREAT | O_EXCL);
	mkdir "$pool/$number.socket" or die "mkdir $pool/$number.socket: $!";
	my $node = _node($number);
	mkdir $node->basedir or die "mkdir ${\$node->basedir}: $!";
	return ({ number => $number, file => $file, settings => $settings, node => $node }, 1);
}

# Notes the scenario that is under way; "" gives the server back.
sub note_scenario ($slot, $scenario) { _write(@$slot{qw(file settings)}, $scenario); return }

sub give_back ($slot) { note_scenario($slot, ''); close delete $slot->{file}; return }

# Process id of a server that runs, or undef.
sub _pid ($number)
{
	my $data = "$PostgreSQL::Test::Utils::tmp_check/shared$number/pgdata";
	# a server that stops removes the file at any moment
	my ($pid) = (eval { slurp_file("$data/postmaster.pid") } // '') =~ /^(\d+)\n/ or return;
	return (readlink("/proc/$pid/cwd") // '') eq $data ? $pid : undef;
}

sub _wait (@numbers) { my $latest = time + 60; sleep 0.01 while time < $latest && grep { _pid($_) } @numbers; return }

# Stops a server that nobody is to use any more, and leaves its files for a look.
sub drop ($slot)
{
	if (my $pid = _pid($slot->{number})) { kill 'QUIT', $pid }
	_wait($slot->{number});
	_write($slot->{file}, '', '');
	close $slot->{file};
	return;
}

# Stops servers that nobody uses and whose settings match, since they have memory that another one needs.
sub drop_idle ($pattern)
{
	for my $number ($pool ? _numbers() : ())
	{
		my $file = _lock($number) or next;
		my ($scenario, $settings) = _read($file) or next;
		drop({ number => $number, file => $file }) if $settings =~ $pattern;
	}
	return;
}

# Stops all servers at the end of a run.  Returns what is wrong, as lines.
sub stop_all
{
	my @running = grep { _pid($_) } _numbers();
	kill 'INT', _pid($_) for @running;
	_wait(@running);
	my @wrong;
	for my $number (_numbers())
	{
		my $file = _lock($number);
		my ($scenario) = $file ? _read($file) : 'a test that still uses it';
		next if !defined $scenario;
		my $log = "$PostgreSQL::Test::Utils::log_path/shared$number.log";
		push @wrong, "server $number: left by $scenario, see $log" if $scenario ne '';
		push @wrong, "server $number: no clean shutdown, see $log" if slurp_file($log) !~ /database system is shut down\n\z/;
	}
	return @wrong;
}

1;
