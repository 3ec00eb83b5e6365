# test_aio beside other libraries in shared_preload_libraries: libraries that wrap the I/O
# method's table of functions, and libraries that do not call the previous hook.
use FindBin; use lib "$FindBin::RealBin/..";
use TestAio;
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;
use TestAio::Neighbours;

plan skip_all => only_long() if only_long();
my $library = found_library() or plan skip_all => 'test_aio.so is not where it is looked for';
build_neighbours();

# test_aio under another name: a link to the file
my $link = "$built/link/test_aio.so";
mkdir dirname($link);
symlink $library, $link;

# If the gate is disabled for another reason, the scenarios below show nothing.
my $no_gate;
beside('link', $link, sub { my ($aio) = @_; $no_gate = $aio->lacks('gate') or holds_reads($aio) });
if ($no_gate)
{
	note($no_gate);
	done_testing();
	exit;
}

# Test: reads pass through the neighbour's table of functions.
sub passes
{
	my ($aio, $neighbour) = @_;
	my ($carol) = $aio->sessions('carol');
	my $t = $aio->table('passing', 4);
	$aio->sql("CREATE FUNCTION neighbour_calls() RETURNS int8 LANGUAGE C AS '$built/$neighbour', 'neighbour_calls'");
	$carol->sql("SELECT read_rel_block_ll('$t', 1)");
	$carol->gives('SELECT neighbour_calls() > 0', 't', "reads pass $neighbour");
	return;
}

# The neighbour's table is in front of test_aio's, or behind it.
for my $neighbour (qw(wraps_at_once wraps_first wraps_last))
{
	beside("after_$neighbour", "test_aio, $built/$neighbour", sub {
		my ($aio) = @_;
		passes($aio, $neighbour);
		holds_reads($aio);
	}, %{ reach_all() });
}
for my $neighbour (qw(wraps_first wraps_last))
{
	beside("before_$neighbour", "$built/$neighbour, test_aio", sub {
		my ($aio) = @_;
		passes($aio, $neighbour);
		holds_reads($aio);
	});
}
beside('before_wraps_at_once', "$built/wraps_at_once, test_aio", sub {
	my ($aio) = @_;
	passes($aio, 'wraps_at_once');
	does_without($aio, "the server's I/O method is not one of its own", qr/^HINT: /m);
});

for my $neighbour (qw(keeps_startup_hook keeps_request_hook))
{
	beside($neighbour, "test_aio, $built/$neighbour", sub {
		my ($aio) = @_;
		my ($alice) = $aio->sessions('alice');
		my $hint = qr/Does another library in "shared_preload_libraries" not call the previous shmem_request_hook or shmem_startup_hook\?/;
		does_without($aio, 'its shared memory was not set up', $hint);
		$alice->fails("SELECT $_", '55000', qr/The reason is that its shared memory was not set up\..*$hint/s, $_)
		  for 'io_trace_start()', 'inj_io_completion_wait()', 'count(*) FROM io_filters';
	}, %{ reach_all() });
}

done_testing();
