# The update of the extension from one version to the next.  The test builds a pretended next version from this
# checkout, as doc/releasing.md tells, and gives its library and scripts to a server.  The next library serves this
# version's extension as well, and this library serves what the next version's extension has of it.
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use TestAio;
use TestAio::Neighbours;

my ($version) = slurp_file($TestAio::root . '/test_aio.control') =~ /^default_version = '(.*)'/m;
my $next = $version =~ s/(\d+)$/$1 + 1/er;

# Makes the next version as a release does: a new version in the control file, and a script that updates.  Takes the
# objects that were compiled for this version, except those that name it.
my $script = <<'END';
cp -Rp "$2"/Makefile "$2"/test_aio.control "$2"/*.sql "$2"/src "$1"
cd "$1"
sed -i "s/^default_version = .*/default_version = '$4'/" test_aio.control
cat >"test_aio--$3--$4.sql" <<SQL
\\echo Use "ALTER EXTENSION test_aio UPDATE TO '$4'" to load this file. \\quit

CREATE FUNCTION is_new(sym text)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

REVOKE ALL ON FUNCTION is_new(text) FROM PUBLIC;
SQL
rm -f test_aio.so src/test_aio.o
cat >src/is_new.c <<C
#include "test_aio.h"
extern Datum errno_from_string(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(is_new);
Datum
is_new(PG_FUNCTION_ARGS)
{
	return errno_from_string(fcinfo);
}
C
# the other objects name no version, and are taken as they are
make -s -j2 -o .built_for PG_CONFIG="$0" with_llvm=no all install DESTDIR="$1/stage" pkglibdir=/lib datadir=/share
END

my $reason = only_long() // cannot_compile($script, $version, $next);
plan skip_all => $reason if $reason;

my $node = PostgreSQL::Test::Cluster->new('upgrade');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'test_aio'");

# Where a server finds the library and the scripts of this version.
my $conf = slurp_file($node->data_dir . '/postgresql.conf');
my ($libraries) = $conf =~ /^dynamic_library_path = '(.*)'/m;
my ($scripts) = $conf =~ /^extension_control_path = '(.*)'/m;
$libraries //= '$libdir';
$scripts //= '$system';

# Starts the server with the library and the scripts of a version.
sub start_with ($which)
{
	my ($lib, $share) = $which eq $next ? ("$built/stage/lib:", "$built/stage/share:") : ('', '');
	$node->stop if -e $node->data_dir . '/postmaster.pid';
	$node->append_conf('postgresql.conf', "dynamic_library_path = '$lib$libraries'\nextension_control_path = '$share$scripts'");
	$node->start;
	return;
}

# Test: a session gets these rows.
sub gives ($what, $expected, @sql)
{
	is($node->safe_psql('postgres', join '; ', @sql), $expected, $what);
	return;
}

my $installed = "SELECT extversion FROM pg_extension WHERE extname = 'test_aio'";
# a function and a view
my @works = ("SELECT 'evicted' || evict_rel('t')", 'SELECT count(*) FROM io_gate');

# the next version has the scripts of this one, too
start_with($next);
gives('works before the update, then as the next version with its new function, and made anew', join("\n", $version, 'evicted', 1, $next, 'evicted', 1, 5, $next),
	"CREATE EXTENSION IF NOT EXISTS test_aio VERSION '$version'", 'CREATE TABLE t (i int)', $installed, @works,
	'ALTER EXTENSION test_aio UPDATE', $installed, @works, "SELECT is_new('EIO')", 'DROP EXTENSION test_aio', 'CREATE EXTENSION test_aio', $installed);

start_with($version);
gives('a function of this version works with the old library', 'evicted', $works[0]);
my ($rc, undef, $stderr) = $node->psql('postgres', "SELECT is_new('EIO')");
isnt($rc, 0, 'a new function does not');
like($stderr, qr/could not find function "is_new" in file/, 'the error says why');
$node->stop;

done_testing();
