# Checksum failures count for the database of the page, whichever process completes the
# read.  Those of shared relations count for no database
# (shared_buffer_readv_complete_local()).
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Finds the database whose last failure was since this time: "shared" or "other".
my $failed_since = "SELECT string_agg(coalesce(datname, 'shared'), ',') FROM pg_stat_database WHERE (datid = 0 OR datname = 'other') AND checksum_last_failure >= '%s'";

my $bad_page = qr/LOG:  (?:invalid page in block|page verification failed, calculated checksum) /;

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->sql('CREATE DATABASE other TEMPLATE postgres STRATEGY file_copy');

		$aio->scenario('another database', sub {
			my ($alice) = $aio->session('alice', dbname => 'other');
			$alice->sql("CREATE TABLE o (i int); INSERT INTO o VALUES (1); SELECT evict_rel('o'); SELECT modify_rel_block('o', 0, corrupt_checksum => true)");
			for my $read ("SELECT read_rel_block_ll('o', 0)", "SELECT * FROM read_buffers('o', 0, 1)", 'SELECT * FROM o')
			{
				my $since = $aio->sql('SELECT clock_timestamp()');
				is($aio->checksum_failures_during(sub { $alice->fails($read, 'XX001', qr/invalid page in block 0 of relation "base\/\d+\/\d+"/) }, $alice),
					'0/1/0', 'counted for postgres, other, shared');
				$aio->gives((sprintf $failed_since, $since), 'other', 'and when');
			}
			$alice->sql('DROP TABLE o');
		}, log => $bad_page);

		$aio->scenario('a shared relation', sub {
			my ($alice) = $aio->session('alice', dbname => 'other');
			# a shared relation that other sessions hardly ever read
			$alice->sql("COMMENT ON TABLESPACE pg_default IS 'x'; CHECKPOINT");
			$alice->sql("SELECT modify_rel_block('pg_shdescription', 0, corrupt_checksum => true)");
			my $since = $aio->sql('SELECT clock_timestamp()');
			my @reads = ("SELECT read_rel_block_ll('pg_shdescription', 0)", "SELECT * FROM read_buffers('pg_shdescription', 0, 1)");
			is($aio->checksum_failures_during(sub {
						$alice->fails($_, 'XX001', qr/invalid page in block 0 of relation "global\/\d+"/) for @reads;
					}, $alice), '0/0/2', 'counted for postgres, other, shared');
			$aio->gives((sprintf $failed_since, $since), 'shared', 'and when');
			$alice->sql("SELECT modify_rel_block('pg_shdescription', 0)");
			$alice->gives("SELECT description FROM pg_shdescription WHERE description = 'x'", 'x', 'mended');
		}, log => $bad_page);

		$aio->scenario('zeroed by the settings of the reader, not of the process that completes the read', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 10);
			$aio->sql("SELECT modify_rel_block('$t', 3, corrupt_checksum => true)");
			$alice->sql('SET zero_damaged_pages = on');
			is($aio->checksum_failures_during(sub {
						$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3, wait_complete => false)");
						# with io_uring bob finds the completion
						$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'zeroed for bob as well');
						$aio->proves($t, except => 'block 3 has no row');
						$aio->logs(qr/LOG: .*invalid page in block 3 of relation "base\S+"; zeroing out page/, 1, 'logged');
						$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'and for alice');
						# alice has not waited for her read, and so does not count its failure
					}, $alice, $bob), $aio->method eq 'sync' ? '1/0/0' : '0/0/0', 'an owner counts the failure if it waits');
			$aio->evict($t, $alice);
			$bob->fails("SELECT * FROM read_buffers('$t', 2, 3)", 'XX001', qr/invalid page in block 3 of/, 'without the setting');
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'with it');
			$alice->warns(qr/invalid page in block 3 of relation "base\S+"; zeroing out page/);
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'valid now');
		}, log => $bad_page, leaves => 'COMPLETED_SHARED');

		$aio->scenario('another session reads the same block', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 10);
			$aio->sql("SELECT modify_rel_block('$t', 3, corrupt_header => true)");
			$aio->hold(pid => $alice->pid);
			$alice->starts("SELECT read_rel_block_ll('$t', 2, nblocks => 3)");
			$aio->holds(1);
			$bob->starts("SELECT * FROM read_buffers('$t', 3, 1)");
			$bob->waits_on('AioIoCompletion');
			$aio->release;
			$alice->raises('XX001', qr/invalid page in block 3 of relation/, 'alice');
			$bob->raises('XX001', qr/invalid page in block 3 of relation/, 'bob tries himself');
			$aio->gives("SELECT sum(nblocks) FROM read_buffers('$t', 4, 1) WHERE NOT io_reqd", 1, 'block 4 is valid');
			$aio->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 1) WHERE NOT io_reqd", 1, 'block 2 is valid');
		}, skip => $aio->no_faults, log => $bad_page);

		# RelationCopyStorage() reads without the buffer pool
		$aio->scenario('a table that moves to another tablespace', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
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
		}, skip => $aio->repeats ? 'the same with each io_method' : undef);

		# blocks after the end of a short read are not verified
		$aio->scenario('a bad page beyond the end of a short read', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			$aio->sql("SELECT modify_rel_block('$t', 4, corrupt_header => true)");
			$aio->falsify(16384, pid => $alice->pid, relation => $t);
			$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 3)");
			$alice->warns(qr/could not read blocks 2\.\.4 in file "base\S+": read only 16384 of 24576 bytes/);
			$aio->evict($t);
			$alice->fails("SELECT * FROM read_buffers('$t', 2, 3)", 'XX001', qr/invalid page in block 4 of relation/, 'the second read finds it');
			$alice->sql('SET zero_damaged_pages = on');
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 3)", 3, 'zeroed');
			$alice->warns(qr/invalid page in block 4 of relation "base\S+"; zeroing out page/);
			$aio->tell_truth;
			$aio->proves($t, except => 'block 4 has no row');
		}, skip => $aio->no_faults, log => $bad_page);

		$aio->scenario('reads of good pages', sub {
			my ($alice) = $aio->sessions('alice');
			for my $kind ('', 'TEMP')
			{
				my $t = $aio->table("t$kind", 10, kind => $kind, session => $alice);
				my $since = $aio->sql('SELECT clock_timestamp()');
				$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 10)", 10, "ten blocks, $kind");
				$aio->gives("SELECT count(*) FROM pg_stat_database WHERE checksum_last_failure >= '$since'", 0, 'no database has the time of a failure');
			}
		});

		# a page of zeroes is valid
		$aio->scenario('new pages', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			$aio->sql("SELECT grow_rel('$t', 20); SELECT evict_rel('$t')");
			is($aio->checksum_failures_during(sub {
						$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 23)))", 24, 'read');
						$alice->gives("SELECT count(*) FROM $t", 4, 'empty');
					}, $alice), '0/0/0', 'no failure');
		});
	}, leaves => 'nothing', prepare => sub { $_[0]->make_tablespace });
