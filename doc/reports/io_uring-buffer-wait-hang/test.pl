# Copyright (c) 2026, PostgreSQL Global Development Group

# With io_method=io_uring, a session waits for a buffer under I/O whose read is not
# staged yet.  The session that reads it then goes idle without collecting the completion.

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

# The owner stops before and after it stages the read of block 0.
my $owner = $node->background_psql('postgres', on_error_stop => 0);
$owner->query_safe("SELECT 't'::regclass; SELECT injection_points_set_local()");
$owner->query_safe("SELECT injection_points_attach(p, 'wait')
	FROM unnest(ARRAY['smgr-before-startreadv', 'aio-before-submit']) p");
$owner->query_until(qr/scanning/, "\\echo scanning\nSELECT count(*) FROM t;\n");
$node->wait_for_event('client backend', 'smgr-before-startreadv');

# The waiter wants that block.
my $waiter = $node->background_psql('postgres', on_error_stop => 0);
$waiter->query_safe("SET statement_timeout = '${\($PostgreSQL::Test::Utils::timeout_default / 2)}s'");
$waiter->query_until(qr/reading/,
	"\\echo reading\nSELECT 'row ' || i FROM t WHERE ctid = '(0,1)';\n");
$node->wait_for_event('client backend', 'BufferIo');

# The read is staged; an error's clean-up submits it, and the owner does not collect it.
$node->safe_psql('postgres', q{
	SELECT injection_points_detach('smgr-before-startreadv');
	SELECT injection_points_wakeup('smgr-before-startreadv')});
$node->wait_for_event('client backend', 'aio-before-submit');
$node->safe_psql('postgres', q{
	SELECT injection_points_detach('aio-before-submit');
	SELECT pg_cancel_backend(pid) FROM pg_stat_activity
	WHERE wait_event = 'aio-before-submit'});
$owner->query_until(qr/cancelled/, "\\echo cancelled\n");
like($waiter->query_until(qr/done/, "\\echo done\n"),
	qr/^row 1$/m, 'the waiter gets its block from an idle owner');

$_->quit for $owner, $waiter;
$node->stop;
done_testing();
