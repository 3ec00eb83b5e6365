# Which setting limits a stream: effective_io_concurrency, for VACUUM and ANALYZE
# maintenance_io_concurrency, of the session or of the table's tablespace.  With 0 the
# session performs its reads at once, and they are flagged as synchronous.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Trace;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my ($sync, $no_trace) = ($aio->method eq 'sync', $aio->lacks('trace'));

		my $scan = 'SELECT count(*) FROM %s';
		my $stream = "SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY(SELECT generate_series(0, 59, 2)))";
		my $vacuum = 'VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) %s';
		# effective_ and maintenance_io_concurrency of the session, options of the tablespace,
		# statement, whether its reads are synchronous
		my @cases = (
			[ 16, 16, '', $scan, 'false' ],
			[ 1, 16, '', $scan, 'false' ],
			[ 0, 16, '', $scan, 'true' ],
			[ 0, 16, '', $stream, 'true' ],
			[ 16, 0, '', $stream, 'false' ],
			[ 16, 1, '', $vacuum, 'false' ],
			[ 16, 0, '', $vacuum, 'true' ],
			[ 0, 16, '', $vacuum, 'false' ],
			[ 16, 0, '', 'ANALYZE %s', 'true' ],
			[ 0, 16, '', 'ANALYZE %s', 'false' ],
			[ 16, 16, 'effective_io_concurrency = 0', $stream, 'true' ],
			[ 0, 16, 'effective_io_concurrency = 5', $stream, 'false' ],
			[ 16, 16, 'effective_io_concurrency = 0', $vacuum, 'false' ],
			[ 16, 16, 'maintenance_io_concurrency = 0', $stream, 'false' ],
			[ 16, 16, 'maintenance_io_concurrency = 0', $vacuum, 'true' ],
			[ 16, 0, 'maintenance_io_concurrency = 5', $vacuum, 'false' ]);

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
				$aio->traces_of("'$t', ${\$alice->pid}", sub { $alice->sql(sprintf $statement, $t) });
				$aio->gives("SELECT string_agg(DISTINCT f_sync::text, ' ') FROM io_trace WHERE fork = 'main'", $sync ? 'true' : $synchronous, 'f_sync');
				# since 19 a session also performs a read if an I/O worker has the lock of their queue
				my $others = "executed_by IS DISTINCT FROM ${\$alice->pid}";
				$aio->gives("SELECT bool_or($others) FROM io_trace WHERE fork = 'main'", $sync || $synchronous eq 'true' ? 'f' : 't', 'whether others perform them');
				$aio->proves($t);
				$aio->sql("DROP TABLE $t");
			}, skip => $no_trace);
		}

		# since server commit cceb1bf45e (19) the session performs a lone miss among hits at once
		$aio->scenario('a lone miss after many hits', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$aio->warm($t, 0 .. 49);
			$aio->traces_of("'$t', ${\$alice->pid}", sub {
					$alice->gives("SET io_combine_limit = 1; SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 50)))", 51, 'reads');
				});
			$aio->traced('f_sync, blockno', ($sync || $aio->major >= 19 ? 't' : 'f') . '|50');
		}, skip => $no_trace);
	}, leaves => 'nothing', prepare => sub { $_[0]->make_tablespace });
