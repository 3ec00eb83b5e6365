# Counters of the server, before and after.

package TestAio::Counters;

use strict;
use warnings FATAL => 'all';

use Test::More;

# Reads the catalogs into the buffer pool, so that only tests read.  Reads synchronously,
# because I/O workers take twice as long.
sub warm_catalogs
{
	my ($self) = @_;
	$self->sql(<<'END');
SET effective_io_concurrency = 0;
SELECT count(*) FROM pg_class c, pg_relation_size(c.oid) size, read_stream_for_blocks(c.oid::regclass,
	ARRAY(SELECT generate_series(0, size / current_setting('block_size')::int - 1)::int))
WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'i', 't') AND relpages BETWEEN 1 AND 150;
RESET effective_io_concurrency
END
	return;
}

# Has sessions flush their statistics.
sub _flush
{
	my (@sessions) = @_;
	$_->sql('SELECT pg_stat_force_next_flush()') for @sessions;
	return;
}

# Returns by how much a query's columns change while a function runs, joined by "/".  The
# counting sessions flush their statistics before each look.
sub change_during
{
	my ($self, $query, $function, @counting) = @_;
	_flush(@counting);
	my @before = split /\|/, $self->sql($query);
	$function->();
	_flush(@counting);
	my @after = split /\|/, $self->sql($query);
	return join '/', map { $after[$_] - $before[$_] } 0 .. $#after;
}

# Returns "reads/bytes" of a session while a function runs, for one object and context of
# pg_stat_io.
sub io_during
{
	my ($self, $session, $what, $function) = @_;
	return $self->change_during(
		"SELECT sum(reads), sum(read_bytes) FROM pg_stat_get_backend_io(${\$session->pid})"
		  . " WHERE object || '/' || context = '$what'",
		$function, $session);
}

# Returns "fetched/hit" of a table's blocks while a function runs, as pg_statio_all_tables
# counts them.
sub blocks_during
{
	my ($self, $table, $function, @sessions) = @_;
	my $oid = $self->sql("SELECT '$table'::regclass::oid");
	return $self->change_during("SELECT pg_stat_get_blocks_fetched($oid), pg_stat_get_blocks_hit($oid)",
		$function, @sessions, $self);
}

# Returns the checksum failures in pg_stat_database while a function runs: of the databases
# "postgres" and "other" and of shared relations, as "1/0/0".
sub checksum_failures_during
{
	my ($self, $function, @sessions) = @_;
	my $count = join ', ', map { "coalesce(sum(checksum_failures) FILTER (WHERE $_), 0)" } "datname = 'postgres'", "datname = 'other'", 'datid = 0';
	return $self->change_during("SELECT $count FROM pg_stat_database", $function, @sessions);
}

1;
