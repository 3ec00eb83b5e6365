package TestAio::Waits;

=head1 NAME

TestAio::Waits - each wait of the module and each way in which a wait may end

=head1 SYNOPSIS

	use TestAio::Waits;
	for_each_io_method('worker', sub {
		run_combination($aio, @$_, 1) for on_their_turn('worker', 1, combinations());
	}, needs => 'gate trace', conf => { 'test_aio.reach_synchronous_reads' => 'off' });

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use Test::More;
use Time::HiRes qw(time);

use TestAio::Tables;

our @EXPORT = qw(combinations conflicts on_their_turn run_combination run_conflict);

# Seconds after which a party must have ended: fewer than the latency of the devices, which is
# what a party that is not told would wait for, and many for a slow machine.
use constant IN_TIME => 30;

# The waits:
#	begin	has a session, the party, begin to wait; returns SQL that ends the wait
#	event	the wait event
#	before	what the party does before that, and before a timeout is set
#	others	sessions that must get their rows
#	methods	the io_methods with this wait
#	worker	true if the wait needs the gate's worker
#	own	true if no end by DDL is possible: no other session sees the table, or the
#		session that ends the wait would queue behind the DDL
#	primary	true if a standby does not have the wait
#	deaf	true if the party cannot be interrupted: it is in a COMMIT or ROLLBACK, where the
#		server has switched off its timeouts
#	held	true if the session "holder" holds the read
#	reads	true if the read is performed when the wait ends
#	file	the file that is read, if it is not that of the table
#	others_wait	on what DDL waits meanwhile, if not for a lock of the table
#	stays	true if an owner that exits still waits for its read
sub _holder { return $_[0]->sessions('holder') }

# Waits until a read is held, or its hold has ended already.
sub _is_held ($aio)
{
	$aio->poll(sub { $aio->sessions('owner')->has_ended || $aio->sql('SELECT count(*) FROM io_held') == 1 })
	  or fail('a read is held');
	return;
}

