# A server of a major version that the library does not know.  With test_aio.gate = on the gate and
# the trace are disabled, with try they work.  The test compiles the library so that it knows only
# versions before the server's.  doc/install.md names the versions that the library knows.
#
# io_methods: worker
use TestAio;
use PostgreSQL::Test::Utils;
use TestAio::Neighbours;

subtest 'doc/install.md names the versions that the library knows' => sub {
	my ($document) = grep { -r } map { "$_/doc/install.md" } $TestAio::root, $ENV{TEST_AIO_SOURCE} // ();
	my $source = $TestAio::root . '/src/compat.h';
	plan skip_all => 'doc/ and src/ do not lie beside the tests' if !$document || !-r $source;
	my ($last) = slurp_file($source) =~ /^#define PG_TEST_AIO_LAST_KNOWN (\d+)$/m;
	my ($named) = slurp_file($document) =~ /The test suite has passed on PostgreSQL ([\d, and]+\d)\b/;
	is(join(' ', ($named // '') =~ /\d+/g), join(' ', 18 .. $last), 'one after another, from 18 on');
};

my $unknown = 17;
my $why = qr/this server is PostgreSQL .+, and test_aio knows no version after $unknown/;
my $reason = cannot_compile_library('PG_TEST_AIO_LAST_KNOWN', unknown => $unknown);
if ($reason)
{
	SKIP: { skip $reason, 1 }
	done_testing();
	exit;
}

# A server with that library, this test_aio.gate, and a scenario.
sub unknown_server ($gate, $scenario)
{
	with_each_io_method(sub {
		my $why_not = $aio->sql('SELECT why_not FROM io_gate');
		$aio->scenario("test_aio.gate = $gate", sub { $scenario->($aio, $aio->sessions('alice'), $aio->table('t', 20)) },
			skip => $why_not && $why_not !~ $why ? "needs the I/O gate: $why_not" : undef);
	},
		suffix => $gate,
		conf => { dynamic_library_path => "$built/unknown:\$libdir", 'test_aio.gate' => $gate });
	return;
}

unknown_server('on', sub ($aio, $alice, $t) {
	my $hint = qr/HINT:  Set "test_aio\.gate" to "try" and restart the server/;
	$aio->gives('SELECT gate, worker IS NULL FROM io_gate', 'f|t', 'there is no gate');
	$alice->fails("SELECT $_", '55000', qr/The reason is that $why\.\n.*$hint/s, $_) for "io_hold('$t')", 'io_trace_start()';
	like($aio->log_text(0), qr/LOG:  test_aio: the I\/O $_ is disabled: $why/, "the log tells of the $_") for qw(gate trace);
	unlike($aio->log_text(0), qr/test_aio tries/, 'the log does not say that test_aio tries');
	$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[1, 2, 3])", 3, 'reads');
	$aio->proves($t);
});

unknown_server('try', sub ($aio, $alice, $t) {
	my @tries = $aio->log_text(0) =~ /LOG:  test_aio tries PostgreSQL .+, and knows no version after $unknown$/mg;
	is(scalar @tries, 1, 'the log says once that test_aio tries');
	$aio->gives('SELECT gate, why_not FROM io_gate', 't|', 'there is a gate');
	$aio->sql("SELECT io_trace_start('$t'); SELECT io_hold('$t')");
	$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
	$aio->gate_holds(1);
	$aio->gives('SELECT io_hold_end(), io_release_all()', '1|1', 'a held read is released');
	$alice->returns('', 'reads');
	$aio->gives('SELECT blockno, nblocks FROM io_trace', '3|4', 'there is a trace of it');
	$aio->sql('SELECT io_trace_stop()');
	$aio->proves($t);
});

done_testing();
