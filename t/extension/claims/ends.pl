# Buffer I/O that is started and that no call ends.  It ends with its session, however the
# session ends, and every wait for it ends, too.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Returns a buffer whose I/O a session has started.
sub claimed
{
	my ($session, $table, $block) = @_;
	my $b = $session->sql("SELECT buffer_create_toy('$table', " . ($block // 2) . ')');
	$session->gives("SELECT buffer_call_start_io($b, true, true)", 't', 'starts');
	return $b;
}

sub ends_claim { my ($session, $b) = @_; return $session->sql("SELECT buffer_call_terminate_io($b, true, false, true, true)") }

for_each_io_method(
	sub {
		my ($aio) = @_;

		my %ends = (
			terminated => ['pg_terminate_backend(%d, 10000)', qr/administrator command/],
			cancelled => ['pg_cancel_backend(%d)', qr/user request/],
		);
		for my $how (sort keys %ends)
		{
			my ($sql, $message) = @{ $ends{$how} };
			$aio->scenario("a session that waits is $how", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my $t = $aio->table('t', 4);
				my $b = claimed($alice, $t);
				$bob->starts("SELECT buffer_call_start_io($b, true, true)");
				$bob->waits_on('BufferIo');
				$aio->sql('SELECT ' . sprintf $sql, $bob->pid);
				$bob->raises($how eq 'cancelled' ? '57014' : '57P01', $message, "is $how");
				$aio->gives("SELECT refcount FROM buffer_state('$t', 2)", 1, 'and leaves no reference');
				ends_claim($alice, $b);
				$aio->gives("SELECT refcount FROM buffer_state('$t', 2)", 0, 'nor does the claim');
				$aio->gives("DROP TABLE $t", '', 'the table can be dropped');
			}, log => $aio->terminated('bob'));
		}

		$aio->scenario('the table is dropped by its session', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			my $b = claimed($alice, $t);
			$alice->fails($_, '55006', qr/has started I\/O on a buffer of relation file.*buffer_call_terminate_io/s, $_)
			  for "DROP TABLE $t", "TRUNCATE $t";
			$alice->sql("SET statement_timeout = '100ms'");
			$alice->fails("VACUUM FULL $t", '57014', qr/statement timeout/, 'VACUUM FULL reads the block first, and waits');
			$alice->sql('RESET statement_timeout');
			$alice->gives("BEGIN; SAVEPOINT s; DROP TABLE $t; ROLLBACK TO s; COMMIT", '', 'a rollback keeps it');
			ends_claim($alice, $b);
			$alice->gives("DROP TABLE $t", '', 'is dropped when the I/O has ended');
		});

		$aio->scenario('the table is dropped by another session', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			my $b = claimed($alice, $t);
			$bob->starts("DROP TABLE $t");
			$bob->waits_on('relation', 'waits for the lock');
			$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
			$bob->raises('57014', qr/user request/, 'and can be cancelled');
			ends_claim($alice, $b);
			$bob->gives("DROP TABLE $t", '', 'is dropped when the I/O has ended');
		});

		$aio->scenario('PREPARE TRANSACTION', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			my $b = claimed($alice, $t);
			$alice->sql('BEGIN; CREATE TABLE scenario.u (i int)');
			$alice->fails("PREPARE TRANSACTION 'p'", '55006', qr/cannot PREPARE/, 'would lose the lock');
			ends_claim($alice, $b);
			$alice->sql("BEGIN; CREATE TABLE scenario.u (i int); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'");
			$aio->gives("DROP TABLE $t", '', 'the table can be dropped');
		});

		$aio->scenario('an error while another session waits for the lock', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			claimed($alice, $t);
			$bob->starts("DROP TABLE $t");
			$bob->waits_on('relation');
			$alice->fails('SELECT 1 / 0', '22012', qr/division/, 'fails');
			$alice->warns(qr/I\/O on buffer \d+, started by this session, has been ended/);
			$bob->returns('', 'gets the lock');
		});

		$aio->scenario('another session ends it', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 4);
			my $b = claimed($alice, $t);
			ends_claim($bob, $b);
			$alice->gives("DROP TABLE $t", '', 'its session can drop the table');
			my $u = $aio->table('u', 4);
			$b = claimed($alice, $u);
			ends_claim($bob, $b);
			$alice->gives('SELECT 1', 1, 'ends a transaction');
			$bob->gives("DROP TABLE $u", '', 'so can another then');
		});

		$aio->scenario('a relation of this transaction', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('BEGIN; CREATE TABLE scenario.t (i int)');
			$alice->sql("SELECT grow_rel('scenario.t', 4)");
			my $b = $alice->sql("SELECT buffer_create_toy('scenario.t', 2)");
			$alice->fails("SELECT buffer_call_start_io($b, true, true)", '55000', qr/created or rewritten in this transaction/, 'is refused');
			$alice->sql('ROLLBACK');
			$aio->gives('SELECT sum(pinned) FROM pg_buffercache_usage_counts()', 0, 'nothing is pinned') if !$aio->lacks('pg_buffercache');
		});

		$aio->scenario('the session exits, with claims on shared and local buffers', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 4);
			claimed($alice, $t);
			my $own = $aio->table('own', 4, kind => 'TEMP', session => $alice);
			claimed($alice, $own);
			$aio->end_session($alice);
			$aio->gives("SELECT refcount, 'IO_IN_PROGRESS' = ANY (flags) FROM buffer_state('$t', 2)", '0|f', 'they have ended');
			$aio->gives("DROP TABLE $t", '', 'the table can be dropped');
		});

		my %removals = (
			'DROP' => ['', 'DROP TABLE own'],
			'TRUNCATE' => ['', 'TRUNCATE own'],
			'ON COMMIT DELETE ROWS' => ['ON COMMIT DELETE ROWS', 'BEGIN; INSERT INTO own VALUES (1); COMMIT'],
			'DISCARD TEMP' => ['', 'DISCARD TEMP'],
		);
		for my $what (sort keys %removals)
		{
			my ($option, $sql) = @{ $removals{$what} };
			$aio->scenario("a temporary table: $what", sub {
				my ($alice) = $aio->sessions('alice');
				$alice->sql("CREATE TEMP TABLE own (i int) $option");
				$alice->sql("BEGIN; SELECT grow_rel('own', 4)");
				my $b = claimed($alice, 'own');
				$alice->gives("SELECT buffer_call_start_io($b, true, false)", 't', 'a second time');
				$alice->gives("COMMIT; $sql", '', $what);
				$alice->fails("SELECT buffer_call_terminate_io($b, true, false, true, true)", '55000', qr/no I\/O on buffer/, 'the claim has gone');
				$alice->gives('SELECT 1', 1, 'and the session goes on');
			});
		}
	}, leaves => 'nothing', conf => { max_prepared_transactions => 2 });
