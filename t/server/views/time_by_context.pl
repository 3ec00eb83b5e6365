# Times in pg_stat_io: of waits for reads, in the context in which a session reads; of all operations,
# neither missing nor longer than possible; and those of a session, which are a part of all.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# table of so many blocks, statement
		my %reads = (
			bulkread => [ 600, 'SELECT count(*) FROM %s' ],
			vacuum => [ 100, 'VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) %s' ],
			normal => [ 100, 'SELECT count(*) FROM %s' ]);
		for my $context (sort keys %reads)
		{
			$aio->scenario($context, sub {
				my ($alice) = $aio->sessions('alice');
				my ($blocks, $statement) = @{ $reads{$context} };
				my $t = $aio->table('t', $blocks);
				my $times = 'SELECT ' . join(', ', map { "coalesce(sum(read_time) FILTER (WHERE context = '$_'), 0)" } qw(bulkread vacuum normal))
				  . " FROM pg_stat_get_backend_io(${\$alice->pid}) WHERE object = 'relation'";
				$alice->sql('SET track_io_timing = on; SELECT 1');
				my %ms;
				@ms{qw(bulkread vacuum normal)} = split m{/}, $aio->change_during($times, sub {
						# no map has a block 40, so a block of the table is held; maps are read in context normal
						$aio->hold(relation => $t, block => 40);
						$alice->starts(sprintf $statement, $t);
						$aio->holds(1);
						$alice->gets_to_wait(qr/^(?:AioIoCompletion|completion_wait|IoGateHeld)$/);
						# for 50 ms of the server's own clock
						my $since = $aio->sql('SELECT extract(epoch FROM clock_timestamp())');
						$aio->wait_for("SELECT extract(epoch FROM clock_timestamp()) > $since + 0.05");
						$aio->release;
						$alice->ends;
					}, $alice);
				cmp_ok($ms{$context}, '>=', 50, "$context: the time of the wait");
				for my $other (grep { $_ ne $context } sort keys %ms)
				{
					cmp_ok($ms{$other}, '<', $ms{$context}, "$other: less");
				}
				$aio->proves($t);
			}, skip => $aio->no_faults);
		}

		$aio->scenario('no more time than has passed', sub {
			my $begun = $aio->sql('SELECT clock_timestamp()');
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 600);
			$alice->sql("SET track_io_timing = on; SET backend_flush_after = '64kB'; SET temp_buffers = 100");
			$alice->sql("CREATE TEMP TABLE temp (LIKE $t INCLUDING STORAGE); INSERT INTO temp SELECT * FROM $t; DELETE FROM temp; SELECT count(*) FROM temp");
			$alice->sql("UPDATE $t SET gen = 0; SELECT evict_rel('$t'); SELECT count(*) FROM $t; SELECT evict_rel('$t'); VACUUM (DISABLE_PAGE_SKIPPING) $t; SELECT pg_stat_force_next_flush()");
			my $kinds = join ', ', map { "('${_}s', ${_}s, ${_}_time)" } qw(read write writeback extend);
			my $times = "pg_stat_get_backend_io(${\$alice->pid}), LATERAL (VALUES $kinds) v(kind, operations, ms) WHERE object <> 'wal' AND operations > 0";
			$aio->gives("SELECT string_agg(DISTINCT object || ': ' || kind, ', ') FROM $times",
				'relation: extends, relation: reads, relation: writebacks, relation: writes, temp relation: extends, temp relation: reads, temp relation: writes', 'all kinds of operations');
			$aio->gives("SELECT string_agg(concat_ws(' ', object, context, kind, ms), ', ') FROM $times AND (ms <= 0 AND operations >= 20 OR ms > extract(epoch FROM clock_timestamp() - '$begun') * 1000)", '', 'many take some time, none takes longer');
		});

		# the counters of a session are sums, too
		$aio->scenario('the time of one session, and of all', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
			$alice->sql('SET track_io_timing = on; CREATE TABLE scenario.w (LIKE scenario.t)');
			my $sums = "SELECT sum(read_time), sum(extend_time), sum(reads), sum(extends) FROM %s WHERE object = 'relation'";
			my $of_session = sprintf $sums, "pg_stat_get_backend_io(${\$alice->pid})";
			my $all;
			my $one = $aio->change_during($of_session, sub {
					$all = $aio->change_during((sprintf $sums, 'pg_stat_io') . " AND backend_type = 'client backend'", sub {
							for (1 .. 5)
							{
								$aio->evict($t);
								$alice->sql("INSERT INTO scenario.w SELECT * FROM $t");
								$alice->sql('SELECT pg_stat_force_next_flush()');
							}
						}, $alice);
				}, $alice);
			my @differences = map { abs((split m{/}, $one)[$_] - (split m{/}, $all)[$_]) } 0, 1;
			ok($differences[0] < 0.01 && $differences[1] < 0.01, 'the times are the same') || diag("$one, $all");
			ok($_ > 0, 'a time') for (split m{/}, $one)[ 0, 1 ];
		});
	}, workers => 1, conf => { shared_buffers => '16MB',
		# without, nothing is written back
		fsync => 'on' });
