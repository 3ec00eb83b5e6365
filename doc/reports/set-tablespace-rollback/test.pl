# Copyright (c) 2026, PostgreSQL Global Development Group

# After ROLLBACK of ALTER TABLE ... SET TABLESPACE, indexes have no entries of rows that
# the transaction has inserted.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf',
	"allow_in_place_tablespaces = on\nautovacuum = off");
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE there LOCATION ''");

for my $kind ('', 'UNLOGGED')
{
	$node->safe_psql('postgres', qq{
		CREATE $kind TABLE h (n int UNIQUE, m int);
		INSERT INTO h SELECT i, -i FROM generate_series(1, 100) i;
		CREATE INDEX h_m ON h (m);
		BEGIN;
		ALTER TABLE h SET TABLESPACE there;
		INSERT INTO h VALUES (2000, -2000);
		ROLLBACK;
		INSERT INTO h VALUES (101, -101)});
	is($node->safe_psql('postgres', q{
		SET enable_seqscan = off;
		SELECT n FROM h WHERE n = 2000}), '', 'no row by the unique index');
	is($node->safe_psql('postgres', q{
		SET enable_seqscan = off;
		SELECT n FROM h WHERE m = -2000}), '', 'no row by the other index');
	$node->safe_psql('postgres', 'DROP TABLE h');
}

$node->stop;
done_testing();
