# A comparison of recordings (TestAio/Difference.pm) notices each thing that it is there to notice, and
# nothing if a script does the same again.
use TestAio;
use PostgreSQL::Test::Utils ();
use TestAio::Difference;
use TestAio::Recording;
use TestAio::Script;

my $script = <<'END';
CREATE TABLE t (n int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT generate_series(1, 1000);
SELECT evict_rel('t');
SELECT count(*) FROM t;
SELECT 1 / 0;
EXPLAIN (COSTS off) SELECT n FROM t;
\pages t
END

# what is changed, the number of its statement, and the kind of the difference
my @changes = (
	[ 'a row', 4, qr/^row 1000$/m, 'row 999', '+row -row' ],
	[ 'an error', 5, qr/division by zero/, 'division by one', '+said -said' ],
	[ 'a counter', 4, qr/heap_blks_read \+\d+/, 'heap_blks_read +999', '+block -block' ],
	[ 'a size', 2, qr/main 5/, 'main 6', '+class -class' ],
	[ 'a WAL record', 2, qr/^wal Heap INSERT t.*\n/m, '', '-wal' ],
	[ 'the pool', 3, qr/^pool t main: none$/m, 'pool t main: 1 pages, 0 dirty; 1: 1', '+pool -pool' ],
	[ 'a read', 4, qr/^trace t main: 0\+1\b/m, 'trace t main: 0+2', '+trace -trace' ],
	[ 'a page', 7, qr/226 normal/, '225 normal', '+page -page' ],
	[ 'a plan', 6, qr/^row Seq Scan on t$/m, "row Seq Scan on u\nrow   Disabled: true", '+row -row' ],
	[ 'a statement', 5, qr{SELECT 1 / 0}, 'SELECT 1 / 1', '+statement -statement' ]);

# Numbers and kinds of differences, and why they are expected.
sub found
{
	return join '; ', map { "$_->{number}: $_->{kind}" . (defined $_->{expected} ? ", $_->{expected}" : '') } differences(@_, 'tiny');
}

# A recording with another text, of another version.
sub changed ($recording, $pattern, $other, $version = undef)
{
	my $text = TestAio::Difference::text($recording);
	my $changed = $text =~ s/$pattern/$other/r;
	isnt($changed, $text, "the recording has $pattern");
	$changed =~ s/^server \d+/server $version/ if $version;
	return TestAio::Difference::parse($changed);
}

with_each_io_method('long: sync', sub {
	my $directory = PostgreSQL::Test::Utils::tempdir();
	local $TestAio::Script::directory = $directory;
	PostgreSQL::Test::Utils::append_to_file("$directory/tiny.sql", $script);
	my @made;
	for (1, 2)
	{
		$aio->scenario("run $_", sub {
			push @made, recorded($aio, 'tiny');
			$aio->sql('DROP SCHEMA recorded CASCADE; DROP VIEW named; DEALLOCATE look');
		});
	}
	my ($made, $again) = @made;
	is(found($made, $again), '', 'the same again');
	is(found($made, TestAio::Difference::parse(TestAio::Difference::text($made))), '', 'the same once written and read');
	for (@changes)
	{
		my ($what, $number, $pattern, $other, $kind) = @$_;
		next if grep { $made->{lacks}{$_} && $kind =~ /$_/ } qw(trace pool);
		is(found($made, changed($made, $pattern, $other)), "$number: $kind", "$what differs");
	}

	my ($major) = $made->{version} =~ /^(\d+)/;
	my $next = $major + 1;
	my $text = TestAio::Difference::text({ %$again, lacks => { trace => 1, pool => 1 } });
	my $without = TestAio::Difference::parse($text =~ s/^(?:trace|pool) .*\n//mgr);
	is(found($made, $without), '', 'what one of the servers cannot show is left out');

	local $TestAio::Difference::expected_file = "$directory/expected";
	my ($row, $error, $counter, $plan) = map { changed($made, @$_[ 2, 3 ], $next) } @changes[ 0, 1, 2, 8 ];
	is(found($made, $row), '4: +row -row', 'two major versions: a row');
	is(found($made, $error), '5: +said -said', 'two major versions: an error');
	is(found($made, $counter), '', 'two major versions: counters are left out');
	is(found($made, $plan), '', 'two major versions: plans are left out');
	PostgreSQL::Test::Utils::append_to_file("$directory/expected",
		"# reasons\n\n$major to $next: it counts\n\t^tiny: row (?:1000|999)\$\n");
	is(found($made, $row), '4: +row -row, it counts', 'a row that is expected');
	is(found($row, $made), '4: +row -row, it counts', 'and the other way round');
	is(found($made, changed($made, @{ $changes[0] }[ 2, 3 ])), '4: +row -row', 'within a major version it is not expected');
	is(found($made, $error), '5: +said -said', 'nor is another difference');

	my %long = (script => 'tiny', statement => 'x' x 999, before => [ (1) x 9 ], after => [ 'y' x 999 ]);
	my @many = map { { %long, number => $_, kind => $_ % 20 } } 1 .. 100;
	my @lines = summary(@many);
	is_between(scalar @lines, 60, 80, 'lines about many differences');
	is_between((sort { $b <=> $a } map { length } @lines)[0], 100, 220, 'the longest line');
	my $counts = qr/… and 4 more lines.*likewise 4 statements: tiny \d+, .*60 statements of 12 other kinds left out/s;
	like(join("\n", @lines), $counts, 'what is left out is counted');
},
	own => 1, conf => { TestAio::Recording::settings() });
done_testing();
