# Held reads of relations that are dropped, truncated, vacuumed and moved, and of others:
# statements that need the held blocks wait, all others do not, and the data is right
# afterwards.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# hold, statement whose read is held, statement of another session
		my %ddl = (
			'DROP TABLE' => ['DROP TABLE %s', 0],
			'TRUNCATE' => ['TRUNCATE %s', 0],
			'VACUUM' => ['VACUUM (TRUNCATE off) %s', 1],
			'ALTER TABLE SET TABLESPACE' => ["SET allow_in_place_tablespaces = on; CREATE TABLESPACE s153 LOCATION ''; ALTER TABLE %s SET TABLESPACE s153; ALTER TABLE %1\$s SET TABLESPACE pg_default; DROP TABLESPACE s153", 1],
		);
		for my $what (sort keys %ddl)
		{
			my ($sql, $stays) = @{ $ddl{$what} };
			$aio->scenario("$what of a relation with a held read", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 20);
				my $node = $aio->sql("SELECT pg_relation_filenode('$t')");
				$aio->sql("SELECT io_hold('$t', 3)");
				# the reader moves on and gives up its lock
				$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
				$aio->gate_holds(1);
				$bob->starts(sprintf $sql, $t);
				$bob->waits_on('IoGateHeld', 'waits for the read') if $what ne 'ALTER TABLE SET TABLESPACE';
				$aio->gate_release;
				$bob->returns(qr/^$/, 'and goes on');
				$aio->proves($t) if $stays;
			  SKIP: {
					skip $aio->lacks('pg_buffercache'), 1 if $aio->lacks('pg_buffercache');
					$aio->gives("SELECT count(*) FROM pg_buffercache WHERE relfilenode = $node", 0, 'none of its blocks is left') if !$stays;
				}
			});
		}

		$aio->scenario('a DROP TABLE that is cancelled while it cannot be', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 20);
			$aio->sql("SELECT io_hold('$t', 3)");
			$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)");
			$bob->starts("DROP TABLE $t");
			$bob->waits_on('IoGateHeld');
			$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
			$bob->wait_for_end;
			$aio->gate_holds(0, 'performs the read itself, to get on');
			$aio->end_gate;
		});

		$aio->scenario('DROP DATABASE of another database', sub {
			$aio->sql('CREATE DATABASE other153 TEMPLATE postgres');
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql("SELECT io_hold('$t', 3)");
			$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
			$aio->gate_holds(1);
			$aio->gives('DROP DATABASE other153', '', 'is dropped meanwhile');
			$aio->gives('CHECKPOINT', '', 'and so is a checkpoint');
			$aio->gate_release;
			$alice->returns('', 'reads');
			$aio->proves($t);
		}, leaves => 'nothing');
	}, needs => 'gate');
