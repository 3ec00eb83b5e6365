# Copyright (c) 2026, PostgreSQL Global Development Group

# wal_consistency_checking does not look at pages of zeroes, which redo has
# left alone since a later record truncates the relation.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf',
	"autovacuum = off\nfull_page_writes = off\nwal_consistency_checking = 'all'");
$node->start;

$node->safe_psql(
	'postgres', q(
	CREATE TABLE t AS SELECT i, repeat('x', 500) AS s FROM generate_series(1, 2000) i;
	CHECKPOINT;
	DELETE FROM t WHERE i > 1800));
$node->safe_psql('postgres', 'VACUUM t');
$node->safe_psql('postgres',
	q(INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 300) i));
$node->stop('immediate');

is($node->start(fail_ok => 1), 1, 'the server starts after the crash');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '2100', 'rows')
  if defined $node->{_pid};

$node->stop;
done_testing();
