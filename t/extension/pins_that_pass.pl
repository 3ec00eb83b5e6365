# Eviction waits half a second for pins of other sessions, then reports the block as in
# use.
#
# io_methods: worker
use FindBin; use lib "$FindBin::RealBin/..";
use TestAio;

my %calls = (
	'evict_rel' => "SELECT evict_rel('%s')",
	'invalidate_rel_block' => "SELECT invalidate_rel_block('%s', 0)",
	'read_rel_block_ll' => "SELECT read_rel_block_ll('%s', 0)",
);

# Bob makes the call while Alice has the block pinned.  She unpins it as soon as he waits.
# His call waits half a second, and she may be slower.
sub waits_for_pin
{
	my ($aio, $call, $t) = @_;
	my ($alice, $bob) = $aio->sessions(qw(alice bob));
	for (1 .. 9)
	{
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT ctid FROM $t; FETCH c");
		$bob->starts(sprintf $call, $t);
		$bob->waits_on('PgSleep');
		$alice->sql('COMMIT');
		$bob->wait_for_end;
		return 1 if !$bob->error && !$bob->unexpected_warnings;
		$bob->forget_warnings;
	}
	return 0;
}

for_each_io_method(sub {
	for my $name (sort keys %calls)
	{
		$aio->scenario("$name, a pin that passes", sub {
			my $t = $aio->table('t', 4);
			ok(waits_for_pin($aio, $calls{$name}, $t), 'gets the block');
			$aio->evict($t);
		});
	}

	$aio->scenario('a pin that stays', sub {
		my ($alice, $bob, $t) = $aio->sessions_and_table('alice bob', 4);
		$alice->sql("BEGIN; DECLARE c CURSOR FOR SELECT ctid FROM $t; FETCH c");
		$bob->sql("SELECT evict_rel('$t')");
		$bob->warns(qr/blocks? of relation "t" (?:is|are) pinned and stay/);
		$alice->fails("SELECT modify_rel_block('$t', 0)", '55006', qr/block 0 of relation "t" is in use/, 'is in use, even if by the same session');
		$alice->sql('ROLLBACK');
	}, leaves => 'COMPLETED_SHARED');
}, leaves => 'nothing');
