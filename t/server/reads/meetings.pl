# Reads that meet reads of other sessions, are completed by others, or are abandoned.
use TestAio;

# A read stream meets blocks that another backend is reading.  Since server commit 999dec9ec6
# (19) the stream joins that I/O and looks further ahead; 18 waits for it at once.  Neither
# reads a block twice unless the other backend's read fails.
#
# The test counts hits by pg_statio_all_tables.  Neither version counts a block that becomes valid
# between two StartReadBuffers() calls.

# Alice reads two blocks; bob's stream wants one of them or both, and others.  Returns
# bob's reads, their bytes and his hits.
sub meet ($aio, $t, $blocks, $during = undef)
{
	my ($alice, $bob) = $aio->sessions(qw(alice bob));
	$aio->read_at_completion_wait($alice, "SELECT read_rel_block_ll('$t', 3, nblocks => 2)", pid => $alice->pid);
	my $io;
	my $blocks_got = $aio->blocks_during($t, sub {
		$io = $aio->io_during($bob, 'relation/normal', sub {
			$bob->starts("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff)"
				  . " FROM read_stream_for_blocks('$t', ARRAY[$blocks])");
			$blocks =~ /^2/ ? $bob->waits_on_others_io : $bob->waits_on('AioIoCompletion');
			$during->($alice, $bob) if $during;
			$aio->completion_continue;
			$bob->returns($blocks, 'its blocks in order');
		});
	}, $bob);
	my ($hits) = $blocks_got =~ /(\d+)$/;
	return "$io/$hits";
}

with_each_io_method('io_uring; long: all', sub {
	my $joins = $aio->major >= 19;

	# both blocks are wanted, or only the second one
	$aio->scenario('the other succeeds, wanted: %s', with('', 10, sub ($t, $wanted, $hits) {
		is(meet($aio, $t, $wanted), "2/16384/$hits", 'reads two blocks, and gets what the other has read');
		$aio->sessions('alice')->returns('', 'succeeds');
	}), each => [ [ '2,3,4,5', $aio->method eq 'sync' ? 2 : 1 ], [ '4,9,0', 1 ] ], skip => $aio->no_faults);

	$aio->scenario('the other fails', with('alice', 10, sub ($alice, $t) {
		$aio->short_read_attach('EIO', pid => $alice->pid);
		# after its wait 18 starts again, 19 only for the block that it has joined
		is(meet($aio, $t, '2,3,4,5'), $aio->method eq 'sync' || !$joins ? '2/32768/0' : '3/32768/0',
			'reads all blocks itself');
		$alice->raises('58030', qr/could not read blocks 3\.\.4 in file "base\S+": Input\/output error/, 'fails');
		$aio->short_read_detach;
	}), skip => $aio->no_faults, log => qr/LOG:  could not read blocks 3\.\.4/);

	$aio->scenario('the other reads one of two blocks only', with('alice', 10, sub ($alice, $t) {
		$aio->short_read_attach(8192, pid => $alice->pid);
		is(meet($aio, $t, '3,4'), '1/8192/1', 'gets one and reads the other');
		$alice->returns('', 'ends');
		$alice->warns(qr/could not read blocks 3\.\.4 in file "base\S+": read only 8192 of 16384 bytes/);
		$aio->short_read_detach;
	}), skip => $aio->no_faults);

	$aio->scenario('the other is cancelled', with('', 10, sub ($t) {
		my $io = meet($aio, $t, '2,3,4,5', sub ($alice, $) {
			# a session that completes its read itself is cancelled afterwards
			$aio->method eq 'worker' ? $aio->cancels($alice) : $aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
		});
		is($io, '2/16384/' . ($aio->method eq 'sync' ? 2 : 1), 'gets the blocks of the other\'s read');
		$aio->sessions('alice')->wait_for_end;
	}), skip => $aio->no_faults, leaves => 'COMPLETED_SHARED');

	# 19 looks further ahead than the blocks that it has joined
	$aio->scenario('look-ahead beyond the blocks of the other', with('alice bob', 20, sub ($alice, $bob, $t) {
		meet($aio, $t, '3,4,10,12,14', sub {
			$aio->gives("SELECT count(*) FROM pg_aios WHERE operation = 'readv' AND pid = ${\$bob->pid}",
				$joins && $aio->method ne 'sync' ? 3 : 0, 'reads started while waiting');
		});
		$alice->returns('', 'succeeds');
	}), skip => $aio->no_faults);
}, leaves => 'nothing');

