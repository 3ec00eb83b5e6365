# What goes into the buffer pool and out of it: pg_prewarm() with each mode, range and fork,
# autoprewarm, and pg_buffercache_evict() and its kin.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

sub blocks { my ($from, $to) = @_; return join ',', $from .. $to }

for_each_io_method(
	sub {
		my ($aio) = @_;
		return $aio->scenario('pg_prewarm', sub { }, skip => $aio->lacks('pg_prewarm') // $aio->lacks('pg_buffercache'))
		  if $aio->lacks('pg_prewarm') || $aio->lacks('pg_buffercache');

		$aio->scenario('ranges', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			my @cases = ([ 'NULL, NULL', 0, 59 ], [ '0, 0', 0, 0 ], [ '59, 59', 59, 59 ], [ '7, 40', 7, 40 ], [ '50, NULL', 50, 59 ], [ 'NULL, 3', 0, 3 ]);
			for my $mode ('buffer', 'read', 'prefetch')
			{
				for my $case (@cases)
				{
					my ($range, $first, $last) = @$case;
					my $count = $last - $first + 1;
					$aio->evict($t);
					# before 19, mode "read" counts in pg_stat_io as well
					my $io = $aio->io_during($alice, 'relation/normal', sub { $alice->gives("SELECT pg_prewarm('$t', '$mode', 'main', $range)", $count, "$mode: $range") });
					is($aio->cached($t), $mode eq 'buffer' ? blocks($first, $last) : '', 'blocks in the buffer pool');
					is($io =~ s{.*/}{}r, $count * 8192, 'bytes') if $mode eq 'buffer';
				}
				# all blocks are cached
				$alice->sql("SELECT count(*) FROM $t");
				is($aio->io_during($alice, 'relation/normal', sub { $alice->gives("SELECT pg_prewarm('$t', '$mode')", 60, "$mode: cached") }) =~ s{.*/}{}r, 0, 'nothing is read') if $mode eq 'buffer';
				$alice->fails("SELECT pg_prewarm('$t', '$mode', 'main', $_->[0])", '22023', $_->[1], "$mode: $_->[0]")
				  for [ '-1, 3', qr/starting block number must be between 0 and 59/ ], [ '60, NULL', qr/starting block number must be between 0 and 59/ ], [ '5, 60', qr/ending block number must be between 0 and 59/ ];
			}
			$alice->fails("SELECT pg_prewarm('$t', 'hot')", '22023', qr/invalid prewarm type/, 'no such mode');
			$aio->evict($t);
			$alice->gives("SELECT pg_prewarm('$t', 'buffer', 'vm')", 1, 'the visibility map');
			is($aio->cached($t), '', 'no block of the main fork');
			$aio->proves($t);
		});

		$aio->scenario('privileges', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql("CREATE INDEX t_i ON $t (blk); CREATE ROLE reader; GRANT USAGE ON SCHEMA scenario TO reader; GRANT EXECUTE ON FUNCTION pg_prewarm TO reader");
			$alice->sql('SET ROLE reader');
			$alice->fails("SELECT pg_prewarm('$_')", '42501', qr/permission denied for (?:table|index|relation)/, "without a privilege: $_") for $t, 'scenario.t_i';
			$aio->sql("GRANT SELECT ON $t TO reader");
			# 18.0 asks for a privilege on the index, of which there is none
			$alice->gives("SELECT pg_prewarm('$_') > 0", 't', "with SELECT on the table: $_") for $t, $aio->setting('server_version_num') < 180001 ? () : 'scenario.t_i';
			$alice->sql('RESET ROLE');
			$aio->sql('DROP OWNED BY reader; DROP ROLE reader');
		});

		$aio->scenario('pg_prewarm of a bad block', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 40);
			$aio->sql("SELECT modify_rel_block('$t', 20, corrupt_header => true)");
			$alice->fails("SELECT pg_prewarm('$t', 'buffer', 'main', 10, 30)", 'XX001', qr/invalid page in block 20 of relation/, 'buffer');
			$alice->gives("SELECT pg_prewarm('$t', 'read', 'main', 10, 30)", 21, 'read does not look at pages');
			$alice->gives("SELECT pg_prewarm('$t', 'buffer', 'main', 21, 39)", 19, 'buffer, behind the bad block');
			is(join(',', grep { $_ > 20 } split /,/, $aio->cached($t)), blocks(21, 39), 'the blocks behind it are cached');
		}, log => qr/LOG:  invalid page in block 20 of relation/);

		$aio->scenario('pg_buffercache_evict and its kin', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my ($t, $u) = map { $aio->table($_, 30) } qw(t u);
			$alice->sql("SELECT count(*) FROM $_") for $t, $u;
			my $of = sub { my ($table, $block) = @_; return "(SELECT bufferid FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0 AND relblocknumber = $block)" };
			$alice->gives("SELECT buffer_evicted, buffer_flushed FROM pg_buffercache_evict(${\$of->($t, 7)})", 't|f', 'one buffer is evicted');
			is($aio->cached($t), join(',', grep { $_ != 7 } 0 .. 29), 'the others stay');
			$alice->sql("DELETE FROM $u WHERE blk = 9");
			$alice->gives("SELECT buffer_evicted, buffer_flushed FROM pg_buffercache_evict(${\$of->($u, 9)})", 't|t', 'a dirty buffer is written and evicted');
			$aio->gives("SELECT count(*) FROM $u WHERE ctid >= '(9,0)' AND ctid < '(10,0)'", 0, 'the block is read as it was written');
			$bob->sql("BEGIN; DECLARE c CURSOR FOR SELECT blk FROM $u; MOVE 3 FROM c");
			$alice->gives("SELECT buffer_evicted, buffer_flushed FROM pg_buffercache_evict(${\$of->($u, 2)})", 'f|f', 'a pinned buffer stays');
			my ($evicted, $flushed, $skipped) = split /\|/, $alice->sql("SELECT * FROM pg_buffercache_evict_relation('$u')");
			cmp_ok($skipped, '>=', 1, 'pg_buffercache_evict_relation() skips pinned buffers');
			cmp_ok($skipped, '<=', 4, 'it skips few buffers');
			cmp_ok($evicted + $skipped, '>=', 30, 'it counts every buffer');
			$bob->gives('FETCH 1 FROM c', 3, 'the cursor goes on');
			$bob->sql('ROLLBACK');
			my $cached = () = split /,/, $aio->cached($t);
			$alice->gives("SELECT buffers_evicted >= $cached, buffers_skipped FROM pg_buffercache_evict_relation('$t')", 't|0', 'it evicts all cached blocks');
			is($aio->cached($t), '', 'no block of the table is cached');
			$aio->proves($t);
			$alice->sql("SELECT count(*) FROM $_; DELETE FROM $u WHERE blk = 10") for $t, $u;
			($evicted, $flushed, $skipped) = split /\|/, $alice->sql('SELECT * FROM pg_buffercache_evict_all()');
			cmp_ok($evicted, '>=', 60, 'pg_buffercache_evict_all() evicts');
			cmp_ok($flushed, '>=', 1, 'it writes dirty buffers');
			is($aio->cached($t) . $aio->cached($u), '', 'no block of the tables is cached');
			$aio->proves($t);
			$aio->proves($u, except => "block 9 has no row\nblock 10 has no row");
			$alice->fails('SELECT pg_buffercache_evict(0)', 'XX000', qr/bad buffer ID: 0/, 'no such buffer');
		}, skip => $aio->sql("SELECT count(*) FROM pg_proc WHERE proname IN ('pg_buffercache_evict_all', 'pg_buffercache_evict_relation')") == 2 ? undef : 'pg_buffercache is older than 1.6');

		# loads the blocks that a file lists, after a restart
		$aio->scenario('autoprewarm', sub {
			# the dump is sorted by file; tables that are made later have higher numbers
			my ($first, $t, $u, $last) = map { $aio->table(@$_) } [ 'first', 10 ], [ 't', 50 ], [ 'u', 30 ], [ 'last', 20 ];
			$aio->sql("SELECT pg_prewarm('$t', 'buffer', 'main', 5, 44)");
			$aio->sql("SELECT pg_prewarm('$_', 'buffer')") for $first, $u, $last;
			$aio->gives('SELECT autoprewarm_dump_now() > 90', 't', 'the dump has more than 90 blocks');
			my $file = $aio->node->data_dir . '/autoprewarm.blocks';
			ok(-s $file, 'it is in a file');
			# one of the tables becomes shorter, and the first and the last one are dropped
			$aio->sql("DELETE FROM $u WHERE blk >= 10; VACUUM (TRUNCATE on) $u; DROP TABLE $first, $last");
			open my $fh, '<', $file or die "$file: $!";
			my @dump = <$fh>;
			close $fh;
			# the shutdown writes a new dump; the test puts the old one back
			ok($aio->stop, 'the server stops');
			open $fh, '>', $file or die "$file: $!";
			print $fh @dump or die "$file: $!";
			close $fh or die "$file: $!";
			$aio->start_again;
			$aio->poll(sub { $aio->log_text =~ /autoprewarm successfully prewarmed (\d+) of (\d+) previously-loaded blocks/ }) or fail('autoprewarm ends');
			my ($loaded, $known) = $aio->log_text =~ /autoprewarm successfully prewarmed (\d+) of (\d+) previously-loaded blocks/;
			cmp_ok($loaded, '>=', 50, "autoprewarm loads $loaded of $known blocks");
			cmp_ok($loaded, '<=', $known - 50, 'without blocks that no longer exist');
			is($aio->cached($t), blocks(5, 44), 'the blocks of the dump, and no others');
			is($aio->cached($u), blocks(0, 9), 'the blocks that the shorter table still has');
			$aio->proves($t);
		});
	}, conf => { shared_preload_libraries => 'test_aio, pg_prewarm', 'pg_prewarm.autoprewarm_interval' => '0' });
