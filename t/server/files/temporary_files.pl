# Temporary files: those of a cursor that outlives its transaction, and those that a start finds and
# removes.
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

		$aio->scenario('a cursor WITH HOLD', sub {
			my ($alice) = $aio->sessions('alice');
			my $files = sub { return $aio->sql('SELECT count(*) FROM pg_ls_tmpdir()') };
			$alice->sql("SET work_mem = '64kB'; BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20000); COMMIT");
			is($files->(), 1, 'has a file');
			# the sort does not fit into work_mem; the end of its transaction removes no files but its own
			my $sort = sub { $alice->gives('SELECT count(*) FROM (SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC OFFSET 1) s', 19999, 'a sort') };
			is($aio->change_during("SELECT temp_files FROM pg_stat_database WHERE datname = 'postgres'", $sort, $alice), 2, 'has two: rows of the function, and the sort');
			is($files->(), 1, 'the file stays, those of the sort go');
			$alice->sql('MOVE FORWARD 14999 IN c');
			$alice->gives('FETCH c', 15000, 'the rows are there');
			$alice->sql('CLOSE c');
			is($files->(), 0, 'the file goes with the cursor');
			$alice->sql('BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20000); COMMIT');
			is($files->(), 1, 'another one');
			$aio->end_session($alice);
			is($files->(), 0, 'goes with the session');
		});

		# a start knows temporary files of relations and of the executor by their names
		$aio->scenario('a start removes temporary files', sub {
			my $base = $aio->node->data_dir . '/base';
			my $database = $aio->sql('SELECT oid FROM pg_database WHERE datname = current_database()');
			my @removed = (map({ "$database/$_" } qw(t3_99999 t3_99999.1 t3_99999.12 t3_99999_fsm t3_99999_vm.1)), 'pgsql_tmp/pgsql_tmp1.0');
			my @kept = map { "$database/$_" } qw(99999 t3_ t3_99999. t3_99999_other t3x_99999 t3_99999.1x);
			mkdir "$base/pgsql_tmp";
			ok($aio->stop, 'the server stops');
			PostgreSQL::Test::Utils::append_to_file("$base/$_", 'x') for @removed, @kept;
			$aio->start_again;
			is(join(' ', grep { -e "$base/$_" } @removed), '', 'removes files of temporary relations, segments and forks, too');
			is(join(' ', grep { !-e "$base/$_" } @kept), '', 'and no others');
			unlink map { "$base/$_" } @kept;
		});
	});
