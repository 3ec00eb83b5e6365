# The contents of pg_aios while reads are staged, in flight, held and done.  The server's own
# tests do not look at them.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

my $columns = 'state, operation, off, length, target, handle_data_len, coalesce(raw_result::text, \'-\'), result, target_desc, f_sync, f_localmem, f_buffered';

for_each_io_method(
	sub {
		my ($aio) = @_;
		my ($sync, $worker) = ($aio->method eq 'sync', $aio->method eq 'worker');

		for my $kind ('', 'TEMP')
		{
			# the process that performs the read: an I/O worker if it can, or else the session
			my $by_worker = $worker && !$kind;

			$aio->scenario("a read that is held, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20, kind => $kind, session => $alice);
				my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
				# another session sees the path that it would use for a temporary table of its own
				my $seen = $kind ? qr/base\/\d+\/t\d+_\d+/ : qr/\Q$path\E/;
				for my $case ([ 3, 1 ], [ 5, 6 ], [ 4, 16 ])
				{
					my ($block, $n) = @$case;
					$aio->hold(pid => $alice->pid);
					$alice->starts("SELECT read_rel_block_ll('$t', $block, nblocks => $n)");
					$aio->holds(1);
					$alice->waits_on($by_worker ? 'AioIoCompletion' : 'completion_wait');
					my ($off, $length) = ($block * 8192, $n * 8192);
					my $last = $block + $n - 1;
					my $blocks = $n == 1 ? "block $block" : "blocks $block..$last";
					my $flags = join '|', 'f', $kind ? 't' : 'f', 't';
					like($aio->sql("SELECT $columns FROM pg_aios WHERE pid = ${\$alice->pid}"),
						qr/^COMPLETED_IO\|readv\|$off\|$length\|smgr\|$n\|$length\|UNKNOWN\|\Q$blocks\E in file "$seen"\|\Q$flags\E$/, "$n blocks");
					$aio->gives("SELECT backend_type, wait_event_type FROM pg_stat_activity WHERE wait_event = 'completion_wait'",
						($by_worker ? 'io worker' : 'client backend') . '|InjectionPoint', 'the process that is held');
					$aio->release;
					$alice->ends;
					$aio->gives("SELECT count(*) FROM pg_aios", 0, 'the handle is no longer shown');
				}
				$aio->proves($t, session => $alice);
			}, leaves => 'nothing', skip => $aio->no_injection_points);
		}

		$aio->scenario('reads of other forks', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			my $path = $aio->sql("VACUUM $t; SELECT pg_relation_filepath('$t')");
			for my $fork (qw(fsm vm main))
			{
				my $read = "SELECT pg_prewarm('$t', 'buffer', '$fork', 0, 0)";
				$alice->sql($read);
				$aio->evict($t);
				$aio->hold(pid => $alice->pid);
				$alice->starts($read);
				$aio->holds(1);
				$aio->gives("SELECT target_desc FROM pg_aios WHERE pid = ${\$alice->pid}", "block 0 in file \"$path" . ($fork eq 'main' ? '' : "_$fork") . '"', $fork);
				$aio->release;
				$alice->returns(1, 'is read');
			}
			$aio->proves($t);
		}, skip => $aio->lacks('pg_prewarm') // $aio->no_faults);

		$aio->scenario('a read that has not begun', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 5, nblocks => 2)");
			$aio->gate_holds(1);
			$aio->gives("SELECT $columns FROM pg_aios WHERE pid = ${\$alice->pid}", 'SUBMITTED|readv|40960|16384|smgr|2|-|UNKNOWN|blocks 5..6 in file "'
				  . $aio->sql("SELECT pg_relation_filepath('$t')") . '"|f|f|t', 'it has no result yet');
			$aio->end_gate;
			$alice->ends;
		}, leaves => 'nothing', skip => $aio->lacks('gate'));

		# a session that would wait for a read at once performs it itself
		for my $read ("SELECT count(*) FROM %s WHERE ctid = '(3,1)'", "SET effective_io_concurrency = 0; SELECT count(*) FROM read_stream_for_blocks('%s', ARRAY[3])")
		{
			$aio->scenario("synchronous: $read", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				$alice->sql("SELECT count(*) FROM $t WHERE ctid = '(0,1)'");
				$aio->hold(pid => $alice->pid, relation => $t, block => 3);
				$alice->starts(sprintf $read, $t);
				$alice->waits_on('completion_wait');
				$aio->gives("SELECT state, off, length, handle_data_len, f_sync FROM pg_aios WHERE pid = ${\$alice->pid}", 'COMPLETED_IO|24576|8192|1|t', 'f_sync');
				$aio->release;
				$alice->ends;
			}, leaves => 'nothing', skip => $aio->no_injection_points);
		}

		for my $case ([ 'EIO', 'ERROR', -5 ], [ 16384, 'PARTIAL', 16384 ], [ 100, 'ERROR', 100 ], [ 'NULL', 'OK', 32768 ])
		{
			my ($result, $status, $raw) = @$case;
			$aio->scenario("ended with $result", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 20);
				$aio->falsify($result, pid => $alice->pid);
				$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 4, wait_complete => false)");
				$aio->wait_for("SELECT EXISTS (SELECT FROM pg_aios WHERE state = 'COMPLETED_SHARED')");
				$aio->gives('SELECT state, raw_result, result FROM pg_aios', "COMPLETED_SHARED|$raw|$status", 'raw and distilled result');
				$aio->tell_truth;
				$aio->proves($t);
			}, skip => !$worker ? 'only I/O workers complete a read that nobody waits for' : $aio->no_faults, log => qr/LOG:  could not read blocks 3\.\.6 /);
		}

		for my $zero ('off', 'on')
		{
			$aio->scenario("a bad page, zero_damaged_pages = $zero", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 20);
				$aio->sql("SELECT modify_rel_block('$t', 4, corrupt_header => true)");
				$alice->sql("SET zero_damaged_pages = $zero");
				$alice->sql("SELECT read_rel_block_ll('$t', 3, nblocks => 4, wait_complete => false)");
				$bob->gives("SELECT count(*) FROM read_buffers('$t', 5, 1)", 1, 'another session completes the read');
				$aio->wait_for("SELECT EXISTS (SELECT FROM pg_aios WHERE state = 'COMPLETED_SHARED')");
				$aio->gives('SELECT state, raw_result, result FROM pg_aios', 'COMPLETED_SHARED|32768|' . ($zero eq 'on' ? 'WARNING' : 'ERROR'), 'raw and distilled result');
			}, skip => $sync ? 'with sync a read has ended when it is started' : undef, log => qr/LOG:  invalid page in block 4 /);
		}

		$aio->scenario('who may read the view', sub {
			$aio->sql('CREATE ROLE regress_nobody LOGIN; CREATE ROLE regress_reader LOGIN IN ROLE pg_read_all_stats');
			my $nobody = $aio->session('nobody', user => 'regress_nobody');
			my $reader = $aio->session('reader', user => 'regress_reader');
			$nobody->fails('SELECT count(*) FROM pg_aios', '42501', qr/permission denied/, 'a role without privileges');
			$reader->gives('SELECT count(*) FROM pg_aios', 0, 'a member of pg_read_all_stats');
			$aio->end_session($_) for $nobody, $reader;
			$aio->sql('DROP ROLE regress_nobody, regress_reader');
		}, leaves => 'nothing');
	});
