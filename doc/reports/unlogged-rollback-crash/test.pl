# Copyright (c) 2026, PostgreSQL Global Development Group

# The server starts after a crash that has lost the abort record of a
# transaction that made an unlogged table.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# so that nobody flushes the abort record
$node->append_conf('postgresql.conf', "autovacuum = off\nwal_writer_delay = 10s");
$node->start;

my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; CREATE UNLOGGED TABLE u (i int)');
# flushes the WAL so far
$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE kept (i int)');
$session->query_safe('ROLLBACK');
$node->stop('immediate');

is($node->start(fail_ok => 1), 1, 'the server starts after the crash');
is($node->safe_psql('postgres', 'SELECT count(*) FROM kept'), '0', 'unlogged tables are reset')
  if defined $node->{_pid};

$node->stop;
done_testing();
