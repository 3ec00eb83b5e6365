# Copyright (c) 2026, PostgreSQL Global Development Group

# With io_method=io_uring, a session waits for an I/O that another session has staged
# but not submitted.  That session then goes idle without collecting the completion.

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
$node->append_conf('postgresql.conf', "io_method = io_uring\nautovacuum = off");
if (!$node->start(fail_ok => 1))
{
	plan skip_all => 'io_uring not supported by this build or kernel';
}
$node->safe_psql('postgres', 'CREATE EXTENSION injection_points');
$node->safe_psql('postgres',
	"CREATE TABLE t AS SELECT i, repeat('x', 1000) FROM generate_series(1, 1000) i");
$node->restart;

# The owner stops between staging and submission.
my $owner = $node->background_psql('postgres', on_error_stop => 0);
$owner->query_safe('SELECT injection_points_set_local()');
$owner->query_safe(
	"SELECT injection_points_attach('aio-before-submit', 'wait')");
$owner->query_until(qr/scanning/, "\\echo scanning\nSELECT count(*) FROM t;\n");
$node->wait_for_event('client backend', 'aio-before-submit');
my $block = $node->safe_psql('postgres',
	"SELECT max(off / 8192) FROM pg_aios WHERE state = 'STAGED'");

# The waiter wants one of its blocks.
my $waiter = $node->background_psql('postgres', on_error_stop => 0);
$waiter->query_safe("SET statement_timeout = '${\($PostgreSQL::Test::Utils::timeout_default / 2)}s'");
$waiter->query_until(qr/reading/,
	"\\echo reading\nSELECT 'row ' || i FROM t WHERE ctid = '($block,1)';\n");
$node->poll_query_until('postgres',
	"SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event LIKE 'AioIo%'") or die;

# The error's clean-up submits the I/O, and nothing makes the owner collect it.
$node->safe_psql('postgres', q{
	SELECT injection_points_detach('aio-before-submit');
	SELECT pg_cancel_backend(pid) FROM pg_stat_activity
	WHERE wait_event = 'aio-before-submit'});
$owner->query_until(qr/cancelled/, "\\echo cancelled\n");
like($waiter->query_until(qr/done/, "\\echo done\n"),
	qr/^row \d+$/m, 'the waiter gets its block from an idle owner');

$_->quit for $owner, $waiter;
$node->stop;
done_testing();
