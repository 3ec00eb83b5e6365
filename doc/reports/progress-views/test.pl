# Copyright (c) 2026, PostgreSQL Global Development Group

# pg_stat_progress_create_index counts blocks that are done, not the one in hand.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', q{
	CREATE TABLE t AS SELECT i, repeat('x', 1000) FROM generate_series(1, 100) i;
	-- for the index it does not depend on anything else
	CREATE FUNCTION tell(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		PERFORM pg_stat_clear_snapshot();
		RAISE NOTICE '% % done', i, (SELECT blocks_done
			FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid());
		RETURN i;
	END $$});

my $blocks = $node->safe_psql('postgres',
	"SELECT count(DISTINCT (ctid::text::point)[0]) FROM t");
my ($ret, $out, $err) = $node->psql('postgres', q{
	SET max_parallel_maintenance_workers = 0;
	CREATE INDEX ON t (tell(i))});
my @done = $err =~ /NOTICE:  \d+ (\d+) done/g;
is($done[0], 0, 'in the first block, none is done');
is($done[-1], $blocks - 1, 'in the last block, all others are');
is("@done", join(' ', sort { $a <=> $b } @done), 'the number only grows');

$node->stop;
done_testing();
