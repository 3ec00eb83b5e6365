# What pg_aios shows of a handle that is used again.  A read into buffers that are not
# adjacent has one vector for each (mdstartreadv); the next read may have fewer.  Flags are
# those of the present read (pgaio_io_reclaim).
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

# Makes a table, and frees every other buffer.
sub table_and_free_buffers
{
	my ($aio) = @_;
	my ($t, $w) = ($aio->table('t', 20), $aio->table('w', 300));
	# more blocks than the pool holds: no free buffer is left
	$aio->warm($w, 0 .. 299);
	# buffers that were used several times are not taken before the free ones
	my $cached = "FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$w') AND relforknumber = 0";
	$aio->sql("SELECT sum(nblocks) FROM (SELECT relblocknumber::int AS block $cached) b, read_buffers('$w', block, 1)") for 1 .. 4;
	$aio->sql("SELECT invalidate_rel_block('$w', relblocknumber::int) $cached AND bufferid % 2 = 0");
	return $t;
}

# Returns the cached blocks of a table, and whether some of their buffers are not adjacent.
sub layout
{
	my ($aio, $t) = @_;
	return $aio->sql('SELECT string_agg(relblocknumber::text, \',\' ORDER BY relblocknumber),'
		  . ' count(*) FILTER (WHERE EXISTS (SELECT FROM pg_buffercache o WHERE o.relfilenode = b.relfilenode AND o.bufferid = b.bufferid + 1)) < 7'
		  . " FROM pg_buffercache b WHERE relfilenode = pg_relation_filenode('$t')");
}

# Test: the buffers of a table's blocks 3 to 10 are not all adjacent.
sub are_not_all_adjacent
{
	my ($aio, $t) = @_;
	return is(layout($aio, $t), '3,4,5,6,7,8,9,10|t', 'the buffers are not all adjacent');
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $read = "SELECT read_rel_block_ll('%s', 3, nblocks => 8)";

		$aio->scenario('the number of blocks, while the read is held', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = table_and_free_buffers($aio);
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts(sprintf $read, $t);
			$aio->gate_holds(1);
			$aio->gives('SELECT off, length, handle_data_len FROM pg_aios WHERE state = \'SUBMITTED\'', '24576|65536|8', 'eight blocks');
			$aio->end_gate;
			$alice->ends;
			are_not_all_adjacent($aio, $t);

			# the same handle, now with fewer vectors; 18 takes the buffers that were freed first
			# last
			$aio->evict($t);
			$aio->sql("SELECT invalidate_rel_block('scenario.w', relblocknumber::int) FROM (SELECT relblocknumber FROM pg_buffercache"
				  . " WHERE relfilenode = pg_relation_filenode('scenario.w') AND relforknumber = 0 ORDER BY bufferid DESC) b");
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT sum(nblocks) FROM read_buffers('$t', 3, 8)");
			$aio->gate_holds(1);
			$aio->gives('SELECT off, length, handle_data_len FROM pg_aios WHERE state = \'SUBMITTED\'', '24576|65536|8', 'eight blocks');
			$aio->end_gate;
			$alice->returns('8', 'reads');
			$aio->gives("SELECT count(*) > 0 FROM pg_buffercache a JOIN pg_buffercache b USING (relfilenode) WHERE relfilenode = pg_relation_filenode('$t')"
				  . " AND b.bufferid = a.bufferid + 1 AND b.relblocknumber = a.relblocknumber + 1", 't', 'some buffers are adjacent');
			$aio->proves($t);
		}, skip => $aio->lacks('gate'));

		$aio->scenario('a read into buffers that are not adjacent', sub {
			my ($alice) = $aio->sessions('alice');
			my $t;
			# another process may take buffers meanwhile, so that only adjacent ones are left
			for (1 .. 9)
			{
				$aio->sql('DROP TABLE IF EXISTS scenario.t, scenario.w');
				$t = table_and_free_buffers($aio);
				$alice->sql(sprintf $read, $t);
				last if layout($aio, $t) =~ /t$/;
			}
			are_not_all_adjacent($aio, $t);
			$aio->proves($t);
		});

		$aio->scenario('flags of the present read', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u) = ($aio->table('t', 20), $aio->table('u', 20, kind => 'TEMP', session => $alice));
			# local, synchronous, and both
			for my $table ($u, $t)
			{
				$alice->sql("SELECT read_rel_block_ll('$table', 3, nblocks => 8); SET effective_io_concurrency = 0");
				$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$table', ARRAY[1, 14])");
				$alice->sql('RESET effective_io_concurrency');
			}
			$aio->evict($t);
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT sum(nblocks) FROM read_buffers('$t', 3, 8)");
			$aio->gate_holds(1);
			$aio->gives('SELECT f_sync, f_localmem, f_buffered FROM pg_aios WHERE state = \'SUBMITTED\'', 'f|f|t', 'flags of the present read');
			$aio->end_gate;
			$alice->returns('8', 'reads');
			$aio->proves($t);
		}, skip => $aio->lacks('gate'));
	}, leaves => 'nothing', conf => { shared_buffers => '2MB', io_max_concurrency => 1 });
