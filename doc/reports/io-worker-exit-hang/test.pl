# Copyright (c) 2026, PostgreSQL Global Development Group

# An I/O worker that has been told of an I/O exits before it takes it.  Another
# worker takes it.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'no /proc, which shows pending signals' if !-r "/proc/$$/status";

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf',
	"io_method = worker\nio_workers = 2\nshared_buffers = 1MB\nautovacuum = off");
$node->start;
$node->safe_psql('postgres',
	"CREATE TABLE t AS SELECT i, repeat('x', 1000) FROM generate_series(1, 5000) i");

# one I/O at a time
my $reader = $node->background_psql('postgres', on_error_stop => 0);
$reader->query_safe("SET effective_io_concurrency = 1; SET statement_timeout = '${\($PostgreSQL::Test::Utils::timeout_default / 2)}s'");
$reader->query_safe('SELECT count(*) FROM t');

my $workers = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'";

sub set_workers
{
	my ($n) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET io_workers = $n");
	$node->reload;
	return;
}

# Of two workers that start at once, either may get the number 0, and is then
# told of the next I/O; the postmaster ends either.
my $exits;
for (1 .. 200)
{
	set_workers(2);
	$node->poll_query_until('postgres', "SELECT count(*) = 2 FROM ($workers) w") or die;
	my @old = split /\n/, $node->safe_psql('postgres', $workers);
	kill 'INT', @old;
	$node->poll_query_until('postgres',
		"SELECT count(*) = 2 FROM ($workers) w WHERE pid NOT IN (${\join ', ', @old})") or die;
	my $told;
	until ($told)
	{
		($told) = grep { slurp_file("/proc/$_/cmdline") =~ /io worker 0\b/ }
		  split /\n/, $node->safe_psql('postgres', $workers);
	}
	kill 'STOP', $told;
	set_workers(1);
	my $ended;
	until ($exits || $ended)
	{
		usleep(10_000);
		my ($pending) = slurp_file("/proc/$told/status") =~ /^ShdPnd:\s*(\w+)/m;
		# SIGUSR2
		$exits = hex($pending) & 1 << 11;
		$ended = $node->safe_psql('postgres', "SELECT count(*) = 1 FROM ($workers) w") eq 't';
	}
	if ($exits)
	{
		$reader->query_until(qr/reading/, "\\echo reading\nSELECT count(*) FROM t;\n");
		# it has ended if the other worker was looking at the queue just then
		$node->poll_query_until('postgres', q{
			SELECT EXISTS (SELECT FROM pg_aios WHERE state = 'SUBMITTED')
			  OR EXISTS (SELECT FROM pg_stat_activity WHERE state = 'idle' AND query = 'SELECT count(*) FROM t;')}) or die;
	}
	kill 'CONT', $told;
	last if $exits;
}
ok($exits, 'a worker is told of an I/O and to exit');
like($reader->query_until(qr/done/, "\\echo done\n"), qr/^5000$/m, 'another one takes it');
$reader->quit;
$node->stop;
done_testing();
