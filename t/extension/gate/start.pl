# Reads that are held from the start of the server on: those of the startup process in crash recovery, which no session
# can release.  t/server/bugs/reported_by_others.pl has autoprewarm.
use TestAio;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

my $node;

# Returns true once a process has gone.
sub goes ($pid)
{
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if !kill 0, $pid;
		usleep(100_000);
	}
	return 0;
}

subtest 'crash recovery' => sub {
	$node = PostgreSQL::Test::Cluster->new('start');
	$node->init;
	my $settings = sub (@settings) { $node->append_conf('postgresql.conf', "$_\n") for @settings };
	$settings->("shared_preload_libraries = 'test_aio'", 'full_page_writes = off', 'autovacuum = off', 'checkpoint_timeout = 1h',
		"log_line_prefix = '[%p] %b '", "test_aio.hold_at_start = 'startup'", "test_aio.hold_timeout = '500ms'");
	$node->start;
	# the template of "make check" has it, but not that of an installed server
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS test_aio');
	plan skip_all => 'no gate' if $node->safe_psql('postgres', 'SELECT gate AND synchronous FROM io_gate') ne 't';
	is($node->safe_psql('postgres', 'SELECT kind, op, backend_type, times, holder, hold_timeout FROM io_filters'), 'hold||startup|||500', 'the filter');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT i FROM generate_series(1, 1000) i; CHECKPOINT; UPDATE t SET i = i + 1');

	$node->stop('immediate');
	my $offset = -s $node->logfile;
	$node->start;
	like(substr(slurp_file($node->logfile), $offset), qr/startup LOG:  read of blocks .* was held for too long/, 'the hold ends with its timeout');
	is($node->safe_psql('postgres', 'SELECT count(*), sum(i) FROM t'), '1000|501500', 'all is recovered');
	is($node->safe_psql('postgres', "SELECT fired > 0, bypassed, (SELECT count(*) FROM io_held), io_hold_end(filter) FROM io_filters"), 't|0|0|1', 'it has held reads, and ends');

	$node->safe_psql('postgres', 'CHECKPOINT; UPDATE t SET i = i + 1');
	$node->stop('immediate');
	$settings->("test_aio.hold_timeout = '10min'");
	for my $end (qw(fast immediate KILL))
	{
		$offset = -s $node->logfile;
		system_or_bail('pg_ctl', '-W', '-s', '-D', $node->data_dir, '-l', $node->logfile, 'start');
		$node->wait_for_log(qr/startup.*redo starts at/, $offset);
		my ($startup) = substr(slurp_file($node->logfile), $offset) =~ /\[(\d+)\] startup.*redo starts at/;
		my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
		$end eq 'KILL' ? kill('KILL', $postmaster) : system_log('pg_ctl', '-W', '-s', '-D', $node->data_dir, '-m', $end, 'stop');
		ok(goes($startup), "$end: the startup process ends");
		ok(goes($postmaster), "$end: so does the postmaster");
		unlike(substr(slurp_file($node->logfile), $offset), qr/redo done/, "$end: nothing was replayed meanwhile");
	}
	$settings->("test_aio.hold_timeout = '10ms'");
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*), sum(i) FROM t'), '1000|502500', 'all is recovered');
	$node->stop;
};
done_testing();
