# What work on shared and temporary tables adds to each column of pg_stat_io in context "normal",
# and which rows and columns pg_stat_io has.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# Values that adds_io() accepts.
sub between { my ($from, $to) = @_; return sub { $_[0] >= $from && $_[0] <= $to } }
sub any { return sub { 1 } }

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("normal, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $what = $kind ? 'temp relation/normal' : 'relation/normal';
				my $t = $aio->table('t', 40, kind => $kind, session => $alice);
				my $scan = sub { $alice->sql("SELECT count(*) FROM $t") };
				my $counts = sub { my ($sql) = @_; return $aio->io_counts_during($alice, $what, sub { $alice->sql($sql) }) };
				$alice->sql('SET track_io_timing = off');
				$scan->() for 1 .. 2;
				# the pool may have no free buffer left
				my %misses = (read_bytes => 40 * 8192, hits => any(), evictions => $kind ? 0 : between(0, 60));

				$aio->evict($t, $alice);
				$aio->adds_io($alice, $what, $scan, { %misses, reads => between(1, 40) }, 'a scan that reads');
				# a session also reads catalogs
				$aio->adds_io($alice, $what, $scan, { hits => $kind ? 40 : between(40, 70) }, 'a scan of cached blocks');
				$alice->sql('SET io_combine_limit = 1');
				$aio->evict($t, $alice);
				$aio->adds_io($alice, $what, $scan, { %misses, reads => 40 }, 'a scan that reads block by block');

				$alice->sql('RESET io_combine_limit; SET track_io_timing = on');
				$aio->evict($t, $alice);
				my $started = clock_gettime(CLOCK_MONOTONIC);
				my $added = $counts->("SET effective_io_concurrency = 0; SELECT count(*) FROM $t");
				my $passed = (clock_gettime(CLOCK_MONOTONIC) - $started) * 1000;
				cmp_ok($added->{read_time}, '>', 0, 'reads take time with track_io_timing');
				# a tenth more, since the server may read another clock
				cmp_ok($added->{read_time}, '<', $passed * 1.1, 'in milliseconds, no more than have passed');
				$alice->sql('SET track_io_timing = off; RESET effective_io_concurrency');

				# a table grows by several blocks at once, and some of them stay empty
				$added = $counts->("CALL add_pages('$t', 40, 99)");
				my $blocks = $alice->sql("SELECT pg_relation_size('$t') / 8192") - 40;
				is_between($added->{extend_bytes}, $blocks * 8192, ($blocks + 10) * 8192, "INSERT: bytes of $blocks new blocks");
				is_between($added->{extends}, 1, $blocks, 'extensions');
				is($added->{extend_time}, 0, 'no time without track_io_timing');
				is($counts->("SELECT grow_rel('$t', 50)")->{extend_bytes}, 50 * 8192, 'grow_rel(): bytes of 50 new blocks');
			});
		}

		$aio->scenario('a temporary table larger than temp_buffers', sub {
			my ($alice) = $aio->sessions('alice');
			my $counts = sub { my ($sql) = @_; return $aio->io_counts_during($alice, 'temp relation/normal', sub { $alice->sql($sql) }) };
			$alice->note_temporary_tables;
			$alice->sql('SET temp_buffers = 100; CREATE TEMP TABLE l (n int, body text STORAGE PLAIN)');
			my $added = $counts->("INSERT INTO l SELECT i, repeat('x', 7900) FROM generate_series(1, 400) i");
			my $blocks = $alice->sql("SELECT pg_relation_size('l') / 8192");
			cmp_ok($added->{evictions}, '>=', $blocks - 110, "INSERT: evictions, with $blocks blocks");
			is($added->{write_bytes}, $added->{writes} * 8192, 'bytes written');
			is_between($added->{writes}, $blocks - 110, $blocks + 10, 'writes');
			$added = $aio->io_counts_during($alice, 'temp relation/normal', sub { $alice->gives('SELECT count(*), sum(n) FROM l', '400|80200', 'the rows') });
			is_between($added->{read_bytes}, ($blocks - 100) * 8192, $blocks * 8192, 'SELECT: bytes read');
			is_between($added->{evictions}, $blocks - 110, $blocks + 5, 'evictions');
			is($added->{reuses}, 0, 'local buffers have no ring');
		});

		# a row or a column is missing for what a kind of process never does
		$aio->scenario('rows and columns', sub {
			my %none = (
				'bulkread extends nothing, and has a ring' => "context = 'bulkread' AND (extends IS NOT NULL OR reuses IS NULL OR evictions IS NULL)",
				'normal has no ring' => "context = 'normal' AND object = 'relation' AND reuses IS NOT NULL",
				'temporary tables: context normal, no fsync' => "object = 'temp relation' AND (context <> 'normal' OR fsyncs IS NOT NULL)",
				'no auxiliary process reads temporary tables' =>
				  "object = 'temp relation' AND backend_type IN ('checkpointer', 'background writer', 'autovacuum worker', 'startup')",
				'checkpointer and background writer read no table' =>
				  "backend_type IN ('checkpointer', 'background writer') AND object = 'relation' AND reads IS NOT NULL");
			$aio->gives("SELECT count(*) FROM pg_stat_io WHERE $none{$_}", 0, $_) for sort keys %none;
		});
	}, leaves => 'nothing');
