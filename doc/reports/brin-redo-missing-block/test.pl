# Copyright (c) 2026, PostgreSQL Global Development Group

# Replay of an insertion into a BRIN index that was dropped later: with
# full_page_writes = off, nothing makes its blocks again.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nfull_page_writes = off");
$node->start;

my $insert = 'INSERT INTO t SELECT generate_series(1, 5000)';
my $summarize = "SELECT brin_summarize_new_values('t_i')";
$node->safe_psql('postgres', $_)
  for 'CREATE TABLE t (i int)',
  'CREATE INDEX t_i ON t USING brin (i) WITH (pages_per_range = 1)',
  $insert, $summarize, 'CHECKPOINT', $insert, $summarize, 'DROP TABLE t';
$node->stop('immediate');

is($node->start(fail_ok => 1), 1, 'the server starts after the crash');

$node->stop;
done_testing();
