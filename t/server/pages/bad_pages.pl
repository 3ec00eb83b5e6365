# Pages that the server must refuse, zero or accept, and checksums that are enabled meanwhile.
use TestAio;
use TestAio::Pages;

# Pages with a bad header or checksum: what the server reports, logs, zeroes, ignores and counts
# (buffer_readv_complete(), buffer_readv_report(), pgstat_report_checksum_failures_in_db()).

# Damages blocks of a table, by number: "h" makes a bad header, "c" a bad checksum, "hc" both.
sub damage ($session, $t, %how)
{
	my %argument = (h => 'corrupt_header => true', c => 'corrupt_checksum => true', hc => 'corrupt_header => true, corrupt_checksum => true');
	$session->sql("SELECT modify_rel_block('$t', $_, $argument{ $how{$_} })") for sort keys %how;
	return;
}

# Returns a block of a table as it is in the file.
sub page_on_disk ($aio, $t, $block, $session) { return (TestAio::Pages->in_file($aio->file_of($t, $session))->pages)[$block] }

# Returns a text without the plurals and articles in which minor releases differ.
sub wording ($text) { return defined $text ? $text =~ s/the first/first/r =~ s/block\(?s?\)?/block/r : undef }

# [ damage, settings, message, detail, hint, checksum failures, blocks that are then empty ]
my @cases = (
	[ 'one header', { 3 => 'h' }, '', 'ERROR', 'invalid page in block 3 of relation "%s"', undef, undef, 0, '' ],
	[ 'one checksum', { 4 => 'c' }, '', 'ERROR', 'invalid page in block 4 of relation "%s"', undef, undef, 1, '' ],
	[ 'first and last', { 2 => 'c', 6 => 'c' }, '', 'ERROR', '2 invalid pages among blocks 2..6 of relation "%s"',
		'Block 2 held the first invalid page.', 'See server log for the other 1 invalid block(s).', 2, '' ],
	[ 'all', { map { $_ => 'c' } 2 .. 6 }, '', 'ERROR', '5 invalid pages among blocks 2..6 of relation "%s"',
		'Block 2 held the first invalid page.', 'See server log for the other 4 invalid block(s).', 5, '' ],
	[ 'one of each', { 4 => 'c', 5 => 'h' }, '', 'ERROR', '2 invalid pages among blocks 2..6 of relation "%s"',
		'Block 4 held the first invalid page.', 'See server log for the other 1 invalid block(s).', 1, '' ],
	[ 'one header zeroed', { 3 => 'h' }, 'zero_damaged_pages', 'WARNING', 'invalid page in block 3 of relation "%s"; zeroing out page', undef, undef, 0, '3' ],
	[ 'one checksum zeroed', { 6 => 'c' }, 'zero_damaged_pages', 'WARNING', 'invalid page in block 6 of relation "%s"; zeroing out page', undef, undef, 1, '6' ],
	[ 'three zeroed', { 3 => 'h', 4 => 'c', 6 => 'c' }, 'zero_damaged_pages', 'WARNING', 'zeroing out 3 invalid pages among blocks 2..6 of relation "%s"',
		'Block 3 held the first zeroed page.', 'See server log for the other 2 zeroed block(s).', 2, '3,4,6' ],
	[ 'one ignored', { 5 => 'c' }, 'ignore_checksum_failure', 'WARNING', 'ignoring checksum failure in block 5 of relation "%s"', undef, undef, 1, '' ],
	[ 'two ignored', { 3 => 'c', 5 => 'c' }, 'ignore_checksum_failure', 'WARNING', 'ignoring 2 checksum failures among blocks 2..6 of relation "%s"',
		'Block 3 held the first ignored page.', 'See server log for the other 1 ignored block(s).', 2, '' ],
	[ 'a header, while checksums are ignored', { 3 => 'c', 5 => 'h' }, 'ignore_checksum_failure', 'ERROR', 'invalid page in block 5 of relation "%s"', undef, undef, 1, '' ],
	[ 'header and checksum, while checksums are ignored', { 5 => 'hc' }, 'ignore_checksum_failure', 'ERROR', 'invalid page in block 5 of relation "%s"', undef, undef, 1, '' ],
	[ 'zeroed and ignored', { 3 => 'h', 5 => 'c' }, 'zero_damaged_pages ignore_checksum_failure', 'WARNING',
		'zeroing 1 page(s) and ignoring 1 checksum failure(s) among blocks 2..6 of relation "%s"', undef,
		'See server log for details about the other 1 invalid block(s).', 1, '3' ],
	[ 'two zeroed and two ignored', { 2 => 'c', 3 => 'h', 4 => 'h', 5 => 'c' }, 'zero_damaged_pages ignore_checksum_failure', 'WARNING',
		'zeroing 2 page(s) and ignoring 2 checksum failure(s) among blocks 2..6 of relation "%s"', 'Block 3 held first zeroed page.',
		'See server log for details about the other 3 invalid block(s).', 2, '3,4' ]);