# Reads that a process other than their owner completes: an I/O worker, or with io_uring the first
# session that waits.  Reads whose owner has moved on or exited.  Reads that only their owner can
# perform, whichever session waits for them (pgaio_io_wait()).  And reads that nobody waits for
# (start_read_buffers): they complete, leave nothing behind, and do not hinder other sessions.
my @kinds = ('', 'TEMP', only_long() ? () : 'UNLOGGED');
my $operation = 'blockoff, blocknum, io_reqd, foreign_io, nblocks, cardinality(buf)';

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('an unreferenced read, wanted by another', with('owner reader', 10, sub ($owner, $reader, $t) {
		$owner->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, wait_complete => false)");
		is($aio->io_during($reader, 'relation/normal', sub {
			$reader->gives("SELECT count(*), min(blocknum) FROM read_stream_for_blocks('$t', ARRAY[3, 4])",
				'2|3', 'reads');
		}), '0/0', 'and nothing is read again');
		$aio->gives("SELECT state, result, raw_result FROM pg_aios", $aio->method eq 'sync' ? '' :
			  'COMPLETED_SHARED|OK|24576', 'finished, but its owner does not know');
		$aio->is_as_written($t);
		$owner->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[2])", '1', 'reads it as well');
	}));

	$aio->scenario('a wait for one read collects all that have ended', with('owner reader', 10, sub ($owner, $reader, $t) {
		# the kernel may be slower than the reader
		ok($aio->poll(sub {
			$owner->sql("SELECT read_rel_block_ll('$t', $_, wait_complete => false)") for 2, 5, 8;
			$reader->sql("SELECT count(*) FROM read_buffers('$t', 2, 1)");
			my $states = $aio->sql("SELECT string_agg(state, ' ' ORDER BY off) FROM pg_aios WHERE pid = ${\$owner->pid}");
			$owner->sql("SELECT evict_rel('$t')");
			return $states eq 'COMPLETED_SHARED COMPLETED_SHARED COMPLETED_SHARED';
		}), 'three by one look into the ring');
	}), skip => $aio->method eq 'io_uring' ? undef : 'only with io_uring somebody has to look');

	$aio->scenario('an unreferenced read that fails is nobody\'s error', with('owner reader', 10, sub ($owner, $reader, $t) {
		$aio->short_read_attach('EIO', pid => $owner->pid);
		$owner->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, wait_complete => false)");
		$aio->wait_for('SELECT NOT EXISTS (SELECT FROM pg_aios WHERE state = \'SUBMITTED\')') if $aio->method eq 'worker';
		# since 19 the reader joins the read of the first block with io_uring, and then reads that anew
		my $reads = $aio->method eq 'io_uring' && $aio->major >= 19 ? qr/[12]/ : 1;
		like($aio->io_during($reader, 'relation/normal', sub {
			$reader->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[2, 3, 4])", '3', 'reads');
		}), qr{^$reads/24576$}, 'all three by itself');
		$aio->is_as_written($t);
		$aio->short_read_detach;
		$aio->logs(qr/LOG: .*could not read blocks 2\.\.4 in file "base\S+": Input\/output error/, 1, 'is logged');
		$aio->logs(qr/CONTEXT: .*completing I\/O on behalf of process ${\$owner->pid}$/, 1, 'the log names the owner')
		  if $aio->method eq 'io_uring' && !$aio->no_injection_points;
	}), log => qr/LOG:  could not read blocks 2\.\.4/, skip => $aio->no_faults);

	$aio->scenario('the owner exits', with('owner reader', 10, sub ($owner, $reader, $t) {
		$owner->sql("SELECT read_rel_block_ll('$t', 5, nblocks => 3, wait_complete => false)");
		$aio->end_session($owner);
		$aio->gives('SELECT count(*) FROM pg_aios', 0, 'nothing is left of the read');
		is($aio->cached($t), '5,6,7', 'except the blocks that it has read');
		is($aio->io_during($reader, 'relation/normal', sub {
			$reader->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7])", '3', 'reads');
		}), '0/0', 'without another read');
	}), leaves => 'nothing');

	$aio->scenario('the owner exits before the read has ended', with('owner reader', 10, sub ($owner, $reader, $t) {
		$aio->sql("SET test_aio.uninterruptible_timeout = '1min'");
		$aio->completion_wait(pid => $owner->pid);
		$aio->sql('RESET test_aio.uninterruptible_timeout');
		$owner->sql("SELECT read_rel_block_ll('$t', 5, nblocks => 3, wait_complete => false)");
		$owner->disconnect;
		$aio->at_completion_wait(1, 'held');
		# an injection point of io_uring holds the process that completes the read
		my $event = $aio->method eq 'io_uring' && $aio->lacks('gate') ? 'completion_wait' : 'AioIoCompletion';
		$aio->wait_for("SELECT wait_event = '$event' FROM pg_stat_activity WHERE pid = ${\$owner->pid}");
		$aio->gives('SELECT pid FROM pg_aios', $owner->pid, 'the owner stays for its read');
		$reader->waits("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7])", 'AioIoCompletion');
		$aio->completion_continue;
		$reader->returns('3', 'reads');
		$aio->end_session($owner);
	}), leaves => 'nothing', skip => $aio->method eq 'sync' ? 'with sync a read has ended when it is started' : $aio->no_faults);

	$aio->scenario('their owner performs them and others wait', with('', 60, sub ($t) {
		my @sessions = $aio->sessions(qw(alice bob carol));
		for my $session (@sessions)
		{
			# no read-ahead; nothing can hold such a read while others find it, so there are many
			$session->sql('SET effective_io_concurrency = 0; SET io_combine_limit = 1; SET client_min_messages = error');
			$session->starts("SELECT sum((SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i + j) % 60 FROM generate_series(0, 59) j))))"
				  . " FROM (SELECT i, evict_rel('$t') FROM generate_series(1, 15) i OFFSET 0) e");
		}
		$_->returns(900, 'gets every block') for @sessions;
	}), leaves => 'nothing');

	$aio->scenario('several operations', with_kind('alice', 20, sub ($alice, $t, $) {
		$alice->sql('SET io_combine_limit = 4');
		$alice->gives("SELECT $operation FROM start_read_buffers('$t', 3, 10)", "0|3|t|f|4|4\n4|7|t|f|4|4\n8|11|t|f|2|2", 'three operations');
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 20)", '20', 'all can be read');
		$alice->gives("SELECT $operation FROM start_read_buffers('$t', 3, 2)", "0|3|f|f|1|1\n1|4|f|f|1|1", 'cached blocks need no I/O');
		$aio->is_as_written($t, session => $alice);
		$alice->sql("SELECT evict_rel('$t')");
		$alice->sql("SELECT count(*) FROM start_read_buffers('$t', 0, 20)");
		$alice->gives("SELECT evict_rel('$t')", '', 'the blocks can be evicted');
	}), each => \@kinds);

	$aio->scenario('more reads than handles', with_kind('alice', 120, sub ($alice, $t, $) {
		$alice->sql('SET io_combine_limit = 1');
		$alice->gives("SELECT count(*), sum(n) FROM generate_series(0, 100, 20) b, LATERAL (SELECT sum(nblocks) AS n FROM start_read_buffers('$t', b, 20)) s", '6|120', 'in one statement');
	}), each => \@kinds);

	$aio->scenario('the statement fails after it has started reads', with_kind('alice', 20, sub ($alice, $t, $) {
		$alice->fails("SELECT 1 / (sum(nblocks) - 10) FROM start_read_buffers('$t', 0, 10)", '22012', qr/division by zero/, 'the error is that of the statement');
		$alice->sql("DO \$\$ BEGIN PERFORM start_read_buffers('$t', 10, 10); PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$");
	}), each => \@kinds);

	$aio->scenario('the table is dropped after reads of it have started', with_kind('alice', 20, sub ($alice, $t, $) {
		$alice->gives("BEGIN; SELECT sum(nblocks) FROM start_read_buffers('$t', 0, 20); DROP TABLE $t; COMMIT", '20', 'in one transaction');
	}), each => \@kinds);

	$aio->scenario('the function does not wait', with('alice bob', 20, sub ($alice, $bob, $t) {
		$aio->completion_wait(relation => $t);
		$alice->gives("SELECT count(*) FROM start_read_buffers('$t', 3, 1)", 1, 'returns while the read is held');
		$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid}", 1, 'its read is in progress');
		$bob->starts("SELECT count(*) FROM read_buffers('$t', 3, 1)");
		# alice does not reap her ring; bob reaps it and is held at the completion
		$bob->waits_on(qr/^(?:AioIoCompletion|completion_wait)$/, 'another session waits');
		$aio->completion_continue;
		$bob->returns('1', 'gets the block');
	}), skip => $aio->no_faults // ($aio->method eq 'io_uring' ? undef : 'with this method the hold stops a worker or the session itself'));

	# 19 joins a read of its own that is in flight, and looks further ahead; 18 waits for it at once
	$aio->scenario('a stream of the same session meets it', with_kind('alice', 20, sub ($alice, $t, $) {
		$aio->completion_wait(pid => $alice->pid);
		$alice->sql("SELECT count(*) FROM start_read_buffers('$t', 3, 1)");
		$alice->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[3,5,7,9])");
		$alice->reaches_wait_event(qr/^(?:AioIoCompletion|completion_wait|IoGateHeld)$/);
		$aio->gives("SELECT count(*) FROM pg_aios WHERE pid = ${\$alice->pid} AND operation = 'readv'", $aio->major < 19 ? 1 : 4, 'reads in progress');
		$aio->completion_continue;
		$alice->returns(4, 'all blocks');
	}), each => [ '', 'TEMP' ], skip => $aio->no_faults // ($aio->method eq 'io_uring' ? undef : 'with this method the hold stops a worker or the session itself'));

	$aio->scenario('a read that fails', with('alice', 20, sub ($alice, $t) {
		$aio->short_read_attach('EIO', relation => $t);
		$alice->gives("SELECT sum(nblocks) FROM start_read_buffers('$t', 0, 4)", '4', 'the session that has started the read gets no error');
		$aio->wait_for("SELECT NOT EXISTS (SELECT FROM pg_aios WHERE pid = ${\$alice->pid} AND state <> 'COMPLETED_SHARED')") if $aio->method ne 'io_uring';
		$alice->fails("SELECT count(*) FROM read_buffers('$t', 0, 4)", '58030', qr/could not read blocks 0\.\.[0-3]/, 'the next reader gets the error');
		$aio->short_read_detach;
	}), skip => $aio->no_faults, log => qr/LOG:  could not read blocks 0\.\.[0-3]/);
});

