# A comparison of recordings (TestAio/Difference.pm) notices what differs, and
# nothing if a script does the same again.
use TestAio;
use PostgreSQL::Test::Utils ();
use TestAio::Difference;
use TestAio::Recording;

my $script = <<'END';
CREATE TABLE t (n int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT generate_series(1, 1000);
SELECT evict_rel('t');
SELECT count(*) FROM t;
SELECT 1 / 0;
END

# what is changed, the number of its statement, and the kind of the difference
my @changes = (
	[ 'a row', 4, qr/^row 1000$/m, 'row 999', '+row -row' ],
	[ 'a counter', 4, qr/heap_blks_read \+\d+/, 'heap_blks_read +999', '+block -block' ],
	[ 'a read', 4, qr/^trace t main: 0\+1\b/m, 'trace t main: 0+2', '+trace -trace' ],
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
	local $TestAio::Recording::directory = $directory;
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
	my ($row, $counter) = map { changed($made, @$_[ 2, 3 ], $next) } @changes[ 0, 1 ];
	is(found($made, $row), '4: +row -row', 'two major versions: a row');
	is(found($made, $counter), '', 'two major versions: counters are left out');
	PostgreSQL::Test::Utils::append_to_file("$directory/expected",
		"# reasons\n\n$major to $next: it counts\n\t^tiny: row (?:1000|999)\$\n");
	is(found($made, $row), '4: +row -row, it counts', 'a row that is expected');
	is(found($made, changed($made, @{ $changes[0] }[ 2, 3 ])), '4: +row -row', 'within a major version it is not expected');
},
	own => 1, conf => { TestAio::Recording::settings() });
done_testing();