my @reads = (
	"SELECT read_rel_block_ll('%s', 2, nblocks => 5)",
	"SELECT count(*) FROM read_buffers('%s', 2, 5)",
	"SELECT max(blockoff) FROM read_stream_for_blocks('%s', ARRAY[2, 3, 4, 5, 6])");
my $turn = 0;

with_each_io_method('worker; long: all', sub {
	# each io_method has another kind of read
	$turn++;
	my $inspects = !$aio->lacks('pageinspect');
	$inspects or note('without pageinspect nobody looks whether zeroed pages are empty to the last byte');

	# temporary tables differ only in what becomes of the results
	my @rows = (combined([''], \@cases), combined(['TEMP'], [ @cases[ 4, 7, 9, 13 ] ]));
	$aio->scenario('%s, %s', with_kind('alice', 10, sub ($alice, $t, $, $, $damage, $settings, $severity, $message, $detail, $hint, $failures, $empty) {
		my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
		$alice->sql("SET $_ = on") for split / /, $settings;
		damage($alice, $t, %$damage);
		my $read = sprintf $reads[ $turn++ % @reads ], $t;
		my $pattern = qr/XX001: \Q${\sprintf $message, $path}\E\n/;
		my $report;
		is($aio->checksum_failures_during(sub {
			$alice->starts($read);
			$severity eq 'ERROR' ? $alice->raises('XX001', $pattern, $read) : $alice->ends($read);
			$report = $severity eq 'ERROR' ? $alice->error : ($alice->warnings)[0];
		}, $alice), "$failures/0/0", 'checksum failures counted');
		is(wording($report->{detail}), wording($detail), 'detail');
		is(wording($report->{hint}), wording($hint), 'hint');
		# newer minor releases have a singular and a plural
		is($2, $1 == 1 ? 'block' : 'blocks', "the hint's word for $1") if ($report->{hint} // '') =~ /the other (\d+) \w+ (blocks?)\./;
		$alice->warns($pattern, $read) if $severity ne 'ERROR';
		$aio->logs(qr/LOG: .*(?:invalid page in block|ignoring checksum failure in block) \d+ of relation "\Q$path\E"(; zeroing out page)?$/, scalar keys %$damage, 'each block is logged');
		my @checksums = sort map { (header(page_on_disk($aio, $t, $_, $alice)))[1] & 0xFFFF } grep { $damage->{$_} =~ /c/ } keys %$damage;
		is(join(',', sort map { /LOG: .*page verification failed, calculated checksum \d+ but expected (\d+)/ } split /\n/, $aio->log_text), join(',', @checksums), 'each checksum is logged, as the page has it');
		if ($severity ne 'ERROR')
		{
			my @found = map { $_ eq '' ? () : $_ } $alice->sql("SELECT string_agg(b::text, ',') FROM generate_series(0, 9) b WHERE NOT EXISTS (SELECT FROM $t WHERE ctid = format('(%s,1)', b)::tid)");
			is($found[0] // '', $empty, 'zeroed, and no others');
			is($alice->sql("SELECT string_agg(b::text, ',') FROM generate_series(0, 9) b WHERE get_raw_page('$t', b) = decode(repeat('00', 8192), 'hex')"),
				$empty, 'to the last byte') if $inspects;
		}
		for my $block ($severity eq 'ERROR' ? sort keys %$damage : ())
		{
			next if $settings =~ /ignore/ && $damage->{$block} eq 'c';
			$alice->fails("SELECT * FROM read_buffers('$t', $block, 1)", 'XX001', qr/invalid page in block $block of relation/, "block $block is not valid now");
		}
		$aio->evict($t, $alice);
		# the pages on disk are still bad
		$alice->sql('RESET ALL');
		$alice->fails("SELECT count(*) FROM $t", 'XX001', qr/invalid page/);
		$alice->sql("SELECT modify_rel_block('$t', $_, zero => true)") for keys %$damage;
		$aio->is_as_written($t, session => $alice, except => join "\n", map { "block $_ has no row" } sort keys %$damage);
	}), each => \@rows, log => qr/LOG:  (?:invalid page in block|page verification failed, calculated checksum|ignoring checksum failure in block) \d/);

	# a session completes reads of its temporary tables itself
	$aio->scenario('DEBUG1 tells of the whole read', with_kind('alice', 10, changes => 1, sub ($alice, $t, $kind) {
		damage($alice, $t, 3 => 'c', 4 => 'c');
		$alice->sql('SET zero_damaged_pages = on; SET client_min_messages = debug1');
		$alice->notices;
		$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 5)");
		my $pattern = qr/zeroing out 2 invalid pages among blocks 2\.\.6 of relation/;
		is(scalar grep({ $_ =~ $pattern } $alice->notices), $aio->method eq 'worker' && !$kind ? 0 : 1, $aio->method eq 'worker' && !$kind ? 'not to the session, if a worker completes it' : 'once, to the session, which completes it');
		$alice->warns($pattern);
	}), each => [ '', 'TEMP' ], log => qr/LOG:  (?:invalid page in block|page verification failed, calculated checksum) \d/);

	$aio->scenario('a read with a warning counts each block once', with('alice', 10, changes => 1, sub ($alice, $t) {
		damage($alice, $t, 3 => 'h');
		$alice->sql('SET zero_damaged_pages = on');
		is($aio->blocks_during($t, sub { $alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 5)", 5, 'zeroes a page') }, $alice), '5/0', 'reads, and no hits');
		$alice->warns(qr/invalid page in block 3 of relation/);
	}), log => qr/LOG:  invalid page in block 3 of relation/);
});

# Checksum failures count for the database of the page, whichever process completes the read.  Those of shared
# relations count for no database (shared_buffer_readv_complete_local()).

my $bad_page = qr/LOG:  (?:invalid page in block|page verification failed, calculated checksum) /;

with_each_io_method('io_uring; long: all', sub {
	$aio->scenario('a shared relation', sub {
		$aio->sql('CREATE DATABASE other TEMPLATE postgres STRATEGY file_copy');
		my ($alice) = $aio->session('alice', dbname => 'other');
		# a shared relation that other sessions hardly ever read
		$alice->sql("COMMENT ON TABLESPACE pg_default IS 'x'; CHECKPOINT");
		$alice->sql("SELECT modify_rel_block('pg_shdescription', 0, corrupt_checksum => true)");
		my @both = ("SELECT read_rel_block_ll('pg_shdescription', 0)", "SELECT * FROM read_buffers('pg_shdescription', 0, 1)");
		my $since;
		is($aio->checksum_failures_during(sub {
			for my $read (@both)
			{
				$since = $aio->sql('SELECT clock_timestamp()');
				$alice->fails($read, 'XX001', qr/invalid page in block 0 of relation "global\/\d+"/);
			}
		}, $alice), '0/0/2', 'counted for postgres, other, shared');
		$aio->gives("SELECT string_agg(coalesce(datname, 'shared'), ',') FROM pg_stat_database WHERE (datid = 0 OR datname = 'other') AND checksum_last_failure >= '$since'", 'shared', 'and when the last was');
		$alice->sql("SELECT modify_rel_block('pg_shdescription', 0)");
		$alice->gives("SELECT description FROM pg_shdescription WHERE description = 'x'", 'x', 'mended');
	}, log => $bad_page);

	$aio->scenario('zeroed by the settings of the reader, not of the process that completes the read', with('alice bob', 10, sub ($alice, $bob, $t) {
		$aio->sql("SELECT modify_rel_block('$t', 3, corrupt_checksum => true)");
		$alice->sql('SET zero_damaged_pages = on');
		is($aio->checksum_failures_during(sub {
			$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, wait_complete => false)");
			# with io_uring bob finds the completion
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'zeroed for bob as well');
			$aio->is_as_written($t, except => 'block 3 has no row');
			$aio->logs(qr/LOG: .*invalid page in block 3 of relation "base\S+"; zeroing out page/, 1, 'logged');
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'and for alice');
			# alice has not waited for her read, and so does not count its failure
		}, $alice, $bob), $aio->method eq 'sync' ? '1/0/0' : '0/0/0', 'an owner counts the failure if it waits');
		$aio->evict($t, $alice);
		$bob->fails("SELECT * FROM read_buffers('$t', 2, 3)", 'XX001', qr/invalid page in block 3 of/, 'without the setting');
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'with it');
		$alice->warns(qr/invalid page in block 3 of relation "base\S+"; zeroing out page/);
		$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'valid now');
	}), log => $bad_page, leaves => 'COMPLETED_SHARED');

	$aio->scenario('another session reads the same block', with('alice bob', 10, changes => 1, sub ($alice, $bob, $t) {
		$aio->sql("SELECT modify_rel_block('$t', 3, corrupt_header => true)");
		$aio->read_at_completion_wait($alice, "SELECT read_rel_block_ll('$t', 2, nblocks => 3)", pid => $alice->pid);
		$bob->waits("SELECT * FROM read_buffers('$t', 3, 1)", 'AioIoCompletion');
		$aio->completion_continue;
		$alice->raises('XX001', qr/invalid page in block 3 of relation/, 'alice');
		$bob->raises('XX001', qr/invalid page in block 3 of relation/, 'bob tries himself');
		$aio->gives("SELECT sum(nblocks) FROM read_buffers('$t', 4, 1) WHERE NOT io_reqd", 1, 'block 4 is valid');
		$aio->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 1) WHERE NOT io_reqd", 1, 'block 2 is valid');
	}), skip => $aio->no_faults, log => $bad_page);

	# RelationCopyStorage() reads without the buffer pool
	$aio->scenario('a table that moves to another tablespace', with('alice', 10, sub ($alice, $t) {
		$aio->sql("SELECT modify_rel_block('$t', 3, corrupt_checksum => true)");
		my $move = "ALTER TABLE $t SET TABLESPACE elsewhere";
		for my $case ([ 'off', 0 ], [ 'on', 1 ])
		{
			my ($ignore, $moves) = @$case;
			$alice->sql("SET ignore_checksum_failure = $ignore");
			is($aio->checksum_failures_during(sub {
				$moves ? $alice->sql($move) : $alice->fails($move, 'XX001', qr/invalid page in block 3 of relation "base\S+"/, 'it does not move');
			}, $alice), '1/0/0', "ignore_checksum_failure = $ignore: counted");
			$alice->warns(qr/page verification failed, calculated checksum \d+ but expected \d+/);
		}
		$aio->sql("DROP TABLE $t");
	}), skip => $aio->repeats ? 'the same with each io_method' : undef);

	# blocks after the end of a short read are not verified
	$aio->scenario('a bad page beyond the end of a short read', with('alice', 10, sub ($alice, $t) {
		$aio->sql("SELECT modify_rel_block('$t', 4, corrupt_header => true)");
		$aio->short_read_attach(16384, pid => $alice->pid, relation => $t);
		$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3)");
		$alice->warns(qr/could not read blocks 2\.\.4 in file "base\S+": read only 16384 of 24576 bytes/);
		$aio->evict($t);
		$alice->fails("SELECT * FROM read_buffers('$t', 2, 3)", 'XX001', qr/invalid page in block 4 of relation/, 'the second read finds it');
		$alice->sql('SET zero_damaged_pages = on');
		$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'zeroed');
		$alice->warns(qr/invalid page in block 4 of relation "base\S+"; zeroing out page/);
		$aio->short_read_detach;
		$aio->is_as_written($t, except => 'block 4 has no row');
	}), skip => $aio->no_faults, log => $bad_page);

	# a page of zeroes is valid
	$aio->scenario('good pages, and new ones', with_kind('alice', 4, sub ($alice, $t, $) {
		$alice->sql("SELECT grow_rel('$t', 20); SELECT evict_rel('$t')");
		my $since = $aio->sql('SELECT clock_timestamp()');
		is($aio->checksum_failures_during(sub {
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 23)))", 24, 'read');
			$alice->gives("SELECT count(*) FROM $t", 4, 'empty');
		}, $alice), '0/0/0', 'no failure');
		$aio->gives("SELECT count(*) FROM pg_stat_database WHERE checksum_last_failure >= '$since'", 0, 'no database has the time of one');
	}), each => [ '', 'TEMP' ]);
}, leaves => 'nothing', prepare => sub { $_[0]->make_tablespace });

