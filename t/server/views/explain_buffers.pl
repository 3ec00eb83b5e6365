# EXPLAIN (ANALYZE, BUFFERS, WAL): the blocks and the WAL that serial and parallel plans count.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use List::Util qw(sum0);
use TestAio;
use TestAio::Plan;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('parallel plans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 300);
			my $query = "SELECT count(*), sum(blk) FROM $t";
			$alice->sql('SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 10; SET synchronize_seqscans = off');
			for my $workers (0, 1, 2)
			{
				$alice->sql("SET max_parallel_workers_per_gather = $workers");
				explained($alice, 'BUFFERS', $query);
				$aio->evict($t);
				my $cold = explained($alice, 'BUFFERS', $query);
				is($cold->{'Shared Read Blocks'}, 300, "$workers workers: all blocks are read");
				like($cold->{plan}, qr/"Workers Launched": $workers\b/, 'workers take part') if $workers;
				# workers hit blocks of catalogs
				cmp_ok($cold->{'Shared Hit Blocks'}, '<', 300, 'hits');
				is($cold->{"Shared $_ Blocks"}, 0, "no block is \l$_") for qw(Dirtied Written);
				my $cached = explained($alice, 'BUFFERS', $query);
				is($cached->{'Shared Read Blocks'}, 0, 'no read when the blocks are cached');
				cmp_ok($cached->{'Shared Hit Blocks'}, '>=', 300, 'a hit for each block');
				cmp_ok($cached->{'Shared Hit Blocks'}, '<', 600, 'no block is counted twice');
				is($cached->{'Temp Read Blocks'} + $cached->{'Local Read Blocks'}, 0, 'no temporary and no local blocks');
			}
			# the scan's line counts the leader's blocks and those of the workers, which have lines of
			# their own
			$aio->evict($t);
			my $text = $alice->sql("EXPLAIN (ANALYZE, BUFFERS, VERBOSE, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM $t");
			my ($scan) = $text =~ /(Parallel Seq Scan.*)/s;
			my ($all, @by_workers) = $scan =~ /Buffers: shared(?: hit=\d+)? read=(\d+)/g;
			is($all, 300, 'the parallel scan reads all blocks');
			cmp_ok(sum0(@by_workers), '<=', 300, "the workers' shares: @by_workers");
			$aio->proves($t);
		});

		# the first scan after INSERT sets hint bits; with checksums it logs an image of each page
		my $parallel = sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.h';
			$alice->sql("CALL make_table('$t', 120, '', 0); SET track_io_timing = on; SET parallel_leader_participation = off; SET max_parallel_workers_per_gather = 2;"
				  . ' SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 10; CHECKPOINT');
			$aio->evict($t);
			return ($alice, $t);
		};

		$aio->scenario('what workers alone have done', sub {
			my ($alice, $t) = $parallel->();
			my $found = explained($alice, 'BUFFERS, WAL', "SELECT count(*) FROM $t");
			# since 19 a scan also looks at the visibility map
			is_between($found->{'Shared Read Blocks'}, 120, 123, 'blocks that are read');
			cmp_ok($found->{'Shared I/O Read Time'}, '>', 0, 'the time');
			cmp_ok($found->{$_}, '>=', 120, $_) for 'Shared Dirtied Blocks', 'WAL Records', 'WAL FPI';
			cmp_ok($found->{'WAL Bytes'}, '>', 120 * 7000, 'bytes of WAL');
			# all of it is the scan's: the nodes above it make nothing dirty and write no WAL
			my $scan = node_at('Seq Scan', $found->{plan});
			is($scan->{$_}, $found->{$_}, "$_ of the scan") for 'Shared Dirtied Blocks', 'WAL Records', 'WAL FPI', 'WAL Bytes';
			$aio->proves($t);
		});

		$aio->scenario('the WAL of workers, without BUFFERS', sub {
			my ($alice, $t) = $parallel->();
			my $found = explained($alice, 'BUFFERS off, WAL', "SELECT count(*) FROM $t");
			cmp_ok($found->{$_}, '>=', 120, $_) for 'WAL Records', 'WAL FPI';
			is_between($found->{'WAL FPI Bytes'}, 120 * 7000, $found->{'WAL Bytes'}, 'WAL FPI Bytes') if $aio->major >= 19;
			my $scan = node_at('Seq Scan', $found->{plan});
			is($scan->{$_}, $found->{$_}, "$_ of the scan") for 'WAL Records', 'WAL FPI', 'WAL Bytes';
		});

		$aio->scenario('dirtied blocks, temporary blocks and WAL', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$aio->sql('CHECKPOINT');
			$aio->evict($t);
			my $delete = explained($alice, 'BUFFERS, WAL', "DELETE FROM $t WHERE blk < 10");
			is_between($delete->{'Shared Read Blocks'}, 40, 44, 'DELETE: blocks of the table and its maps are read');
			is_between($delete->{'Shared Dirtied Blocks'}, 10, 12, 'blocks are dirtied');
			is_between($delete->{'WAL Records'}, 10, 14, 'WAL records');
			is_between($delete->{'WAL FPI'}, 10, 12, 'full page images');
			cmp_ok($delete->{'WAL Bytes'}, '>', 10 * 7000, 'bytes of WAL');
			$alice->sql("SET work_mem = '64kB'");
			my $sort = explained($alice, 'BUFFERS', 'SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC');
			cmp_ok($sort->{'Temp Written Blocks'}, '>', 20, 'a sort on disk: temporary blocks are written');
			cmp_ok($sort->{'Temp Read Blocks'}, '>', 20, 'temporary blocks are read');
			# the first scan after DELETE prunes pages
			$alice->sql("SELECT count(body) FROM $t");
			is(explained($alice, 'BUFFERS, WAL', "SELECT count(body) FROM $t")->{'WAL Records'}, 0, 'SELECT writes no WAL');
		});

		# a session's own buffers, fewer than the table has blocks
		$aio->scenario('local blocks', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET temp_buffers = 100');
			my $t = $aio->table('t', 150, kind => 'TEMP', session => $alice);
			my $ten = "$t WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', i)::tid FROM generate_series(0, 9) i))";
			explained($alice, 'BUFFERS', "SELECT count(*) FROM $_") for $t, $ten;
			$aio->evict($t, $alice);
			my $cold = explained($alice, 'BUFFERS', "SELECT count(*) FROM $t");
			is(join('|', map { $cold->{"Local $_ Blocks"} } qw(Hit Read Dirtied Written)), '0|150|0|0', 'a scan reads all blocks');
			$alice->sql('BEGIN');
			my $lock = explained($alice, 'BUFFERS', "SELECT blk FROM $ten FOR UPDATE");
			is_between($lock->{'Local Dirtied Blocks'}, 10, 11, 'FOR UPDATE: blocks are dirtied');
			is(explained($alice, 'BUFFERS', "DELETE FROM $ten")->{'Local Dirtied Blocks'}, 0, 'DELETE of the same rows: none is clean any more');
			$alice->sql('COMMIT');
			my $written = sum0(map { explained($alice, 'BUFFERS', "SELECT count(*) FROM $t")->{'Local Written Blocks'} } 1 .. 6);
			is_between($written, 10, 11, 'scans need their buffers: each is written once');
			$alice->sql("SELECT grow_rel('$t', 2)");
			like($alice->sql("EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT grow_rel('$t', 3)"), qr/Buffers: .*local written=3$/m, 'as text, blocks that are only written');
		});
	});
