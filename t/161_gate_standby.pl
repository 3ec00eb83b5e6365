# Held reads on a standby: sessions wait, replay does not, except for what needs the
# very blocks that are held; and then the longest hold or shutdown ends it.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->node->backup('b');
		my $standby = TestAio::Server->of_backup($aio, 'b');

		# A table that is on both, and read on neither
		my $table = sub {
			my $t = $aio->table('t', 40);
			$aio->replayed_by($standby);
			$standby->evict($t);
			return $t;
		};

		$aio->scenario('sessions wait, replay does not', sub {
			my $t = $table->();
			my ($controller, $issuer, $waiter) = $standby->held_read($t);
			$aio->sql("UPDATE $t SET gen = 1, body = proof(rel, blk, 1) WHERE blk >= 20");
			$aio->replayed_by($standby);
			$standby->gives('SELECT io_hold_end(), io_release_all()', '1|1', 'all is replayed, and the read is still held');
			$issuer->returns('', 'reads');
			$waiter->returns('1', 'gets it');
			$standby->evict($t);
			$standby->gives("SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, gen)), sum(gen) FROM $t", '40|40|20', 'what was replayed');
		});

		for my $end ('the longest hold', 'a release', 'fast shutdown')
		{
			$aio->scenario("replay of DROP TABLE, until $end", sub {
				my $t = $table->();
				my ($issuer) = $standby->sessions('issuer');
				$standby->sql("SET test_aio.longest_hold = '" . ($end =~ /longest/ ? '500ms' : '1min') . "'");
				$standby->sql("SELECT io_hold('$t', max_reads => 1)");
				$issuer->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
				$aio->sql("DROP TABLE $t");
				my $replays = "SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'startup'";
				$standby->wait_for("SELECT ($replays) = 'IoGateHeld'") if $end !~ /longest/;
				$standby->sql('SELECT io_release_all()') if $end eq 'a release';
				if ($end eq 'fast shutdown')
				{
					ok($standby->stop, 'stops');
					$standby->launch->wait_until_ready;
					$standby->observe;
				}
				$aio->replayed_by($standby);
				$standby->gives("SELECT to_regclass('$t') IS NULL", 't', 'goes on');
				$standby->sql('SELECT io_hold_end()');
			});
		}

		ok($standby->stop, "${\$aio->method}: clean shutdown of the standby");
		$standby->check_log([qr/FATAL: .*terminating (?:connection|walreceiver)/]);
	},
	streaming => 1, conf => { 'test_aio.reach_synchronous_reads' => 'on' });
