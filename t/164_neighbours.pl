# The library beside others in shared_preload_libraries: some put tables of their own into
# the AIO subsystem, some do not call its hooks, some are copies of it.  The library
# compiled for another version of the server.  Servers whose tables of callbacks are not
# in read-only memory.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use File::Basename qw(basename dirname);
use PostgreSQL::Test::Utils;
use TestAio;
use TestAio::Gate;

my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
my $checkout = dirname($FindBin::RealBin);
my $built = PostgreSQL::Test::Utils::tempdir();

# Runs a shell script of makes with these arguments; returns why it failed, or undef.
sub cannot_compile
{
	my ($script, @arguments) = @_;
	my $log = "$built/compile.log";
	local $ENV{MAKE_TMPDIR} = $built;
	# those of a calling make are not for these
	delete local @ENV{qw(MAKEFLAGS MAKELEVEL)};
	return if !system('sh', '-ec', "{ $script\n} >'$log' 2>&1 </dev/null", $pg_config, $built, $checkout, @arguments);
	diag(slurp_file($log));
	return 'cannot compile libraries here: ' . ((slurp_file($log) =~ /^(.+)\n?\z/m)[0] // 'no reason');
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

my $library = found_library() or plan skip_all => 'test_aio.so is not where it is looked for';
my $reason = cannot_compile('cp "$2"/t/neighbours/* "$1"; make -j4 -C "$1" PG_CONFIG="$0" with_llvm=no');
plan skip_all => $reason if $reason;

# A server with these libraries, and a scenario.
sub beside
{
	my ($suffix, $libraries, $scenario, %params) = @_;
	my $conf = $params{conf} // {};
	with_each_io_method(
		sub { my ($aio) = @_; $aio->scenario("$suffix: $libraries" =~ s/\Q$built\E/DIR/gr, sub { $scenario->($aio) }, leaves => 'nothing',
			log => qr/could not read blocks 12\.\.12 /) },
		methods => ['worker'], suffix => $suffix,
		conf => { %$conf, shared_preload_libraries => $libraries });
	return;
}

# The gate holds a read and releases it.
sub holds_reads
{
	my ($aio) = @_;
	my ($alice, $bob) = $aio->sessions(qw(alice bob));
	my $t = $aio->table('t', 20);
	$aio->gives('SELECT gate, why_not, worker IS NOT NULL FROM io_gate', 't||t', 'there is a gate, and its worker');
	$aio->sql("SELECT io_hold('$t')");
	$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
	$bob->starts("SELECT read_rel_block_ll('$t', 12)");
	$aio->gate_holds(2);
	$aio->gives('SELECT io_hold_end()', 1);
	$aio->gives("SELECT io_release(pid, io_id, -errno_from_string('EIO')) FROM io_held WHERE blockno = 12", 't');
	$bob->raises('58030', qr/Input\/output error/, 'fails as he was told');
	$aio->gives('SELECT io_release_all()', 1);
	$alice->returns('', 'reads');
	# the worker performs this one
	$aio->sql("SELECT io_device('1ms', rel => '$t')");
	$alice->gives("SELECT read_rel_block_ll('$t', 16)", '', 'from a device');
	$aio->end_gate;
	$aio->proves($t);
	return;
}

# There is no gate for this reason; all the rest works.
sub does_without
{
	my ($aio, $why, $hint) = @_;
	my ($alice) = $aio->sessions('alice');
	my $t = $aio->table('t', 20);
	$aio->gives('SELECT gate, worker IS NULL FROM io_gate', 'f|t', 'there is no gate');
	like($aio->sql('SELECT why_not FROM io_gate'), qr/^$why$/, 'io_gate tells why');
	$alice->fails("SELECT $_", '55000', qr/The reason is that $why\.\n.*?$hint/s, $_)
	  for "io_hold('$t')", "io_fail('$t', -5)", 'io_release_all()', "io_device('1ms')";
	$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[1, 2, 3])", 3, 'reads');
	$alice->gives("SELECT count(*) FROM $t WHERE ctid = '(5,1)'", 1, 'reads synchronously');
	$aio->proves($t);
	return;
}

# Reads pass the neighbour's table.
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

# The library under another name: the same file.  This tells whether there can be a gate.
my $link = "$built/link/test_aio.so";
my $copy = "$built/copy/test_aio.so";
mkdir dirname($_) for $link, $copy;
symlink $library, $link;
system('cp', $library, $copy);

my $no_gate;
beside('link', $link, sub { my ($aio) = @_; $no_gate = $aio->lacks('gate') or holds_reads($aio) });
if ($no_gate)
{
	note($no_gate);
	done_testing();
	exit;
}

# another library's table: in front of ours or behind it

for my $neighbour (qw(wraps_at_once wraps_first wraps_last))
{
	beside("after_$neighbour", "test_aio, $built/$neighbour", sub {
		my ($aio) = @_;
		passes($aio, $neighbour);
		holds_reads($aio);
	}, conf => { 'test_aio.trace_completions' => 'on', 'test_aio.reach_synchronous_reads' => 'on' });
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

# another library that does not call our hooks

for my $neighbour (qw(keeps_startup_hook keeps_request_hook))
{
	beside($neighbour, "test_aio, $built/$neighbour", sub {
		my ($aio) = @_;
		my ($alice) = $aio->sessions('alice');
		my $hint = qr/Does another library in "shared_preload_libraries" not call the previous shmem_request_hook or shmem_startup_hook\?/;
		does_without($aio, 'its shared memory was not set up', $hint);
		$alice->fails("SELECT $_", '55000', qr/The reason is that its shared memory was not set up\..*$hint/s, $_)
		  for 'io_trace_start()', 'inj_io_completion_wait()', 'count(*) FROM io_rules';
	}, conf => { 'test_aio.trace_completions' => 'on', 'test_aio.reach_synchronous_reads' => 'on' });
}

# copies of the library

sub is_another_copy
{
	my ($aio) = @_;
	does_without($aio, qr/another copy of the library was preloaded, from "\Q$copy\E"/, 'Preload the copy that CREATE EXTENSION finds');
	# the worker runs from the preloaded copy, whose functions can be called as well
	$aio->sql("CREATE FUNCTION copy_hold_end(int4) RETURNS int4 LANGUAGE C AS '$copy', 'io_hold_end'");
	$aio->gives('SELECT copy_hold_end(NULL)', 0, 'the preloaded copy has a gate');
	$aio->gives("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'test_aio gate'", 1, 'and its worker');
	return;
}

# Test: one warning about the second copy.
sub has_warned
{
	my ($aio, $first, $second) = @_;
	my @log = split /\n/, slurp_file($aio->node->logfile);
	is(scalar(grep { /WARNING:  test_aio is preloaded already, from "\Q$first\E"$/ } @log), 1, 'a warning');
	is(scalar(grep { /DETAIL:  The copy "\Q$second\E" does without its gate, rules and trace\./ } @log), 1, 'which names the other copy');
	return;
}

beside('copy', $copy, \&is_another_copy);
beside('twice', "test_aio, $copy", sub { my ($aio) = @_; has_warned($aio, $library, $copy); holds_reads($aio) });
beside('twice_copy_first', "$copy, test_aio", sub { my ($aio) = @_; has_warned($aio, $copy, $library); is_another_copy($aio) });

# the memory of the server's tables of callbacks, as in servers that are linked otherwise

sub tables_are
{
	my ($aio, $neighbour, $protection) = @_;
	$aio->sql("CREATE FUNCTION tables_protection() RETURNS text LANGUAGE C AS '$built/$neighbour', 'tables_protection'");
	return like($aio->sql('SELECT tables_protection()'), $protection, 'the tables are as protected as before');
}

my $reach = { 'test_aio.trace_completions' => 'on', 'test_aio.reach_synchronous_reads' => 'on' };
for (['tables_as_they_are', qr/^r[w-]-p$/], ['tables_writable', qr/^rw-p$/])
{
	my ($neighbour, $protection) = @$_;
	beside($neighbour, "$built/$neighbour, test_aio", sub {
		my ($aio) = @_;
		my ($alice) = $aio->sessions('alice');
		my $t = $aio->table('t', 20);
		tables_are($aio, $neighbour, $protection);
		$aio->sql("SELECT io_hold('$t')");
		$alice->starts("SELECT count(*) FROM $t WHERE ctid = '(3,1)'");
		$aio->gate_holds(1, 'a synchronous read is held');
		$aio->end_gate;
		$alice->returns(1, 'reads');
	}, conf => $reach);
}
beside('tables_executable', "$built/tables_executable, test_aio", sub {
	my ($aio) = @_;
	my ($alice) = $aio->sessions('alice');
	tables_are($aio, 'tables_executable', qr/^r-xp$/);
	my $why = "the server's tables of callbacks are in executable memory";
	does_without($aio, $why, qr/Set "test_aio\.reach_synchronous_reads" to off/);
	$alice->fails('SELECT io_trace_start()', '55000', qr/\Q$why\E.*Set "test_aio\.trace_completions" to off/s, 'nor is there a trace');
}, conf => $reach);

# compiled for another version

sub compiled_for_another
{
	return 'the objects of the library do not lie beside the tests' if !glob "$checkout/src/*.o";
	chomp(my $server = `"$pg_config" --version`);
	# a release unlike this one, and no release
	my ($major) = $server =~ /(\d+)/;
	my ($release, $beta) = ("$major.99", '19beta9');
	# method.c alone is compiled again
	my $why_not = cannot_compile('
		compile() {
			mkdir "$1"
			cp -Rp "$2/Makefile" "$2/test_aio.control" "$2/src" "$1"
			rm "$1/src/aio/method.o"
			make -C "$1" PG_CONFIG="$0" with_llvm=no COPT="-DPG_TEST_AIO_COMPILED_FOR=\'\\"$3\\"\'" test_aio.so
		}
		for version in "$3" "$4"; do compile "$1/$version" "$2" "$version" & done
		wait
		ls "$1/$3/test_aio.so" "$1/$4/test_aio.so"', $release, $beta);
	return $why_not if $why_not;

	my $differs = "this server is .* and test_aio was compiled for $beta, and pre-releases differ";
	my $only = sub {
		my ($libraries, $scenario) = @_;
		beside(basename(dirname($libraries)) =~ s/\W/_/r, $libraries, $scenario,
			conf => { dynamic_library_path => dirname($libraries) . ':$libdir' });
	};
	$only->("$built/$release/test_aio.so", sub {
		my ($aio) = @_;
		if ($server !~ /^PostgreSQL [\d.]+(?: |$)/)
		{
			does_without($aio, "this server is .* and test_aio was compiled for $release, and pre-releases differ", qr/Compile test_aio anew/);
			return;
		}
		my $log = slurp_file($aio->node->logfile);
		is(scalar(() = $log =~ /WARNING:  test_aio was compiled for PostgreSQL \Q$release\E, and this server is/g), 1, 'a warning, once');
		like($log, qr/HINT:  Compile test_aio anew with this server's header files/, 'and a hint');
		holds_reads($aio);
	});
	$only->("$built/$beta/test_aio.so", sub {
		my ($aio) = @_;
		does_without($aio, $differs, qr/Compile test_aio anew/);
		like(slurp_file($aio->node->logfile), qr/LOG:  test_aio: the I\/O gate stays out: $differs/, 'the log tells, too');
	});
	return;
}

my $not_compiled = compiled_for_another();
SKIP: { skip $not_compiled, 1 if $not_compiled }
done_testing();
