# The statements of the stress test's sessions (t/extension/gate/gate_stress.pl), and the controller's
# actions.
#
# Each session draws from random numbers of its own, so that a seed replays its statements
# whichever session is faster.

package TestAio::StressMix;

use strict;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use Exporter 'import';

our @EXPORT_OK = qw(random_numbers setup settings statement action);

# blocks of the permanent tables, and of the tables that come and go
use constant { BLOCKS => 300, SIDE_BLOCKS => 60 };

# A function that returns a whole number from 0 to n - 1.
sub random_numbers
{
	my ($seed) = @_;
	my $drawn = 0;
	return sub { my ($n) = @_; return int($n * hex(substr md5_hex("$seed/" . $drawn++), 0, 8) / 2**32) };
}

sub _one_of { my ($rand, @list) = @_; return $list[ $rand->(scalar @list) ] }

sub setup
{
	# a database that is copied must have no other connections
	return ('CREATE DATABASE stress TEMPLATE postgres STRATEGY file_copy',
		"SET allow_in_place_tablespaces = on; CREATE TABLESPACE stress LOCATION ''",
		"CALL make_table('scenario.a', ${\BLOCKS}, '', 0); CALL make_table('scenario.b', ${\BLOCKS}, '', 0);"
		  . 'CREATE INDEX ON scenario.a (blk); CREATE TABLE scenario.c (id int PRIMARY KEY, n int, s text);'
		  . "INSERT INTO scenario.c SELECT i, 0, repeat('c', 500) FROM generate_series(1, 3000) i",
		'VACUUM');
}

# Returns the settings of a session that has just connected.
sub settings
{
	my ($rand) = @_;
	my $parallel = $rand->(3) == 0;
	return "SET statement_timeout = '" . _one_of($rand, 0, 0, 0, '50ms') . "';"
	  . 'SET effective_io_concurrency = ' . _one_of($rand, 0, 1, 16, 16, 100) . ';'
	  . 'SET io_combine_limit = ' . _one_of($rand, 1, 16, 32, 128) . ';'
	  . 'SET enable_seqscan = ' . _one_of($rand, 'on', 'off') . ';'
	  . ($parallel ? 'SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET seq_page_cost = 0' : '');
}

# Returns DDL that a session runs on its own table, which comes and goes.
sub _ddl
{
	my ($rand, $name) = @_;
	my $table = "scenario.$name";
	my $kind = _one_of($rand, '', '', 'UNLOGGED');
	return _one_of($rand,
		("DROP TABLE IF EXISTS $table; CALL make_table('$table', ${\SIDE_BLOCKS}, '$kind', 0); CREATE INDEX ${name}_blk ON $table (blk)") x 2,
		# one statement, as BEGIN may be the one that is cancelled
		"DO \$\$ BEGIN TRUNCATE $table; INSERT INTO $table SELECT '$table', i, 0, proof('$table', i, 0) FROM generate_series(0, ${\SIDE_BLOCKS} - 1) i; END \$\$",
		"BEGIN; DROP TABLE $table; ROLLBACK",
		"ALTER TABLE $table SET TABLESPACE " . _one_of($rand, qw(stress pg_default)),
		"CLUSTER $table USING ${name}_blk",
		"VACUUM FULL $table",
		"VACUUM $table",
		"REINDEX TABLE $table");
}

