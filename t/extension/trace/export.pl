# Exports of the I/O trace.  Chrome trace events are JSON, and every read, slice and arrow has
# both its ends.  A fio log has fio's columns.  Memory is bounded.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use JSON::PP;
use TestAio;
use TestAio::Trace;

my $name = qq{strange "name\\ of\ta\ttäble};

# Returns the events of a kind.
sub of { my ($phase, @events) = @_; return grep { $_->{ph} eq $phase } @events }

# Is a moment within a slice of this thread?
sub in_slice
{
	my ($event, @slices) = @_;
	return scalar grep { $_->{tid} == $event->{tid} && $_->{ts} <= $event->{ts} && $event->{ts} <= $_->{ts} + $_->{dur} } @slices;
}

sub check_chrome
{
	my ($aio, $document) = @_;
	my $parsed = eval { JSON::PP->new->utf8->decode($document) };
	ok($parsed, 'is a JSON document') or return diag($@);
	my @events = @{ $parsed->{traceEvents} };
	my $n = $aio->sql('SELECT count(*) FROM io_trace');
	my @begins = of('b', @events);
	my %end = map { $_->{id2}{local} => $_ } of('e', @events);
	is(@begins, $n, 'each read begins');
	is(keys %end, $n, 'and ends, with an id of its own');
	is(scalar(grep { !$end{ $_->{id2}{local} } || $end{ $_->{id2}{local} }{ts} < $_->{ts} || $end{ $_->{id2}{local} }{name} ne $_->{name} } @begins), 0, 'in this order');
	my %named = map { $_->{tid} => $_->{args}{name} } grep { $_->{name} eq 'thread_name' } of('M', @events);
	is(scalar(grep { !defined $named{ $_->{tid} } || $_->{pid} != $_->{tid} } @events), 0, 'each process has a name');
	my @slices = of('X', @events);
	is(scalar(grep { $_->{dur} < 0 } @slices), 0, 'no slice is shorter than nothing');
	is(scalar(grep { $_->{name} =~ /^wait for/ } @slices), $aio->sql('SELECT sum(waits) FROM io_trace'), 'one for each wait');
	my %target = map { $_->{id} => $_ } of('f', @events);
	is(scalar(grep { !in_slice($_, @slices) } of('s', @events), values %target), 0, 'arrows go from slice to slice');
	is(scalar(grep { $target{ $_->{id} }{ts} < $_->{ts} } of('s', @events)), 0, 'forward in time');
	is(keys %target, $aio->sql('SELECT count(*) FROM io_trace WHERE completed_by <> pid AND completion_exact'), 'for each read that another has completed');
	my %last = map { ("$_->{pid} $_->{name}" => (values %{ $_->{args} })[0]) } of('C', @events);
	is(join(',', sort { $a <=> $b } values %last), join(',', (0) x keys %last), 'counters end at zero');
	cmp_ok(scalar(of('C', @events)), '>', 0, 'there are counters');
	return \@events;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('Chrome trace events', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $quoted = '"' . $name =~ s/"/""/gr . '"';
			my $t = $aio->table('t', 60);
			$aio->sql("ALTER TABLE $t RENAME TO $quoted");
			$aio->trace("'scenario.$quoted'");
			$_->starts("SELECT count(*) FROM scenario.$quoted") for $alice, $bob;
			$_->ends for $alice, $bob;
			$aio->end_trace;
			my $document = $aio->sql('SELECT io_trace_chrome()');
			my $events = check_chrome($aio, $document);
			my ($read) = of('b', @$events);
			utf8::encode(my $found = $read->{name});
			is($found, "read scenario.$quoted", 'the name of the relation');
			my $file = $aio->node->basedir . '/trace.json';
			$aio->sql("COPY (SELECT io_trace_chrome()) TO '$file'");
			ok(eval { JSON::PP->new->utf8->decode(PostgreSQL::Test::Utils::slurp_file($file)) }, 'COPY writes a JSON document as well');
		});

		$aio->scenario('memory does not grow with the number of rows', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			# the call's memory is in use when the first row is computed
			my $left = sub {
				$alice->sql('SET io_combine_limit = 1');
				$aio->trace("'$t'");
				for (1 .. $_[0]) { $aio->evict($t); $alice->sql("SELECT count(*) FROM $t") }
				$aio->end_trace;
				cmp_ok($alice->sql('SELECT count(*) FROM io_trace'), '>=', 60 * $_[0], 'so many reads');
				return $alice->sql("SELECT (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'ExprContext') FROM io_trace_chrome() LIMIT 1");
			};
			my $few = $left->(1);
			cmp_ok($left->(20), '<', $few + 65536, 'as much memory for many reads as for few');
		});

		$aio->scenario('reads that have not ended, and none', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 20);
			$aio->trace("'$t'");
			is(scalar @{ JSON::PP->new->decode($aio->sql('SELECT io_trace_chrome()'))->{traceEvents} }, 0, 'nothing');
			$aio->gives('SELECT count(*) FROM io_trace_fio_log()', 0);
			$aio->sql("SELECT io_hold('$t')");
			$alice->starts("SELECT read_rel_block_ll('$t', 3)");
			$aio->comes_to_trace('waits', 1);
			my ($end) = of('e', @{ JSON::PP->new->decode($aio->sql('SELECT io_trace_chrome()'))->{traceEvents} });
			ok(!$end->{args}{completed}, 'goes on to the end of the trace');
			$aio->gives('SELECT count(*) FROM io_trace_fio_log()', 0, 'is not in the log of latencies');
			$aio->gate_release;
			$alice->ends;
			$aio->end_trace;
		});

		$aio->scenario('a log as fio writes it', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 60);
			$aio->traces_of("'$t'", sub { $alice->sql("SELECT count(*) FROM $t") });
			my @lines = split /\n/, $aio->sql('SELECT io_trace_fio_log()');
			is(scalar @lines, $aio->sql('SELECT count(*) FROM io_trace'), 'a line a read');
			is(scalar(grep { !/^\d+, \d+, 0, \d+, \d+, 0$/ } @lines), 0, 'of six columns');
			my @columns = map { [split /, /] } @lines;
			is(scalar(grep { $columns[$_][0] < $columns[ $_ - 1 ][0] } 1 .. $#columns), 0, 'in order of time');
			my ($bytes, %blocks) = 0;
			for my $line (@columns) { $bytes += $line->[3]; $blocks{ $line->[4] + 8192 * $_ }++ for 0 .. $line->[3] / 8192 - 1 }
			is($bytes . ' ' . keys %blocks, 60 * 8192 . ' 60', 'all bytes of the table');
		});
	},
	needs => 'gate trace', conf => { 'test_aio.trace_completions' => 'on' });
