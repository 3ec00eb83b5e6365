# autoprewarm after a restart: each fork gets its own blocks, of unlogged tables, too, and so does
# each database.  It loads no more blocks than there are buffers.  A dump that fails can be made again.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('forks', sub {
			my ($t, $u, $v) = ($aio->table('t', 50), $aio->table('u', 50), $aio->table('v', 30, kind => 'UNLOGGED'));
			# the cached blocks of the maps have other numbers than those of the main fork
			$aio->sql("SELECT pg_prewarm('$t', 'buffer', 'main', 10, 39), pg_prewarm('$t', 'buffer', 'vm'), pg_prewarm('$t', 'buffer', 'fsm'), pg_prewarm('$u', 'buffer', 'main', 20, 20), pg_prewarm('$u', 'buffer', 'vm'), pg_prewarm('$v', 'buffer', 'main', 7, 8)");
			my $there = sub {
				return $aio->sql(join ' UNION ALL ', map { "SELECT '$_ ' || fork || ' ' || string_agg(blockno::text, ',' ORDER BY blockno) FROM buffers_in_file(pg_relation_filenode('$_')) GROUP BY fork" } $t, $u, $v);
			};
			my $before = join "\n", sort split /\n/, $there->();
			like($before, qr/^\Q$t\E fsm 0,1,2\n\Q$t\E main 10,11,.*,39\n\Q$t\E vm 0\n\Q$u\E main 20\n\Q$u\E vm 0\n\Q$v\E main 7,8$/, 'before the restart');
			ok($aio->stop, 'the server stops');
			$aio->start_again;
			$aio->poll(sub { $aio->log_text =~ /autoprewarm successfully prewarmed \d+ of \d+ previously-loaded blocks/ }) or fail('autoprewarm ends');
			is(join("\n", sort split /\n/, $there->()), $before, 'after the restart, the same blocks of each fork');
			$aio->proves($_) for $t, $u, $v;
		}, skip => $aio->lacks('pg_prewarm'));

		$aio->scenario('a dump that cannot be written', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			$aio->warm($t);
			my $file = $aio->node->data_dir . '/autoprewarm.blocks.tmp';
			mkdir $file or die "cannot make $file: $!\n";
			$alice->fails('SELECT autoprewarm_dump_now()', '42809', qr/could not open file "autoprewarm.blocks.tmp": Is a directory/, 'fails');
			rmdir $file or die "cannot remove $file: $!\n";
			$alice->gives('SELECT autoprewarm_dump_now() >= 10', 't', 'and can be written again');
			$aio->proves($t);
		}, skip => $aio->lacks('pg_prewarm'));

		# one worker after the other loads the blocks of a database
		$aio->scenario('databases', sub {
			my $t = $aio->table('t', 30);
			$aio->sql('CREATE DATABASE other TEMPLATE postgres');
			my $bob = $aio->session('bob', dbname => 'other');
			$bob->sql("SELECT evict_rel('$t'), pg_prewarm('$t', 'buffer', 'main', 3, 9)");
			$aio->sql("SELECT evict_rel('$t'), pg_prewarm('$t', 'buffer', 'main', 20, 25)");
			# the copy has the same numbers of files
			my $there = "SELECT string_agg(datname || ': ' || blocks, '; ' ORDER BY datname) FROM (SELECT datname, string_agg(relblocknumber::text, ',' ORDER BY relblocknumber) AS blocks"
			  . " FROM pg_buffercache JOIN pg_database d ON d.oid = reldatabase WHERE relfilenode = pg_relation_filenode('$t') AND relforknumber = 0 GROUP BY 1) b";
			my $before = 'other: 3,4,5,6,7,8,9; postgres: 20,21,22,23,24,25';
			$aio->gives($there, $before, 'before the restart');
			$aio->end_session($bob);
			ok($aio->stop, 'the server stops');
			$aio->start_again;
			$aio->poll(sub { $aio->log_text =~ /autoprewarm successfully prewarmed \d+ of \d+ previously-loaded blocks/ }) or fail('autoprewarm ends');
			$aio->gives($there, $before, 'after it, the same blocks in each');
			$aio->proves($t);
		}, skip => $aio->lacks('pg_prewarm') // $aio->lacks('pg_buffercache'));

		# the last scenario: it leaves the pool small
		$aio->scenario('a smaller pool', sub {
			my $t = $aio->table('t', 1500);
			$aio->sql("SELECT pg_prewarm('$t')");
			ok($aio->stop, 'the server stops');
			$aio->node->append_conf('postgresql.conf', "shared_buffers = '8MB'\n");
			$aio->start_again;
			$aio->poll(sub { $aio->log_text =~ /autoprewarm successfully prewarmed \d+ of \d+ previously-loaded blocks/ }) or fail('autoprewarm ends');
			my ($loaded, $wanted) = $aio->log_text =~ /successfully prewarmed (\d+) of (\d+) previously-loaded/;
			is($wanted, 1024, 'it wants to load as many blocks as there are buffers');
			cmp_ok($loaded, '<=', 1024, 'and loads no more');
			$aio->proves($t);
		}, skip => $aio->lacks('pg_prewarm') // ($aio->major < 19 ? 'autoprewarm heeds the size of the pool since 19' : undef));
	}, conf => { shared_buffers => '16MB', shared_preload_libraries => 'test_aio, pg_prewarm', 'pg_prewarm.autoprewarm_interval' => '0' });
