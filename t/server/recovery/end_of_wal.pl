# Where recovery finds the end of the WAL: a damaged record, and one whose end is in a segment that has gone; and records
# of blocks that their files have lost.
use TestAio;

# The end of the WAL, as a position, a file and an offset in it.
sub end_of_wal ($server)
{
	my ($lsn, $file, $offset) = split /\|/, $server->sql('SELECT lsn, file_name, file_offset FROM pg_current_wal_insert_lsn() lsn, pg_walfile_name_offset(lsn)');
	return ($lsn, $server->node->data_dir . "/pg_wal/$file", $offset);
}

with_each_io_method('worker', sub {
	my $rows = q{SELECT string_agg(n::text, ' ' ORDER BY n) FROM scenario.n};

	# each damages the record that begins at an offset, or its page
	my %damages = (
		'with a changed byte' => [ sub ($offset) { ($offset + 30, '!') }, qr/incorrect resource manager data checksum in record/ ],
		'that is all zeros' => [ sub ($offset) { ($offset, "\0" x (8192 - $offset % 8192)) }, qr/invalid record length at \S+ expected at least 24, got 0/ ],
		'with a wrong prev-link' => [ sub ($offset) { ($offset + 8, pack 'Q', 24) }, qr/record with incorrect prev-link 0\/0*18 / ],
		'of an unknown resource manager' => [ sub ($offset) { ($offset + 17, chr 99) }, qr/invalid resource manager ID 99/ ]);
	$aio->scenario('a record %s', sub ($, $how) {
		my ($where, $says) = @{ $damages{$how} };
		$aio->sql('CREATE TABLE scenario.n (n int); CHECKPOINT');
		$aio->sql('INSERT INTO scenario.n VALUES (1)');
		my ($lsn, $file, $offset);
		# the next record is to begin within a page, not near its end
		$aio->poll(sub {
			$aio->sql("SELECT pg_logical_emit_message(false, '', repeat('x', 100))");
			($lsn, $file, $offset) = end_of_wal($aio);
			return $offset % 8192 > 100 && $offset % 8192 < 7000;
		});
		$aio->sql('INSERT INTO scenario.n SELECT generate_series(2, 500)');
		my $log = $aio->recovers(sub { $aio->overwrite($file, $where->($offset)) });
		like($log, $says, 'the log says why recovery ends');
		my ($redone) = $log =~ m{redo done at (\S+)};
		$aio->gives("SELECT '$redone' < '$lsn'::pg_lsn", 't', 'before the record');
		$aio->gives($rows, 1, 'the rows');
		# the new WAL is shorter than the old one, of which nothing may come back
		$aio->sql('INSERT INTO scenario.n VALUES (4)');
		$aio->recovers;
		$aio->gives($rows, '1 4', 'the rows after another crash');
	}, each => [ sort keys %damages ], dies => 1);

	my $large = $aio->setting('wal_segment_size') eq '1MB' ? undef : 'a segment of the WAL has more than 1 MB';
	my $standby = $large ? undef : $aio->make_standby;
	$aio->scenario('a record that ends in a segment that is gone', sub {
		$aio->sql('CREATE TABLE scenario.n (n int); INSERT INTO scenario.n VALUES (1)');
		$aio->replayed_by($standby);
		ok($standby->stop, 'the standby stops');
		my ($lsn, $file, $offset) = end_of_wal($aio);
		my $next = $aio->sql("SELECT '$lsn'::pg_lsn + 1048576 - $offset");
		$aio->sql("SELECT pg_logical_emit_message(false, '', repeat('x', 2500000), flush => true); INSERT INTO scenario.n VALUES (2)");
		$aio->recovers(sub { unlink grep { $_ gt $file } glob($file =~ s/[^\/]+$/'?' x 24/er) });
		$aio->gives($rows, 1, 'the rows');
		$aio->sql('INSERT INTO scenario.n VALUES (3)');
		$aio->recovers;
		$aio->gives($rows, '1 3', 'the rows after another crash');
		my $size = $standby->log_size;
		$standby->start_again;
		$aio->sql('INSERT INTO scenario.n VALUES (4)');
		$aio->replayed_by($standby);
		like($standby->log_text($size), qr/successfully skipped missing contrecord at \S+, overwritten at/, 'a standby goes on behind it');
		$standby->gives($rows, '1 3 4', 'its rows');
		$aio->gives("SELECT record_type, start_lsn - '$next' FROM pg_get_wal_records_info('$next', pg_current_wal_flush_lsn()) LIMIT 1", 'OVERWRITE_CONTRECORD|40', 'it is where the next segment begins') if !$aio->lacks('pg_walinspect');
	}, dies => 1, skip => $large);
}, streaming => 1, conf => { autovacuum => 'off', wal_keep_size => '64MB' });

