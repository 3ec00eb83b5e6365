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

	notices($aio, 'nothing is wrong', sub { $aio->is_as_written($aio->table('t', 8)) }, \%nothing);

	notices($aio, 'the scenario dies', sub { die "as planned\n" }, \%nothing, [ 'the scenario runs to its end: as planned', qr/^/ ]);

	notices($aio, 'a figure that never comes', sub {
		local $TestAio::Sessions::idle_seconds = 0.1;
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

	notices($aio, 'completion_wait() without completion_continue()', sub { $aio->completion_wait(relation => $aio->table('t', 8)) },
		\%nothing, [ 'no fault left in effect', qr/completion_wait/ ]) if !$aio->no_faults;

	notices($aio, 'a device is left', sub { $aio->io_device(undef, '1ms', everybody => 'true') },
		\%nothing, [ 'no filter is left: $aio->end_filters', qr/filter: .*,device,/ ]) if !$aio->lacks('gate');

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

	# an expected pattern excuses a line only if it names the severity
	my $unreadable = 'could not read blocks 1..2 in file "base/1/2": Input/output error';
	for my $case ([ undef, 1 ], [ qr/could not read blocks/, 1 ], [ qr/alice LOG:  could not read blocks 1\.\.2 /, 0 ])
	{
		my ($pattern, $alarms) = @$case;
		notices($aio, 'an alarm in the log, expected: ' . ($pattern // 'nothing'), sub { write_log($aio->sessions('alice'), 'LOG', $unreadable) },
			{ %nothing, log => $pattern }, $alarms ? [ $log, qr/\Q$unreadable/ ] : ());
	}

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

# A scenario need not say that its tables hold what was written.
for_each_io_method('worker', sub {
	notices($aio, 'the tail is lost', sub {
		my $t = $aio->table('t', 8);
		truncate $aio->file_of($t), 6 * 8192 or die "truncate: $!";
	}, {}, [ 'tables hold what was written', qr/block 6 has no row.*block 7 has no row/s ]);
}, leaves => 'nothing');
