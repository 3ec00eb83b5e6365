# The counts that pg_buffercache's functions return of buffers that they evict, flush and mark as
# dirty agree with the view: with dirty buffers, with pinned buffers, and during a read.  Only
# superusers may call them.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Returns the number of a table's buffers (of all forks, with a valid page), of those that are dirty
# and not pinned, and of those that are pinned.
sub buffers_of
{
	my ($aio, $t) = @_;
	return split /\|/, $aio->sql('SELECT count(*), count(*) FILTER (WHERE isdirty AND pinning_backends = 0), count(*) FILTER (WHERE pinning_backends > 0)'
		  . " FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t') AND reldatabase = (SELECT oid FROM pg_database WHERE datname = 'postgres')");
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $skip = $aio->lacks('pg_buffercache')
		  // ($aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_buffercache_evict_relation'") ? undef : 'pg_buffercache is older than 1.6');

		$aio->scenario('dirty and pinned buffers', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 30);
			my $gone = join "\n", map { "block $_ has no row" } 20 .. 24;
			$aio->sql("DELETE FROM $t WHERE blk BETWEEN 20 AND 24");
			# two cursors stand on clean pages, one on a dirty one
			$bob->sql('BEGIN');
			$bob->sql("DECLARE c$_ CURSOR FOR SELECT blk FROM $t WHERE ctid = '($_,1)'; MOVE 1 FROM c$_") for 3, 9;
			$bob->sql("DECLARE c CURSOR FOR SELECT blk FROM $t WHERE blk >= 19; MOVE 1 FROM c");
			$alice->sql("SELECT count(*) FROM $t; DELETE FROM $t WHERE blk = 19");
			my ($all, $dirty, $pinned) = buffers_of($aio, $t);
			ok($all >= 30 && $dirty >= 5 && $pinned >= 3, "$all buffers, $dirty of them dirty, $pinned pinned");
			$alice->gives("SELECT * FROM pg_buffercache_evict_relation('$t')", join('|', $all - $pinned, $dirty, $pinned), 'evicted, flushed, skipped');
			is(join('|', buffers_of($aio, $t)), "$pinned|0|$pinned", 'what is pinned stays');
			$bob->gives('FETCH 1 FROM c', 25, 'the cursor goes on');
			$bob->sql('ROLLBACK');
			# the reads that the cursor has abandoned end, too
			$bob->sql("SELECT count(*) FROM $t");
			($all, $dirty, $pinned) = buffers_of($aio, $t);
			is($pinned, 0, 'nothing is pinned now');
			$alice->gives("SELECT * FROM pg_buffercache_evict_relation('$t')", "$all|$dirty|0", 'evicted, flushed, skipped');
			is((buffers_of($aio, $t))[0], 0, 'nothing is left');
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid = '(3,1)'; MOVE 1 FROM c");
			$alice->gives('SELECT buffers_skipped BETWEEN 1 AND 4, buffers_evicted > 0 FROM pg_buffercache_evict_all()', 't|t', 'pg_buffercache_evict_all() skips what is pinned');
			$bob->sql('ROLLBACK');
			$aio->proves($t, except => "block 19 has no row\n$gone");
		}, skip => $skip);

		$aio->scenario('superusers only', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 3);
			$alice->sql('BEGIN; CREATE ROLE clerk; GRANT USAGE ON SCHEMA scenario TO clerk; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO clerk; SET ROLE clerk');
			my %arguments = (evict_relation => "'$t'", evict => 1, mark_dirty_relation => "'$t'", mark_dirty => 1);
			for my $function (split /\n/, $aio->sql("SELECT proname FROM pg_proc WHERE proname ~ '^pg_buffercache_(evict|mark_dirty)'"))
			{
				my ($name) = $function =~ /^pg_buffercache_(.*)/;
				$alice->sql('SAVEPOINT s');
				$alice->fails("SELECT * FROM $function(${\($arguments{$name} // '')})", '42501', qr/must be superuser to use $function\(\)/, $function);
				$alice->sql('ROLLBACK TO s');
			}
			# no role is left
			$alice->sql('ROLLBACK');
		}, skip => $skip);

		# a buffer without a valid page cannot be evicted
		$aio->scenario('under a read', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 30);
			$aio->warm($t, 0 .. 2, 7 .. 29);
			my ($all) = buffers_of($aio, $t);
			$aio->hold(relation => $t);
			$alice->starts("SELECT sum(nblocks) FROM read_buffers('$t', 3, 4)");
			$alice->gets_to_wait(qr/^(?:AioIoCompletion|completion_wait)$/);
			$bob->gives("SELECT * FROM pg_buffercache_evict_relation('$t')", "$all|0|0", 'the others are evicted');
			# the view does not tell whose they are
			$bob->gives('SELECT count(*) FILTER (WHERE buffer_evicted), count(*) >= 4 FROM pg_buffercache b, pg_buffercache_evict(b.bufferid) WHERE relfilenode IS NULL', '0|t', 'these are not');
			$bob->sql('SELECT pg_buffercache_evict_all()');
			$aio->release;
			$alice->returns(4, 'the read ends');
			is($aio->cached($t), '3,4,5,6', 'its blocks are there');
			$aio->proves($t);
		}, skip => $skip // $aio->no_faults);

		$aio->scenario('marked as dirty', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 30);
			$aio->sql("DELETE FROM $t WHERE blk = 4; CHECKPOINT");
			$aio->evict($t);
			$alice->sql("SELECT count(*) FROM $t; CHECKPOINT; DELETE FROM $t WHERE blk = 5");
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid = '(3,1)'; MOVE 1 FROM c");
			my ($all, $dirty, $pinned) = buffers_of($aio, $t);
			is($pinned, 1, 'a clean buffer is pinned');
			$alice->gives("SELECT buffer_dirtied, buffer_already_dirty FROM pg_buffercache, pg_buffercache_mark_dirty(bufferid) WHERE relfilenode = pg_relation_filenode('$t') AND pinning_backends > 0", 'f|f', 'it is skipped');
			$alice->gives("SELECT * FROM pg_buffercache_mark_dirty_relation('$t')", join('|', $all - $dirty - 1, $dirty, 1), 'dirtied, dirty already, skipped');
			$bob->sql('COMMIT');
			$alice->sql("CHECKPOINT; DELETE FROM $t WHERE blk = 6");
			($all, $dirty) = buffers_of($aio, $t);
			$alice->gives("SELECT * FROM pg_buffercache_mark_dirty_relation('$t')", join('|', $all - $dirty, $dirty, 0), 'dirtied, dirty already, skipped');
			is(join('|', buffers_of($aio, $t)), "$all|$all|0", 'all are dirty');
			my $dirtied = sub { return split /\|/, $alice->sql('SELECT * FROM pg_buffercache_mark_dirty_all()') };
			$alice->sql('CHECKPOINT');
			my ($first) = $dirtied->();
			cmp_ok($first, '>=', $all, 'buffers of all tables');
			my @again = $dirtied->();
			ok($again[0] < 20 && $again[1] >= $first, 'the second time they are dirty already') || diag("$first, @again");
			is($again[2], 0, 'and none is skipped');
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $t WHERE ctid = '(3,1)'; MOVE 1 FROM c");
			$alice->sql('CHECKPOINT');
			my (undef, $already, $skipped) = $dirtied->();
			ok($skipped >= 1 && $already < 20, 'a pinned buffer is skipped') || diag("$already, $skipped");
			$bob->sql('COMMIT');
			$alice->sql('CHECKPOINT; SELECT count(*) FROM pg_buffercache_mark_dirty_all()');
			$alice->gives("SELECT * FROM pg_buffercache_evict_relation('$t')", "$all|$all|0", 'evicted, flushed, skipped');
			$aio->proves($t, except => join "\n", map { "block $_ has no row" } 4 .. 6);
		}, skip => $skip // ($aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_buffercache_mark_dirty_relation'") ? undef : 'pg_buffercache is older than 1.7'));

		# larger than the pool, and read without a ring
		$aio->scenario('from the first to the last buffer', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 2100);
			my $ends = "SELECT min(bufferid), max(bufferid) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$t')";
			my $fill = sub {
				# a catalog may have taken one of the two
				for (1 .. 9)
				{
					$alice->sql("SELECT pg_buffercache_evict_all(); SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 2099)))");
					last if $alice->sql($ends) eq '1|2048';
				}
				return is($alice->sql($ends), '1|2048', 'the table has the first and the last buffer');
			};
			$fill->();
			# the pool is full: a catalog may take one of the table's buffers at any time
			$alice->gives("SELECT buffers_evicted > 1500, buffers_flushed, buffers_skipped FROM pg_buffercache_evict_relation('$t')", 't|0|0', 'evicted, flushed, skipped');
			is((buffers_of($aio, $t))[0], 0, 'nothing is left');
			$fill->();
			$alice->sql('SELECT pg_buffercache_evict_all()');
			is((buffers_of($aio, $t))[0], 0, 'nothing is left when all are evicted');
		}, skip => $skip // ($aio->repeats ? 'the same with each io_method' : undef));

		$aio->scenario('what is refused', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 5, kind => 'TEMP', session => $alice);
			$alice->fails("SELECT pg_buffercache_evict_relation('$t')", '22023', qr/relation uses local buffers/, 'a temporary table');
			$alice->fails("SELECT pg_buffercache_evict($_)", 'XX000', qr/bad buffer ID: $_/, "buffer $_") for -1, 0, 2049;
			$aio->proves($t, session => $alice);
		}, skip => $skip);
	}, conf => { shared_buffers => '16MB' });
