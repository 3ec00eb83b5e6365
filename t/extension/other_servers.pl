# test_aio on a server for which it was not compiled, and on servers whose tables of
# callbacks are not in read-only memory.
use FindBin; use lib "$FindBin::RealBin/..";
use TestAio;
use PostgreSQL::Test::Utils;
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio::Neighbours;

plan skip_all => only_long() if only_long();
found_library() or plan skip_all => 'test_aio.so is not where it is looked for';
build_neighbours();

# If the gate is disabled for another reason, the scenarios below show nothing.
my $no_gate;
beside('alone', 'test_aio', sub { my ($aio) = @_; $no_gate = $aio->lacks('gate') or holds_reads($aio) });
if ($no_gate)
{
	note($no_gate);
	done_testing();
	exit;
}

# Test: the memory of the tables has the protection that the neighbour has found or made.
sub tables_are
{
	my ($aio, $neighbour, $protection) = @_;
	$aio->sql("CREATE FUNCTION tables_protection() RETURNS text LANGUAGE C AS '$built/$neighbour', 'tables_protection'");
	return like($aio->sql('SELECT tables_protection()'), $protection, 'the tables are as protected as before');
}

for ([ 'tables_as_they_are', qr/^r[w-]-p$/ ], [ 'tables_writable', qr/^rw-p$/ ])
{
	my ($neighbour, $protection) = @$_;
	beside($neighbour, "$built/$neighbour, test_aio", sub {
		my ($aio) = @_;
		my ($alice, $t) = $aio->sessions_and_table('alice', 20);
		tables_are($aio, $neighbour, $protection);
		$aio->sql("SELECT io_hold('$t')");
		$alice->starts("SELECT count(*) FROM $t WHERE ctid = '(3,1)'");
		$aio->gate_holds(1, 'a synchronous read is held');
		$aio->end_gate;
		$alice->returns(1, 'reads');
	}, %{ reach_all() });
}
beside('tables_executable', "$built/tables_executable, test_aio", sub {
	my ($aio) = @_;
	my ($alice) = $aio->sessions('alice');
	tables_are($aio, 'tables_executable', qr/^r-xp$/);
	my $why = "the server's tables of callbacks are in executable memory";
	$aio->gives('SELECT gate FROM io_gate', 't', 'the gate is there');
	like(slurp_file($aio->node->logfile), qr/LOG:  test_aio: the I\/O gate does not see synchronous reads: \Q$why\E/, 'and the log says what it does not see');
	$alice->sql('SELECT io_hold(max_reads => 1), io_hold_end()');
	is_deeply([ $alice->notices ], ['the I/O gate does not see synchronous reads on this server'], 'the session is told');
	$alice->fails('SELECT io_trace_start()', '55000', qr/\Q$why\E/, 'there is no trace');
}, %{ reach_all() });

chomp(my $server = `"$pg_config" --version`);
my ($major) = $server =~ /(\d+)/;
# versions that the library claims to be compiled for: another minor one, and a pre-release
my ($release, $beta) = ("$major.99", '19beta9');

# Runs a scenario on a server that has the library compiled for a version.
sub compiled_for
{
	my ($version, $scenario) = @_;
	return beside($version =~ s/\W/_/r, "$built/$version/test_aio.so", $scenario, dynamic_library_path => "$built/$version:\$libdir");
}

my $reason = cannot_compile_library('PG_TEST_AIO_COMPILED_FOR', map { $_ => qq('"$_"') } $release, $beta);
SKIP:
{
	skip $reason, 1 if $reason;

	compiled_for($release, sub {
		my ($aio) = @_;
		# a pre-release differs from all other versions
		return does_without($aio, "this server is .* and test_aio was compiled for $release, and pre-releases differ", qr/Compile test_aio anew/)
		  if $server !~ /^PostgreSQL [\d.]+(?: |$)/;
		my $log = slurp_file($aio->node->logfile);
		is(scalar(() = $log =~ /WARNING:  test_aio was compiled for PostgreSQL \Q$release\E, and this server is/g), 1, 'the log has one warning');
		like($log, qr/HINT:  Compile test_aio anew with this server's header files/, 'the warning has a hint');
		holds_reads($aio);
	});

	compiled_for($beta, sub {
		my ($aio) = @_;
		my $differs = "this server is .* and test_aio was compiled for $beta, and pre-releases differ";
		does_without($aio, $differs, qr/Compile test_aio anew/);
		like(slurp_file($aio->node->logfile), qr/LOG:  test_aio: the I\/O gate is disabled: $differs/, 'the log says why');
	});
}
done_testing();