# StartReadBuffers() meets blocks that are being read, at the beginning, in the middle and at the end of its range, by
# the same session, by another one and by two others.  18 waits for these reads at once and then has hits; 19 joins
# them (server commit 999dec9ec6).  sql/reads.sql tests ranges without such blocks.
my $columns = 'blocknum, nblocks, io_reqd, foreign_io';

for_each_io_method('worker; long: all', sub {
	my $joins = $aio->major >= 19 && $aio->method ne 'sync';

	# blocks 3 and 4, each an operation of its own
	my $mid = $joins ? "3|1|t|t\n4|1|t|t" : "3|1|f|f\n4|1|f|f";
	my @ranges = (
		[ 'in front', '3, 5' => "$mid\n5|3|t|f" ],
		[ 'in the middle', '0, 8' => "0|3|t|f\n$mid\n5|3|t|f" ],
		[ 'at the end', '1, 4' => "1|2|t|f\n$mid" ],
		[ 'the first of them', '2, 2' => "2|1|t|f\n" . ($mid =~ s/\n.*//r) ],
		[ 'nothing else', '3, 2' => $mid ]);

	$aio->scenario('%s, staged by itself, %s', with_kind('alice', 10, sub ($alice, $t, $kind, $where, $range, $rows) {
		# I/O workers cannot perform the read, so the session has
		$rows =~ s/^([34])\|1\|t\|t$/$1|1|f|f/mg if $kind && $aio->method eq 'worker';
		# no batch for a temporary table: an assertion of 19 forbids it
		my ($start, $end) = $kind ? ("''", "''") : ('batch_start()::text', 'batch_end()::text');
		$alice->gives("SELECT $start UNION ALL SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)::text"
			  . " UNION ALL SELECT concat_ws('|', $columns) FROM read_buffers('$t', $range) UNION ALL SELECT $end",
			"\n\n$rows\n", 'operations');
	}), each => [ combined([ '', 'TEMP' ], \@ranges) ]);

	$aio->scenario('read by another session, which ends with %s, %s', with('alice bob', 10, sub ($alice, $bob, $t, $result, $, $range, $expected) {
		my $fails = $result ne 'NULL';
		$aio->short_read_attach($result, pid => $alice->pid) if $fails;
		$aio->read_at_completion_wait($alice, "SELECT read_rel_block_ll('$t', 3, nblocks => 2)", pid => $alice->pid);
		$bob->waits("SELECT $columns FROM read_buffers('$t', $range)", 'AioIoCompletion');
		$aio->completion_continue;
		$bob->wait_for_end;
		$fails ? $alice->raises('58030', qr/blocks 3\.\.4/, 'fails') : $alice->ends;
		$bob->returns($expected, 'operations') if !$fails && $aio->method ne 'sync';
		my @found = map { [ split /\|/ ] } split /\n/, $bob->result;
		my ($first, $count) = split /, /, $range;
		is(join(',', map { $_->[0] .. $_->[0] + $_->[1] - 1 } @found), join(',', $first .. $first + $count - 1), 'each block once');
		my $joined = grep { $_->[3] eq 't' } @found;
		is($joined > 0, $joins, 'joined or not') if $fails;
		$aio->short_read_detach if $fails;
	}), each => [ combined([ 'NULL', 'EIO' ], \@ranges) ], leaves => 'nothing', skip => sub ($result, $where, @) {
		return $aio->no_faults // ($result eq 'EIO' && $where =~ /end|first/ ? only_long() : undef);
	}, log => qr/LOG:  could not read blocks 3\.\.4/);

	$aio->scenario('read by two others', with('alice bob carol', 10, sub ($alice, $bob, $carol, $t) {
		$aio->read_at_completion_wait($alice, "SELECT read_rel_block_ll('$t', 1, nblocks => 2)", relation => $t, blockno => 2);
		$carol->sql("SELECT read_rel_block_ll('$t', 5, nblocks => 2, wait_complete => false)");
		$bob->waits("SELECT $columns FROM read_buffers('$t', 0, 9)", 'AioIoCompletion');
		$aio->completion_continue;
		$alice->ends;
		$bob->wait_for_end;
		my %seen;
		$seen{$_}++ for map { my ($b, $n) = split /\|/; $b .. $b + $n - 1 } split /\n/, $bob->result;
		is(join(',', sort keys %seen), '0,1,2,3,4,5,6,7,8', 'all blocks');
		is(scalar(grep { $_ > 1 } values %seen), 0, 'each once');
	}), skip => $aio->no_faults);
});
