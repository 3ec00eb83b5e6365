# The library itself: where it lies, and copies of it that are compiled otherwise.

package TestAio::Library;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(build_directory cannot_compile cannot_compile_library found_library);

my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
my $checkout = dirname($FindBin::RealBin);
my $built;

# A directory for what a test compiles; it goes with the test.
sub build_directory
{
	return $built //= PostgreSQL::Test::Utils::tempdir();
}

# Runs a shell script of makes with these arguments; returns why it failed, or undef.
# The script's $0 is pg_config, $1 the directory to build in, $2 the checkout.
sub cannot_compile
{
	my ($script, @arguments) = @_;
	my $directory = build_directory();
	my $log = "$directory/compile.log";
	local $ENV{MAKE_TMPDIR} = $directory;
	# those of a calling make are not for these
	delete local @ENV{qw(MAKEFLAGS MAKELEVEL)};
	return if !system('sh', '-ec', "{ $script\n} >'$log' 2>&1 </dev/null", $pg_config, $directory, $checkout, @arguments);
	diag(slurp_file($log));
	return 'cannot compile libraries here: ' . ((slurp_file($log) =~ /^(.+)\n?\z/m)[0] // 'no reason');
}

# Compiles the library once for each definition (name => value) of a macro of method.c's,
# which alone is compiled again, to NAME/test_aio.so.  Returns why that failed, or undef.
sub cannot_compile_library
{
	my ($macro, %definitions) = @_;
	return 'the objects of the library do not lie beside the tests' if !glob "$checkout/src/*.o";
	return cannot_compile('
		macro=$3
		compile() {
			mkdir "$1"
			cp -Rp "$2/Makefile" "$2/test_aio.control" "$2/src" "$1"
			rm "$1/src/aio/method.o"
			make -C "$1" PG_CONFIG="$0" with_llvm=no COPT="-D$3=$4" test_aio.so
		}
		directory=$1 checkout=$2
		shift 3
		while [ $# -gt 0 ]; do
			compile "$directory/$1" "$checkout" "$macro" "$2" &
			built="${built:-} $directory/$1/test_aio.so"
			shift 2
		done
		wait
		ls $built', $macro, %definitions);
}

# The file that CREATE EXTENSION finds.
sub found_library
{
	chomp(my $libdir = `"$pg_config" --pkglibdir`);
	my $settings = $ENV{TEMP_CONFIG} ? slurp_file($ENV{TEMP_CONFIG}) : '';
	my ($path) = $settings =~ /^dynamic_library_path = '(.*)'/m;
	my ($found) = grep { -e } map { s/\$libdir/$libdir/r . '/test_aio.so' } split /:/, $path // '$libdir';
	return $found;
}

1;
