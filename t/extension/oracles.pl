# The checks of the tests themselves notice the mistakes for which they were made.
use TestAio;
use Test2::API qw(intercept);

# What is left stays, so the oracles need not wait for its end.
$TestAio::Oracles::settle = 0.1;

# Returns the failed assertions among events and their subtests, as [name, diagnostics].
sub _failures (@events)
{
	my @failed;
	for my $event (@events)
	{
		if ($event->can('subevents') && $event->subevents) { push @failed, _failures(@{ $event->subevents }) }
		elsif ($event->isa('Test2::Event::Fail') || $event->isa('Test2::Event::Ok') && !$event->effective_pass)
		{
			push @failed, [ $event->name =~ s/\n.*//sr, '' ];
		}
		elsif (@failed && $event->isa('Test2::Event::Diag')) { $failed[-1][1] .= $event->message }
	}
	return @failed;
}

# Test: in a scenario that runs aside, so that its assertions do not count, exactly the expected assertions fail.  Each is given
# as [name, pattern of its diagnostics].  Without any, the scenario must pass.
sub notices ($aio, $what, $body, $params, @expected)
{
	my $events = intercept { $aio->scenario($what, $body, %$params) };
	my @found = _failures(@$events);
	subtest $what => sub {
		is(join(' / ', map { $_->[0] } @found), join(' / ', map { $_->[0] } @expected), 'the assertions that fail') || diag(map { "$_->[0]: $_->[1]\n" } @found);
		like($found[$_] ? $found[$_][1] : '', $expected[$_][1], "what \"$expected[$_][0]\" reports") for 0 .. $#expected;
		note('all pass') if !@expected;
	};
	return;
}

# The oracles (TestAio/Oracles.pm) notice the mistakes for which they were made.  Each scenario
# here has one mistake, or none.  The library does not wait for a server that cannot start.
my ($left, $left_without) = ('nothing is left', 'nothing is left after the sessions');
my ($warning, $log, $same) = ('no unexpected warning, also while the sessions leave', 'nothing alarming in the log', 'the same server');

# Has a session write a line into the server log.
sub write_log ($session, $level, $message) { return $session->sql("DO \$\$ BEGIN RAISE $level '$message'; END \$\$") }

with_each_io_method('worker', sub {
	my %nothing = (leaves => 'nothing');

	notices($aio, 'nothing is wrong', sub { $aio->proves($aio->table('t', 8)) }, \%nothing);

	notices($aio, 'the scenario dies', sub { die "as planned\n" }, \%nothing, [ 'the scenario runs to its end: as planned', qr/^/ ]);

	notices($aio, 'a figure that never comes', sub {
		local $TestAio::Server::rest = 0.1;
		my $began = time;
		eval { $aio->wait_for('SELECT count(*) = 2 FROM (VALUES (1)) v') };
		my $told = $@;
		cmp_ok(time - $began, '<', $aio->timeout / 2, 'nothing happens any more: the wait ends before its limit');
		die $told;
	}, \%nothing, [ 'the scenario runs to its end: waited in vain for: SELECT count(*) = 2 FROM (VALUES (1)) v; came: 1', qr/^/ ]) if !only_long();

	notices($aio, 'a pin is left', sub {
		my $t = $aio->table('t', 8);
		$aio->sessions('alice')->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 1 FROM c");
	}, \%nothing, [ $left, qr/\d pinned/ ]) if !$aio->lacks('pg_buffercache');

	notices($aio, 'a handle is left', sub {
		my $t = $aio->table('t', 8);
		$aio->sessions('alice')->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
		$aio->wait_for("SELECT state = 'COMPLETED_SHARED' FROM pg_aios");
	}, \%nothing, [ $left, qr/in use: .*COMPLETED_SHARED/ ]);

	notices($aio, 'a handle is left in a state that is not expected', sub {
		my $t = $aio->table('t', 8, changes => 1);
		$aio->sql("SELECT io_hold('$t')");
		$aio->sessions('alice')->sql("SELECT read_rel_block_ll('$t', 3, wait_complete => false)");
	}, {}, [ $left, qr/in use: .*SUBMITTED/ ], [ $left_without, qr/filter: .*hold/ ]) if !$aio->lacks('gate');

	notices($aio, 'hold() without release()', sub { $aio->hold(relation => $aio->table('t', 8)) },
		\%nothing, [ 'no fault left in effect', qr/reads are held/ ]) if !$aio->no_faults;

	notices($aio, 'a device is left', sub { $aio->sql("SELECT io_device(NULL, '1ms', everybody => true)") },
		\%nothing, [ $left_without, qr/filter: .*,device,/ ]) if !$aio->lacks('gate');

	notices($aio, 'a trace is left', sub { $aio->sql('SELECT io_trace_start()') },
		\%nothing, [ $left_without, qr/trace: / ]) if !$aio->lacks('trace');

	notices($aio, 'a buffer with I/O in progress is left', sub {
		my $t = $aio->table('t', 8, changes => 1);
		$aio->sql("SELECT buffer_call_start_io(buffer_create_toy('$t', 2), true, true)");
	}, \%nothing, [ $left, qr/pinned/ ], [ $left_without, qr/in progress: / ])
	  if !$aio->lacks('pg_buffercache');
	$aio->observe;

	notices($aio, 'a warning that the scenario does not expect', sub { write_log($aio->sessions('alice'), 'WARNING', 'beware') },
		\%nothing, [ $warning, qr/alice: .*beware/ ]);
	notices($aio, 'a warning that the scenario expects', sub {
		write_log(my $alice = $aio->sessions('alice'), 'WARNING', 'beware');
		$alice->warns(qr/beware/);
	}, \%nothing);
	notices($aio, 'a warning other than the expected one', sub {
		write_log(my $alice = $aio->sessions('alice'), 'WARNING', 'beware');
		$alice->warns(qr/never mind/);
	}, \%nothing, [ 'alice: warns: no such warning, but: WARNING:  01000: beware', qr/^/ ], [ $warning, qr/beware/ ]);

	# an expected pattern excuses a line only if it names the severity
	my $unreadable = 'could not read blocks 1..2 in file "base/1/2": Input/output error';
	for my $case ([ undef, 1 ], [ qr/could not read blocks/, 1 ], [ qr/ERROR:  could not read blocks/, 1 ], [ qr/bob LOG:  could not read/, 1 ],
		[ qr/LOG:  could not read blocks/, 0 ], [ qr/alice LOG:  could not read blocks 1\.\.2 /, 0 ])
	{
		my ($pattern, $alarms) = @$case;
		notices($aio, 'an alarm in the log, expected: ' . ($pattern // 'nothing'), sub { write_log($aio->sessions('alice'), 'LOG', $unreadable) },
			{ %nothing, log => $pattern }, $alarms ? [ $log, qr/\Q$unreadable/ ] : ());
	}
	notices($aio, 'a process is terminated by another signal', sub {
		write_log($aio->sessions('alice'), 'LOG', 'client backend (PID 1) was terminated by signal 11: Segmentation fault');
	}, { %nothing, log => qr/LOG:  client backend \(PID \d+\) was terminated by signal 9/ }, [ $log, qr/signal 11/ ]);

	notices($aio, 'the server crashes', sub {
		my ($alice) = $aio->sessions('alice');
		kill 'KILL', $alice->pid;
		$aio->wait_for_restart;
	}, \%nothing, [ $same, qr/checkpointer/ ], [ $log, qr/terminated by signal 9/ ]);
	$aio->note_state;
},
	conf => { restart_after_crash => 'on' });

subtest 'a server that does not start' => sub {
	plan skip_all => only_long() if only_long();
	my $server = TestAio::Server->new('worker', name => 'extension-oracles_unable', own => 1, conf => { shared_buffers => '1' });
	my $began = time;
	ok(!eval { $server->launch->start; 1 }, 'start() dies');
	like(my $why = $@, qr/the server has not started; its log:.*shared_buffers.*postmaster FATAL:  /s, 'the error has the log of the server');
	cmp_ok(time - $began, '<', $server->timeout / 2, 'start() does not wait until the timeout');
};

# proves() of TestAio/Data.pm, which checks the pages of a table, notices each kind of damage.
for_each_io_method('worker', sub {
	my $proof = 'scenario.t holds what was written';

	notices($aio, 'the tail is lost', sub {
		my $t = $aio->table('t', 8);
		truncate $aio->file_of($t), 6 * 8192 or die "truncate: $!";
	}, {}, [ 'tables hold what was written', qr/block 6 has no row.*block 7 has no row/s ]);

	notices($aio, 'there is one block too many', sub { $aio->proves($aio->table('t', 8), blocks => 7) },
		{}, [ $proof, qr/block 7 is too many/ ]);

	notices($aio, 'the blocks are of another generation', sub { $aio->proves($aio->table('t', 8), gen => 1) },
		{}, [ $proof, qr/block 0 is of generation 0/ ]);

	# a view in the table's place returns what a broken scan would return
	for ([ 'a scan returns a block twice', qr/block 3 comes 2 times/,
		'SELECT ctid, * FROM scenario.pages UNION ALL SELECT ctid, * FROM scenario.pages WHERE blk = 3' ],
		[ 'a scan returns two blocks in the place of one another', qr/block 3 holds block 4 of scenario\.t.*block 4 holds block 3/s,
			"SELECT CASE blk WHEN 3 THEN '(4,1)' WHEN 4 THEN '(3,1)' ELSE ctid END AS ctid, rel, blk, gen, body FROM scenario.pages" ])
	{
		my ($damage, $report, $query) = @$_;
		notices($aio, $damage, sub {
			my $t = $aio->table('t', 8);
			$aio->sql("ALTER TABLE $t RENAME TO pages; CREATE VIEW $t AS $query");
			$aio->proves($t, blocks => 8);
		}, {}, [ $proof, $report ]);
	}
}, leaves => 'nothing');
