# inj_io_completion_wait() holds nobody for ever, whatever provides it: the longest
# hold ends it, and so does shutdown.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('the longest hold', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$bob->sql("SET test_aio.longest_hold = '200ms'; SELECT inj_io_completion_wait(relfilenode => pg_relation_filenode('$t'))");
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
			$alice->returns('', 'reads at last');
			$aio->logs(qr/WARNING:  read of blocks 3\.\.6 .* was held for too long/, 1, 'which is logged');
			$bob->sql('SELECT inj_io_completion_continue()');
			$alice->wait_for_end->{warnings} = [];
			$aio->proves($t);
		}, skip => $aio->no_faults);

		$aio->scenario('fast shutdown', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->hold(relation => $t);
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
			$aio->holds(1);
			ok($aio->node->stop('fast', fail_ok => 1), 'stops');
			$aio->{holding} = 0;
			$aio->node->start;
			$aio->observe;
			$alice->wait_for_end->{warnings} = [];
			$aio->proves($t);
		}, dies => 1, log => qr/terminating connection/, skip => $aio->no_faults);
	});