# Returns a session's next statement, a pattern of its result, and a pattern of SQLSTATEs
# that are its own fault.
sub statement
{
	my ($rand, $me, @all) = @_;
	my ($block, $from, $n) = ($rand->(BLOCKS), $rand->(BLOCKS - 128), _one_of($rand, 4, 8, 128));
	my ($side, $side_block) = ('scenario.' . _one_of($rand, @all), $rand->(SIDE_BLOCKS));
	my $strategy = _one_of($rand, qw(wal_log file_copy));
	my $gone = qr/^42P01$/;
	my $own = qr/^(42P01|42P07|42704)$/;
	return _one_of($rand,
		["SELECT problems('scenario.a')", qr/^$/],
		["SELECT problems('scenario.b')", qr/^$/],
		['SELECT count(body) FROM scenario.a', qr/^${\BLOCKS}$/],
		["SELECT count(*) FROM read_stream_for_blocks('scenario.a', ARRAY(SELECT (i * 37 % ${\BLOCKS})::int FROM generate_series(0, 99) i))", qr/^100$/],
		["SELECT count(*) > 0 FROM read_buffers('scenario.b', $from, $n)", qr/^t$/],
		["SELECT body = proof('scenario.a', blk, 0) FROM scenario.a WHERE blk = $block", qr/^t$/],
		["SELECT bool_and(body = proof('scenario.a', blk, 0)), count(*) FROM scenario.a WHERE blk % 30 = $block % 30", qr{^t\|${\(BLOCKS / 30)}$}],
		['UPDATE scenario.c SET n = n + 1 WHERE id % 7 = ' . $rand->(7), qr/^$/],
		['SELECT count(s) FROM scenario.c', qr/^3000$/],
		['VACUUM scenario.c', qr/^$/],
		['CHECKPOINT', qr/^$/],
		["SELECT evict_rel('scenario.a')", qr/^$/],
		["SELECT evict_rel('scenario.b')", qr/^$/],
		["CREATE TEMP TABLE IF NOT EXISTS own AS SELECT i, repeat('x', 3000) AS s FROM generate_series(1, 400) i; SELECT evict_rel('own'); SELECT count(*) FROM own", qr/400$/],
		["BEGIN; SELECT read_rel_block_ll('scenario.a', $from, nblocks => $n, wait_complete => false); ROLLBACK", qr/^\s*$/],
		["SELECT problems('$side')", qr/^$/, $gone],
		["SELECT body = proof('$side', blk, 0) FROM $side WHERE blk = $side_block", qr/^t$/, $gone],
		["SELECT count(*) FROM read_stream_for_blocks('$side', ARRAY(SELECT generate_series(0, ${\SIDE_BLOCKS} - 1)))", qr/^${\SIDE_BLOCKS}$/, $gone],
		["SELECT evict_rel('$side')", qr/^$/, $gone],
		([_ddl($rand, $me), qr/^\s*$/, $own]) x 3,
		$rand->(8) ? ['SELECT 1', qr/^1$/] : ["DROP DATABASE IF EXISTS stress_$me; CREATE DATABASE stress_$me TEMPLATE stress STRATEGY $strategy", qr/^$/, qr/^(42P04|55006)$/],
		['DISCONNECT', undef]);
}

# Returns the controller's next action; "VICTIM" stands for the process of a session.
sub action
{
	my ($rand, @all) = @_;
	my $table = 'scenario.' . _one_of($rand, qw(a b c), _one_of($rand, @all));
	my ($block, $n, $bytes) = ($rand->(BLOCKS), $rand->(5), $rand->(_one_of($rand, 20000, 128 * 8192)));
	my ($ms, $depth, $jitter) = (1 + $rand->(3), 1 + $rand->(16), _one_of($rand, 0, 0.5, 1));
	my $filenode = "relfilenode => pg_relation_filenode('$table')";
	return _one_of($rand,
		"SELECT io_hold('$table', max_reads => 1 + $n)",
		"SELECT io_hold('$table', $block)",
		'SELECT io_hold(max_reads => 2, fork => NULL)',
		'SELECT io_hold_end()',
		('SELECT io_release_all()') x 6,
		'SELECT io_release_all(-5)',
		"SELECT io_release_all($bytes)",
		"SELECT io_release(pid, io_id) FROM io_held ORDER BY io_id * 7919 % (1 + $block) LIMIT 1",
		"SELECT io_release(pid, io_id, $bytes) FROM io_held ORDER BY io_id * 7919 % (1 + $block) LIMIT 1",
		"SELECT io_fail('$table', -5, times => 1)",
		"SELECT io_fail('$table', $bytes, skip => $n, times => 2)",
		'SELECT io_fail_end()',
		"SELECT io_device('${ms}ms', $depth, $jitter, rel => '$table')",
		"SELECT io_device('1ms')",
		'SELECT io_device_end()',
		"SELECT inj_io_completion_wait($filenode)",
		('SELECT inj_io_completion_continue()') x 3,
		"SELECT inj_io_short_read_attach($bytes, $filenode)",
		'SELECT inj_io_short_read_detach()',
		'SELECT count(*) FROM io_held',
		'SELECT pg_cancel_backend(VICTIM)',
		'SELECT pg_terminate_backend(VICTIM)',
		$rand->(20) ? 'SELECT count(*) FROM io_filters' : 'SELECT pg_terminate_backend(worker) FROM io_gate');
}

1;
