# Random holds, releases, failures, short reads and devices under mixed load: no
# wrong byte ever, and nobody left hanging.
#
#	TEST_AIO_STRESS_SECONDS		for each io_method, 10 by default
#	TEST_AIO_SEED				replays the decisions of an earlier run
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use Time::HiRes qw(time sleep);
use TestAio;
use TestAio::Gate;

my $seconds = $ENV{TEST_AIO_STRESS_SECONDS} // 10;
my $seed = $ENV{TEST_AIO_SEED} // int(rand(2**31));
my @names = map { "s$_" } 0 .. 5;
my $blocks = 600;

sub one_of { return $_[ int rand @_ ] }

# What sessions do; each result must be the expected one, or the error one that
# was asked for.
sub statement
{
	my $block = int rand($blocks - 8);
	return one_of(
		["SELECT problems('stress.a')", qr/^$/],
		["SELECT problems('stress.b')", qr/^$/],
		["SELECT count(*) FROM stress.a", qr/^$blocks$/],
		["SELECT count(*) FROM read_stream_for_blocks('stress.a', ARRAY(SELECT (i * 37 % $blocks)::int FROM generate_series(0, 99) i))", qr/^100$/],
		["SELECT count(*) > 0 FROM read_buffers('stress.b', $block, 8)", qr/^t$/],
		["SELECT body = proof('stress.a', blk, 0) FROM stress.a WHERE blk = $block", qr/^t$/],
		["SELECT bool_and(body = proof('stress.a', blk, 0)) FROM stress.a WHERE blk = ANY(ARRAY(SELECT (random() * ($blocks - 1))::int FROM generate_series(1, 20)))", qr/^t$/],
		["UPDATE stress.c SET n = n + 1 WHERE id % 7 = " . int(rand 7), qr/^$/],
		["SELECT count(*) FROM stress.c", qr/^3000$/],
		['VACUUM stress.c', qr/^$/],
		['CHECKPOINT', qr/^$/],
		["SELECT evict_rel('stress.a')", qr/^$/],
		["SELECT evict_rel('stress.b')", qr/^$/],
		["CREATE TEMP TABLE IF NOT EXISTS own AS SELECT i, repeat('x', 3000) AS s FROM generate_series(1, 400) i; SELECT evict_rel('own'); SELECT count(*) FROM own", qr/400$/],
		["BEGIN; SELECT read_rel_block_ll('stress.a', $block, nblocks => 4, wait_complete => false); ROLLBACK", qr/^\s*$/],
		['DISCONNECT', undef],
	);
}

# What the controller does.
sub action
{
	my ($aio) = @_;
	my $table = one_of(qw(stress.a stress.b stress.c));
	my $block = int rand $blocks;
	return one_of(
		"SELECT io_hold('$table', max_reads => " . (1 + int rand 3) . ')',
		"SELECT io_hold('$table', $block)",
		"SELECT io_hold(max_reads => 2, fork => NULL)",
		'SELECT io_hold_end()',
		('SELECT io_release_all()') x 6,
		'SELECT io_release_all(-5)',
		'SELECT io_release_all(' . int(rand 20000) . ')',
		'SELECT io_release(pid, io_id) FROM io_held ORDER BY random() LIMIT 1',
		'SELECT io_release(pid, io_id, ' . int(rand 9000) . ') FROM io_held ORDER BY random() LIMIT 1',
		"SELECT io_fail('$table', -5, times => 1)",
		"SELECT io_fail('$table', " . int(rand 30000) . ', skip => ' . int(rand 5) . ', times => 2)',
		'SELECT io_fail_end()',
		"SELECT io_device('" . (1 + int rand 3) . "ms', " . (1 + int rand 16) . ', ' . one_of(0, 0.5, 1) . ", rel => '$table')",
		"SELECT io_device('1ms')",
		'SELECT io_device_end()',
		'SELECT inj_io_completion_continue()',
		'SELECT count(*) FROM io_held',
		'SELECT pg_cancel_backend(' . $aio->sessions(one_of(@names))->pid . ')',
		'TERMINATE');
}

