# Reads that io_uring hands to threads of the kernel (IOSQE_ASYNC).  A read begins in such a thread if
# several others are in flight; since 19, also if it is large.  Other reads of cached data are
# performed when they are submitted.
#
# io_methods: io_uring
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Kernel;
use PostgreSQL::Test::Utils qw(slurp_file);

my $at_once = directory_that_reads_at_once();
my $obstacle = kernel_version() < 5.012 ? 'Linux shows the threads of io_uring since 5.12' : $at_once ? undef : 'no file system here returns cached data at once';

# The kernel's threads that have performed reads of a process.  They stay for seconds when they are idle.
sub kernel_threads { my ($pid) = @_; return grep { (eval { slurp_file($_) } // '') =~ /^iou-wrk/ } glob "/proc/$pid/task/*/comm" }

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('cached data', sub {
			my $t = $aio->table('t', 64);
			$aio->sql("CREATE TABLESPACE at_once LOCATION '$at_once'");
			$aio->sql("ALTER TABLE $t SET TABLESPACE at_once");
			$aio->proves($t);
			my ($most, $large) = $aio->major < 19 ? (5, 0) : (4, 1);
			# reads that are in flight together, and their blocks: are there threads?
			for my $case ([ $most, 1, 0 ], [ $most + 1, 1, 1 ], [ 1, 3, 0 ], [ 1, 4, $large ], [ 1, 16, $large ])
			{
				my ($reads, $blocks, $threads) = @$case;
				$aio->evict($t);
				my $reader = $aio->session('reader');
				$reader->sql("SELECT read_rel_block_ll('$t', n * $blocks, nblocks => $blocks, wait_complete => false) FROM generate_series(0, $reads - 1) n");
				# a thread that has performed a read has its name
				$reader->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, $reads * $blocks)", $reads * $blocks, 'they end');
				is(kernel_threads($reader->pid) ? 1 : 0, $threads, "$reads in flight, of $blocks blocks: " . ($threads ? 'a thread' : 'no thread'));
				$aio->end_session($reader);
			}
			$aio->proves($t);
		}, skip => $obstacle);
	});
