# Reads that fail: SQLSTATE, message and block range for each kind of error, reported once to
# the session and logged once by the process that completes the read (md_readv_report).
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

my %errors = (
	EIO => [ '58030', 'Input/output error' ],
	ENOSPC => [ '53100', 'No space left on device' ],
	EROFS => [ '42501', 'Read-only file system' ],
	EACCES => [ '42501', 'Permission denied' ],
	ENOENT => [ '58P01', 'No such file or directory' ],
	EMFILE => [ '53000', 'Too many open files' ],
	ENOMEM => [ '53200', 'Cannot allocate memory' ],
	EAGAIN => [ 'XX000', 'Resource temporarily unavailable' ],
	EINTR => [ 'XX000', 'Interrupted system call' ]);

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			$aio->scenario("errors of all kinds, $kind", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 10, kind => $kind, session => $alice);
				my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
				my $node = $alice->sql("SELECT pg_relation_filenode('$t')");
				for my $errno (sort keys %errors)
				{
					my ($sqlstate, $text) = @{ $errors{$errno} };
					$aio->forget_log;
					$aio->falsify($errno, relfilenode => $node);
					$alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 3)", $sqlstate,
						qr/could not read blocks 3\.\.5 in file "$path": $text\n/, $errno);
					$alice->fails("SELECT * FROM read_stream_for_blocks('$t', ARRAY[1, 2, 9])", $sqlstate, qr/could not read blocks 1\.\.2 in file "$path": $text\n/);
					# waits for a read of block 9 that may be in flight, so that none ends after tell_truth()
					$alice->fails("SELECT * FROM read_buffers('$t', 9, 1)", $sqlstate, qr/could not read blocks 9\.\.9 in file "$path": $text\n/);
					$aio->tell_truth;
					$aio->logs(qr/LOG: .*could not read blocks 3\.\.5 in file "$path": $text$/, 1, 'logged once');
					$aio->logs(qr/ERROR: .*could not read blocks 3\.\.5 in file "$path": $text$/, 1, 'reported once');
					$aio->logs(qr/CONTEXT: .*I\/O worker executing I\/O on behalf of process ${\$alice->pid}$/, $aio->method eq 'worker' && $kind ne 'TEMP' ? '>0' : 0, 'the log names the owner');
				}
				$alice->gives("SELECT bool_and(io_reqd) FROM read_buffers('$t', 0, 10)", 't', 'nothing was taken for valid');
				$aio->proves($t, session => $alice);
			}, skip => $aio->no_faults, log => qr/LOG:  could not read blocks/);
		}

		$aio->scenario('other forks', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
			for my $fork (qw(fsm vm))
			{
				my $pages = $aio->sql("SELECT pg_relation_size('$t', '$fork') / 8192");
				my $blocks = "could not read blocks 0\\.\\.${\($pages - 1)} in file \"${path}_$fork\"";
				$aio->evict($t);
				$aio->falsify('EIO', pid => $alice->pid);
				$alice->fails("SELECT pg_prewarm('$t', 'buffer', '$fork')", '58030', qr/$blocks: Input\/output error/, "$fork: the message names the fork");
				$aio->tell_truth;
				$aio->falsify(0, pid => $alice->pid);
				$alice->fails("SELECT pg_prewarm('$t', 'buffer', '$fork')", 'XX001', qr/$blocks: read only 0 of ${\($pages * 8192)} bytes/, "$fork: also that of a short read");
				$aio->tell_truth;
				$alice->gives("SELECT pg_prewarm('$t', 'buffer', '$fork')", $pages, "$fork: it can be read");
			}
			$aio->proves($t);
		}, skip => $aio->no_faults // $aio->lacks('pg_prewarm'), log => qr/LOG:  could not read blocks/);

		$aio->scenario('the error is its owner\'s alone', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 10);
			$aio->falsify('EIO', pid => $alice->pid);
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 3)", 3, 'another process');
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 3)", 3, 'no read');
			$alice->fails("SELECT sum(nblocks) FROM read_buffers('$t', 0, 4)", '58030', qr/blocks 3\.\.3/);
			$aio->falsify('EIO', relfilenode => 1);
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 4)", 4, 'another relation');
			$aio->tell_truth;
			$aio->proves($t);
		}, leaves => 'nothing', skip => $aio->no_faults, log => qr/LOG:  could not read blocks 3\.\.3/);

		# since 19 the session performs a lone miss at once
		$aio->scenario('in the middle of a stream', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 200);
			$aio->warm($t, 0 .. 99, 101 .. 199);
			$aio->falsify('EIO', pid => $alice->pid);
			for my $query ("SELECT * FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 199)))", "SELECT count(*) FROM $t")
			{
				$alice->fails($query, '58030', qr/could not read blocks 100\.\.100 in file/, $query);
			}
			$alice->sql('BEGIN');
			$alice->sql('SAVEPOINT s');
			$alice->fails("SELECT count(*) FROM $t", '58030', qr/could not read blocks 100\.\.100 in file/, 'in a subtransaction');
			$alice->sql('ROLLBACK TO s');
			$aio->tell_truth;
			$alice->gives("SELECT count(*) FROM $t", 200, 'which can be undone');
			$alice->sql('COMMIT');
			$aio->proves($t);
		}, leaves => 'nothing', skip => $aio->no_faults, log => qr/LOG:  could not read blocks 100\.\.100/);

		$aio->scenario('with others under way', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$alice->sql('SET effective_io_concurrency = 16; SET io_combine_limit = 1');
			$aio->falsify('EIO', pid => $alice->pid, relation => $t);
			$alice->fails("SELECT * FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 58, 2)))", '58030', qr/could not read blocks 0\.\.0 in file/);
			$aio->tell_truth;
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 58, 2)))", 30, 'all can be read');
			$aio->proves($t);
		}, skip => $aio->no_faults, log => qr/LOG:  could not read blocks/);

		# only a page that was never written may have one
		$aio->scenario('a header of zeros', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			$aio->overwrite($aio->file_of($t), 2 * 8192, "\0" x 24);
			$alice->fails("SELECT count(*) FROM $t", 'XX001', qr/invalid page in block 2 of relation/, 'is not an empty page');
		}, log => qr/LOG:  invalid page in block 2/);

		# AbortBufferIO() ends the I/O of the blocks
		$aio->scenario('the file is gone when a read is to start', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = ($aio->table('t', 20), $aio->table('u', 4));
			my $file = $aio->file_of($t);
			$alice->sql("SET effective_io_concurrency = 0; BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t; FETCH 1 FROM c");
			rename $file, "$file.away" or die "$file: $!";
			$alice->sql("SELECT read_rel_block_ll('$u', 0, smgrreleaseall => true)");
			$alice->fails('MOVE ALL FROM c', '58P01', qr/could not open file/, 'fails');
			rename "$file.away", $file or die "$file: $!";
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 20)", 20, 'another reads them');
			$alice->sql('ROLLBACK');
			$aio->proves($t);
		}, leaves => 'nothing');
	}, conf => { 'test_aio.reach_synchronous_reads' => 'on' });
