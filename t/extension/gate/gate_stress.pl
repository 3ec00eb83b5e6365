# Random holds, releases, failures, short reads and devices under mixed load: scans, updates, DDL, VACUUM, sessions
# that come and go.  Each row must be right, and no session may be left waiting.
#
#	TEST_AIO_STRESS_SECONDS		for each io_method, 0.1 by default, or 1 in the long tier
#	TEST_AIO_STRESS_METHODS		only these, such as "worker,io_uring"
#	TEST_AIO_SEED				replays the statements and actions of an earlier run
use TestAio;
use TestAio::Stress;

my $seconds = $ENV{TEST_AIO_STRESS_SECONDS} // (only_long() ? 0.1 : 1);
my $seed = $ENV{TEST_AIO_SEED} // int(rand(2**31));
diag("TEST_AIO_SEED=$seed");

sub stress ($aio)
{
	TestAio::Stress->new($aio, $seed, 6)->run($seconds);
	$aio->end_sessions;
	# a shutdown would terminate it, which the log oracle takes for an alarm.  Not by ALTER SYSTEM, which
	# the end of the scenario undoes
	$aio->node->append_conf('postgresql.conf', "autovacuum = off\n");
	$aio->sql('SELECT pg_reload_conf()');
	$aio->wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%')");
	for my $table (split /\n/, $aio->sql("SELECT oid::regclass FROM pg_class WHERE relnamespace = 'scenario'::regnamespace AND relkind = 'r'"))
	{
		$aio->evict($table);
		$aio->proves($table) if $table ne 'scenario.c';
	}
	$aio->gives('SELECT count(*), count(DISTINCT id) FROM scenario.c', '3000|3000', 'rows of the table that was written to');
	$aio->gives('SELECT count(*) FROM io_held', 0, 'nothing is held');
	# @expected does not tell the statement
	my $log = $aio->log_text;
	my @in_batch = grep { $log !~ /\[$_\] client backend \S+ STATEMENT: +CREATE DATABASE \S+ TEMPLATE \S+ STRATEGY wal_log/ }
	  $log =~ /\[(\d+)\] client backend \S+ FATAL:  starting batch while batch already in progress/g;
	is("@in_batch", '', 'only CREATE DATABASE can be terminated in a batch');
	return;
}

my %conf = (
	# the controller may have to wait for a held read of its own
	'test_aio.hold_timeout' => '500ms',
	'test_aio.reach_synchronous_reads' => 'on',
	autovacuum => 'on', autovacuum_naptime => 1, autovacuum_vacuum_cost_delay => 0,
	# a session may pin 128 buffers, so that streams read 128 blocks at once
	shared_buffers => '128MB', io_max_combine_limit => 128,
	max_parallel_workers => 4);

my @expected = (
	qr/LOG:  could not read blocks \d+\.\.\d+ in file/,
	# a session may be connecting, and a parallel worker begin when its leader is cancelled
	qr/client backend s\d FATAL:  (?:terminating connection due to administrator command|could not read blocks|connection to client lost)/,
	qr/client backend s\d FATAL:  (?:database \d+ does not exist|cannot connect to invalid database)/,
	qr/parallel worker (?:s\d )?FATAL:  terminating background worker "parallel worker" due to administrator command/,
	qr/parallel worker s\d ERROR:  could not (?:map dynamic shared memory segment|attach to (?:dynamic shared area|a SharedFileSet))/,
	qr/autovacuum worker (?:ERROR:  canceling autovacuum task|ERROR:  could not read blocks|FATAL:  terminating autovacuum process due to administrator command)/,
	qr/postmaster LOG:  background worker "(?:parallel worker|test_aio gate)" \(PID \d+\) exited with exit code 1/,
	TestAio::Gate->hold_expired,
	# a terminated CREATE DATABASE … STRATEGY wal_log (doc/reports.md#create-database-error)
	qr/client backend s\d FATAL:  starting batch while batch already in progress/);

for_each_io_method('worker; long: all', sub {
	$aio->scenario("random actions under mixed load, seed $seed", sub { stress($aio) },
		skip => $aio->lacks('gate'), log => \@expected);
},
	leaves => 'nothing', needs => 'gate', conf => \%conf);
