# What statements add to the server's counters.

package TestAio::Counters;

use v5.36;
use warnings FATAL => 'all';

use Test::More;

# Reads the catalogs into the buffer pool, so that later reads are those of tests.  The reads are
# synchronous, because I/O workers take twice as long.
sub warm_catalogs ($self)
{
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
sub _flush (@sessions)
{
	$_->sql('SELECT pg_stat_force_next_flush()') for @sessions;
	return;
}

# Returns by how much a query's columns change while a function runs, joined by "/".  The
# counting sessions flush their statistics before each look.
sub change_during ($self, $query, $function, @counting)
{
	_flush(@counting);
	my @before = split /\|/, $self->sql($query);
	$function->();
	_flush(@counting);
	my @after = split /\|/, $self->sql($query);
	return join '/', map { $after[$_] - $before[$_] } 0 .. $#after;
}

# Returns "reads/bytes" of a session while a function runs, for one object and context of pg_stat_io.
sub io_during ($self, $session, $what, $function)
{
	return $self->change_during(
		"SELECT sum(reads), sum(read_bytes) FROM pg_stat_get_backend_io(${\$session->pid})"
		  . " WHERE object || '/' || context = '$what'",
		$function, $session);
}

# Counters of pg_stat_io.
my @io_counters = qw(reads read_bytes read_time writes write_bytes write_time writebacks writeback_time
  extends extend_bytes extend_time hits evictions reuses fsyncs fsync_time);

# Returns what a session adds to each counter of one object and context of pg_stat_io while a
# function runs, as a hash.
sub io_counts_during ($self, $session, $what, $function)
{
	my $sums = join ', ', map { "coalesce(sum($_), 0)" } @io_counters;
	my $query = "SELECT $sums FROM pg_stat_get_backend_io(${\$session->pid}) WHERE object || '/' || context = '$what'";
	my %added;
	@added{@io_counters} = split m{/}, $self->change_during($query, $function, $session);
	return \%added;
}

# Test: a session adds this to the counters of one object and context of pg_stat_io while a function runs.  Expected
# values are numbers, or functions that accept a number; a counter that is not named must not change.
sub adds_io ($self, $session, $what, $function, $expected, $name)
{
	my $added = $self->io_counts_during($session, $what, $function);
	my @wrong;
	for my $counter (@io_counters)
	{
		my $wanted = $expected->{$counter} // 0;
		next if ref $wanted ? $wanted->($added->{$counter}) : $added->{$counter} == $wanted;
		push @wrong, "$counter: $added->{$counter}, not " . (ref $wanted ? 'as expected' : $wanted);
	}
	return is(join("\n", @wrong), '', "$name: $what");
}

# Returns "fetched/hit" of a table's blocks while a function runs, as pg_statio_all_tables counts them.
sub blocks_during ($self, $table, $function, @sessions)
{
	my $oid = $self->sql("SELECT '$table'::regclass::oid");
	return $self->change_during("SELECT pg_stat_get_blocks_fetched($oid), pg_stat_get_blocks_hit($oid)",
		$function, @sessions, $self);
}

# Returns the checksum failures in pg_stat_database while a function runs: of the databases
# "postgres" and "other" and of shared relations, as "1/0/0".
sub checksum_failures_during ($self, $function, @sessions)
{
	my $count = join ', ', map { "coalesce(sum(checksum_failures) FILTER (WHERE $_), 0)" } "datname = 'postgres'", "datname = 'other'", 'datid = 0';
	return $self->change_during("SELECT $count FROM pg_stat_database", $function, @sessions);
}

1;