# A row about a held read: the arguments of io_hold(), what the read's owner runs if that is another session,
# what the party runs, and more of the row.  %t stands for the table, %owner and %party for process ids.
sub _held ($hold, $owned, $waits, %more)
{
	return {
		held => 1,
		event => 'IoGateHeld',
		others => $owned ? ['owner'] : [],
		begin => sub ($aio, $party, $t) {
			my %is = (t => "'$t'", party => $party->pid, owner => $owned && $aio->sessions('owner')->pid);
			my ($holds, $reads, $sql) = map { ($_ // '') =~ s/%(\w+)/$is{$1}/gr } $hold, $owned, $waits;
			_holder($aio)->sql("SELECT io_hold($holds)");
			if ($owned)
			{
				$aio->sessions('owner')->starts($reads);
				_is_held($aio);
			}
			$party->starts($sql);
			return 'SELECT io_hold_end(everybody => true), io_release_all()';
		},
		%more
	};
}

# A row: what the test asks for, what the party runs, what ends the wait, and more of the row.
sub _asked ($asks, $runs, $ends, %more)
{
	return {
		begin => sub ($aio, $party, $t) {
			my ($begin, $sql) = map { s/%t/'$t'/r } $asks, $runs;
			$aio->sql("SELECT $begin");
			$party->starts($sql);
			return "SELECT $ends";
		},
		%more
	};
}

my $read = 'SELECT read_rel_block_ll(%t, 3, nblocks => 4)';

# A read of a temporary table of the party's.
my $own_read = "SELECT read_rel_block_ll('own', 3, nblocks => 4)";
my %own = (
	reads => 1, own => 1, primary => 1,
	before => sub ($aio, $party) { $aio->table('own', 20, kind => 'TEMP', session => $party, changes => 1) },
	file => sub ($aio, $party) { $aio->file_of('own', $party) });

my %waits = (
	'a held read, its owner' => _held('%t', undef, $read, reads => 1),
	'a held read, the session that joined it' => _held('%t, pid => %owner', $read, 'SELECT count(*) FROM read_buffers(%t, 4, 1)', reads => 1),
	'a held read, evict_rel' => _held('%t', $read, 'SELECT evict_rel(%t)', reads => 1),
	'a held read, ROLLBACK of its table' => _held('everybody => true', undef,
		"BEGIN; CREATE TABLE scenario.mine (i int); SELECT grow_rel('scenario.mine', 20), evict_rel('scenario.mine');"
		  . " SELECT read_rel_block_ll('scenario.mine', 3, wait_complete => false); ROLLBACK",
		deaf => 1, own => 1, primary => 1),
	'a held read, temporary table' => _held('everybody => true', undef, $own_read, %own),
	'a held write' => _held("%t, op => 'write'", undef, 'SELECT evict_rel(%t)', primary => 1,
		before => sub ($aio, $party) { $party->sql('BEGIN; DELETE FROM scenario.t WHERE blk = 3; ROLLBACK') }),
	# in a critical section
	'a held write of WAL' => _held("pid => %party, op => 'wal_write'", undef, "SELECT pg_logical_emit_message(true, 'a', 'b')", deaf => 1, own => 1, primary => 1),
	'a held wakeup' => {
		event => 'IoHeldWakeup',
		begin => sub ($aio, $party, $t) {
			$aio->sql('SELECT io_hold_wakeups(true)');
			_holder($aio)->io_hold($t);
			$aio->sessions('owner')->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
			_is_held($aio);
			$party->starts("SELECT count(*) FROM read_buffers('$t', 4, 1)");
			# io_held shows a waiter before the waiter has seen that the read is held.  A timeout may come first.
			my $waiting = q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'IoGateHeld'};
			$aio->poll(sub { $aio->sql($waiting) == 2 || $party->has_ended }) or fail('both wait');
			$aio->end_holds;
			return 'SELECT io_hold_wakeups(false)';
		},
		others => ['owner'],
	},
	'a device, shared' => _asked("io_device(%t, '50 s')", $read, 'io_device_end()', reads => 1, event => 'IoDevice', worker => 1),
	'a device, temporary table' => _asked("io_device(NULL, '50 s', everybody => true)", $own_read, 'io_device_end()', %own, event => 'IoDevice', worker => 1),
	'completion_wait' => _asked('inj_io_completion_wait(relfilenode => pg_relation_filenode(%t))', $read, 'inj_io_completion_continue()',
		stays => 1,
		reads => 1,
		# with sync, the gate is not to see what sessions read of the catalogs
		methods => [qw(worker io_uring)],
		event => 'AioIoCompletion',
		skip => sub ($aio) { return $aio->no_faults }),
	'buffer_call_start_io' => {
		event => 'BufferIo',
		# a buffer's I/O keeps no lock of the relation
		others_wait => 'BufferIo',
		primary => 1,
		begin => sub ($aio, $party, $t) {
			my $b = $aio->sql("SELECT buffer_create_toy('$t', 3)");
			$aio->sql("SELECT buffer_call_start_io($b, true, false)");
			$party->starts("SELECT buffer_call_start_io($b, true, true)");
			# the party has the I/O afterwards, if it still waits
			return "SELECT buffer_call_terminate_io($b, true, false, true, true)";
		},
	},
);

# The ends:
#	do	a function that is called while the party waits
#	raises	the party's SQLSTATE; undef if the party goes on once the wait is over
#	limit	the timeout that is set before
#	ddl	a statement of another session
#	stop	the signal that stops the server
#	gone	true if the party's session ends
#	dies	true if the server restarts
#	no_file	true if the file cannot be opened meanwhile
my %ends = (
	'cancel' => { do => sub { $_[0]->sql("SELECT pg_cancel_backend(${\$_[1]->pid})") }, raises => '57014' },
	'statement_timeout' => { limit => 'statement_timeout', raises => '57014' },
	'transaction_timeout' => { limit => 'transaction_timeout', raises => '25P04', gone => 1 },
	'terminate' => { do => sub { $_[0]->sql("SELECT pg_terminate_backend(${\$_[1]->pid})") }, raises => '57P01', gone => 1 },
	'DROP' => { ddl => 'DROP TABLE %s' },
	'TRUNCATE' => { ddl => 'TRUNCATE %s' },
	'kill -9' => { do => sub { $_[0]->kill_process($_[1]->pid) }, raises => 'lost', gone => 1, dies => 1 },
	'release, no file' => { do => sub { $_[0]->sql($_[2]) }, no_file => 1, raises => '58P01' },
	'terminate, no file' => { do => sub { $_[0]->sql("SELECT pg_terminate_backend(${\$_[1]->pid})") }, raises => '57P01', gone => 1, no_file => 1 },
	'exit of the holder, no file' => { do => sub { $_[0]->end_session(_holder($_[0])) }, no_file => 1, holder => 1, raises => '58P01' },
	'fast shutdown, no file' => { stop => 'INT', raises => '57P01', gone => 1, dies => 1, no_file => 1 },
	'fast shutdown' => { stop => 'INT', raises => '57P01', gone => 1, dies => 1 },
);

# Recovery conflicts, which end the wait of a session of a standby: what the primary does
# to the table.  All end the statement with SQLSTATE 40001.
my %conflicts = (
	# dead rows that the party's snapshot still sees
	'snapshot conflict' => "DELETE FROM %s WHERE blk = 19; VACUUM (TRUNCATE off) %s",
	'lock conflict' => 'BEGIN; LOCK TABLE %s; COMMIT',
);

# Return all combinations of waits and these ends, as [wait, end].
sub combinations { return combined([ sort keys %waits ], [ sort keys %ends ]) }
sub conflicts { return combined([ grep { !$waits{$_}{primary} } sort keys %waits ], [ sort keys %conflicts ]) }

sub _party_ends ($aio, $party, $wait, $end)
{
	my $begin = time;
	ok($aio->poll(sub { $party->has_ended }, IN_TIME), 'the party ends in time')
	  || diag(sprintf '%.1f s: %s', time - $begin, $aio->activity($party->pid));
	my $error = $party->wait_for_end->error;
	my $found = $error ? $error->{sqlstate} : '';
	# a party that cannot be interrupted ends the wait instead, and then obeys
	if ($wait->{deaf} || ($end->{no_file} && !$end->{gone})) { like($found, qr/^(?:\Q$end->{raises}\E)?$/, 'ends as it should') }
	else { is($found, $end->{raises} // '', 'ends as it should') }
	ok($aio->poll(sub { !kill 0, $party->pid }, IN_TIME), 'its session goes') if $end->{gone};
	return;
}

sub _stop ($aio, $end, $put_back)
{
	my $begin = time;
	ok($aio->stop_with_sessions($end->{stop}), 'the server stops');
	cmp_ok(time - $begin, '<', IN_TIME, 'in time');
	$put_back->();
	return $aio->start_with_sessions;
}

# Takes a file away.  Returns a function that puts it back.
sub _without ($file)
{
	rename $file, "$file.away" or die "$file: $!";
	return sub { rename "$file.away", $file or die "$file: $!" if -e "$file.away" };
}

# Returns true if a wait can end in this way with this io_method, with or without the gate's worker.
sub _is_possible ($wait_name, $end_name, $method, $has_worker)
{
	my ($wait, $end) = ($waits{$wait_name}, $ends{$end_name} // {});
	return 0 if $wait->{methods} && !grep { $_ eq $method } @{ $wait->{methods} };
	return 0 if $wait->{worker} && !$has_worker;
	return 0 if $wait->{own} && $end->{ddl};
	return 0 if $end->{holder} && !$wait->{held};
	return 0 if $end->{no_file} && !$wait->{reads};
	return 0 if $wait->{deaf} && $end_name =~ /timeout/;
	return 1;
}

# Returns the combinations that run on this server.  With TEST_AIO_WAITS=all all possible ones do.
# Otherwise each runs on one server; of those that restart it one in five does, of those with a timeout one in three.
# The short tier has two servers, with and without the gate's worker, of one io_method each, and restarts half as often.
sub on_their_turn ($method, $has_worker, @combinations)
{
	my $all = ($ENV{TEST_AIO_WAITS} // '') eq 'all';
	my @servers = map { ([ $_, 1 ], [ $_, 0 ]) } TestAio::only_long() ? $method : qw(worker io_uring sync);
	my @on_turn;
	while (my ($number, $combination) = each @combinations)
	{
		my @possible = grep { _is_possible(@$combination, @$_) } @servers;
		@possible = $possible[ $number % @possible ] if !$all && @possible;
		my $end = $ends{ $combination->[1] };
		@possible = () if !$all && ($end->{dies} ? int($number / 2) % (TestAio::only_long() ? 10 : 5) : $end->{limit} && int($number / 2 + 1) % 3);
		push @on_turn, $combination if grep { $_->[0] eq $method && $_->[1] == $has_worker } @possible;
	}
	return @on_turn;
}

# Has a session wait and a timeout come meanwhile.  If the timeout comes before the wait, a longer
# one is tried.  Returns the party and the statement that ends the wait.
sub _run_into_timeout ($aio, $wait, $end, $t)
{
	for my $limit (100, 1000, 10_000)
	{
		my $party = $aio->sessions("party_$limit");
		$wait->{before}->($aio, $party) if $wait->{before};
		# a transaction timeout is for transactions that begin later
		$party->sql("SET $end->{limit} = $limit");
		my $release = $wait->{begin}->($aio, $party, $t);
		return ($party, $release) if $party->reaches_wait_event($wait->{event});
		$party->wait_for_end;
		$aio->sql($release);
		$aio->sessions($_)->wait_for_end for @{ $wait->{others} // [] };
		$aio->end_session($party);
		$aio->evict($t);
	}
	die "no party waits on $wait->{event} before the timeout\n";
}

# Runs one combination as a scenario.
sub run_combination ($aio, $wait_name, $end_name, $has_worker)
{
	my ($wait, $end) = ($waits{$wait_name}, $ends{$end_name});
	$aio->scenario("$wait_name, $end_name" . ($has_worker ? '' : ', without the worker'), sub {
		$aio->alter_system(restart_after_crash => 'on') if $end->{dies};
		my $t = $aio->table('t', 20, changes => $end->{ddl});
		$aio->sql("SELECT io_trace_reset(), io_trace_start('$t')");
		my ($party, $release);
		my $put_back = sub { };
		if ($end->{limit}) { ($party, $release) = _run_into_timeout($aio, $wait, $end, $t) }
		else
		{
			$party = $aio->sessions('party');
			$wait->{before}->($aio, $party) if $wait->{before};
			my $file = $wait->{file} ? $wait->{file}->($aio, $party) : $aio->file_of($t);
			$release = $wait->{begin}->($aio, $party, $t);
			ok($party->reaches_wait_event($wait->{event}), "the party waits on $wait->{event}") || diag($aio->activity($party->pid));
			$put_back = _without($file) if $end->{no_file};
		}
		if ($end->{stop})
		{
			_stop($aio, $end, $put_back);
			# the failed read may come first
			like($party->wait_for_end->error->{sqlstate}, $end->{no_file} ? qr/^(?:$end->{raises}|58P01)$/ : qr/^$end->{raises}$/, 'the party is told');
		}
		else
		{
			$end->{do}->($aio, $party, $release) if $end->{do};
			if ($end->{ddl})
			{
				my $dora = $aio->sessions('dora');
				$dora->waits(sprintf($end->{ddl}, $t), $wait->{others_wait} // 'relation', 'waits, too');
				$aio->sql($release);
			}
			if ($wait->{stays} && $end->{gone} && !$end->{dies})
			{
				$aio->poll(sub { $aio->log_text =~ /\b${\$party->name} FATAL:  terminating connection/ }) or fail('the party has been told');
				$aio->sql($release);
			}
			_party_ends($aio, $party, $wait, $end);
			$aio->wait_for_connections if $end->{dies};
			$aio->sql($release) if !$end->{dies} && !$end->{ddl};
			$aio->end_session($party) if $wait_name eq 'buffer_call_start_io' && !$end->{gone};
			$aio->sessions('dora')->ends('the other gets on') if $end->{ddl};
			for my $name ($end->{dies} ? () : @{ $wait->{others} // [] })
			{
				# without the file, the read fails for all
				my $error = $aio->sessions($name)->wait_for_end->error;
				like($error ? $error->{sqlstate} : '', $end->{no_file} ? qr/^(?:58P01)?$/ : qr/^$/, "$name gets on");
			}
			$put_back->();
		}
		$aio->sql('SELECT io_trace_stop()') if !$end->{dies};
		my $waiting = q{SELECT count(*) FROM pg_stat_activity WHERE wait_event ~ 'IoGateHeld|IoDevice|completion_wait'};
		ok($aio->poll(sub { $aio->sql($waiting) == 0 }, IN_TIME), 'no session waits any more');
	}, skip => $wait->{skip} ? $wait->{skip}->($aio) : undef,
		$end->{dies} ? (dies => 1) : (),
		log => [ qr/(?:party\w*|owner|holder) FATAL:  terminating connection due to (?:administrator command|transaction timeout)/,
			$end->{no_file} ? qr/(?:LOG:  could not read blocks \d+\.\.\d+ in|io worker ERROR:  could not open) file "[^"]*": No such file or directory/ : () ]);
	return;
}

# Runs one wait and one recovery conflict as a scenario.  The sessions are the standby's.
sub run_conflict ($aio, $standby, $wait_name, $conflict_name, $has_worker)
{
	my $wait = $waits{$wait_name};
	$aio->scenario("$wait_name, $conflict_name" . ($has_worker ? '' : ', without the worker'), sub {
		my $t = $aio->table('t', 20, changes => 1);
		$aio->replayed_by($standby);
		$standby->evict($t);
		$standby->sql("SELECT io_trace_reset(), io_trace_start('$t')");
		my $party = $standby->sessions('party');
		$party->sql('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_am');
		my $release = $wait->{begin}->($standby, $party, $t);
		ok($party->reaches_wait_event($wait->{event}), "the party waits on $wait->{event}") || diag($standby->activity($party->pid));

		$aio->sql($conflicts{$conflict_name} =~ s/%s/$t/gr);
		$party->raises('40001', qr/conflict with recovery/, 'is cancelled');
		$aio->replayed_by($standby);
		$standby->sql($release);
		$standby->sql('SELECT io_trace_stop()');
		for my $name (@{ $wait->{others} // [] })
		{
			# the conflict may concern this session, too
			my $error = $standby->sessions($name)->wait_for_end->error;
			like($error ? $error->{sqlstate} : '', qr/^(?:40001)?$/, "$name has its rows or is cancelled");
		}
		$party->sql('ROLLBACK');
		$party->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 20)", 20, 'reads later');
		$standby->end_scenario(leaves => 'COMPLETED_SHARED', log => qr/ERROR:  canceling statement due to conflict with recovery/);
	}, leaves => 'COMPLETED_SHARED', skip => $wait->{skip} ? $wait->{skip}->($standby) : undef);
	return;
}

1;
