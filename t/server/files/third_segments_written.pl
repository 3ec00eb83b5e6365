# Tables of three segments: pages beside the boundaries are written, the table is extended over
# a boundary, truncated (mdtruncate) and recovered after a crash.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use File::Basename qw(basename);
use TestAio;
use TestAio::Descriptors;
use TestAio::Segments;
use TestAio::Vacuum;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my @boundaries = boundaries($aio);
		my $segment = $boundaries[0];

		$aio->scenario('written and extended', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $file) = long_table($aio, 't');
			# dirty pages on both sides are written at once
			$aio->sql('CHECKPOINT');
			$aio->evict($t);
			is(right_rows($alice, $t, $_ - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $_") for @boundaries;
			# the checkpointer closes all files after each checkpoint
			$aio->sql("DELETE FROM $t WHERE blk = 2 * $segment + 1; CHECKPOINT");
			$aio->evict($t);
			is(right_rows($alice, $t, 2 * $segment, SIDE), SIDE - 1, 'a page of the third segment alone is written');
			# the last blocks are removed, and new ones added on both sides of the second boundary
			$aio->evict($t);
			truncate "$file.2", 0 or die "$file.2: $!";
			truncate "$file.1", ($segment - 15) * 8192 or die "$file.1: $!";
			$alice->sql("SELECT read_rel_block_ll('$t', 0, smgrreleaseall => true)");
			$alice->sql("SELECT grow_rel('$t', 27)");
			is(file_sizes($file), "$segment $segment 12", 'extended into the third segment');
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2 * $segment - 15, 27)", 27, 'all blocks are there');
			is(right_rows($alice, $t, $segment - SIDE, 2 * SIDE), 2 * SIDE, 'the rows beside the first boundary');
		});

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("TRUNCATE, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				$alice->sql('BEGIN');
				my ($t, $file) = long_table($aio, 't', kind => $kind, session => $alice);
				is(right_rows($alice, $t, $_ - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $_") for @boundaries;
				# TRUNCATE keeps the files of a table that the same transaction has made
				$alice->sql("TRUNCATE $t");
				is(file_sizes($file), '0 0 0', 'all files are empty');
				$alice->gives("SELECT count(*), pg_relation_size('$t') FROM $t", '0|0', 'no row is left');
				$alice->sql("CALL add_pages('$t', 0, 19, 1); COMMIT");
				$aio->evict($t, $alice);
				$alice->gives("SELECT problems('$t', 1, 20)", '', 'new rows');
				is(file_sizes($file), '20 0 0', 'in the first file');
				$alice->sql("DROP TABLE $t");
				# the first file of a permanent table stays, empty, until the next checkpoint
				like(file_sizes($file), $kind eq 'TEMP' ? qr/^-0\S* -0\S* -0\S*$/ : qr/^(?:0|-0\S*) -0\S* -0\S*$/, 'DROP leaves no file');
			});
		}

		$aio->scenario('a crash', sub {
			my ($t, $file) = long_table($aio, 't');
			$aio->sql('CHECKPOINT');
			# the WAL has each row of the second table, and two deletions from the first
			my ($u, $other) = long_table($aio, 'u');
			$aio->sql("DELETE FROM $t WHERE blk = $_") for $segment, 2 * $segment;
			$aio->recovers;
			is(file_sizes($_), "$segment $segment " . SIDE, 'the files') for $file, $other;
			for my $boundary (@boundaries)
			{
				is(right_rows($aio, $u, $boundary - SIDE, 2 * SIDE), 2 * SIDE, "the rows around $boundary");
				is(right_rows($aio, $t, $boundary - SIDE, 2 * SIDE), 2 * SIDE - 1, 'all but the deleted row');
			}
		}, dies => 1, skip => $aio->method eq 'worker' ? undef : 'recovery does not depend on the io_method');

		# the last row that stays is on the last page of the first segment
		$aio->scenario('a scan of everything, and VACUUM truncates', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $file) = long_table($aio, 't');
			$aio->evict($t);
			$alice->gives("SELECT count(*), sum(blk) FROM $t WHERE body = proof('$t', blk, 0)", 4 * SIDE . '|' . (2 * SIDE * 3 * $segment - 2 * SIDE), 'a scan');
			$alice->sql("DELETE FROM $t WHERE blk >= $segment");
			isnt(join(' ', descriptors($alice->pid, qr{\Q${\basename $file}\E\.\d+$})), '', 'the session has further files open');
			like(vacuum($alice, 'INDEX_CLEANUP on, TRUNCATE on', $t), qr/pages: ${\($segment + SIDE)} removed, $segment remain/, 'VACUUM removes two segments');
			is(file_sizes($file), "$segment 0 0", 'the table ends at the first boundary');
			is(join(' ', descriptors($alice->pid, qr{\Q${\basename $file}\E\.\d+$})), '', 'the session has closed the empty files');
			$alice->sql("SELECT grow_rel('$t', 5)");
			is(file_sizes($file), "$segment 5 0", 'the second segment is in use again');
			$aio->evict($t);
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', $segment - 5, 10)", 10, 'read again');
			is(right_rows($alice, $t, $segment - SIDE, 2 * SIDE), SIDE, 'the rows that stay');
		}, skip => only_long());
	});