# Page headers that the server must refuse, and headers that it must accept, with and without
# checksums.

# Offsets of the two-byte fields of a page header.
my %field = (pd_checksum => 8, pd_flags => 10, pd_lower => 12, pd_upper => 14, pd_special => 16, pd_pagesize_version => 18);

# Fields and their values that make a page invalid.
my @bad_headers = (
	{ pd_flags => 0x0008 }, { pd_flags => 0x8000 }, { pd_flags => 0xFFFF },
	{ pd_lower => 4001, pd_upper => 4000 }, { pd_lower => 0xFFFF },
	{ pd_upper => 8200 }, { pd_lower => 8192, pd_upper => 8192, pd_special => 8184 },
	{ pd_special => 8200 }, { pd_special => 8193 }, { pd_special => 8188, pd_lower => 24, pd_upper => 8000 },
	{ pd_special => 8191, pd_lower => 24, pd_upper => 8000 }, { pd_special => 0xFFF8 },
	# a new page has zeroes only
	{ pd_upper => 0 }, { pd_lower => 0, pd_upper => 0, pd_special => 0 });

# Fields and their values that the server accepts.
my @good_headers = (
	{ pd_flags => 0 }, { pd_flags => 0x0007 }, { pd_flags => 0x0002 },
	{ pd_lower => 8000, pd_upper => 8000 }, { pd_lower => 24, pd_upper => 8192 }, { pd_lower => 24, pd_upper => 8000, pd_special => 8000 },
	# the server looks at these fields only when it uses the page
	{ pd_pagesize_version => 0x2005 }, { pd_lower => 0 },
	# with checksums, it is refused unless that is made right
	{ pd_checksum => 0x1234 });

