# Recovery with a buffer pool that is smaller than the blocks that it works on: a buffer in which
# prefetch finds a block may hold another block when the record is replayed.
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

		for my $prefetch ('on', 'off')
		{
			$aio->scenario("recovery_prefetch = $prefetch", sub {
				my ($alice) = $aio->sessions('alice');
				# forty rows a page, and records that come to the pages at random
				my $t = 'scenario.s';
				$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 100);"
					  . "INSERT INTO $t SELECT i, rpad(i::text, 160, 'x') FROM generate_series(0, 2399) i; VACUUM (FREEZE) $t; CHECKPOINT");
				cmp_ok($aio->sql("SELECT pg_relation_size('$t') / 8192"), '>', 50, 'more pages than buffers');
				$alice->sql("DO \$\$ BEGIN FOR i IN 0 .. 1199 LOOP DELETE FROM $t WHERE ctid = (SELECT format('(%s,%s)', (i * 7919) % 53, i / 53 + 1)::tid); END LOOP; END \$\$");
				my $look = "SELECT count(*), sum(n), sum(hashtext(ctid::text || body)) FROM $t";
				my $expected = $aio->sql($look);
				$aio->sql("ALTER SYSTEM SET recovery_prefetch = $prefetch; ALTER SYSTEM SET shared_buffers = '256kB'; SELECT txid_current()");
				$aio->recovers;
				$aio->gives($look, $expected, 'the rows');
				my ($hits, $prefetched) = split /\|/, $aio->sql('SELECT hit, prefetch FROM pg_stat_recovery_prefetch');
				$prefetch eq 'on' ? ok($hits > 100 && $prefetched > 100, "prefetch finds $hits blocks and reads $prefetched") : is($hits + $prefetched, 0, 'no prefetch');
				$aio->gives("SELECT string_agg(msg, ',') FROM verify_heapam('$t')", '', 'amcheck finds nothing') if !$aio->lacks('amcheck');
				$aio->sql('ALTER SYSTEM RESET ALL');
				$aio->node->restart;
				$aio->observe;
			}, dies => 1);
		}

		# the file ends before the block now, so prefetch leaves the block out
		$aio->scenario('records of a block that has been cut off since', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = 'scenario.c';
			$aio->sql("CREATE TABLE $t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off, fillfactor = 100); INSERT INTO $t SELECT i, repeat('x', 160) FROM generate_series(0, 9999) i; VACUUM (FREEZE) $t");
			my $last = $aio->sql("SELECT pg_relation_size('$t') / 8192 - 2");
			$alice->sql("DELETE FROM $t WHERE ctid > '($last,65535)'; VACUUM (TRUNCATE on) $t; CHECKPOINT");
			$alice->sql("DO \$\$ BEGIN FOR i IN 1 .. 40 LOOP DELETE FROM $t WHERE ctid = format('($last,%s)', i)::tid; END LOOP; END \$\$; DELETE FROM $t WHERE ctid >= '($last,0)'; VACUUM (TRUNCATE on) $t");
			$aio->gives("SELECT pg_relation_size('$t') / 8192", $last, 'the block is cut off');
			my $expected = $aio->sql("SELECT count(*), sum(n) FROM $t");
			$alice->sql('SELECT txid_current()');
			$aio->recovers;
			$aio->gives("SELECT count(*), sum(n) FROM $t", $expected, 'the rows');
			my $new = $aio->sql('SELECT skip_new FROM pg_stat_recovery_prefetch');
			cmp_ok($new, '>=', 40, "skip_new: $new");
		}, dies => 1);
	}, conf => { shared_buffers => '16MB', full_page_writes => 'off', maintenance_io_concurrency => 32, max_connections => 10, autovacuum => 'off' });
