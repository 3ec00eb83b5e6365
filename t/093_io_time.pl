# Time spent on reads, which is counted only with track_io_timing, and the cost delay of
# VACUUM.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# Returns the milliseconds that a session has spent on reads of tables.
		my $read_time = sub {
			my ($session) = @_;
			for my $query ('SELECT pg_stat_force_next_flush()', 'SELECT pg_stat_clear_snapshot()') { $session->sql($query) }
			$aio->sql('SELECT pg_stat_clear_snapshot()');
			return $aio->sql("SELECT sum(read_time) FROM pg_stat_get_backend_io(${\$session->pid}) WHERE object = 'relation' AND context = 'normal'") || 0;
		};

		$aio->scenario('time', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			my $spent = sub { return $read_time->($alice) };
			$alice->sql('SET track_io_timing = off');
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[0])");
			my $before = $spent->();
			$aio->evict($t);
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))");
			is($spent->() - $before, 0, 'none when it is not asked for');
			$aio->evict($t);
			$alice->sql('SET track_io_timing = on');
			my $in_database = $aio->sql("SELECT blk_read_time FROM pg_stat_database WHERE datname = 'postgres'");
			$aio->hold(pid => $alice->pid);
			$alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))");
			$aio->holds(1);
			# holds the read for 50 ms of the server's own clock
			my $held_since = $aio->sql('SELECT extract(epoch FROM clock_timestamp())');
			$aio->wait_for("SELECT extract(epoch FROM clock_timestamp()) > $held_since + 0.05");
			$aio->release;
			$alice->ends;
			my $ms = $spent->() - $before;
			$aio->gives("SELECT blk_read_time > $in_database FROM pg_stat_database WHERE datname = 'postgres'", 't', 'in pg_stat_database as well');
			# 19 looks for completions before it begins to wait, and is held there
			cmp_ok($ms, '>=', $aio->method eq 'io_uring' && $aio->major >= 19 ? 0 : 50, 'the time that a read was waited for');
			cmp_ok($ms, '<', 10000, 'in milliseconds');
		}, skip => $aio->no_faults);

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("for tables of which sort, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 40, kind => $kind, session => $alice);
				$alice->sql('SET effective_io_concurrency = 0; SET io_combine_limit = 1; SET track_io_timing = on');
				my $plan = $alice->sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT blk FROM $t");
				my ($shared, $local) = map { $plan =~ m{"$_ I/O Read Time": ([\d.]+)} } qw(Shared Local);
				my ($some, $none) = $kind ? ($local, $shared) : ($shared, $local);
				cmp_ok($some, '>', 0, 'time of forty reads');
				cmp_ok($none, '==', 0, 'none of the other sort');
			});
		}

		# pgaio_wref_check_done(): nobody waits for a read that has ended, however briefly
		$aio->scenario('none for reads that have ended', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 90);
			$alice->sql('SET effective_io_concurrency = 200; SET io_combine_limit = 1; SET track_io_timing = off');
			my $before = $read_time->($alice);
			$alice->sql('BEGIN');
			for my $round (1 .. 5)
			{
				$aio->evict($t);
				$alice->sql("SET track_io_timing = off; DECLARE c CURSOR FOR SELECT blk FROM $t");
				$alice->sql('FETCH 10 FROM c');
				$aio->gives("SELECT buffer IS NOT NULL FROM buffer_state('$t', 89)", 't', 'has looked ahead to the end of the table');
				$aio->wait_for("SELECT count(*) > 16 AND bool_and(state = 'COMPLETED_SHARED') FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv'");
				$alice->sql('SET track_io_timing = on');
				$alice->sql('MOVE ALL FROM c');
				$alice->sql('CLOSE c');
			}
			$alice->sql('COMMIT');
			is($read_time->($alice) - $before, 0, 'no time was spent');
			$aio->proves($t);
		}, skip => $aio->method ne 'worker' ? 'who asks for completions with this method, waits'
			: $aio->major >= 19 ? 'the look-ahead does not grow that far unless it has to wait' : undef);

		# AsyncReadBuffers() charges for each block when its read is started
		$aio->scenario('the cost of VACUUM', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$alice->sql('SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_dirty = 0; SET vacuum_cost_page_miss = 1000;'
				  . ' SET vacuum_cost_limit = 10000; SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on');
			my $delay = sub {
				$alice->notices;
				$alice->sql("VACUUM (VERBOSE, DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
				my ($ms) = map { /delay time: ([\d.]+) ms/ ? $1 : () } $alice->notices;
				return $ms // 0;
			};
			$delay->();
			cmp_ok($delay->(), '==', 0, 'none for blocks that are there');
			$aio->evict($t);
			cmp_ok($delay->(), '>=', 3, 'a millisecond for each ten blocks');
		});
	}, leaves => 'nothing', # for a look-ahead of a hundred blocks
	conf => { shared_buffers => '64MB', max_connections => 10, io_max_concurrency => 128 });