# a session that is terminated may learn it by the end of its connection only;
# that the server has not crashed, the oracles see
my $expected_error = qr/could not read blocks|canceling statement due to|terminating connection|connection lost|server closed the connection|invalid page|deadlock detected|is in use|is being read by another session/;

sub check
{
	my ($session, $expected, $statement) = @_;
	if (my $error = $session->error)
	{
		# of a session that was terminated; a crash is seen by the oracles
		return 1 if $error->{sqlstate} eq 'lost';
		return 1 if $error->{all} =~ $expected_error;
		return fail($session->name . ": $statement: $error->{all}");
	}
	return 1 if !defined $expected || $session->{result} =~ $expected;
	return fail($session->name . ": $statement: $session->{result}");
}

sub stress
{
	my ($aio) = @_;
	$aio->sql("CREATE SCHEMA stress; CALL make_table('stress.a', $blocks, '', 0); CALL make_table('stress.b', $blocks, '', 0);"
		  . 'CREATE INDEX ON stress.a (blk); CREATE TABLE stress.c (id int PRIMARY KEY, n int, s text);'
		  . "INSERT INTO stress.c SELECT i, 0, repeat('c', 500) FROM generate_series(1, 3000) i");
	$aio->sql('VACUUM');
	srand $seed;
	note("seed $seed, $seconds s: TEST_AIO_SEED=$seed replays");

	my %running;
	my ($statements, $actions, $errors) = (0, 0, 0);
	my $end = time + $seconds;
	my $next_action = time;
	while (time < $end)
	{
		for my $name (@names)
		{
			my $session = $aio->sessions($name);
			next if $running{$name} && !$session->has_ended;
			if (my $was = delete $running{$name})
			{
				check($session, $was->[1], $was->[0]);
				$errors++ if $session->error;
				$session->{warnings} = [];
			}
			my $lost = $session->error && $session->error->{sqlstate} =~ /^(lost|57P01)$/;
			my $next = statement();
			if ($lost || $next->[0] eq 'DISCONNECT')
			{
				$session->disconnect;
				delete $aio->{sessions}{$name};
				$aio->sessions($name)->sql("SET statement_timeout = '" . one_of(0, 0, '50ms') . "'");
				next;
			}
			$session->starts($next->[0]);
			$running{$name} = $next;
			$statements++;
		}
		if (time > $next_action)
		{
			$next_action = time + 0.02;
			my $action = action($aio);
			$action = 'SELECT pg_terminate_backend(' . $aio->sessions(one_of(@names))->pid . ')' if $action eq 'TERMINATE';
			$aio->{observer}->starts($action)->wait_for_end;
			fail("$action: " . $aio->{observer}->error->{all})
			  if $aio->{observer}->error && $aio->{observer}->error->{all} !~ $expected_error;
			$actions++;
		}
		sleep 0.001;
	}

	$aio->end_gate;
	for my $name (keys %running)
	{
		$aio->sessions($name)->wait_for_end;
		check($aio->sessions($name), $running{$name}[1], $running{$name}[0]);
		$aio->sessions($name)->{warnings} = [];
	}
	cmp_ok($statements - $errors, q(>), 0, "$statements statements, $errors of them failed as they should, $actions actions, seed $seed");
	$aio->sessions($_)->quit for @names;
	$aio->{sessions} = {};
	$aio->end_gate;
	for my $table (qw(stress.a stress.b))
	{
		$aio->evict($table);
		$aio->proves($table);
	}
	$aio->gives('SELECT count(*), count(DISTINCT id) FROM stress.c', '3000|3000', 'rows of the table that was written to');
	$aio->gives('SELECT count(*) FROM io_held', 0, 'nothing is held');
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->scenario('random actions under mixed load', sub { stress($aio) },
			skip => $aio->no_gate, log => qr/could not read|invalid page|terminating connection|could not send data to client/);
	},
	conf => { 'test_aio.longest_hold' => '2s', 'test_aio.reach_synchronous_reads' => 'on', shared_buffers => '16MB' });
