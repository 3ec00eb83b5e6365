# Which setting limits a stream: effective_io_concurrency, for VACUUM and ANALYZE
# maintenance_io_concurrency, of the session or of the table's tablespace.  With 0 the
# session performs its read at once, and pg_aios flags it as synchronous.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		my $scan = 'SELECT count(*) FROM %s';
		my $stream = "SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY(SELECT generate_series(0, 59, 2)))";
		my $vacuum = 'VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) %s';
		# effective_ and maintenance_io_concurrency of the session, options of the tablespace,
		# statement, whether its read is synchronous
		my @cases = (
			[ 16, 16, '', $scan, 'f' ],
			[ 0, 16, '', $scan, 't' ],
			[ 0, 16, '', $stream, 't' ],
			[ 16, 0, '', $stream, 'f' ],
			[ 16, 0, '', $vacuum, 't' ],
			[ 0, 16, '', $vacuum, 'f' ],
			[ 16, 0, '', 'ANALYZE %s', 't' ],
			[ 0, 16, '', 'ANALYZE %s', 'f' ],
			[ 16, 16, 'effective_io_concurrency = 0', $stream, 't' ],
			[ 0, 16, 'effective_io_concurrency = 5', $stream, 'f' ],
			[ 16, 16, 'effective_io_concurrency = 0', $vacuum, 'f' ],
			[ 16, 16, 'maintenance_io_concurrency = 0', $stream, 'f' ],
			[ 16, 16, 'maintenance_io_concurrency = 0', $vacuum, 't' ],
			[ 16, 0, 'maintenance_io_concurrency = 5', $vacuum, 'f' ]);

		for my $case (@cases)
		{
			my ($effective, $maintenance, $option, $statement, $synchronous) = @$case;
			$aio->scenario("$effective, $maintenance, $option: $statement", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 60);
				$aio->sql("ALTER TABLE $t SET TABLESPACE elsewhere");
				$aio->sql('ALTER TABLESPACE elsewhere RESET (effective_io_concurrency, maintenance_io_concurrency)');
				$aio->sql("ALTER TABLESPACE elsewhere SET ($option)") if $option;
				$alice->sql("SET effective_io_concurrency = $effective; SET maintenance_io_concurrency = $maintenance");
				$aio->evict($t);
				# other forks do not have this block
				$aio->hold(relation => $t, pid => $alice->pid, block => 20);
				$alice->starts(sprintf $statement, $t);
				$aio->holds(1);
				# with sync all reads are synchronous
				$aio->gives("SELECT DISTINCT f_sync FROM pg_aios WHERE state = 'COMPLETED_IO' AND pid = ${\$alice->pid}",
					$aio->method eq 'sync' ? 't' : $synchronous, 'f_sync');
				$aio->gives("SELECT DISTINCT backend_type FROM pg_stat_activity WHERE wait_event = 'completion_wait'",
					$aio->method eq 'worker' && $synchronous eq 'f' ? 'io worker' : 'client backend', 'the process that performs it');
				$aio->release;
				$alice->ends;
				$aio->proves($t);
				$aio->sql("DROP TABLE $t");
			}, skip => $aio->no_injection_points);
		}

		# since server commit cceb1bf45e (19) the session performs a lone miss among hits at once
		$aio->scenario('a lone miss after many hits', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$aio->warm($t, 0 .. 49);
			$aio->hold(relation => $t, pid => $alice->pid, block => 50);
			$alice->starts("SET io_combine_limit = 1; SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 50)))");
			$aio->holds(1);
			$aio->gives("SELECT f_sync, off / 8192 FROM pg_aios WHERE pid = ${\$alice->pid}",
				($aio->method eq 'sync' || $aio->major >= 19 ? 't' : 'f') . '|50', 'f_sync');
			$aio->release;
			$alice->returns(51, 'reads');
		}, skip => $aio->no_injection_points);
	}, leaves => 'nothing', prepare => sub { $_[0]->make_tablespace });
