# test_aio on servers for which it was not compiled, and beside other libraries in shared_preload_libraries: libraries
# that wrap the I/O method's table of functions, and a library that does not call the previous hook.
use TestAio;
use PostgreSQL::Test::Utils;
use TestAio::Neighbours;

# A server of a major version that the library does not know.  With test_aio.gate = on the gate and
# the trace are disabled, with try they work.  The test compiles the library so that it knows only
# versions before the server's.  doc/install.md names the versions that the library knows.
subtest 'doc/install.md names the versions that the library knows' => sub {
	my ($document) = grep { -r } map { "$_/doc/install.md" } $TestAio::root, $ENV{TEST_AIO_SOURCE} // ();
	my $source = $TestAio::root . '/src/compat.h';
	plan skip_all => 'doc/ and src/ do not lie beside the tests' if !$document || !-r $source;
	my ($last) = slurp_file($source) =~ /^#define PG_TEST_AIO_LAST_KNOWN (\d+)$/m;
	my ($named) = slurp_file($document) =~ /The test suite passes on PostgreSQL ([\d, and]+\d)\b/;
	is(join(' ', ($named // '') =~ /\d+/g), join(' ', 18 .. $last), 'one after another, from 18 on');
};

my $unknown = 17;
my $too_new = qr/this server is PostgreSQL .+, and test_aio knows no version after $unknown/;

# A server with that library, this test_aio.gate, and a scenario.
sub unknown_server ($gate, $scenario)
{
	with_each_io_method('worker', sub {
		my $why_not = $aio->sql('SELECT why_not FROM io_gate');
		$aio->scenario("test_aio.gate = $gate", sub { $scenario->($aio, $aio->sessions('alice'), $aio->table('t', 20)) },
			skip => $why_not && $why_not !~ $too_new ? "needs the I/O gate: $why_not" : undef);
	},
		suffix => $gate,
		conf => { dynamic_library_path => "$built/unknown:\$libdir", 'test_aio.gate' => $gate });
	return;
}

SKIP:
{
	my $reason = only_long() // cannot_compile_library('PG_TEST_AIO_LAST_KNOWN', unknown => $unknown);
	skip $reason, 1 if $reason;

	unknown_server('on', sub ($aio, $alice, $t) {
		my $hint = qr/HINT:  Set "test_aio\.gate" to "try" and restart the server/;
		$aio->gives('SELECT gate, worker IS NULL FROM io_gate', 'f|t', 'there is no gate');
		$alice->fails("SELECT $_", '55000', qr/The reason is that $too_new\.\n.*$hint/s, $_) for "io_hold('$t')", 'io_trace_start()';
		like($aio->log_text(0), qr/LOG:  test_aio: the I\/O $_ is disabled: $too_new/, "the log tells of the $_") for qw(gate trace);
		unlike($aio->log_text(0), qr/test_aio tries/, 'the log does not say that test_aio tries');
		$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[1, 2, 3])", 3, 'reads');
	});

	unknown_server('try', sub ($aio, $alice, $t) {
		my @tries = $aio->log_text(0) =~ /LOG:  test_aio tries PostgreSQL .+, and knows no version after $unknown$/mg;
		is(scalar @tries, 1, 'the log says once that test_aio tries');
		$aio->gives('SELECT gate, why_not FROM io_gate', 't|', 'there is a gate');
		$aio->read_waits_for("io_trace_start('$t'), io_hold('$t')", $alice, "SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
		$aio->gives('SELECT io_hold_end(), io_release_all()', '1|1', 'a held read is released');
		$alice->returns('', 'reads');
		$aio->gives('SELECT blockno, nblocks FROM io_trace', '3|4', 'there is a trace of it');
		$aio->sql('SELECT io_trace_stop()');
	});
}

if (my $reason = only_long())
{
	SKIP: { skip $reason, 1 }
	done_testing();
	exit;
}
my $cannot_build = cannot_build();
plan skip_all => $cannot_build if $cannot_build;

# If the gate is disabled for another reason, the scenarios below show nothing.
my $no_gate;
beside('nothing', 'test_aio', sub { $no_gate = $aio->lacks('gate') or holds_reads($aio) });
if ($no_gate)
{
	note($no_gate);
	done_testing();
	exit;
}

# Test: reads pass through the neighbour's table of functions.
sub passes ($aio, $neighbour)
{
	my ($carol) = $aio->sessions('carol');
	my $t = $aio->table('passing', 4);
	$aio->sql("CREATE FUNCTION neighbour_calls() RETURNS int8 LANGUAGE C AS '$built/$neighbour', 'neighbour_calls'");
	$carol->sql("SELECT read_rel_block_ll('$t', 1)");
	$carol->gives('SELECT neighbour_calls() > 0', 't', "reads pass $neighbour");
	return;
}

# The neighbour's table is in front of test_aio's, or behind it.
for my $neighbour (qw(wraps_at_once wraps_last))
{
	beside("after_$neighbour", "test_aio, $built/$neighbour", sub {
		passes($aio, $neighbour);
		holds_reads($aio);
	});
}
beside('before_wraps_at_once', "$built/wraps_at_once, test_aio", sub {
	passes($aio, 'wraps_at_once');
	does_without($aio, "the server's I/O method is not one of its own", qr/^HINT: /m);
});

beside('keeps_request_hook', "test_aio, $built/keeps_request_hook", sub {
	my ($alice) = $aio->sessions('alice');
	my $hint = qr/Does another library in "shared_preload_libraries" not call the previous shmem_request_hook or shmem_startup_hook\?/;
	does_without($aio, 'its shared memory was not set up', $hint);
	$alice->fails("SELECT $_", '55000', qr/The reason is that its shared memory was not set up\..*$hint/s, $_)
	  for 'io_trace_start()', 'inj_io_completion_wait()', 'count(*) FROM io_filters';
});

chomp(my $server = `"$pg_config" --version`);
my ($major) = $server =~ /(\d+)/;
# versions that the library claims to be compiled for: another minor one, and a pre-release
my ($release, $beta) = ("$major.99", '19beta9');

# Runs a scenario on a server that has the library compiled for a version.
sub compiled_for ($version, $scenario)
{
	return beside($version =~ s/\W/_/r, "$built/$version/test_aio.so", $scenario, dynamic_library_path => "$built/$version:\$libdir");
}

my $reason = cannot_compile_library('PG_TEST_AIO_COMPILED_FOR', map { $_ => qq('"$_"') } $release, $beta);
SKIP:
{
	skip $reason, 1 if $reason;

	compiled_for($release, sub {
		# a pre-release differs from all other versions
		return does_without($aio, "this server is .* and test_aio was compiled for $release, and pre-releases differ", qr/Compile test_aio anew/)
		  if $server !~ /^PostgreSQL [\d.]+(?: |$)/;
		my $log = slurp_file($aio->node->logfile);
		is(scalar(() = $log =~ /WARNING:  test_aio was compiled for PostgreSQL \Q$release\E, and this server is/g), 1, 'the log has one warning');
		like($log, qr/HINT:  Compile test_aio anew with this server's header files/, 'the warning has a hint');
		holds_reads($aio);
	});

	compiled_for($beta, sub {
		my $differs = "this server is .* and test_aio was compiled for $beta, and pre-releases differ";
		does_without($aio, $differs, qr/Compile test_aio anew/);
		like(slurp_file($aio->node->logfile), qr/LOG:  test_aio: the I\/O gate is disabled: $differs/, 'the log says why');
	});
}
done_testing();
