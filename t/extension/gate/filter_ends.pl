# Filters that end while a read is staged and not yet submitted: they do not affect the read.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Alice stages a read of block 3; then the filter ends, and she submits it.
sub staged_meanwhile
{
	my ($aio, $alice, $t, $end) = @_;
	# opens the relation, so that the batch reads no catalogs
	$aio->evict($t, $alice);
	$alice->starts($aio->batch("SELECT read_rel_block_ll('$t', 3, wait_complete => false)", $aio->pause));
	$alice->waits_on('advisory');
	$end->();
	$aio->resume;
	$alice->ends('submits the staged read');
	return $alice;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my %filters = (
			'io_hold' => ["io_hold('%s')", 'io_hold_end()'],
			'io_fail' => ["io_fail('%s', -5)", 'io_fail_end()'],
			'inj_io_completion_wait' => ["inj_io_completion_wait(relfilenode => pg_relation_filenode('%s'))", 'inj_io_completion_continue()'],
			'inj_io_short_read_attach' => ["inj_io_short_read_attach(-5, relfilenode => pg_relation_filenode('%s'))", 'inj_io_short_read_detach()'],
			'inj_io_reopen_attach' => ['inj_io_reopen_attach()', 'inj_io_reopen_detach()'],
		);
		for my $filter (sort keys %filters)
		{
			my ($begin, $end) = @{ $filters{$filter} };
			my $skip = $filter =~ /^inj/ ? $aio->no_faults : undef;
			$skip //= 'files are reopened with io_method=worker only' if $filter =~ /reopen/ && $aio->method ne 'worker';
			$skip //= 'with io_method=sync, reads are staged only if the gate captures them'
			  if $filter =~ /^inj/ && $aio->method eq 'sync' && !$aio->no_injection_points;
			$aio->scenario($filter, sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				$aio->sql('SELECT ' . ($begin =~ /%s/ ? sprintf($begin, $t) : $begin));
				staged_meanwhile($aio, $alice, $t, sub { $aio->sql("SELECT $end") });
				$aio->gives('SELECT count(*) FROM io_held', 0, 'nothing is held');
				# waits until the read has ended
				$alice->gives("SELECT evict_rel('$t')", '', 'the read has ended');
				$aio->logs(qr/held for too long|could not read/, 0, 'no complaint is logged');
				$aio->proves($t);
			}, skip => $skip);
		}

		$aio->scenario('a session that exits while another has staged a read that it would hold', sub {
			my ($controller, $alice) = $aio->sessions(qw(controller alice));
			my $t = $aio->table('t', 20);
			$controller->sql("SELECT io_hold('$t')");
			staged_meanwhile($aio, $alice, $t, sub { $aio->end_session($controller) });
			$aio->gives('SELECT count(*) FROM io_held', 0, 'nothing is held');
			$aio->proves($t);
		});
	}, needs => 'gate');
