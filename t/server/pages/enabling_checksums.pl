# pg_enable_data_checksums() while the server runs, since 19.
#
# io_methods: worker
use FindBin; use lib "$FindBin::RealBin/../..";
use TestAio;

my $exits = qr/postmaster LOG:  background worker "datachecksums \w+" \(PID \d+\) exited with exit code 1/;

sub becomes { my ($aio, $state) = @_; return $aio->wait_for("SELECT current_setting('data_checksums') = '$state'") }

sub disable
{
	my ($aio) = @_;
	$aio->sql('SELECT pg_disable_data_checksums()');
	return becomes($aio, 'off');
}

# Waits until neither the launcher nor a worker is there.
sub until_no_process
{
	my ($aio) = @_;
	return $aio->poll(sub { !$aio->pids_of_type('datachecksums launcher') && !$aio->pids_of_type('datachecksums worker') });
}

# Waits until launcher and worker are there, and returns their process ids.
sub processes
{
	my ($aio) = @_;
	my @found;
	$aio->poll(sub { @found = map { $aio->pids_of_type("datachecksums $_") } qw(launcher worker); @found == 2 }) or die "no launcher, or no worker\n";
	return @found;
}

# Has the worker of this database, the first one, wait for a table's lock, and calls the function meanwhile.
# The gate holds nothing of such a worker, and a transaction that is there at the beginning is waited for.
sub while_worker_waits
{
	my ($aio, $t, $function) = @_;
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

for_each_io_method(sub {
	my $cannot = $aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_enable_data_checksums'") ? undef : 'the server cannot enable checksums while it runs';
	my $early = $cannot // ($aio->setting('server_version') =~ /^19beta/ ? 'mended after the betas of 19' : undef);

	# all forks of all tables have checksums then, those of unlogged tables, too, which are made anew after a crash
	$aio->scenario('enabled, and then a crash', sub {
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
		$aio->proves($t, except => 'block 7 has no row');
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
	$aio->scenario('the launcher is cancelled', sub {
		disable($aio);
		my $t = $aio->table('t', 30);
		# a delay after each page
		$aio->sql('SELECT pg_enable_data_checksums(100, 1)');
		my ($launcher) = processes($aio);
		$aio->sql("SELECT pg_cancel_backend($launcher)");
		ok(until_no_process($aio), 'its worker ends, too');
		becomes($aio, 'off');
		like($aio->log_text, qr/LOG:  data checksums processing was aborted in database "/, 'as the log says');
	}, log => [ qr/datachecksums worker FATAL:  terminating .* due to administrator command/, $exits ], skip => $early);

	# its files stay, without checksums; server commits 51f55b13a4 and 6a6e99f859
	$aio->scenario('a database that is invalid', sub {
		my $t = $aio->table('t', 30);
		$aio->sql('CREATE DATABASE half TEMPLATE postgres');
		my $invalid = "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half'";
		my ($alice) = $aio->sessions('alice');
		disable($aio);
		while_worker_waits($aio, $t, sub { $aio->sql($invalid) });
		until_no_process($aio);
		$aio->gives('SHOW data_checksums', 'off', 'it becomes so meanwhile: checksums stay off');
		$alice->fails('SELECT pg_enable_data_checksums()', '55000', qr/cannot enable data checksums in a cluster with invalid database "half"/, 'it is so already: said at once');
		$aio->sql('DROP DATABASE half; SELECT pg_enable_data_checksums()');
		becomes($aio, 'on');
		until_no_process($aio);
	}, log => [ $exits, qr/datachecksums worker FATAL:  cannot connect to invalid database "half"/, qr/datachecksums launcher (?:WARNING|ERROR):  /, qr/alice ERROR:  / ], skip => $early);

	$aio->scenario('a database that is dropped meanwhile', sub {
		my $t = $aio->table('t', 30);
		$aio->sql('CREATE DATABASE gone TEMPLATE postgres');
		disable($aio);
		while_worker_waits($aio, $t, sub { $aio->sql('DROP DATABASE gone') });
		becomes($aio, 'on');
		until_no_process($aio);
	}, log => [ $exits, qr/datachecksums worker FATAL:  /, qr/datachecksums launcher WARNING:  / ], skip => $early);
}, conf => { shared_buffers => '16MB', wal_keep_size => '64MB' });
