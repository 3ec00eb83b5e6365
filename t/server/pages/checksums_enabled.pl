# pg_enable_data_checksums() while the server runs (in 19beta1 and 20devel): all forks of all tables have checksums
# then, those of unlogged tables, too, which are made anew after a crash.
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

		$aio->scenario('enabled, and then a crash', sub {
			my $becomes = sub { my ($state) = @_; return $aio->wait_for("SELECT current_setting('data_checksums') = '$state'") };
			$aio->sql('SELECT pg_disable_data_checksums()');
			$becomes->('off');
			my ($t, $u) = ($aio->table('t', 30), $aio->table('u', 30, kind => 'UNLOGGED'));
			$aio->sql("CREATE INDEX u_i ON $u (blk); CREATE UNLOGGED SEQUENCE scenario.s; DELETE FROM $t WHERE blk = 7; VACUUM $t");
			$aio->sql('SELECT pg_enable_data_checksums()');
			$becomes->('on');
			$aio->sql('CHECKPOINT');
			if (!$aio->lacks('pageinspect'))
			{
				# as the files have them
				$aio->evict($_) for $t, $u;
				for my $fork ([ $t, 'main' ], [ $t, 'fsm' ], [ $t, 'vm' ], [ $u, 'main' ], [ 'scenario.u_i', 'init' ], [ 'scenario.s', 'init' ])
				{
					my ($rel, $name) = @$fork;
					$aio->gives("SELECT count(*) > 0, count(*) FILTER (WHERE p.checksum <> page_checksum(page, b)) FROM generate_series(0, pg_relation_size('$rel', '$name')::int / 8192 - 1) b,"
						  . " get_raw_page('$rel', '$name', b) page, page_header(page) p WHERE p.upper > 0", 't|0', "$rel, $name: each page has its checksum");
				}
			}
			$aio->recovers;
			$aio->gives("SELECT count(*) FROM $u", 0, 'an unlogged table is empty after a crash');
			$aio->gives("SET enable_seqscan = off; SELECT count(*) FROM $u WHERE blk = 3", 0, 'its index, too');
			$aio->gives("SELECT nextval('scenario.s')", 1, 'a sequence begins anew');
			$aio->sql("CALL add_pages('$u', 0, 29)");
			$aio->proves($u);
			$aio->proves($t, except => 'block 7 has no row');
		}, dies => 1, skip => $aio->sql("SELECT count(*) FROM pg_proc WHERE proname = 'pg_enable_data_checksums'") ? undef : 'the server cannot enable checksums while it runs');
	}, conf => { shared_buffers => '16MB' });
