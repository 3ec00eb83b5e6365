# Pages that may be made anew, those of the free space and visibility maps, are read
# with RBM_ZERO_ON_ERROR: a bad one is zeroed with a warning, whatever the settings.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Writes rubbish into the first page of a fork.
sub break_fork
{
	my ($aio, $t, $fork) = @_;
	my $file = $aio->node->data_dir . '/' . $aio->sql("SELECT pg_relation_filepath('$t')") . "_$fork";
	open my $fh, '+<', $file or die "$file: $!";
	binmode $fh;
	seek $fh, 100, 0;
	print $fh 'broken';
	close $fh;
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $fork (qw(vm fsm))
		{
			$aio->scenario("a bad page of the $fork", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 40);
				$aio->evict($t);
				break_fork($aio, $t, $fork);
				my $before = $aio->checksum_failures('postgres');
				$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t; INSERT INTO $t VALUES ('$t', 40, 0, proof('$t', 40, 0))");
				$alice->warns(qr/XX001: invalid page in block 0 of relation "base\/\d+\/\d+_$fork"; zeroing out page/);
				$alice->sql('SELECT pg_stat_force_next_flush()');
				is($aio->checksum_failures('postgres') - $before, 1, 'counted once');
				$aio->proves($t);
				$aio->evict($t);
				$alice->sql("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off) $t");
				$aio->proves($t);
			}, log => [ qr/invalid page/, qr/page verification failed/, qr/zeroing/ ]);
		}
	});
