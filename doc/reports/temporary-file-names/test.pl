# Copyright (c) 2026, PostgreSQL Global Development Group

# pg_aios names the file of a temporary table, for the session that has it and for
# others.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf',
	"io_method = io_uring\nio_combine_limit = 1\nautovacuum = off");
if (!$node->start(fail_ok => 1))
{
	plan skip_all => 'io_uring not supported by this build or kernel';
}

my $owner = $node->background_psql('postgres');
$owner->query_safe("SET temp_buffers = '800kB'");
$owner->query_safe("CREATE TEMP TABLE t AS
	SELECT repeat('x', 1000) FROM generate_series(1, 20000)");
my $path = $owner->query_safe("SELECT pg_relation_filepath('t')");
my $pid = $owner->query_safe('SELECT pg_backend_pid()');
my $names = "SELECT DISTINCT substring(target_desc FROM 'file \"(.*)\"')
	FROM pg_aios WHERE pid = $pid";

# the cursor's stream has read ahead
$owner->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; MOVE 1000 FROM c');
is($owner->query_safe($names), $path, 'for the owner');
is($node->safe_psql('postgres', $names), $path, 'for another session');

$owner->quit;
$node->stop;
done_testing();
