# Copyright (c) 2026, PostgreSQL Global Development Group

# pgstatindex() of an index with a page that was never written

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
if (!$node->check_extension('pgstattuple'))
{
	plan skip_all => 'pgstattuple is not installed';
}
$node->safe_psql('postgres', q{
	CREATE EXTENSION pgstattuple;
	CREATE TABLE t (i int PRIMARY KEY);
	INSERT INTO t VALUES (1)});
my $file = $node->data_dir . '/'
  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('t_pkey')");
$node->stop;

# as a crash leaves it that comes after the extension, and before the page is in the WAL
append_to_file($file, "\0" x 8192);
$node->start;
my ($ret, $out, $err) = $node->psql('postgres',
	"SELECT leaf_pages, internal_pages, deleted_pages FROM pgstatindex('t_pkey')");
is($out, '1|0|1', 'the page counts as free') or diag($err);

$node->stop;
done_testing();
