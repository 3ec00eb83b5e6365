# Copyright (c) 2026, PostgreSQL Global Development Group

# Crash recovery reports WAL records of blocks that do not exist, unless a
# rollback has removed their file.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
# with wal_level = minimal, u would have no WAL
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf',
	"full_page_writes = off\nautovacuum = off\nwal_writer_delay = 10s");
$node->start;

# the file of a table that rolls back
my $session = $node->background_psql('postgres');
$session->query_safe(
	'BEGIN; CREATE TABLE u (i int); INSERT INTO u VALUES (1)');
$node->safe_psql('postgres', 'CHECKPOINT');
$session->query_safe('INSERT INTO u VALUES (2)');
$node->safe_psql('postgres', 'CREATE TABLE flushes ()');
$session->query_safe('ROLLBACK');
$node->stop('immediate');
$session->{run}->finish;
is($node->start(fail_ok => 1), 1, 'starts after a rollback');

# a file that has lost its blocks
$node->safe_psql('postgres',
	'CREATE TABLE t AS SELECT generate_series(1, 1000) AS i');
my $file = $node->data_dir . '/'
  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('t')");
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'DELETE FROM t');
$node->stop('immediate');
truncate $file, 0 or die "$file: $!";
is($node->start(fail_ok => 1), 0, 'does not start without the blocks');
ok($node->log_contains(
	qr/PANIC:  WAL contains references to invalid pages/),
	'says why');
$node->append_conf('postgresql.conf', 'ignore_invalid_pages = on');
is($node->start(fail_ok => 1), 1, 'starts with ignore_invalid_pages');

$node->stop;
done_testing();
