# Reads are counted alike by EXPLAIN (BUFFERS) and pg_stat_io, of each object and context, of one
# session and of all.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Plan;

# Returns a query's blocks as "shared hit/shared read/local hit/local read".
sub buffers_of
{
	my ($session, $query) = @_;
	my $found = explained($session, 'BUFFERS', $query);
	return join '/', map { $found->{"$_ Blocks"} // 0 } 'Shared Hit', 'Shared Read', 'Local Hit', 'Local Read';
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			$aio->scenario("hits and reads, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 40, kind => $kind, session => $alice);
				my $object = $kind eq 'TEMP' ? 'temp relation/normal' : 'relation/normal';
				my $counts = sub { my ($hit, $read) = @_; return $kind eq 'TEMP' ? "0/0/$hit/$read" : "$hit/$read/0/0" };
				my $stream = "SELECT * FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))";
				buffers_of($alice, $_) for $stream, "SELECT blk FROM $t";
				for my $case ([ 0 => 40 ], [ 10 => 30 ], [ 40 => 0 ])
				{
					my ($hit, $read) = @$case;
					for my $query ($stream, "SELECT blk FROM $t")
					{
						$aio->evict($t, $alice);
						$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(5, 4 + $hit) % 40))");
						my $io = $aio->io_during($alice, $object, sub {
								is(buffers_of($alice, $query), $counts->($hit, $read), "$hit hit, $read read: $query");
							});
						is($io =~ s{.*/}{}r, $read * 8192, 'bytes in pg_stat_io');
						my $hits;
						is($aio->change_during("SELECT coalesce(sum(hits), 0) FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object || '/' || context = '$object'",
								sub { $hits = (split m{/}, buffers_of($alice, $query))[ $kind eq 'TEMP' ? 2 : 0 ] }, $alice), $hits, 'hits in pg_stat_io, now that all blocks are cached');
					}
				}
				# a block that repeats is read once and then hit
				$aio->evict($t, $alice);
				is(buffers_of($alice, "SELECT * FROM read_stream_for_blocks('$t', ARRAY[7, 7, 7, 9, 7])"), $counts->(3, 2), 'a block that repeats is read once');
				$aio->proves($t, session => $alice);
			});
		}

		# pg_stat_io adds up the counts of sessions by the kind of process
		$aio->scenario('the sum over sessions', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 40);
			my $read = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))";
			$_->sql($read) for $alice, $bob;
			for my $backends ([$alice], [ $alice, $bob ])
			{
				my @pids = map { $_->pid } @$backends;
				my $sums = 'SELECT coalesce(sum(reads), 0), coalesce(sum(read_bytes), 0), coalesce(sum(hits), 0)';
				my $of_all = "$sums FROM pg_stat_io WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal'";
				my $of_these = "$sums FROM unnest(ARRAY[" . join(',', @pids) . "]) p, pg_stat_get_backend_io(p) WHERE object = 'relation' AND context = 'normal'";
				my $theirs;
				my $all = $aio->change_during($of_all, sub {
						$theirs = $aio->change_during($of_these, sub {
								for my $session (@$backends) { $aio->evict($t); $session->sql($read) }
							}, @$backends);
					}, @$backends);
				like($theirs, qr{^\d+/${\(@pids * 40 * 8192)}/\d+$}, 'bytes of the sessions: ' . @pids);
				# the sum includes the observer's own hits
				is(join('/', (split m{/}, $all)[ 0, 1 ]), join('/', (split m{/}, $theirs)[ 0, 1 ]), 'pg_stat_io agrees');
			}
		});

		# scans of large tables and VACUUM have contexts of their own
		$aio->scenario('contexts', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 600);
			$alice->sql('SET vacuum_buffer_usage_limit = 0');
			$alice->gives("SELECT count(*) FROM $t", 600, 'warm-up');
			my %bytes = (
				'relation/bulkread' => "SELECT count(*) FROM $t",
				'relation/normal' => "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 599)))",
				'relation/vacuum' => "SET vacuum_buffer_usage_limit = '128kB'; VACUUM (FREEZE, DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
			for my $context (sort keys %bytes)
			{
				$aio->evict($t);
				my $io = $aio->io_during($alice, $context, sub { $alice->sql($bytes{$context}) });
				my ($reads, $read_bytes) = split m{/}, $io;
				# VACUUM reads the visibility map, too, and again the page that it has marked
				cmp_ok($read_bytes, '>=', 600 * 8192, "$context: bytes");
				cmp_ok($read_bytes, '<=', 610 * 8192, "$context: few blocks more");
				cmp_ok($reads, '<', 120, "$context: reads are combined");
			}
		  SKIP: {
				skip $aio->lacks('pg_buffercache'), 1 if $aio->lacks('pg_buffercache');
				my @kept = split /,/, $aio->cached($t);
				cmp_ok(scalar @kept, '<=', 16, 'VACUUM, which came last, has used the buffers of its ring again');
			}
			$aio->proves($t);
		});

		# VACUUM of a hash index reads block by block, without a stream
		$aio->scenario('VACUUM of a hash index', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$aio->sql("CREATE INDEX th ON $t USING hash (blk); DELETE FROM $t WHERE blk = 7; SELECT evict_rel('scenario.th')");
			my ($reads) = split m{/}, $aio->io_during($alice, 'relation/vacuum', sub { $alice->sql("VACUUM (INDEX_CLEANUP on, TRUNCATE off) $t") });
			cmp_ok($reads, '>', 0, 'reads of the index count for context vacuum; the table is cached');
			$aio->proves($t, except => 'block 7 has no row');
		});
	}, leaves => 'nothing');
