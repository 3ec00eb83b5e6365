# The life of an AIO handle: acquired, used, released, and used again with the next
# generation (pgaio_io_acquire, pgaio_io_release, pgaio_io_reclaim).  sql/handles.sql tests
# leaks at each kind of transaction end.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

my $row = "SELECT concat_ws('|', state, operation, off::text, length::text, target, handle_data_len::text, raw_result::text,"
  . ' result, target_desc, f_sync::text, f_localmem::text, f_buffered::text) FROM pg_aios WHERE pid = pg_backend_pid()';
my $number = "SELECT io_id || '|' || io_generation FROM pg_aios WHERE pid = pg_backend_pid()";

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a handle that is not used yet', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			$alice->gives("SELECT handle_get()::text UNION ALL $row UNION ALL SELECT handle_release_last()::text",
				"\nHANDED_OUT\n", 'its other columns are empty');
			$alice->gives("SELECT count(*) FROM pg_aios", 0, 'and its handle is free again');
			my ($hers) = $alice->sql("SELECT handle_get()::text UNION ALL $number UNION ALL SELECT handle_release_last()::text") =~ /(\d+)\|/;
			my ($his) = $bob->sql("SELECT handle_get()::text UNION ALL $number UNION ALL SELECT handle_release_last()::text") =~ /(\d+)\|/;
			isnt($hers, $his, 'each session has a handle of its own');
			my $max = $aio->setting('io_max_concurrency');
			isnt(int($hers / $max), int($his / $max), 'from a range of the session');
		});

		$aio->scenario('the same handle in the next generation', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			my @ends = (
				[ 'released' => 'SELECT handle_release_last()::text' ],
				[ 'released later' => "SELECT handle_release_last()::text" ],
				[ 'leaked' => "SELECT ''" ]);
			my ($id, $generation);
			for my $end (@ends)
			{
				my ($how, $sql) = @$end;
				$alice->sql("SELECT handle_get()::text UNION ALL $number UNION ALL $sql") =~ /(\d+)\|(\d+)/;
				is("$1 $2", "$id " . ($generation + 1), "$how: the same, one generation on") if defined $id;
				($id, $generation) = ($1, $2);
			}
			$alice->warns(qr/leaked AIO handle/);
			$alice->fails('SELECT handle_get_and_error()', 'XX000', qr/as you command/);
			$alice->fails('SELECT handle_get_twice()', 'XX000', qr/API violation: Only one IO can be handed out/);
			$alice->sql("SELECT read_rel_block_ll('$t', $_)") for 0 .. 3;
			$alice->sql("SELECT handle_get()::text UNION ALL $number UNION ALL SELECT handle_release_last()::text") =~ /(\d+)\|(\d+)/;
			is("$1 $2", "$id " . ($generation + 7), 'one generation on for each use');
			$aio->proves($t);
		}, log => qr/WARNING:  leaked AIO handle/);

		$aio->scenario('a leak does not stick', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			for (1 .. 70)
			{
				$alice->sql('SELECT handle_get()');
				$alice->warns(qr/WARNING:  01000: leaked AIO handle/);
			}
			$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[0, 3])", 2, 'reads');
			$alice->sql("BEGIN; SAVEPOINT a; SELECT handle_get_release(); ROLLBACK TO a; COMMIT");
		}, log => qr/WARNING:  leaked AIO handle/);

		$aio->scenario('released by a session that has none', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			$alice->fails('SELECT handle_release_last()', '55000', qr/no handle/);
			$alice->sql('SELECT handle_get()');
			$alice->warns(qr/leaked AIO handle/);
			$bob->fails('SELECT handle_release_last()', '55000', qr/no handle/);
			$alice->fails('SELECT handle_release_last()', 'XX000', qr/release in unexpected state/);
			$alice->gives('SELECT handle_get() UNION ALL SELECT handle_release_last()', "\n", 'and can go on');
		}, log => qr/WARNING:  leaked AIO handle/);

		$aio->scenario('exit with a handle', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('BEGIN');
			$alice->starts('SELECT handle_get(), pg_terminate_backend(pg_backend_pid())');
			$alice->raises('57P01', qr/terminating connection/, 'is terminated');
		}, log => $aio->terminated('alice'));
	},
	# the only handle of a session is always the same
	leaves => 'nothing', conf => { io_max_concurrency => 1 });
