# Copyright (c) 2026, PostgreSQL Global Development Group

# CREATE DATABASE removes its files when it is cancelled while its read stream
# waits for an AIO handle, in batch mode.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

if (($ENV{enable_injection_points} // '') ne 'yes')
{
	plan skip_all => 'Injection points not supported by this build';
}

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
wal_level = replica
io_method = worker
io_max_concurrency = 1
io_combine_limit = 1
maintenance_io_concurrency = 64
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION injection_points');
$node->safe_psql('postgres', 'CREATE DATABASE original STRATEGY wal_log');

# The new database is in shared buffers, except what VACUUM FULL writes.
$node->safe_psql('original', "CREATE TABLE t (body text STORAGE plain);
	INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 100)");
$node->safe_psql('original', 'VACUUM FULL t');

# I/O workers stand still.  From the second block on, the stream waits for a handle.
my $creator = $node->background_psql('postgres', on_error_stop => 0);
$creator->query_safe('SELECT count(*) FROM pg_tablespace, pg_database');
my $pid = $creator->query_safe('SELECT pg_backend_pid()');
$node->safe_psql('postgres',
	"SELECT injection_points_attach('aio-worker-after-reopen', 'wait')");
$creator->query_until(qr/copying/, "\\echo copying
CREATE DATABASE copy TEMPLATE original STRATEGY wal_log;\n");
$node->wait_for_event('io worker', 'aio-worker-after-reopen');
$node->safe_psql('postgres',
	"SELECT injection_points_wakeup('aio-worker-after-reopen')");
$node->poll_query_until('postgres',
	"SELECT count(*) = 1 FROM pg_aios WHERE pid = $pid AND off = 8192") or die;
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$creator->query_until(qr/ended/, "\\echo ended\n");
like($creator->{stderr}, qr/canceling statement due to user request/,
	'CREATE DATABASE is cancelled');
my %oids = map { $_ => 1 } split /\n/,
  $node->safe_psql('postgres', 'SELECT oid FROM pg_database');
is(join(' ', grep { /^\d+$/ && !$oids{$_} } slurp_dir($node->data_dir . '/base')),
	'', 'no files are left');
# the workers still stand
$node->stop('immediate');
done_testing();
