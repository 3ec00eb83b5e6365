# Copyright (c) 2026, PostgreSQL Global Development Group

# pg_replication_slots tells on a standby, too, how much WAL a slot still has.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => ['--wal-segsize=1']);
$primary->start;
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->append_conf('postgresql.conf',
	'max_slot_wal_keep_size = 2MB');
$standby->start;
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres',
	"SELECT pg_create_physical_replication_slot('s', true)");

my $status =
  'SELECT wal_status, safe_wal_size > 0 FROM pg_replication_slots';
is($standby->safe_psql('postgres', $status),
	'reserved|t', 'a slot that needs the last WAL');
$primary->advance_wal(9);
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $status),
	'unreserved|f', 'a slot that needs more than it may keep');
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
is($standby->safe_psql('postgres', $status),
	'lost|', 'a restartpoint removes it');

$standby->stop;
$primary->stop;
done_testing();
