# Views that a session polls without a pause while other sessions read, fail, are cancelled and
# leave: no poll fails, and no row contradicts itself.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Queries that find contradictions in the rows of each view.
my %contradictions = (
	pg_aios => q{
		SELECT 'pg_aios: ' || a FROM pg_aios a
		WHERE state NOT IN ('HANDED_OUT', 'DEFINED', 'STAGED', 'SUBMITTED', 'COMPLETED_IO', 'COMPLETED_SHARED', 'COMPLETED_LOCAL')
			OR io_id IS NULL OR pid IS NULL OR io_generation IS NULL OR pid <= 0
			OR operation NOT IN ('readv', 'writev', 'invalid')
			OR state IN ('STAGED', 'SUBMITTED', 'COMPLETED_IO', 'COMPLETED_SHARED', 'COMPLETED_LOCAL')
				AND (operation IS DISTINCT FROM 'readv' OR off < 0 OR length <= 0 OR length > 16 * 8192 OR length % 8192 <> 0 OR off % 8192 <> 0
					OR target IS DISTINCT FROM 'smgr' OR target_desc !~ '^blocks? \d+(\.\.\d+)? in file "base/\d+/t?\d*_?\d+"$' AND target_desc !~ '^blocks? \d+(\.\.\d+)? in file "(base|global|pg_tblspc)/')
			OR state IN ('HANDED_OUT', 'DEFINED', 'STAGED', 'SUBMITTED') AND raw_result IS NOT NULL
			OR state IN ('COMPLETED_SHARED', 'COMPLETED_LOCAL') AND (raw_result IS NULL OR result IS NULL OR result = 'UNKNOWN')
			OR result = 'OK' AND raw_result <> length},
	pg_stat_io => q{
		SELECT 'pg_stat_io: ' || s FROM pg_stat_io s
		WHERE reads < 0 OR reads > 0 AND read_bytes < reads * 8192 OR reads = 0 AND read_bytes > 0
			OR read_bytes % 8192 <> 0 AND object <> 'wal' OR extend_bytes % 8192 <> 0 OR hits < 0 OR evictions < 0},
	pg_stat_activity => q{
		SELECT 'pg_stat_activity: ' || s FROM pg_stat_activity s
		WHERE (wait_event IS NULL) <> (wait_event_type IS NULL) OR wait_event = '???'},
	pg_buffercache => q{
		SELECT 'pg_buffercache: ' || b FROM pg_buffercache b WHERE pinning_backends < 0 OR usagecount NOT BETWEEN 0 AND 5},
);

# Has a session poll a view until $aio->resume.  Its sequence scenario.polled counts the polls; at
# the end scenario.found has contradictions, and scenario.polls has the number of rows.
sub starts_to_poll
{
	my ($aio, $poller, $view) = @_;
	$aio->sql('CREATE UNLOGGED TABLE scenario.found (what text); CREATE UNLOGGED TABLE scenario.polls (rows int); CREATE SEQUENCE scenario.polled');
	$aio->pause;
	$poller->starts(<<"END");
DO \$\$
DECLARE
	seen bigint := 0;
	wrong text[];
	all_wrong text[] := '{}';
BEGIN
	WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP
		SELECT array_agg(c) INTO wrong FROM ($contradictions{$view}) v(c);
		IF wrong IS NOT NULL AND cardinality(all_wrong) < 5 THEN all_wrong := all_wrong || wrong; END IF;
		SELECT seen + count(*) INTO seen FROM $view;
		PERFORM nextval('scenario.polled');
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
	INSERT INTO scenario.found SELECT DISTINCT unnest(all_wrong);
	INSERT INTO scenario.polls VALUES (seen);
END \$\$
END
	return;
}

# Reads a table by sessions that end well, leave, do not wait, fail, and are cancelled.
sub reads_of_all_kinds
{
	my ($aio, $t, $round) = @_;
	my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
	my $stream = "SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 60 FROM generate_series(0, 59) i))";
	$aio->evict($t);
	$_->starts($stream) for $alice, $bob;
	my $guest = $aio->session("guest_$round");
	$guest->sql("SELECT count(*) FROM read_buffers('$t', 0, 60)");
	$guest->disconnect;
	$_->ends("round $round") for $alice, $bob;
	$aio->evict($t);
	$carol->sql("SELECT read_rel_block_ll('$t', b, wait_complete => false) FROM generate_series(0, 19) b");
	if (!$aio->no_faults)
	{
		$aio->evict($t);
		$aio->falsify('EIO', relation => $t, pid => $alice->pid);
		$alice->starts($stream)->raises('58030', qr/could not read blocks/, 'a read fails');
		$aio->tell_truth;
	}
	$aio->evict($t);
	$bob->starts("SELECT count(*) FROM generate_series(1, 1000000) g, LATERAL (SELECT count(*) + g FROM $t) s")->is_executed;
	$aio->sql("SELECT pg_cancel_backend(${\$bob->pid})");
	$bob->raises('57014', qr/canceling statement due to user request/, 'a statement is cancelled');
	return;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $view (sort keys %contradictions)
		{
			$aio->scenario($view, sub {
				my ($poller) = $aio->sessions('poller');
				my $t = $aio->table('t', 60);
				$_->sql('SET effective_io_concurrency = 16; SET io_combine_limit = 4') for $aio->sessions(qw(alice bob));
				starts_to_poll($aio, $poller, $view);
				for my $round (1 .. 4)
				{
					my $polls = $aio->sql('SELECT last_value FROM scenario.polled');
					reads_of_all_kinds($aio, $t, $round);
					ok($aio->poll(sub { $aio->sql('SELECT last_value FROM scenario.polled') > $polls + 5 }), 'the view has been polled meanwhile');
				}
				$aio->resume;
				$poller->ends('no poll fails');
				$aio->gives('SELECT string_agg(what, chr(10)) FROM scenario.found', '', 'no row contradicts itself');
				my $rows = $aio->sql('SELECT rows FROM scenario.polls');
				cmp_ok($rows, '>', 0, 'the polls have seen rows') if $view ne 'pg_aios' || $aio->method ne 'sync';
				$aio->proves($t);
			}, log => qr/LOG:  could not read blocks \d+\.\.\d+ in file/, skip => $view eq 'pg_buffercache' ? $aio->lacks('pg_buffercache') : undef);
		}
	});
