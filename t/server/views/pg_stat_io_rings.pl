# What a large scan, CREATE TABLE AS and VACUUM add to pg_stat_io in the contexts of their rings of
# buffers: bulkread, bulkwrite, vacuum.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# Returns what a statement of a session adds to the counters of a context.
		my $counts = sub {
			my ($session, $context, $sql) = @_;
			return $aio->io_counts_during($session, "relation/$context", sub { $session->sql($sql) });
		};

		# a scan of a table larger than a quarter of the buffer pool has a ring of 256 kB
		$aio->scenario('bulkread', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 800);
			my $scan = "SELECT count(*) FROM $t";
			$alice->sql("SET track_io_timing = off; $scan");
			$aio->evict($t);
			# the scan finds no dirty buffers
			$aio->sql('CHECKPOINT');
			my $added = $counts->($alice, 'bulkread', $scan);
			is($added->{read_bytes}, 800 * 8192, 'bytes');
			# a block takes a free buffer, one of the ring, or evicts another block
			my $kept = $aio->lacks('pg_buffercache') ? 0 : scalar(my @blocks = split /,/, $aio->cached($t));
			cmp_ok($kept, '<=', 400, 'blocks that stay in the buffer pool');
			ok($added->{reuses} >= 800 - $kept - 20 && $added->{reuses} + $added->{evictions} <= 800, "$added->{reuses} reuses, $added->{evictions} evictions") if $kept;
			is($added->{writes} + $added->{extends}, 0, 'nothing is written');
			is($counts->($alice, 'normal', $scan)->{reads}, 0, 'no reads in context normal');
			# no other session reads in this context
			$aio->evict($t);
			is($aio->change_during("SELECT sum(read_bytes) FROM pg_stat_io WHERE backend_type = 'client backend' AND context = 'bulkread'",
					sub { $alice->sql($scan) }, $alice), 800 * 8192, 'bytes in pg_stat_io');
			$added = $counts->($alice, 'bulkread', $scan);
			is($added->{hits} + $added->{read_bytes} / 8192, 800, 'hits and reads together are the table');
			$alice->sql('SET effective_io_concurrency = 0');
			$aio->evict($t);
			is($counts->($alice, 'bulkread', $scan)->{read_bytes}, 800 * 8192, 'without read-ahead, too');
			$aio->proves($t);
		});

		# the scan sets hint bits, for which no WAL is written, so no WAL has to be flushed before a page
		$aio->scenario('bulkread, of pages that become dirty', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.u';
			$aio->sql("CREATE UNLOGGED TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off); INSERT INTO $t SELECT i, repeat('x', 1900) FROM generate_series(0, 3199) i");
			$alice->sql("SET track_io_timing = off; SELECT FROM $t LIMIT 0");
			$aio->evict($t);
			my $added = $counts->($alice, 'bulkread', "SELECT count(*) FROM $t");
			is($added->{read_bytes}, 800 * 8192, 'bytes');
			cmp_ok($added->{reuses}, '>=', 400, "they stay in the ring; $added->{evictions} evictions");
			is_between($added->{writes}, $added->{reuses} - 100, $added->{reuses} + 100, "and are written before they are reused, $added->{reuses} times");
			$aio->gives("SELECT count(*), sum(n) FROM $t", '3200|5118400', 'the rows');
		});

		# another session with a ring pins the page on which the first one stands, and uses it no more
		# than the first one does
		$aio->scenario('bulkread, with a pinned buffer in the ring', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 800);
			$_->sql("SET synchronize_seqscans = off; SET track_io_timing = off; SELECT count(*) FROM $t") for $alice, $bob;
			$aio->evict($t);
			my $cursor = "BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; MOVE 100 FROM c";
			my $added = $aio->io_counts_during($alice, 'relation/bulkread', sub {
				$_->sql($cursor) for $alice, $bob;
				$alice->sql('MOVE ALL FROM c; COMMIT');
			});
			cmp_ok($added->{reuses}, '>=', 300, 'reuses');
			cmp_ok($added->{reuses} + $added->{evictions}, '<=', $added->{read_bytes} / 8192, 'reuses and evictions: no block takes two buffers');
			$bob->gives('FETCH 1 FROM c', 100, 'the other cursor goes on');
			$bob->sql('COMMIT');
			$aio->proves($t);
		});

		$aio->scenario('bulkwrite', sub {
			my ($alice) = $aio->sessions('alice');
			my $rows = "SELECT i AS n, repeat('x', 1900) AS body FROM generate_series(1, 1200) i";
			my $added = $counts->($alice, 'bulkwrite', "CREATE TABLE scenario.u AS $rows");
			is_between($added->{extend_bytes}, 300 * 8192, 330 * 8192, 'CREATE TABLE AS: bytes of 300 new blocks');
			is_between($added->{extends}, 1, 149, 'several blocks at once: extensions');
			is($added->{reads}, 0, 'nothing is read');
			is($counts->($alice, 'bulkwrite', "INSERT INTO scenario.u $rows")->{extends}, 0, 'INSERT uses no ring');
			$aio->gives('SELECT count(*), count(DISTINCT n) FROM scenario.u', '2400|1200', 'the rows');
		});

		# VACUUM of 18 waits for that read, that of 19 joins it
		$aio->scenario('vacuum, and a block that another session reads', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 40);
			my $vacuum = "VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t";
			# it performs its own reads, or they might queue up behind the held one
			$alice->sql("SET track_io_timing = off; SET maintenance_io_concurrency = 0; $vacuum");
			$aio->evict($t);
			$aio->hold(relation => $t, block => 20);
			$bob->starts("SELECT read_rel_block_ll('$t', 20)");
			$aio->holds(1);
			my $hits = $aio->change_during("SELECT sum(hits) FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation' AND context = 'vacuum'", sub {
					$alice->starts($vacuum);
					$alice->waits_on_others_io;
					$aio->release;
					$alice->ends;
				}, $alice);
			$bob->ends;
			is($hits, 1, 'the block counts as a hit in the context vacuum');
			$aio->proves($t);
		}, skip => $aio->no_faults);

		$aio->scenario('vacuum', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
			my $vacuum = "VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t";
			$alice->sql("SET vacuum_buffer_usage_limit = '128kB'; SET track_io_timing = off; $vacuum");
			$aio->evict($t);
			my $added = $counts->($alice, 'vacuum', $vacuum);
			is_between($added->{read_bytes}, 200 * 8192, 206 * 8192, 'bytes of 200 blocks, and some of the maps');
			is_between($added->{reuses}, 200 - 20, 200, 'a ring of 16 buffers: reuses');
			is($counts->($alice, 'vacuum', "SET vacuum_buffer_usage_limit = 0; $vacuum")->{reuses}, 0, 'no reuses without a ring');
			# a page that VACUUM has made dirty is written when its buffer is used again
			$aio->sql("DELETE FROM $t WHERE blk % 2 = 0; CHECKPOINT");
			$aio->evict($t);
			$added = $counts->($alice, 'vacuum', "SET backend_flush_after = '64kB'; SET vacuum_buffer_usage_limit = '128kB'; VACUUM (TRUNCATE off) $t");
			cmp_ok($added->{writes}, '>=', 80, 'writes of dirty pages');
			is($added->{writebacks}, 0, 'with fsync = off, nothing is written back');
			is($added->{write_bytes}, $added->{writes} * 8192, 'bytes written');
			is($added->{extend_bytes} % 8192, 0, 'whole blocks');
		});
	}, leaves => 'nothing', conf => { fsync => 'off' });
