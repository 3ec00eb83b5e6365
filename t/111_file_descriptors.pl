# Fewer file descriptors than files: the one that is closed to make room may belong
# to a read that is staged or under way (pgaio_closing_fd in LruDelete).
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('more tables than descriptors', sub {
			my ($alice) = $aio->sessions('alice');
			my $n = 80;
			my @tables = map { $aio->table("t$_", 3) } 1 .. $n;
			# the session knows them all, and has opened each file
			$alice->sql(join ';', map { "SELECT evict_rel('$_')" } @tables);
			for my $round (1 .. 2)
			{
				# staged first, then the other files are opened, and nothing is waited for
				my $first = $round * 7;
				my @others = @tables[ $first + 10 .. $#tables ];
				$alice->starts(join ' UNION ALL ', 'SELECT batch_start()',
					(map { "SELECT read_rel_block_ll('$tables[$_]', 1, nblocks => 2, wait_complete => false)" } $first .. $first + 9),
					(map { "SELECT invalidate_rel_block('$_', 2)" } @others),
					'SELECT batch_end()');
				$alice->ends;
				$alice->sql("SELECT read_rel_block_ll('$_', 0, wait_complete => false)") for @tables;
				$aio->proves($_) for @tables[ $first .. $first + 9 ];
				$alice->sql(join ';', map { "SELECT evict_rel('$_')" } @tables);
			}
			$aio->proves($_) for @tables[ 0, 40, 79 ];
		}, leaves => 'COMPLETED_SHARED');
	}, conf => { max_files_per_process => 64, io_max_concurrency => 64, shared_buffers => '16MB', max_connections => 10 });
