# Reads of 128 blocks that are all bad (doc/reports.md#many-bad-blocks).  A count of 128 does not fit into
# the 7 bits that buffer_readv_encode_error() has for it.  A server with assertions crashes; a
# server without assertions reports 0 bad blocks.  All servers report 127 bad blocks correctly.
use TestAio;

# Statements that read blocks 127..254 by one I/O.
my %reads = (
	'one I/O' => "SELECT read_rel_block_ll('%s', 127, nblocks => 128)",
	'StartReadBuffers' => "SELECT count(*) FROM read_buffers('%s', 127, 128)",
	'stream' => "SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY(SELECT generate_series(127, 254)))");

my $invalid = '%d invalid pages among blocks 127..254 of relation "%s"';
my $zeroing = 'zeroing out %d invalid pages among blocks 127..254 of relation "%s"';
my $ignoring = 'ignoring %d checksum failures among blocks 127..254 of relation "%s"';

# Each case: damage, setting, message, checksum failures of each page.  Then what the bug makes of
# 128 bad blocks: the checksum failures that are counted in a shared and in a temporary table, and
# the assertion that fails.
my @cases = (
	[ 'header', undef, $invalid, 0, 1, 0, 'zeroed_or_error_count' ],
	[ 'header', 'zero_damaged_pages', $zeroing, 0, 1, 0, 'zeroed_or_error_count' ],
	[ 'checksum', undef, $invalid, 1, 1, 128, 'zeroed_or_error_count' ],
	[ 'checksum', 'zero_damaged_pages', $zeroing, 1, 1, 128, 'zeroed_or_error_count' ],
	[ 'checksum', 'ignore_checksum_failure', $ignoring, 1, 0, 128, 'checkfail_count' ]);

# Test: a read reports and counts so many bad blocks and checksum failures.
sub reports ($aio, $session, $t, $read, $message, $nbad, $failures)
{
	$aio->evict($t, $session);
	my $report = sprintf $message, $nbad, $session->sql("SELECT pg_relation_filepath('$t')");
	is($aio->checksum_failures_during(sub {
		$session->starts(sprintf $reads{$read}, $t);
		if ($message eq $invalid) { $session->raises('XX001', qr/XX001: \Q$report\E\n/, $read) }
		else { $session->ends($read); $session->warns(qr/XX001: \Q$report\E\n/, $read) }
	}, $session), "$failures/0/0", "$read: checksum failures counted");
	return;
}

# Test: this assertion fails in the process that completes the read.
sub crashes ($aio, $session, $t, $read, $assertion)
{
	my @completing = ($session->pid, $aio->method eq 'worker' ? $aio->pids_of_type('io worker') : ());
	$session->starts(sprintf $reads{$read}, $t)->wait_for_end;
	my $error = $session->error // { sqlstate => 'none' };
	is($error->{sqlstate}, 'lost', "$read: the connection is lost") or return;
	$aio->wait_for_restart;
	my ($pid) = $aio->log_text =~ /^TRAP: failed Assert\("$assertion == ${assertion}_2"\), File: ".*bufmgr\.c", Line: \d+, PID: (\d+)$/m;
	ok($pid && (grep { $_ == $pid } @completing), "$read: assertion in the process that completes the read") || diag($aio->log_text);
	return;
}

my $turn = 0;

for_each_io_method('sync; long: all', sub {
	my ($has_bug, $asserts) = ($aio->has_bug('many-bad-blocks'), $aio->has_assertions);
	my @names = sort keys %reads;

	for my $case (@cases)
	{
		my ($damage, $setting, $message, $failures, $wrong, $wrong_temp, $assertion) = @$case;
		for my $kind ('', 'TEMP')
		{
			my $what = join ', ', "bad $damage", $setting // 'no setting', $kind || 'shared';
			# what others have of it: the kind of table, the damage, or the setting
			my $skip = sub ($nbad) { $kind || $nbad == 128 && $case != $cases[0] && $case != $cases[4] ? only_long() : undef };
			# one read after the other, except in the first case
			my @reads = $case == $cases[0] || !only_long() ? @names : $names[ $turn++ % @names ];
			for my $nbad (127, 128)
			{
				my $crashes = $nbad == 128 && $has_bug && $asserts;
				$aio->scenario("$nbad blocks: $what", with('alice', 256, kind => $kind, changes => 1, sub ($alice, $t) {
					$alice->sql("SELECT modify_rel_block('$t', b, corrupt_$damage => true) FROM generate_series(127, 126 + $nbad) b");
					$alice->sql('SET io_combine_limit = 128' . ($setting ? "; SET $setting = on" : ''));
					return crashes($aio, $alice, $t, $names[ $turn++ % @names ], $assertion) if $crashes;
					my @expected = $has_bug && $nbad == 128 ? (0, $kind ? $wrong_temp : $wrong) : ($nbad, $nbad * $failures);
					reports($aio, $alice, $t, $_, $message, @expected) for @reads;
					$aio->logs(qr/LOG: .*(?:invalid page|ignoring checksum failure) in block \d+/, $nbad * @reads, 'each block is logged');
				}), skip => $skip->($nbad), dies => $crashes, $crashes ? (leaves => 'nothing') : (), log => [ qr/LOG:  (?:page verification failed, calculated checksum|(?:invalid page|ignoring checksum failure) in block) /,
					$crashes ? (qr/^TRAP: failed Assert\("$assertion == ${assertion}_2"\)/, qr/postmaster LOG:  (?:client backend|io worker) \(PID \d+\) was terminated by signal 6: Aborted/) : () ]);
			}
		}
	}
}, conf => { io_max_combine_limit => 128, shared_buffers => '128MB', restart_after_crash => 'on',
	# each crash leaves rings behind, one for each possible process
	max_connections => 10, max_worker_processes => 2, autovacuum_worker_slots => 1, max_wal_senders => 0 });
