# Reads with debug_io_direct = data: the kernel does not cache, buffers are aligned, and pg_aios
# shows f_buffered = f (PGAIO_HF_BUFFERED, buffers_to_iovec).
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use Fcntl;
use FindBin;
use lib "$FindBin::RealBin/../..";
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio;
use TestAio::Descriptors;
use TestAio::Required;
use TestAio::Strace;

# Not every file system can do direct I/O.
my $probe = "$PostgreSQL::Test::Utils::tmp_check/direct_io_probe";
my $able = eval { sysopen(my $file, $probe, O_RDWR | O_CREAT | O_DIRECT) };
unlink $probe;
my $unable = unless_required('direct_io', $able ? undef : 'the file system of the tests cannot do direct I/O');
plan skip_all => $unable if $unable;

# Returns whether a session has files open for direct I/O: of those whose path matches, "yes", "no" or both.
sub opened_for_direct_io
{
	my ($session, $path) = @_;
	my %found;
	for my $link (descriptors($session->pid, $path))
	{
		my ($flags) = slurp_file($link =~ s{/fd/}{/fdinfo/}r) =~ /^flags:\s*(\d+)/m;
		$found{ oct($flags) & O_DIRECT ? 'yes' : 'no' } = 1;
	}
	return join ', ', sort keys %found;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('pg_aios shows that reads are not buffered', sub {
			my ($alice) = $aio->sessions('alice');
			for my $kind ('', 'TEMP')
			{
				my $t = $aio->table("t$kind", 20, kind => $kind, session => $alice);
				$aio->hold(pid => $alice->pid);
				$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
				$aio->holds(1);
				$aio->gives("SELECT f_buffered, off, length FROM pg_aios WHERE pid = ${\$alice->pid}", 'f|24576|32768', 'pg_aios');
				$aio->release;
				$alice->ends;
				$aio->proves($t, session => $alice);
			}
		}, skip => $aio->no_faults);

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			$aio->scenario("reads, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 120, kind => $kind, session => $alice);
				$aio->proves($t, session => $alice);
				for my $limit (1, 5, 16)
				{
					$alice->sql("SET io_combine_limit = $limit");
					$aio->evict($t, $alice);
					is($aio->io_during($alice, $kind eq 'TEMP' ? 'temp relation/normal' : 'relation/normal', sub {
								$alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 119)))", '120|7140', 'stream');
							}), int((119 + $limit) / $limit) . '/' . 120 * 8192, "reads and bytes, $limit");
					$aio->proves($t, session => $alice);
					$aio->evict($t, $alice);
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 7, 111)", 111, 'StartReadBuffers');
					$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 120 FROM generate_series(0, 300) i ORDER BY i))", 301, 'in any order');
					$aio->proves($t, session => $alice);
				}
			});
		}

		$aio->scenario('short reads and errors', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			for my $bytes (8192, 20000)
			{
				$aio->evict($t);
				$aio->falsify($bytes, pid => $alice->pid, relation => $t);
				$alice->gives("SELECT sum(nblocks), count(*) FROM read_buffers('$t', 2, 4)", '4|1', "$bytes bytes");
				$aio->tell_truth;
				$aio->proves($t);
			}
			$aio->evict($t);
			$aio->falsify('EIO', pid => $alice->pid, relation => $t);
			$alice->fails("SELECT sum(nblocks) FROM read_buffers('$t', 2, 4)", '58030', qr/could not read blocks 2\.\.5 in file/);
			$aio->tell_truth;
			$aio->proves($t);
		}, skip => $aio->no_faults, log => qr/LOG:  could not read blocks 2\.\.5/);

		# t/server/kernel/system_calls.pl has the advice that is given without direct I/O
		$aio->scenario('no advice', sub {
			my ($alice) = $aio->sessions('alice');
			for my $kind ('', 'TEMP')
			{
				my $t = $aio->table("t$kind", 20, kind => $kind, session => $alice);
				$aio->evict($t, $alice);
				is(join(',', blocks_of('advice', system_calls($aio, $alice, $t, "SELECT pg_prewarm('$t', 'prefetch')"))), '', "pg_prewarm() gives the kernel none, $kind");
				is(join(',', blocks_of('advice', system_calls($aio, $alice, $t, "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 19, 3)))"))), '', "nor does a stream, $kind");
			}
		}, skip => no_strace() // $aio->lacks('pg_prewarm'));

		for my $case ([ 'data' => 'yes', 'no' ], [ 'wal, data' => 'yes', 'yes' ], [ 'data, wal' => 'yes', 'yes' ], [ 'wal' => 'no', 'yes' ], [ '' => 'no', 'no' ])
		{
			my ($setting, $data, $wal) = @$case;
			$aio->scenario("files that are open with debug_io_direct = '$setting'", sub {
				$aio->node->append_conf('postgresql.conf', "debug_io_direct = '$setting'");
				ok($aio->stop, 'the server stops');
				$aio->start_again;
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				# a session has a file of the WAL open if it has written WAL itself
				$alice->sql("SELECT count(*) FROM $t; SELECT pg_logical_emit_message(false, '', '', flush => true)");
				my ($file) = $aio->file_of($t) =~ m{([^/]+/[^/]+)$};
				is(opened_for_direct_io($alice, qr/\/\Q$file\E$/), $data, 'the table');
				is(opened_for_direct_io($alice, qr/\/pg_wal\//), $wal, 'WAL');
				$aio->proves($t);
				# VACUUM writes the dirty pages of its ring itself
				my $u = $aio->table('u', 100);
				$aio->sql("DELETE FROM $u WHERE blk % 2 = 0; CHECKPOINT");
				$aio->evict($u);
				my $added = $aio->io_counts_during($alice, 'relation/vacuum', sub { $alice->sql("SET backend_flush_after = '64kB'; SET vacuum_buffer_usage_limit = '128kB'; VACUUM (TRUNCATE off) $u") });
				cmp_ok($added->{writes}, '>=', 30, 'dirty pages are written');
				is($added->{writebacks} > 0 ? 'yes' : 'no', $data eq 'yes' ? 'no' : 'yes', 'and written back');
			}, skip => $aio->repeats ? 'the same with each io_method' : undef);
		}
	}, leaves => 'nothing', conf => { debug_io_direct => 'data', fsync => 'on', shared_buffers => '64MB', 'test_aio.reach_synchronous_reads' => 'on' });
