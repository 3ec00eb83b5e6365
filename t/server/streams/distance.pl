# How far a read stream looks ahead: how many later blocks it has asked for while it waits for a
# block.  effective_io_concurrency limits the reads in flight.  The distance grows by misses, in 19
# only if the session has to wait for the read.  It shrinks by hits, in 18 by one each, in 19 only
# when the last miss is far behind (server commit 6e36930f9a).
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;
use TestAio::Trace;

# Releases the held reads that a session waits for, one after another, until it waits for
# the read of this block.
sub release_up_to
{
	my ($aio, $session, $block) = @_;
	my $step = "SELECT CASE WHEN $block BETWEEN blockno AND blockno + nblocks - 1 THEN 'there' ELSE io_release(pid, io_id)::text END"
	  . " FROM io_held WHERE ${\$session->pid} = ANY (waiters)";
	$aio->poll(sub { $aio->sql($step) eq 'there' }) or die "never waits for block $block\n";
	return;
}

# Has a session read blocks in this order.  Each of its reads is held until it waits for
# it.  Counts what it has started beyond each of some blocks, while it waits for that block.
sub ahead_at
{
	my ($aio, $t, $blocks, $stops, $count, %params) = @_;
	my $alice = $aio->sessions('alice');
	my $eic = $params{eic} // 16;
	$alice->sql("SET effective_io_concurrency = $eic; SET io_combine_limit = " . ($params{combine} // 16));
	$aio->evict($t, $alice);
	$aio->warm($t, @{ $params{warm} // [] });
	$aio->sql("SELECT io_hold('$t', pid => ${\$alice->pid})");
	$alice->starts($params{pause_at}
		? "SELECT blocks FROM read_stream_run('$t', ARRAY($blocks), pause_at => '{$params{pause_at}}')"
		: "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY($blocks))");
	my @ahead;
	for my $stop (@$stops)
	{
		release_up_to($aio, $alice, $stop);
		push @ahead, $count->($alice, $stop);
	}
	$aio->gate_release;
	$alice->ends;
	return join ',', @ahead;
}

# Returns the numbers of reads.
sub reads_ahead_at
{
	my ($aio, @what) = @_;
	my $count = sub { my ($alice, $stop) = @_; return $aio->sql("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv' AND off / 8192 > $stop") };
	return ahead_at($aio, splice(@what, 0, 3), $count, @what);
}

# Returns the numbers of blocks.
sub blocks_ahead_at
{
	my ($aio, $t, @what) = @_;
	my $count = sub { my (undef, $stop) = @_; return $aio->sql("SELECT count(buffer) FROM generate_series($stop + 1, 399) b, buffer_state('$t', b)") };
	return ahead_at($aio, $t, splice(@what, 0, 2), $count, @what);
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $no_gate = $aio->lacks('gate');
		my $starts_none = $aio->method eq 'sync' ? 'with sync a stream reads a block when it wants it' : $no_gate;
		my $even = 'SELECT generate_series(0, 398, 2)';
		my $all = 'SELECT generate_series(0, 399)';

		$aio->scenario('at the first block', sub {
			my $t = $aio->table('t', 400);
			# a stream with READ_STREAM_FULL begins with the distance of one full read
			for my $case ([ 0 => 0 ], [ 1 => 0 ], [ 2 => 1 ], [ 5 => 4 ], [ 16 => 14 ], [ 50 => 14 ])
			{
				my ($eic, $expected) = @$case;
				is(blocks_ahead_at($aio, $t, $even, [0], eic => $eic), $expected, "single blocks, effective_io_concurrency = $eic");
				is(blocks_ahead_at($aio, $t, $all, [0], eic => $eic), 15, "one full read, effective_io_concurrency = $eic");
				is(blocks_ahead_at($aio, $t, $even, [0], eic => $eic, combine => 1), 0, "a distance of one, effective_io_concurrency = $eic");
			}
			$aio->proves($t);
		}, skip => $no_gate);

		$aio->scenario('when each read is waited for', sub {
			my $t = $aio->table('t', 400);
			my @first = map { $_ * 2 } 0 .. 7;
			for my $case (
				[ 'doubles', $even, \@first, { combine => 1, eic => 40 }, '0,1,3,7,15,31,39,39' ],
				[ 'up to the limit of reads', $even, \@first, { combine => 1, eic => 6 }, '0,1,3,5,5,5,5,5' ],
				[ 'one read only', $even, \@first, { combine => 1, eic => 1 }, '0,0,0,0,0,0,0,0' ],
				[ 'full reads', $all, [ map { $_ * 16 } 0 .. 5 ], { eic => 4 }, '0,1,3,3,3,3' ])
			{
				my ($what, $blocks, $stops, $limits, $expected) = @$case;
				my $ahead = reads_ahead_at($aio, $t, $blocks, $stops, %$limits);
				is($ahead, $expected, $what);
			}
			$aio->proves($t);
		}, skip => $starts_none);

		$aio->scenario('after a pause', sub {
			my $t = $aio->table('t', 400);
			is(reads_ahead_at($aio, $t, $even, [ 190, 198, 200, 210 ], eic => 16, pause_at => 100), '4,0,15,15', 'not beyond it, then as far as before');
			$aio->proves($t);
		}, skip => $starts_none // ($aio->major < 19 ? 'streams pause since 19' : undef));

		$aio->scenario('when no read is waited for', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 90);
			$alice->sql("SET effective_io_concurrency = 32; SET io_combine_limit = 1; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t");
			my $most = 0;
			for my $at (0 .. 19)
			{
				$alice->gives('FETCH 1 FROM c', $at, "block $at");
				$aio->wait_for("SELECT count(*) = 0 FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv' AND state <> 'COMPLETED_SHARED'");
				my $ahead = $aio->sql("SELECT count(buffer) FROM generate_series($at + 1, 89) b, buffer_state('$t', b)");
				$most = $ahead if $ahead > $most;
			}
			# the session has waited for the first reads
			cmp_ok($most, '<=', 8, 'reads that have ended leave the look-ahead as it is');
			$alice->sql('COMMIT');
			$aio->proves($t);
		}, skip => $aio->method ne 'worker' ? 'with this method, no read ends while its owner is idle'
			: $aio->major < 19 ? 'before 19 each read makes a stream look further ahead' : undef);

		# the hits let the stream look ahead by one block only, and still combine; all reads are staged then
		$aio->scenario('after hits, when no read is waited for', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 150);
			$alice->sql("SET effective_io_concurrency = 1; SET io_combine_limit = 16; SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(41, 77)))");
			$aio->sql("SELECT io_trace_start('$t')");
			$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t");
			for my $at (0 .. 109)
			{
				$alice->gives('FETCH 1 FROM c', $at, "block $at");
				$aio->wait_for("SELECT count(*) = 0 FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv' AND state <> 'COMPLETED_SHARED'");
			}
			$aio->end_trace;
			$aio->traced("max(nblocks), (SELECT string_agg(blockno::text, ',') FROM (SELECT blockno, lag(blockno + nblocks) OVER (ORDER BY submitted_at) AS expected FROM io_trace) WHERE blockno <> expected)",
				'16|78', 'each begins where the one before it has ended, but for the hits');
			$alice->sql('COMMIT');
			$aio->proves($t);
		}, skip => $aio->method ne 'worker' ? 'with this method, no read ends while its owner is idle' : $aio->major < 19 ? 'before 19 each read makes a stream look further ahead' : $aio->lacks('trace'));

		$aio->scenario('after hits', sub {
			my $t = $aio->table('t', 400);
			# the distance has shrunk to one and grows again
			is(reads_ahead_at($aio, $t, $all, [ 100 .. 105 ], combine => 1, warm => [ 0 .. 99 ]), '0,1,3,7,15,15', 'misses after a hundred hits');
			# in 18 a hit undoes what a miss has gained
			my $ahead = reads_ahead_at($aio, $t, $all, [ 1, 3, 5, 7, 9, 11 ], combine => 1, warm => [ map { $_ * 2 } 0 .. 199 ]);
			is($ahead, $aio->major < 19 ? '0,0,0,0,0,0' : '0,0,1,3,7,8', 'hits and misses in turn');
			# more hits than the stream has pinned, fewer than it may pin
			is(reads_ahead_at($aio, $t, $all, [ 0, 1, 2, 31 ], combine => 1, eic => 40, warm => [ 3 .. 30 ]),
				$aio->major < 19 ? '0,1,0,0' : '0,1,0,7', 'misses after thirty hits');
		}, skip => $starts_none);
	}, conf => { shared_buffers => '64MB', io_max_combine_limit => '128kB', io_max_concurrency => 64,
		# those of effective_io_concurrency = 0, and since 19 a lone miss among hits (server commit cceb1bf45e)
		'test_aio.reach_synchronous_reads' => 'on' });
