# Copyright (c) 2026, PostgreSQL Global Development Group

# With wal_level = minimal, unlogged relations of a database that CREATE DATABASE has
# copied by strategy wal_log can be used after a crash.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf',
	"wal_level = minimal\nmax_wal_senders = 0\nautovacuum = off");
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE original');
$node->safe_psql('original', q{
	CREATE UNLOGGED TABLE u (n int);
	INSERT INTO u SELECT generate_series(1, 1000);
	CREATE INDEX u_n ON u (n);
	CREATE UNLOGGED SEQUENCE s;
	CREATE TABLE p AS TABLE u});
$node->safe_psql('postgres',
	'CREATE DATABASE copy TEMPLATE original STRATEGY wal_log');
$node->stop('immediate');
$node->start;

for my $database (qw(original copy))
{
	my ($ret, $out, $err) = $node->psql($database, q{
		SET enable_seqscan = off;
		INSERT INTO u SELECT generate_series(1, 10);
		SELECT count(*) FROM u WHERE n > 5});
	is($out, '5', "$database: index of an unlogged table") or diag($err);
	is($node->safe_psql($database, 'SELECT count(*), sum(n) FROM p'),
		'1000|500500', "$database: permanent table");
}
my (undef, $value, $error) = $node->psql('copy', "SELECT nextval('s')");
is($value, '1', 'an unlogged sequence begins again') or diag($error);

$node->stop;
done_testing();