for_each_io_method('worker', sub {
	# replay of the update finds the old version's page, and not the new one's
	$aio->scenario('an update to a page that is cut off later', sub {
		my $rows = 'SELECT string_agg(n::text, \' \' ORDER BY n) FROM scenario.w';
		$aio->sql($_) for q{CREATE TABLE scenario.w (n int, body text STORAGE PLAIN); INSERT INTO scenario.w SELECT i, repeat('x', 1900) FROM generate_series(1, 9) i; CHECKPOINT},
		  'UPDATE scenario.w SET n = 10 WHERE n = 1', 'DELETE FROM scenario.w WHERE n > 8', 'DELETE FROM scenario.w WHERE n = 2', 'VACUUM (TRUNCATE on) scenario.w';
		$aio->gives("SELECT pg_relation_size('scenario.w')", 2 * 8192, 'it is cut off');
		# the log says nothing of pages that are not there
		$aio->recovers;
		$aio->gives($rows, '3 4 5 6 7 8', 'the rows');
	}, dies => 1);

	my $standby = $aio->make_standby;

	# files that lack blocks of which there are records without an image
	$aio->scenario('blocks that are not there', with('', [ t => 40, changes => 1 ], [ u => 40, changes => 1 ], [ gone => 40, changes => 1 ], sub ($t, $u, $gone) {
		my $file = $aio->sql("SELECT pg_relation_filepath('$t')");
		$aio->sql('CHECKPOINT');
		$aio->replayed_by($standby);
		$standby->sql('CHECKPOINT');
		$aio->sql($_) for "DELETE FROM $t WHERE blk IN (3, 30, 35)", "DELETE FROM $u WHERE blk > 10", "DELETE FROM $gone WHERE blk > 10", "VACUUM (TRUNCATE on) $u", "DROP TABLE $gone";
		$aio->gives("SELECT pg_relation_size('$u')", 11 * 8192, 'some are cut off');
		$aio->replayed_by($standby);
		my $lose = sub ($server) { truncate $server->node->data_dir . "/$file", 20 * 8192 or die "truncate: $!" };
		my $warning = qr/startup WARNING:  WAL contains references to invalid pages/;
		for my $server ($standby, $aio)
		{
			if ($server == $aio && $aio->has_bug('crash-recovery-lost-blocks'))
			{
				unlike($aio->recovers(sub { $lose->($aio) }), qr/invalid page/, 'crash recovery does not mention them');
				next;
			}
			ok($server->stop_with_sessions('QUIT'), 'an immediate shutdown');
			$lose->($server);
			my $log = ends_at_start($server);
			# once the database is consistent, it ends at the first one
			like(join(', ', sort $log =~ /WARNING:  (page .*)/g), qr/^page 30 of relation \Q$file\E does not exist(?:, page 35 of relation \Q$file\E does not exist)?$/, 'recovery names the blocks, and none of what was cut off or dropped');
			like($log, qr/PANIC:  WAL contains references to invalid pages/, 'and ends');
			$server->node->append_conf('postgresql.conf', 'ignore_invalid_pages = on');
			my $size = $server->log_size;
			$server->start_with_sessions;
			like($server->log_text($size), $warning, 'with ignore_invalid_pages it warns');
		}
		$_->gives("SELECT count(*), sum(blk) FROM $t", '19|187', 'the rows that are left') for $standby, $aio;
		$standby->end_scenario(log => qr{startup WARNING:  (?:page \d+ of relation|WAL contains references)}, dies => 1);
		$aio->sql("DROP TABLE $t");
	}), dies => 1, log => qr/startup WARNING:  (?:page \d+ of relation|WAL contains references)/);
}, streaming => 1, conf => { full_page_writes => 'off', autovacuum => 'off' });
