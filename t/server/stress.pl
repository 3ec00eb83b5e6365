# Many sessions at once run random streams, single I/Os, scans and evictions, and are
# cancelled at random.  Each row must be the one that was written.
#
#	TEST_AIO_STRESS_SECONDS		for each io_method; 0.1 by default, 0.6 in the long tier
#	TEST_AIO_SEED				begins with the statements of an earlier run
use TestAio;

use Time::HiRes qw(time);

my $seed = $ENV{TEST_AIO_SEED} // int(rand(1 << 30));
my $seconds = $ENV{TEST_AIO_STRESS_SECONDS} // (only_long() ? 0.1 : 0.6);

# An even seed has sessions compete for few buffers.  An odd one lets each pin so many that
# streams read 128 blocks at once.
my ($shared_buffers, $blocks, $longest) = $seed % 2 ? ('128MB', 300, 128) : ('2MB', 120, 16);

# Errors of a statement that is cancelled, or that reads blocks anew which another session has pinned.
my $expected = qr/57014:|is in use|is being read by another session/;

# Statements of each kind with random arguments, by name.  Each returns nothing unless something is wrong.
sub statements ($t)
{
	my ($from, $n, $step) = (int rand $blocks / 2, 1 + int rand $blocks / 2, 1 + int rand 40);
	return (
		'stream' => "SELECT blockoff FROM read_stream_for_blocks('$t', ARRAY(SELECT ($from + i * $step) % $blocks FROM generate_series(0, $n) i ORDER BY i)) WHERE blocknum <> ($from + blockoff * $step) % $blocks",
		'StartReadBuffers' => "SELECT 'few' FROM read_buffers('$t', $from, $n) HAVING sum(nblocks) <> $n",
		'one I/O' => "SELECT read_rel_block_ll('$t', $from, nblocks => " . (1 + $n % $longest) . ', wait_complete => ' . ($step % 2 ? 'true' : 'false') . ')',
		'scan' => "SELECT blk FROM $t WHERE ctid <> format('(%s,1)', blk)::tid OR body <> proof('$t', blk, 0)",
		'proof' => "SELECT problems('$t')",
		'evict' => "SELECT evict_rel('$t')",
		'set effective_io_concurrency' => 'SET effective_io_concurrency = ' . (0, 1, 3, 16, 100)[ rand 5 ],
		'set io_combine_limit' => 'SET io_combine_limit = ' . (1, 2, 7, 16, 32, 128)[ rand 6 ]);
}

# One random statement.
sub statement
{
	my %statements = statements(@_);
	return $statements{ (sort keys %statements)[ rand keys %statements ] };
}

for_each_io_method('io_uring; long: all', sub {
	srand $seed;

	# a statement must use its columns, or the planner leaves them out
	$aio->scenario('each statement does what it says', sub {
		my $alice = $aio->sessions('alice');
		my $t = $aio->table('t', $blocks);
		my %statements = statements($t);
		for my $kind (sort grep { !/^set/ } keys %statements)
		{
			my $evicts = $kind eq 'evict';
			$aio->evict($t, $alice);
			$alice->sql("SELECT count(*) FROM $t") if $evicts;
			$alice->sql($statements{$kind});
			my $present = $aio->sql("SELECT count(buffer) FROM generate_series(0, $blocks - 1) b, buffer_state('$t', b)");
			cmp_ok($present, $evicts ? '==' : '>', 0, $evicts ? "$kind: no block is left" : "$kind: blocks are read");
		}
	}, skip => only_long());

	$aio->scenario("seed $seed", sub {
		my @sessions = $aio->sessions(map { "s$_" } 1 .. (only_long() ? 3 : 5));
		my ($t, $u) = ($aio->table('t', $blocks), $aio->table('u', $blocks, kind => 'UNLOGGED'));
		my %temp = map { $_->name => $aio->table('v', $blocks, kind => 'TEMP', session => $_) } @sessions;
		$_->sql('SET client_min_messages = error') for @sessions;
		my @wrong;
		my $done = 0;
		my $end = time + $seconds;
		while (time < $end || $done < 100)
		{
			for my $session (@sessions)
			{
				next if !$session->has_ended;
				my ($statement, $error) = ($session->statement, $session->error);
				if ($error && $error->{all} !~ $expected) { push @wrong, "$statement: $error->{all}" }
				elsif ($session->result ne '' && $statement !~ /SET|CALL/) { push @wrong, "$statement: ${\$session->result}" }
				last if @wrong;
				my $relation = ($t, $u, $temp{ $session->name })[ rand 3 ];
				$done++;
				$session->starts(rand() < 0.15 ? "SELECT evict_rel('$relation')" : statement($relation));
			}
			last if @wrong;
			my $victim = $sessions[ rand @sessions ];
			$aio->sql("SELECT pg_cancel_backend(${\$victim->pid})") if rand() < 0.02;
		}
		$_->wait_for_end for @sessions;
		is(join("\n", @wrong), '', "TEST_AIO_SEED=$seed gives the same statements again");
		$aio->proves($_) for $t, $u;
		# the session may have been cancelled just now, and it must wait for its reads
		for my $session (@sessions)
		{
			$session->starts('SELECT 1')->wait_for_end;
			$aio->proves('v', session => $session);
		}
	});
}, conf => { shared_buffers => $shared_buffers, io_max_concurrency => 8, io_max_combine_limit => 128 });
