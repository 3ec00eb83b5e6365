package TestAio::Counters;

=head1 NAME

TestAio::Counters - what statements add to the server's counters, and what EXPLAIN and VACUUM report

=head1 SYNOPSIS

	my $read = sub { $alice->sql("SELECT count(*) FROM read_buffers('$t', 3, 1)") };
	is($aio->io_during($alice, 'relation/normal', $read), '1/8192', 'reads and bytes of pg_stat_io');
	$aio->adds_io($alice, 'relation/vacuum', $read, {}, 'reads nothing for VACUUM');
	my $found = explained($alice, 'BUFFERS', "SELECT count(*) FROM $t");
	is(node_at('Seq Scan', $found->{plan})->{'Actual Rows'}, 8, 'returns each row');
	is(reported(vacuum($alice, 'FREEZE', $t), qr/(\d+) remain,/), 8, 'keeps each row');

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use JSON::PP ();
use Test::More;

our @EXPORT = qw(explained node_at vacuum reported pages_with_dead use_up_xids);

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

# Runs a query under EXPLAIN (ANALYZE) with further options, "BUFFERS, WAL" for example.  Returns the numbers of the
# topmost node by their names in JSON, which include the numbers of the nodes below, and the whole output as "plan".
sub explained ($session, $options, $query)
{
	my $plan = $session->sql("EXPLAIN (ANALYZE, $options, COSTS off, TIMING off, SUMMARY off, FORMAT json) $query");
	my ($topmost) = $plan =~ /"Plan": (\{.*?)(?:"Plans":|"Planning":|\z)/s;
	return { plan => $plan, $topmost =~ /"([^"]+)": ([\d.]+)/g };
}

# Returns what EXPLAIN (FORMAT json) says of the first node of a type, as a hash.
sub node_at ($type, $output)
{
	my @nodes = map { $_->{Plan} } @{ JSON::PP::decode_json($output) };
	while (my $node = shift @nodes)
	{
		return $node if $node->{'Node Type'} eq $type;
		push @nodes, @{ $node->{Plans} // [] };
	}
	die "there is no $type in this plan: $output";
}

# Runs VACUUM VERBOSE with these options and returns its report.
# Test: VACUUM could remove all dead rows, since no other session has a snapshot.
sub vacuum ($session, $options, $table)
{
	$session->notices;
	$session->sql("VACUUM ($options, VERBOSE) $table");
	my $report = join "\n", $session->notices;
	like($report, qr/tuples: \d+ removed, \d+ remain, 0 are dead but not yet removable/, 'all dead rows could be removed');
	# of a table and its TOAST table
	my $total;
	while ($report =~ /pages: (\d+) removed, (\d+) remain|(\d+) (?:scanned|pages from table) \(([\d.]+)% of total\)/g)
	{
		if (defined $1) { $total = $1 + $2 }
		else { is($4, $total ? sprintf('%.2f', 100 * $3 / $total) : '100.00', "the share that $3 of $total pages are") }
	}
	return $report;
}

# Returns the number that the pattern captures in a report.
sub reported ($report, $pattern) { return $report =~ $pattern ? $1 : "no $pattern in: $report" }

# Returns how many pages have a line pointer that is marked as dead (LP_DEAD).
sub pages_with_dead ($aio, $table, $pages)
{
	return $aio->sql("SELECT count(DISTINCT b) FROM generate_series(0, $pages - 1) b, heap_page_items(get_raw_page('$table', b)) i WHERE lp_flags = 3");
}

# Uses up so many transaction IDs.  A transaction that only has an ID commits asynchronously, and until
# that is flushed, rows of transactions whose IDs are near get no hint bits.  So the last one writes WAL.
sub use_up_xids ($aio, $count)
{
	$aio->sql("DO \$\$ BEGIN FOR i IN 1 .. $count LOOP PERFORM txid_current(); COMMIT; END LOOP; END \$\$;"
		  . "SELECT pg_logical_emit_message(true, '', '') IS NULL");
	return;
}

1;
