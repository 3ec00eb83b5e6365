# Copyright (c) 2026, PostgreSQL Global Development Group

# A standby that crashes after checksums were disabled: with
# full_page_writes = off, replay reads pages written without checksums.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf',
	"autovacuum = off\nfull_page_writes = off\nshared_buffers = 1MB");
$primary->start;
$primary->safe_psql('postgres', $_)
  for 'CREATE TABLE t AS SELECT generate_series(1, 100) AS i',
  "CREATE TABLE large AS SELECT i, repeat('x', 1000) AS s FROM generate_series(1, 5000) i",
  'CREATE INDEX ON large (i)';
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my $update = 'UPDATE t SET i = i WHERE i < 10';
$primary->safe_psql('postgres', $_)
  for $update, 'SELECT pg_disable_data_checksums()';
$primary->poll_query_until('postgres',
	"SELECT current_setting('data_checksums') = 'off'");
$primary->safe_psql('postgres', $update);
$primary->wait_for_catchup($standby);

# a scan that needs all buffers: those of the other table are written
$standby->safe_psql('postgres',
	'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(s) FROM large WHERE i > 0'
);
$standby->stop('immediate');

is($standby->start(fail_ok => 1), 1, 'the standby starts after the crash');

done_testing();
