# The cost delay of VACUUM.  VACUUM charges for each page that it finds, reads or makes dirty, as
# often as the server counts the page, and sleeps once the charges have reached the limit.  With all
# charges at 1 it sleeps if the limit is the number of the table's pages, and does not sleep if the
# limit is the server's count plus 1.  AsyncReadBuffers() charges for a block when its read starts.
#
# io_methods: sync; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Vacuum;

my $pages = 60;

# Runs VACUUM on all pages of a table with this limit.  Returns its delay in ms, and how many
# pages it has hit, read and dirtied.  A sleep takes at least vacuum_cost_delay, which is 1 ms here.
sub vacuum_all
{
	my ($session, $t, $limit) = @_;
	$session->sql("SET vacuum_cost_limit = $limit");
	my $report = vacuum($session, 'DISABLE_PAGE_SKIPPING, TRUNCATE off', $t);
	return map { reported($report, $_) } qr/delay time: ([\d.]+) ms/, qr/buffer usage: (\d+) hits/, qr/hits, (\d+) reads/, qr/reads, (\d+) dirtied/;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'TEMP')
		{
			$aio->scenario("hits and misses, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', $pages, kind => $kind, session => $alice);
				$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_dirty = 0');
				my ($slept, $hits, $reads) = vacuum_all($alice, $t, 1);
				is($slept, '0.000', 'no charges: no sleep');

				$alice->sql('SET vacuum_cost_page_miss = 1');
				$aio->evict($t, $alice);
				($slept, $hits, $reads) = vacuum_all($alice, $t, 10000);
				is($slept, '0.000', 'misses, far from the limit');
				is_between($reads, $pages, $pages + 5, 'misses: the table and its maps');
				my $misses = $reads;
				for my $case ([ $pages, 1 ], [ $misses + 1, 0 ])
				{
					my ($limit, $sleeps) = @$case;
					$aio->evict($t, $alice);
					($slept, $hits, $reads) = vacuum_all($alice, $t, $limit);
					is($reads, $misses, "limit $limit: as many misses");
					is($slept >= 1 ? 1 : 0, $sleeps, $sleeps ? 'reach the limit' : 'do not reach the limit') || diag("$slept ms");
				}

				$alice->sql('SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_hit = 1');
				# hits of the catalogs are charged, too
				my $all = $aio->change_during("SELECT sum(hits) FROM pg_stat_get_backend_io(${\$alice->pid})", sub { ($slept, $hits) = vacuum_all($alice, $t, 10000) }, $alice);
				is($slept, '0.000', 'hits, far from the limit');
				is_between($hits, $pages, $all, "hits, of $all with those of catalogs");
				is((vacuum_all($alice, $t, $pages))[0] >= 1 ? 1 : 0, 1, "limit $pages: reached");
				is((vacuum_all($alice, $t, $all + 1))[0], '0.000', "limit ${\($all + 1)}: not reached");
			});
		}

		# it is a hit once it is there
		$aio->scenario('a block that another session reads', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', $pages);
			$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_hit = 1; SET vacuum_cost_page_dirty = 0; SET maintenance_io_concurrency = 0');
			vacuum_all($alice, $t, 10000) for 1, 2;
			my ($largest, $beyond) = ($pages, 10000);
			while ($beyond - $largest > 1)
			{
				my $limit = int(($largest + $beyond) / 2);
				((vacuum_all($alice, $t, $limit))[0] > 0 ? $largest : $beyond) = $limit;
			}
			note("hits reach a limit of $largest");
			for my $case ([ $largest, 1 ], [ $largest + 1, 0 ])
			{
				my ($limit, $sleeps) = @$case;
				$alice->sql("SELECT count(*) FROM $t; SELECT invalidate_rel_block('$t', 20); SET vacuum_cost_limit = $limit");
				$aio->hold(relation => $t, block => 20);
				$bob->starts("SELECT read_rel_block_ll('$t', 20)");
				$aio->holds(1);
				$alice->notices;
				$alice->starts("VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off, VERBOSE) $t");
				$alice->waits_on_others_io;
				$aio->release;
				$alice->ends;
				$bob->ends;
				my $slept = reported(join("\n", $alice->notices), qr/delay time: ([\d.]+) ms/);
				is($slept >= 1 ? 1 : 0, $sleeps, "limit $limit: " . ($sleeps ? 'reached' : 'not reached')) || diag("$slept ms");
			}
		}, skip => $aio->no_faults);

		$aio->scenario('ANALYZE', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', $pages);
			$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_dirty = 0');
			for my $limit ($pages, 10000)
			{
				$alice->sql("SET vacuum_cost_page_miss = 1; SET vacuum_cost_limit = $limit");
				$aio->evict($t);
				$alice->notices;
				$alice->sql("ANALYZE (VERBOSE) $t");
				my $slept = reported(join("\n", $alice->notices), qr/delay time: ([\d.]+) ms/);
				is($slept >= 1 ? 1 : 0, $limit == $pages ? 1 : 0, "limit $limit") || diag("$slept ms");
			}
		});

		$aio->scenario('the wait event', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', $pages);
			$alice->sql('SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1');
			for my $command ('VACUUM (DISABLE_PAGE_SKIPPING)', 'ANALYZE')
			{
				$alice->starts("$command $t");
				$alice->waits_on('VacuumDelay', "$command sleeps");
				$aio->sql("SELECT pg_cancel_backend(${\$alice->pid})");
				$alice->raises('57014', qr/canceling statement due to user request/, 'and ends');
			}
			$aio->proves($t);
		});

		# VACUUM makes a page dirty by its hint bits, unless a reader has set them
		for my $reader (0, 1)
		{
			$aio->scenario('pages made dirty' . ($reader ? ', with hint bits' : ''), sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', $pages);
				$alice->sql('SET vacuum_cost_delay = 1; SET track_cost_delay_timing = on; SET vacuum_cost_page_hit = 0; SET vacuum_cost_page_miss = 0; SET vacuum_cost_page_dirty = 1');
				is((vacuum_all($alice, $t, 1))[0], '0.000', 'nothing is made dirty');
				# VACUUM removes twenty rows each time; it charges once for a page, however often it changes it
				for my $case ([ 0, 10000, 0 ], [ 1, 20, 1 ], [ 2, 26, 0 ])
				{
					my ($rest, $limit, $sleeps) = @$case;
					$aio->sql("DELETE FROM $t WHERE blk % 3 = $rest" . ($reader ? "; SELECT count(*) FROM $t" : '') . '; CHECKPOINT');
					my ($slept, undef, undef, $dirtied) = vacuum_all($alice, $t, $limit);
					is_between($dirtied, 20, 25, 'dirtied: the pages of the rows and the maps');
					is($slept >= 1 ? 1 : 0, $sleeps, "limit $limit: " . ($sleeps ? 'reached' : 'not reached')) || diag("$slept ms");
				}
			});
		}
	}, conf => { shared_buffers => '16MB' });