# Writes a block with these fields, with a correct checksum if asked for.  Returns whether the page
# differs from the original one.
sub break_page ($aio, $table, $block, $original, $fields, $checksums, $session)
{
	my ($page, $file) = ($original, $aio->file_of($table, $session));
	substr($page, $field{$_}, 2) = pack 'v', $fields->{$_} for keys %$fields;
	$aio->evict($table, $session);
	$aio->overwrite($file, $block * 8192, $page);
	return $page ne $original if !$checksums;
	my $checksum = $aio->sql("SELECT page_checksum(pg_read_binary_file('$file', $block * 8192, 8192), $block)");
	# a page with pd_upper = 0 has no checksum
	substr($page, $field{pd_checksum}, 2) = pack 'v', $checksum & 0xFFFF if $checksum ne '';
	$aio->overwrite($file, $block * 8192, $page);
	return $page ne $original;
}

for my $checksums (1, 0)
{
	with_each_io_method('sync; long: all', sub {
		$aio->scenario('broken headers, ' . ($checksums ? 'with checksums' : 'without checksums'), with_kind('alice', 20, sub ($alice, $t, $) {
			my $original = page_on_disk($aio, $t, 7, $alice);
			my $stream = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[5, 6, 7, 8])";
			my $invalid = qr/invalid page in block 7 of relation/;
			my %headers = (bad => \@bad_headers, good => \@good_headers);
			for my $header ('bad', 'good')
			{
				for my $fields (@{ $headers{$header} })
				{
					# with the checksum of the original page, or with its own
					for my $own (0, $checksums ? 1 : ())
					{
						my $differs = break_page($aio, $t, 7, $original, $fields, $own, $alice);
						# the server does not compare the checksum of a page with pd_upper = 0
						my $failure = $checksums && !$own && $differs && ($fields->{pd_upper} // 1) ? 1 : 0;
						my $name = "$header: " . join(', ', map { "$_ = $fields->{$_}" } sort keys %$fields) . ($own ? '' : ', the old checksum');
						my $refused = $header eq 'bad' || $failure;
						is($aio->checksum_failures_during(sub {
							$refused ? $alice->fails($stream, 'XX001', $invalid, "$name: refused") : $alice->gives($stream, 4, "$name: accepted");
						}, $alice), "$failure/0/0", 'checksum failures');
						$alice->sql('SET ignore_checksum_failure = on');
						$aio->evict($t, $alice);
						$header eq 'bad' ? $alice->fails($stream, 'XX001', $invalid, "$name: not ignored") : $alice->gives($stream, 4, "$name: ignored");
						$alice->warns(qr/ignoring checksum failure in block 7 of relation/) if $header eq 'good' && $failure;
						$alice->sql('SET ignore_checksum_failure = off; SET zero_damaged_pages = on');
						next if !$refused;
						$aio->evict($t, $alice);
						$alice->gives($stream, 4, "$name: zeroed");
						$alice->warns(qr/invalid page in block 7 of relation ".*"; zeroing out page/);
						$alice->gives("SELECT blk FROM $t WHERE blk BETWEEN 5 AND 9", "5\n6\n8\n9", 'all rows but that of the bad page');
					}
					continue { $alice->sql('SET zero_damaged_pages = off') }
				}
			}
			break_page($aio, $t, 7, $original, {}, $checksums, $alice);
			$aio->gives('SHOW data_checksums', $checksums ? 'on' : 'off', 'whether the cluster has checksums');
			$aio->gives('SELECT count(checksum_failures) > 0 FROM pg_stat_database', $checksums ? 't' : 'f', 'and counts their failures');
		}), each => [ '', only_long() ? () : 'TEMP' ], skip => $checksums ? $aio->lacks('pageinspect') : undef, log => qr/LOG:  (?:invalid page in block 7|page verification failed, calculated checksum|ignoring checksum failure in block 7)/);
	}, suffix => $checksums ? 'checksums' : 'none', no_data_checksums => !$checksums);
}

