# What processes ask of the kernel, as strace shows it: advice about blocks to come, and
# reads of these very blocks.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Why processes of this user cannot be traced, or undef.
sub no_strace
{
	return 'needs strace' if system('strace -V >/dev/null 2>&1') != 0;
	my $child = fork // die "fork: $!";
	if (!$child) { exec 'sleep', '60' or exit 1 }
	my $tracer = fork // die "fork: $!";
	if (!$tracer) { open STDERR, '>', '/dev/null'; exec 'strace', '-o', '/dev/null', '-p', $child or exit 1 }
	my $status = '';
	for (1 .. 200)
	{
		open my $fh, '<', "/proc/$child/status" or last;
		$status = join '', <$fh>;
		close $fh;
		last if $status =~ /^TracerPid:\s*[1-9]/m || waitpid($tracer, 1) == $tracer;
		select undef, undef, undef, 0.01;
	}
	kill 'TERM', $tracer;
	waitpid $tracer, 0;
	kill 'KILL', $child;
	waitpid $child, 0;
	return $status =~ /^TracerPid:\s*[1-9]/m ? undef : 'strace may not attach to processes here (kernel.yama.ptrace_scope, or the container)';
}

# The calls about a table's file that a session makes while it runs a statement: [call, block, blocks].
sub calls
{
	my ($aio, $session, $table, $sql) = @_;
	my $pid = $session->pid;
	my $log = $aio->node->basedir . "/strace.$pid";
	my $file = $aio->sql("SELECT pg_relation_filepath('$table')");
	my $tracer = fork // die "fork: $!";
	if (!$tracer)
	{
		open STDERR, '>', '/dev/null';
		exec 'strace', '-y', '-e', 'trace=fadvise64,pread64,preadv,preadv2', '-o', $log, '-p', $pid or exit 1;
	}
	$aio->poll(sub { open my $fh, '<', "/proc/$pid/status" or die "/proc/$pid: $!"; grep { /^TracerPid:\s*$tracer$/ } <$fh> }) or die "strace does not attach\n";
	$session->sql($sql);
	kill 'TERM', $tracer;
	waitpid $tracer, 0;
	open my $fh, '<', $log or die "$log: $!";
	my @calls;
	while (my $line = <$fh>)
	{
		next if $line !~ /\Q$file\E(?![0-9_])/;
		if ($line =~ /^fadvise64\([^,]*, (\d+), (\d+), POSIX_FADV_WILLNEED\)/) { push @calls, [ 'advice', $1 / 8192, $2 / 8192 ] }
		# of vectors, the length is what has been read
		elsif ($line =~ /^pread(?:64|v2?)\(.*, (\d+)(?:, \d+)?\)\s+= (\d+)$/) { push @calls, [ 'read', $1 / 8192, $2 / 8192 ] }
	}
	close $fh;
	return @calls;
}

# The blocks of the calls of one kind, in order.
sub blocks_of { my ($kind, @calls) = @_; return map { $_->[1] .. $_->[1] + $_->[2] - 1 } grep { $_->[0] eq $kind } @calls }

my $obstacle = no_strace();

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $skip = $obstacle // $aio->lacks('pg_prewarm');

		$aio->scenario('pg_prewarm', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			for my $range ([ 0, 59 ], [ 7, 40 ], [ 59, 59 ])
			{
				my ($first, $last) = @$range;
				my %calls = map { my $mode = $_; $aio->evict($t); ($mode => [ calls($aio, $alice, $t, "SELECT pg_prewarm('$t', '$mode', 'main', $first, $last)") ]) } qw(prefetch read);
				is(join(',', blocks_of('advice', @{ $calls{prefetch} })), join(',', $first .. $last), "prefetch, $first to $last: advice about each block");
				is(join(',', blocks_of('read', @{ $calls{prefetch} })), '', 'nothing is read');
				is(join(',', blocks_of('read', @{ $calls{read} })), join(',', $first .. $last), 'read: these blocks');
				is(join(',', blocks_of('advice', @{ $calls{read} })), '', 'no advice');
			}
		}, skip => $skip);

		$aio->scenario('streams', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 120);
			my @blocks = map { ($_ * 7 + 3) % 120 } 0 .. 59;
			my $stream = sub { return "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[" . join(',', @_) . '])' };
			$alice->sql($stream->(@blocks));
			for my $case ([ 16, 'random', @blocks ], [ 16, 'sequential', 0 .. 119 ], [ 0, 'random', @blocks ])
			{
				my ($concurrency, $order, @wanted) = @$case;
				$alice->sql("SET effective_io_concurrency = $concurrency");
				$aio->evict($t);
				my @calls = calls($aio, $alice, $t, $stream->(@wanted));
				my @advised = blocks_of('advice', @calls);
				my @read = blocks_of('read', @calls);
				my %wanted = map { $_ => 1 } @wanted;
				my $name = "$order, effective_io_concurrency = $concurrency";
				my %times;
				$times{$_}++ for @advised;
				is(join(',', grep { !$wanted{$_} || $times{$_} > 1 } @advised), '', "$name: advice about wanted blocks, once at most");
				if ($aio->method eq 'sync' && $concurrency && $order eq 'random')
				{
					# the first ones, before the look-ahead has grown, and those that it holds at the end
					cmp_ok(scalar @advised, '>', 40, 'about most of them');
					my %when;
					$when{"$calls[$_][0] $calls[$_][1]"} //= $_ for 0 .. $#calls;
					is(scalar(grep { defined $when{"read $_"} && $when{"read $_"} < $when{"advice $_"} } @advised), 0, 'before they are read');
				}
				else { is(scalar @advised, 0, 'no advice') if $order eq 'random' }
				cmp_ok(scalar @advised, '<', 30, 'the kernel sees by itself that blocks come in order') if $order eq 'sequential';
				# with 18 and later, "sync" and concurrency 0 read in the session
				if ($aio->method eq 'sync' || !$concurrency) { is(join(',', @read), join(',', @wanted), 'reads them all, in this order') }
				elsif ($aio->method eq 'io_uring') { cmp_ok(scalar @read, '<', 20, 'hardly reads by pread') }
			}
			$aio->proves($t);
		}, skip => $obstacle);

		$aio->scenario('VACUUM that truncates', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 120);
			$aio->sql("DELETE FROM $t WHERE blk >= 40; VACUUM (TRUNCATE off) $t");
			$aio->evict($t);
			my @calls = calls($aio, $alice, $t, "VACUUM (TRUNCATE on) $t");
			is(join(',', grep { $_ < 32 } blocks_of('advice', @calls)), '', 'no advice about blocks that stay');
			$aio->gives("SELECT pg_relation_size('$t') / 8192", 40, 'the size');
			$aio->proves($t, blocks => 40);
		}, skip => $obstacle);
	}, conf => { shared_buffers => '16MB' });
