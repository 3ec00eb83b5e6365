# Copyright (c) 2026, PostgreSQL Global Development Group

# EXPLAIN (BUFFERS) counts a block whose read another session has begun and ended
# while a scan has it pinned.

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
$node->append_conf('postgresql.conf', "autovacuum = off\nio_method = worker");
$node->start;
# a page for each row
$node->safe_psql('postgres', q{
	CREATE EXTENSION injection_points;
	CREATE TABLE t (n int, body text STORAGE plain);
	INSERT INTO t SELECT i, repeat('x', 5000) FROM generate_series(0, 4) i;
	VACUUM (FREEZE) t});
$node->restart;

my ($scan, $other) = map { $node->background_psql('postgres') } 1 .. 2;
my $explain = "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off)
	SELECT FROM t WHERE CASE n WHEN 0 THEN pg_advisory_xact_lock(1) IS NOT NULL ELSE true END;\n";

# the other session's read of block 2 stands in an I/O worker
$node->safe_psql('postgres', "SELECT injection_points_attach('aio-worker-after-reopen', 'wait')");
$other->query_until(qr/begun/, "\\echo begun
	SELECT count(*) FROM t WHERE ctid >= '(2,0)' AND ctid < '(3,0)';\n");
$node->wait_for_event('io worker', 'aio-worker-after-reopen');
$node->safe_psql('postgres', "SELECT injection_points_detach('aio-worker-after-reopen')");

# The scan reads block 1, pins block 2 as well, and pauses at the row of block 0.
my $lock = $node->background_psql('postgres');
$lock->query_safe('SELECT pg_advisory_lock(1)');
$scan->query_until(qr/begun/, "\\echo begun\n$explain");
$node->wait_for_event('client backend', 'advisory');

# The read of block 2 ends; then the scan goes on.
$node->safe_psql('postgres', "SELECT injection_points_wakeup('aio-worker-after-reopen')");
$other->query_until(qr/ended/, "\\echo ended\n");
$lock->query_safe('SELECT pg_advisory_unlock(1)');
my $plan = $scan->query_until(qr/ended/, "\\echo ended\n");
my ($hit, $read) = map { $plan =~ /Buffers: shared.*? $_=(\d+)/ ? $1 : 0 } qw(hit read);
is($hit + $read, 5, 'all blocks are hits or reads') or diag($plan);

$_->quit for $scan, $other, $lock;
$node->stop;
done_testing();
