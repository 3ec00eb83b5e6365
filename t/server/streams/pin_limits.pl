# How many buffers streams may pin: each session its share of the shared buffers
# (GetAdditionalPinLimit) and a quarter of its local ones (GetAdditionalLocalPinLimit),
# however many streams it has.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Opens a cursor on a scan of each table, fetches from each in turn, and calls a function
# after each round.  Returns the rows that are wrong.
sub scan_together
{
	my ($session, $fetches, $after, @tables) = @_;
	$session->sql('BEGIN');
	$session->sql("DECLARE c_$_ CURSOR FOR SELECT blk, body = proof(rel, blk, 0) FROM $tables[$_]") for 0 .. $#tables;
	return fetch_together($session, 1, $fetches, $after, @tables);
}

# The same with a bitmap scan of every third block, which cannot be combined.
sub scan_apart
{
	my ($session, $fetches, $after, @tables) = @_;
	for my $t (@tables)
	{
		$session->sql("CREATE INDEX ON $t (blk) WHERE blk % 3 = 0");
		$session->sql("SELECT evict_rel('$t')");
	}
	$session->sql('SET enable_seqscan = off; SET enable_indexscan = off; BEGIN');
	$session->sql("DECLARE c_$_ CURSOR FOR SELECT blk, body = proof(rel, blk, 0) FROM $tables[$_] WHERE blk % 3 = 0 AND blk >= 0") for 0 .. $#tables;
	return fetch_together($session, 3, $fetches, $after, @tables);
}

# Fetches from the cursors in turn; the rows' blocks are this far apart.  Returns the rows that are wrong.
sub fetch_together
{
	my ($session, $step, $fetches, $after, @tables) = @_;
	my @wrong;
	for my $round (1 .. $fetches)
	{
		for my $i (0 .. $#tables)
		{
			my $row = $session->sql("FETCH 1 FROM c_$i");
			push @wrong, "$tables[$i]: $row" if $row ne $step * ($round - 1) . '|t';
		}
		$after->();
	}
	return join "\n", @wrong;
}

# SQL for the number of pinned buffers of these tables.
sub pins { return join ' + ', map { "(SELECT count(*) FROM generate_series(0, 119) b, buffer_state('$_', b) WHERE refcount > 0)" } @_ }

# Test: several streams of a session pin no more than its share of the pool.
sub streams_share
{
	my ($aio, $scan, $fetches) = @_;
	my ($alice) = $aio->sessions('alice');
	my @tables = map { $aio->table("t$_", 120) } 1 .. 6;
	$alice->sql('SET effective_io_concurrency = 32');
	is($scan->($alice, $fetches, sub {}, @tables), '', 'six streams of a session');
	# each session has a share of the pool; each stream has one pin more, and a pin for its current
	# row; at least 38 processes are not backends
	my $share = int($aio->sql(<<'END'));
SELECT (SELECT setting::int FROM pg_settings WHERE name = 'shared_buffers') /
	(38 + sum(setting::int)) FROM pg_settings
	WHERE name IN ('max_connections', 'autovacuum_worker_slots', 'max_worker_processes', 'max_wal_senders')
END
	# these counts include buffers whose blocks are not read yet
	my $pinned = $aio->sql('SELECT sum(pinned) FROM pg_buffercache_usage_counts()');
	cmp_ok($pinned, '>', 0, 'buffers are pinned');
	cmp_ok($pinned, '<=', $share + 2 * @tables, "not more than its share: $pinned");
	$alice->sql('COMMIT');
	$aio->proves($tables[5]);
	return;
}

with_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('shared', sub { streams_share($aio, \&scan_together, 40) }, leaves => 'nothing', skip => $aio->lacks('pg_buffercache'));

		$aio->scenario('shared, block by block', sub { streams_share($aio, \&scan_apart, 20) }, leaves => 'nothing', skip => $aio->lacks('pg_buffercache'));

		$aio->scenario('local', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET temp_buffers = 100; SET effective_io_concurrency = 32');
			my @tables = map { $aio->table("t$_", 120, kind => 'TEMP', session => $alice) } 1 .. 8;
			$aio->table('another', 20, kind => 'TEMP', session => $alice);
			is(scan_together($alice, 40, sub {}, @tables), '', 'eight streams of a session');
			# other tables still get buffers
			$alice->gives('SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, 0)) FROM another', '20|20', 'and another');
			$alice->sql('COMMIT');

			# streams share the quarter
			my ($most, $pins) = (0, pins(@tables[ 0 .. 2 ]));
			my $look = sub { my $pinned = $alice->sql("SELECT $pins"); $most = $pinned if $pinned > $most };
			$aio->evict($_, $alice) for @tables;
			is(scan_together($alice, 40, $look, @tables[ 0 .. 2 ]), '', 'three of them');
			cmp_ok($most, '>', 0, 'buffers are pinned');
			cmp_ok($most, '<=', 25 + 2 * 3, "not more than a quarter, and two for each stream: $most");
			$alice->sql('COMMIT');
		});
	},
	# so that the extra pins of six streams exceed the share
	conf => { max_connections => 10, shared_buffers => '6MB' });

# a session's share of the shared buffers is larger than a quarter of its local ones, and than a few pins
with_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->scenario('shared, a larger share', sub { streams_share($aio, \&scan_together, 40) }, leaves => 'nothing', skip => $aio->lacks('pg_buffercache'));

		$aio->scenario('local, while the share of the shared buffers is larger', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET temp_buffers = 100; SET effective_io_concurrency = 32');
			my @tables = map { $aio->table("t$_", 120, kind => 'TEMP', session => $alice) } 1 .. 6;
			my ($most, $pins) = (0, pins(@tables));
			my $look = sub { my $pinned = $alice->sql("SELECT $pins"); $most = $pinned if $pinned > $most };
			is(scan_together($alice, 40, $look, @tables), '', 'six streams of a session');
			cmp_ok($most, '>', 0, 'buffers are pinned');
			cmp_ok($most, '<=', 25 + 2 * @tables, "not more than a quarter, and two for each stream: $most");
			$alice->sql('COMMIT');
		});
	}, io_methods => 'sync', suffix => 'large', conf => { max_connections => 10, shared_buffers => '64MB' });

done_testing();