# pg_enable_data_checksums() while the server runs, since 19.
my $exits = qr/postmaster LOG:  background worker "datachecksums \w+" \(PID \d+\) exited with exit code 1/;

sub becomes ($aio, $state) { return $aio->wait_for("SELECT current_setting('data_checksums') = '$state'") }

sub disable ($aio)
{
	$aio->sql('SELECT pg_disable_data_checksums()');
	return becomes($aio, 'off');
}

# Waits until neither the launcher nor a worker is there.
sub until_no_process ($aio)
{
	return $aio->poll(sub { !$aio->pids_of_type('datachecksums launcher') && !$aio->pids_of_type('datachecksums worker') });
}

# Waits until launcher and worker are there, and returns their process ids.
sub processes ($aio)
{
	my @found;
	$aio->poll(sub { @found = map { $aio->pids_of_type("datachecksums $_") } qw(launcher worker); @found == 2 }) or die "no launcher, or no worker\n";
	return @found;
}

# Has the worker of this database, the first one, wait for a table's lock, and calls the function meanwhile.
# The gate holds nothing of such a worker, and a transaction that is there at the beginning is waited for.
sub while_worker_waits ($aio, $t, $function)
{
	my $bob = $aio->sessions('bob');
	$aio->sql('SELECT pg_enable_data_checksums(10, 1)');
	my (undef, $worker) = processes($aio);
	$bob->sql("BEGIN; LOCK $t");
	$aio->sql('SELECT pg_enable_data_checksums(0, 10000)');
	ok($aio->poll(sub { $aio->wait_event($worker) eq 'relation' }), 'the worker waits');
	$function->();
	$bob->sql('COMMIT');
	return;
}

