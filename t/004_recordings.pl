# A recording (TestAio/Recording.pm) notices each thing that it is there to notice, and nothing if
# a script does the same again.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils ();
use TestAio;
use TestAio::Aside;
use TestAio::Recording;

my $script = <<'END';
CREATE TABLE t (n int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT generate_series(1, 1000);
SELECT evict_rel('t');
SELECT count(*) FROM t;
SELECT 1 / 0;
\pages t
END

my $statements = 0;
my %number = map { s/;$//r => ++$statements } split /\n/, $script;

# what is changed in the recording, and the statement whose comparison fails then
my @changes = (
	[ 'a row', 'SELECT count(*) FROM t', qr/^row 1000$/m, 'row 999' ],
	[ 'a message', 'SELECT 1 / 0', qr/division by zero/, 'division by one' ],
	[ 'a counter', 'SELECT count(*) FROM t', qr/heap_blks_read \+\d+/, 'heap_blks_read +999' ],
	[ 'a size', 'INSERT INTO t SELECT generate_series(1, 1000)', qr/main 5/, 'main 6' ],
	[ 'a WAL record', 'INSERT INTO t SELECT generate_series(1, 1000)', qr/^wal Heap INSERT t.*\n/m, '' ],
	[ 'the pool', q{SELECT evict_rel('t')}, qr/^pool t main: none$/m, 'pool t main: 1 pages, 0 dirty; 1: 1', 'pg_buffercache' ],
	[ 'a read', 'SELECT count(*) FROM t', qr/^trace t main: 0\+1\b/m, 'trace t main: 0+2', 'trace' ],
	[ 'a page', '\\pages t', qr/226 normal/, '225 normal' ]);

with_each_io_method(
	sub {
		my ($aio) = @_;
		my $directory = PostgreSQL::Test::Utils::tempdir();
		local $TestAio::Script::directory = $directory;
		local $ENV{TEST_AIO_COMPARE_WITH} = $directory;
		delete local $ENV{TEST_AIO_RECORD_INTO};
		append($directory, 'tiny.sql', $script);
		my $run = sub { $aio->sql('DROP SCHEMA IF EXISTS recorded CASCADE; DROP VIEW IF EXISTS named; DEALLOCATE ALL'); recorded($aio, 'tiny') };
		my $file = 'tiny.' . TestAio::Recording::version($aio) . '.out';
		{
			local $ENV{TEST_AIO_RECORD_INTO} = $directory;
			notices($aio, 'it is recorded', $run, {}, [ "$file is written again; read it", qr/^/ ]);
		}
		my $kept = PostgreSQL::Test::Utils::slurp_file("$directory/$file");
		notices($aio, 'the same again', $run, {});
		for my $change (@changes)
		{
			my ($what, $statement, $pattern, $other, $needs) = @$change;
			next if $needs && $aio->lacks($needs);
			my $changed = $kept =~ s/$pattern/$other/r;
			isnt($changed, $kept, "$what: the recording has it");
			unlink "$directory/$file";
			append($directory, $file, $changed);
			notices($aio, "$what differs", $run, {}, [ "tiny, $number{$statement}: $statement", qr/^/ ]);
		}
	},
	io_methods => 'long: sync',
	conf => { TestAio::Recording::settings() });
done_testing();

sub append
{
	my ($directory, $name, $text) = @_;
	open my $file, '>', "$directory/$name" or die "$directory/$name: $!";
	print $file $text;
	close $file;
	return;
}
