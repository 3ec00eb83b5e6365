# Time spent on reads, which the server counts only with track_io_timing.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Plan;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

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

		$aio->scenario('a read that is held', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			my $spent = sub { return $read_time->($alice) };
			$alice->sql('SET track_io_timing = off');
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[0])");
			my $before = $spent->();
			$aio->evict($t);
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))");
			is($spent->() - $before, 0, 'no time without track_io_timing');
			$aio->evict($t);
			$alice->sql('SET track_io_timing = on');
			my $in_database = $aio->sql("SELECT blk_read_time FROM pg_stat_database WHERE datname = 'postgres'");
			$aio->hold(pid => $alice->pid);
			my $started = clock_gettime(CLOCK_MONOTONIC);
			$alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 39)))");
			$aio->holds(1);
			# holds the read for 50 ms of the server's own clock
			my $held_since = $aio->sql('SELECT extract(epoch FROM clock_timestamp())');
			$aio->wait_for("SELECT extract(epoch FROM clock_timestamp()) > $held_since + 0.05");
			$aio->release;
			$alice->ends;
			my $passed = (clock_gettime(CLOCK_MONOTONIC) - $started) * 1000;
			my $ms = $spent->() - $before;
			$aio->gives("SELECT blk_read_time > $in_database FROM pg_stat_database WHERE datname = 'postgres'", 't', 'in pg_stat_database as well');
			$in_database = $aio->sql("SELECT blk_read_time FROM pg_stat_database WHERE datname = 'postgres'");
			for (1, 2) { $alice->sql("SELECT count(*) FROM $t"); $read_time->($alice) }
			$aio->gives("SELECT blk_read_time = $in_database FROM pg_stat_database WHERE datname = 'postgres'", 't', 'which blocks that are cached add nothing to');
			# with io_uring, 19 is held where it looks for completions, before it counts a wait
			cmp_ok($ms, '>=', $aio->method eq 'io_uring' && $aio->major >= 19 ? 0 : 50, 'the time that the session has waited');
			# a tenth more, since the server may read another clock
			cmp_ok($ms, '<', $passed * 1.1, 'in milliseconds, no more than have passed');
		}, skip => $aio->no_faults);

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("shared and local reads, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 40, kind => $kind, session => $alice);
				$alice->sql('SET effective_io_concurrency = 0; SET io_combine_limit = 1; SET track_io_timing = on');
				my $found = explained($alice, 'BUFFERS', "SELECT blk FROM $t");
				my ($some, $none) = map { $found->{"$_ I/O Read Time"} } $kind ? qw(Local Shared) : qw(Shared Local);
				cmp_ok($some, '>', 0, 'the time of forty reads');
				cmp_ok($none, '==', 0, 'no time of the other kind');
			});
		}

		# a session does not wait for a read that has ended, not even briefly (pgaio_wref_check_done)
		$aio->scenario('reads that have ended', sub {
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
			is($read_time->($alice) - $before, 0, 'they take no time');
			$aio->proves($t);
		}, skip => $aio->method ne 'worker' ? 'with this method, a session that looks for completions waits for them'
			: $aio->major >= 19 ? 'the look-ahead does not grow that far unless it has to wait' : undef);
	}, leaves => 'nothing', # for a look-ahead of a hundred blocks
	conf => { shared_buffers => '64MB', max_connections => 10, io_max_concurrency => 128 });