for_each_io_method('worker', sub {
	my $cannot = $aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_enable_data_checksums'") ? undef : 'the server cannot enable checksums while it runs';
	my $early = $cannot // ($aio->setting('server_version') =~ /^19beta/ ? 'mended after the betas of 19' : undef);

	# all forks of all tables have checksums then, those of unlogged tables, too, which are made anew after a crash
	$aio->scenario('enabled, and then a crash', sub {
		# what is read below
		$aio->alter_system(wal_keep_size => "'64MB'");
		disable($aio);
		my ($t, $u) = ($aio->table('t', 30, changes => 1), $aio->table('u', 30, kind => 'UNLOGGED'));
		$aio->sql("CREATE INDEX u_i ON $u (blk); CREATE UNLOGGED SEQUENCE scenario.s; DELETE FROM $t WHERE blk = 7; VACUUM $t");
		my ($from, $file) = split /\|/, $aio->sql("SELECT pg_current_wal_insert_lsn(), pg_relation_filenode('$u')");
		$aio->sql('SELECT pg_enable_data_checksums()');
		becomes($aio, 'on');
		my @records = $aio->wal_records($from, $aio->sql("SELECT pg_logical_emit_message(false, '', '', flush => true)"));
		is(scalar(grep { m{rel \d+/\d+/$file (?!fork init)} } @records), 0, 'no WAL of an unlogged table');
		cmp_ok(scalar(grep { /FPW|FPI/ } @records), '>', 30, 'but of the others');
		$aio->sql('CHECKPOINT');
		if (!$aio->lacks('pageinspect'))
		{
			# as the files have them
			$aio->evict($_) for $t, $u;
			for my $fork ([ $t, 'main' ], [ $t, 'fsm' ], [ $t, 'vm' ], [ $u, 'main' ], [ 'scenario.u_i', 'init' ], [ 'scenario.s', 'init' ])
			{
				my ($rel, $name) = @$fork;
				$aio->gives("SELECT count(*) > 0, count(*) FILTER (WHERE p.checksum <> page_checksum(page, b)) FROM generate_series(0, pg_relation_size('$rel', '$name')::int / 8192 - 1) b,"
					  . " get_raw_page('$rel', '$name', b) page, page_header(page) p WHERE p.upper > 0", 't|0', "$rel, $name: each page has its checksum");
			}
		}
		$aio->recovers;
		$aio->gives("SELECT count(*) FROM $u", 0, 'an unlogged table is empty after a crash');
		$aio->gives("SET enable_seqscan = off; SELECT count(*) FROM $u WHERE blk = 3", 0, 'its index, too');
		$aio->gives("SELECT nextval('scenario.s')", 1, 'a sequence begins anew');
		$aio->sql("CALL add_pages('$u', 0, 29)");
		$aio->is_as_written($t, except => 'block 7 has no row');
	}, dies => 1, skip => $cannot);

	# a relation may be looked up anew after each lock; server commit ab918a4fab
	$aio->scenario('a worker that forgets what it has looked up', sub {
		disable($aio);
		$aio->sql('CREATE DATABASE forgets TEMPLATE postgres');
		$aio->sql('ALTER DATABASE forgets SET debug_discard_caches = 1; SELECT pg_enable_data_checksums()');
		becomes($aio, 'on');
		until_no_process($aio);
		$aio->sql('DROP DATABASE forgets');
	}, skip => $early // ($aio->has_assertions ? undef : 'needs a server with assertions'));

	# server commit ed6775db84
	$aio->scenario('the launcher is cancelled', with('', 30, sub ($) {
		disable($aio);
		# a delay after each page
		$aio->sql('SELECT pg_enable_data_checksums(100, 1)');
		my ($launcher) = processes($aio);
		$aio->sql("SELECT pg_cancel_backend($launcher)");
		ok(until_no_process($aio), 'its worker ends, too');
		becomes($aio, 'off');
		like($aio->log_text, qr/LOG:  data checksums processing was aborted in database "/, 'as the log says');
	}), log => [ qr/datachecksums worker FATAL:  terminating .* due to administrator command/, $exits ], skip => $early);

	# its files stay, without checksums; server commits 51f55b13a4 and 6a6e99f859
	$aio->scenario('a database that is invalid', with('alice', 30, sub ($alice, $t) {
		$aio->sql('CREATE DATABASE half TEMPLATE postgres');
		disable($aio);
		while_worker_waits($aio, $t, sub { $aio->sql("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half'") });
		until_no_process($aio);
		$aio->gives('SHOW data_checksums', 'off', 'it becomes so meanwhile: checksums stay off');
		$alice->fails('SELECT pg_enable_data_checksums()', '55000', qr/cannot enable data checksums in a cluster with invalid database "half"/, 'it is so already: said at once');
		$aio->sql('DROP DATABASE half; SELECT pg_enable_data_checksums()');
		becomes($aio, 'on');
		until_no_process($aio);
	}), log => [ $exits, qr/datachecksums worker FATAL:  cannot connect to invalid database "half"/, qr/datachecksums launcher (?:WARNING|ERROR):  /, qr/alice ERROR:  / ], skip => $early);

	$aio->scenario('a database that is dropped meanwhile', with('', 30, sub ($t) {
		$aio->sql('CREATE DATABASE gone TEMPLATE postgres');
		disable($aio);
		while_worker_waits($aio, $t, sub { $aio->sql('DROP DATABASE gone') });
		becomes($aio, 'on');
		until_no_process($aio);
	}), log => [ $exits, qr/datachecksums worker FATAL:  /, qr/datachecksums launcher WARNING:  / ], skip => $early);
}, own => TestAio::Server->major >= 19);
