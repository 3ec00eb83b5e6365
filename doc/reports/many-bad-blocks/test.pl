# Copyright (c) 2026, PostgreSQL Global Development Group

# A read of as many blocks as one I/O may have, all of them bad, reports each.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
# so that a backend may pin as many buffers
max_connections = 10
io_max_combine_limit = 128
io_combine_limit = 128
});
$node->start;

my $blocks = 1000;
$node->safe_psql('postgres', "CREATE TABLE t (body text STORAGE plain);
	INSERT INTO t SELECT repeat('x', 4000) FROM generate_series(1, 2 * $blocks)");
my $file =
  $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('t')");
$node->stop;
is(-s $file, $blocks * 8192, 'blocks of the table');

# spoil each page's pd_upper
open my $fh, '+<:raw', $file or die "$file: $!";
for my $block (0 .. $blocks - 1)
{
	sysseek($fh, $block * 8192 + 14, 0) or die $!;
	syswrite($fh, "\xff\xff") or die $!;
}
close $fh;

$node->start;
my ($ret, $out, $err) = $node->psql('postgres',
	"SET zero_damaged_pages = on; SELECT count(*) FROM t");
my ($bad, $largest) = (0, 0);
while ($err =~ /zeroing out (\d+) invalid pages among|(invalid page in block)/g)
{
	my $count = $1 // 1;
	$bad += $count;
	$largest = $count if $count > $largest;
}
is($out, '0', 'the scan ends');
is($bad, $blocks, 'reads report all bad blocks') or diag($err);
is($largest, 128, 'some of them 128 at once');
is($node->safe_psql('postgres', q{SELECT checksum_failures FROM pg_stat_database
	WHERE datname = 'postgres'}), $blocks, 'checksum failures') if $out eq '0';

$node->stop;
done_testing();
