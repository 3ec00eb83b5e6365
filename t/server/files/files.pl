# Files that are closed, dropped, truncated or moved while they are read, for which io_uring
# must wait (pgaio_closing_fd); backends that come and go.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $start = sub { my ($t, $b, $n) = @_; return "SELECT read_rel_block_ll('$t', $b, nblocks => $n, wait_complete => false)" };

		$aio->scenario('closed by the reader', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, wait_complete => false, smgrreleaseall => true) FROM generate_series(0, 38, 2) b");
			$alice->sql("SELECT read_rel_block_ll('$t', b, nblocks => 2, smgrreleaseall => true) FROM generate_series(40, 58, 2) b");
			is($aio->cached($t), join(',', 0 .. 59), 'all is read') if $aio->method ne 'worker';
			$aio->proves($t);
		});

		for my $case (
			[ 'DROP TABLE', 'DROP TABLE %s', 0 ],
			[ 'TRUNCATE', 'TRUNCATE %s', 1 ],
			[ 'VACUUM FULL', 'VACUUM FULL %s', 1 ],
			[ 'DROP TABLE undone', 'BEGIN; DROP TABLE %s; ROLLBACK', 1 ],
			[ 'SET TABLESPACE', 'ALTER TABLE %s SET TABLESPACE elsewhere', 1 ])
		{
			my ($what, $sql, $stays) = @$case;
			for my $who ('itself', 'another')
			{
				$aio->scenario("$what, by $who", sub {
					my ($alice, $bob) = $aio->sessions(qw(alice bob));
					my ($t, $u) = ($aio->table('t', 30), $aio->table('u', 10));
					$alice->sql($start->($t, 0, 16));
					$alice->sql($start->($u, 0, 4));
					($who eq 'itself' ? $alice : $bob)->sql($_) for split /; /, sprintf $sql, $t;
					# uses files and buffers again
					my $v = $aio->table('v', 60, gen => 1);
					$aio->proves($v, gen => 1);
					$aio->proves($u);
					$aio->proves($t) if $stays && $what ne 'TRUNCATE';
					$alice->gives("SELECT sum(nblocks) FROM read_buffers('$u', 0, 10)", 10, 'goes on');
					$aio->sql("DROP TABLE $t") if $what eq 'SET TABLESPACE';
				});
			}
		}

		$aio->scenario('DROP DATABASE', sub {
			my ($alice) = $aio->sessions('alice');
			my $carol = $aio->session('carol', dbname => 'gone');
			$carol->sql('CREATE EXTENSION IF NOT EXISTS test_aio');
			$carol->sql("CREATE TABLE g (i int); SELECT grow_rel('g', 40); SELECT evict_rel('g')");
			$carol->sql($start->('g', 0, 16));
			my $t = $aio->table('t', 30);
			$alice->sql($start->($t, 0, 16));
			$aio->end_session($carol);
			$aio->sql('DROP DATABASE gone');
			$aio->proves($t);
		});

		# more backends than processors, at once and one after another
		$aio->scenario('backends come and go', sub {
			my $t = $aio->table('t', 60);
			for my $round (1 .. 3)
			{
				my @all = $aio->sessions(map { "s$round$_" } 1 .. 6);
				my $i = 0;
				$_->starts("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7 + " . $i++ . ') % 60 FROM generate_series(0, 119) i))') for @all;
				$_->returns(120, 'reads') for @all;
				$all[0]->sql($start->($t, 20, 4)) if $round < 3;
				$aio->end_session($_) for @all;
				$aio->evict($t);
			}
			$aio->proves($t);
		}, leaves => 'nothing');
	}, prepare => sub {
		my ($aio) = @_;
		$aio->make_tablespace;
		$aio->sql('CREATE DATABASE gone TEMPLATE postgres STRATEGY file_copy');
	});
