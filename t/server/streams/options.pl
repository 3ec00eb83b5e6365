# Streams with a ring of buffers, of other forks, within a batch, and for maintenance
# (read_stream_run).
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Arguments of a stream that looks ahead at once: its first read has the blocks 0 to 15.
my $ahead = "ARRAY(SELECT generate_series(0, 15)), \"full\" => true";

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a ring of buffers', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 300);
			my $all = 'ARRAY(SELECT generate_series(0, 299))';
			for my $context (qw(bulkread bulkwrite vacuum))
			{
				$aio->evict($t);
				my $io = $aio->io_during($alice, "relation/$context", sub {
						$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', $all, context => '$context', ring_size => 128)", '300|2457600', $context);
					});
				is($io =~ s{.*/}{}r, 300 * 8192, "all bytes in the context $context");
				next if $aio->lacks('pg_buffercache');
				my @kept = split /,/, $aio->cached($t);
				cmp_ok(scalar @kept, '<=', 32, 'few of them stay in the buffer pool') if $context ne 'bulkread';
			}
			$alice->gives("SELECT blocks FROM read_stream_run('$t', $all, context => 'vacuum')", '300', 'a ring of the default size');
			$aio->proves($t);
		});

		# 256 kB, and a place for each block of the reads that may be in progress
		$aio->scenario('the default size of a ring for scans', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 300);
			for my $case ([ 1, 2 ], [ 2, 4 ], [ 4, 8 ])
			{
				my ($concurrency, $combined) = @$case;
				$alice->sql("SET effective_io_concurrency = $concurrency; SET io_combine_limit = $combined");
				$aio->evict($t);
				$alice->gives("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 299)), context => 'bulkread')", '300', "$concurrency reads of $combined blocks");
				my @kept = split /,/, $aio->cached($t);
				is(scalar @kept, 32 + $concurrency * $combined, 'blocks that stay in the buffer pool');
			}
			$aio->proves($t);
		}, skip => $aio->lacks('pg_buffercache'));

		$aio->scenario('forks', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$alice->sql("VACUUM $t");
			$aio->evict($t);
			$alice->gives("SELECT blocks, read_bytes FROM read_stream_run('$t', '{0}', fork => 'vm')", '1|8192', 'the visibility map');
			$alice->fails("SELECT * FROM read_stream_run('$t', '{1000}', fork => 'vm')", '22023', qr/block number 1000 is out of range for fork "vm"/, 'a block beyond its end');
			$alice->fails("SELECT * FROM read_stream_run('$t', '{}', fork => 'init')", '22023', qr/has no fork "init"/, 'a fork that the table does not have');
			$alice->fails("SELECT * FROM read_stream_run('$t', '{}', fork => 'x')", '22023', qr/invalid fork name/, 'no such fork');
			$aio->proves($t);
		});

		$aio->scenario('within a batch', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 16);
			# opens the relation, so that the batch reads no catalogs
			$alice->sql("SELECT read_stream_run('$t', '{15}')");
			$alice->gives("SELECT batch_start()::text UNION ALL SELECT concat_ws('|', blocks) FROM read_stream_run('$t', $ahead, use_batching => true) UNION ALL SELECT batch_end()::text", "\n16\n", 'the stream leaves the batch and enters it again');
			$aio->proves($t);
		});

		$aio->scenario('maintenance_io_concurrency', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$alice->sql('SET effective_io_concurrency = 2; SET maintenance_io_concurrency = 5');
			for my $case ([ 'false' => 2 ], [ 'true' => 5 ])
			{
				my ($maintenance, $expected) = @$case;
				$aio->hold(relation => $t);
				$alice->starts("SELECT blocks FROM read_stream_run('$t', ARRAY(SELECT generate_series(0, 38, 2)), \"full\" => true, maintenance => $maintenance)");
				$alice->gets_to_wait(qr/^(?:AioIoCompletion|completion_wait|IoGateHeld)$/);
				$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid}", $expected, "maintenance $maintenance: reads in progress");
				$aio->release;
				$alice->returns(20, 'all blocks');
				$aio->evict($t);
			}
			$aio->proves($t);
		}, skip => $aio->no_faults // ($aio->method eq 'io_uring' ? undef : 'with this method the hold stops workers, or the session itself'));
	}, conf => { shared_buffers => '64MB' });
