package TestAio::Neighbours;

=head1 NAME

TestAio::Neighbours - other libraries beside test_aio, and I/O workers that stand still, on any server

=head1 SYNOPSIS

	my $reason = cannot_stop_workers();
	with_each_io_method('worker', sub {
		$aio->scenario('a worker stands still', with('alice', 8, sub ($alice, $t) {
			$aio->read_in_workers($t, sub { $alice->starts("SELECT read_rel_block_ll('$t', 3)") }, stop_workers_at => $t);
			$aio->continue_workers;
		}), skip => $reason);
	}, own => 1);
	beside('pg_prewarm', 'test_aio,pg_prewarm', sub ($aio) { holds_reads($aio) });

The libraries are those of t/neighbours/, and copies of test_aio.  A signal stops idle workers; a library for LD_PRELOAD
stops workers before they read a table.

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

use TestAio;

our @EXPORT = qw($built $pg_config beside cannot_build cannot_compile cannot_compile_library cannot_preload does_without holds_reads cannot_stop_workers);

push @TestAio::Server::ISA, 'TestAio::Neighbours';

# The directory in which libraries are compiled.  The directory above it is known once
# PostgreSQL::Test::Utils has been initialized, which has been done if TestAio::Preloaded runs the test.
our $built = defined $PostgreSQL::Test::Utils::tmp_check ? PostgreSQL::Test::Utils::tempdir() : undef;
no warnings 'void';
INIT { $built = PostgreSQL::Test::Utils::tempdir() }
use warnings FATAL => 'all';

our $pg_config = $ENV{PG_CONFIG} || 'pg_config';

# Runs a shell script and returns why it failed, or undef.  The script gets pg_config as
# $0, the directory $built as $1, the checkout as $2, and the arguments after these.
sub cannot_compile ($script, @arguments)
{
	my $log = "$built/compile.log";
	local $ENV{MAKE_TMPDIR} = $built;
	# a calling make's variables are not for these makes
	delete local @ENV{qw(MAKEFLAGS MAKELEVEL)};
	return if !system('sh', '-ec', "{ $script\n} >'$log' 2>&1 </dev/null", $pg_config, $built, $TestAio::root, @arguments);
	diag(slurp_file($log));
	return 'cannot compile here: ' . ((slurp_file($log) =~ /^(.+)\n?\z/m)[0] // 'no reason');
}

# Compiles the library to NAME/test_aio.so for each definition (name => value) of a macro that
# only src/aio/method.c and layout.c look at.  Returns why that failed, or undef.
sub cannot_compile_library ($macro, %definitions)
{
	return 'the objects of the library do not lie beside the tests' if !glob $TestAio::root . '/src/*.o';
	return cannot_compile('
		macro=$3
		compile() {
			mkdir "$1"
			cp -Rp "$2/Makefile" "$2/test_aio.control" "$2/src" "$1"
			rm "$1/src/aio/method.o" "$1/src/aio/layout.o"
			# the other objects are taken as they are, though the flags are others
			make -C "$1" -o .built_for PG_CONFIG="$0" with_llvm=no COPT="-D$3=$4" test_aio.so
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

# Compiles libraries of t/neighbours/, all or these.  Returns why that failed, or undef.
sub cannot_build (@libraries)
{
	return cannot_compile('
		directory=$1
		cp "$2"/t/neighbours/* "$directory"
		shift 2
		make -j4 -C "$directory" PG_CONFIG="$0" with_llvm=no "$@"', map { "$_.so" } @libraries);
}

# Compiles t/neighbours/preloaded.c, and has all programs that are started from now on load it.  Returns why that is not
# possible, or undef.
sub cannot_preload
{
	return 'AddressSanitizer must be the first library, and LD_PRELOAD would put another one before it' if ($ENV{ASAN_OPTIONS} // '') ne '';
	my $reason = cannot_build('preloaded');
	$ENV{LD_PRELOAD} = "$built/preloaded.so" if !$reason;
	return $reason;
}

# Runs a scenario on a server that preloads these libraries.
sub beside ($suffix, $libraries, $scenario, %conf)
{
	with_each_io_method(
		'worker',
		sub ($aio) {
			$aio->scenario("$suffix: $libraries" =~ s/\Q$built\E/DIR/gr, sub { $scenario->($aio) }, log => qr/LOG:  could not read blocks 12\.\.12 /);
		}, suffix => $suffix, leaves => 'nothing', conf => { %conf, shared_preload_libraries => $libraries });
	return;
}

# Test: the gate holds reads and releases them, and its worker performs one.
sub holds_reads ($aio)
{
	my ($alice, $bob) = $aio->sessions(qw(alice bob));
	my $t = $aio->table('t', 20);
	$aio->gives('SELECT gate, why_not, worker IS NOT NULL FROM io_gate', 't||t', 'the server has the gate and its worker');
	$aio->io_hold($t);
	$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 4)");
	$bob->starts("SELECT read_rel_block_ll('$t', 12)");
	$aio->io_held_count(2);
	$aio->gives('SELECT io_hold_end()', 1, 'the hold ends');
	is($aio->io_release_block(12, 'EIO'), 't', 'one read is released with an error');
	$bob->raises('58030', qr/Input\/output error/, 'gets the error');
	$aio->gives('SELECT io_release_all()', 1, 'the other read is released');
	$alice->returns('', 'reads');
	$aio->io_device($t, '1ms');
	$alice->gives("SELECT read_rel_block_ll('$t', 16)", '', 'reads from a simulated device');
	$aio->end_filters;
	return;
}

# Returns a call of each function of the gate, with the arguments that it must have.
sub _calls ($aio)
{
	return split /\n/, $aio->sql(<<'END');
SELECT format('%s(%s)', proname, (
	SELECT string_agg(format('%L::%s', CASE WHEN typcategory = 'A' THEN '{}' WHEN typname = 'regclass' THEN 'pg_class' ELSE '1' END, typname), ', ' ORDER BY place)
	FROM unnest(proargtypes) WITH ORDINALITY a(type, place) JOIN pg_type t ON t.oid = type WHERE place <= pronargs - pronargdefaults))
FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname ~ '^io_(?!settle|trace|filters_get|gate_get|relation)'
END
}

# Test: the server has no gate, for this reason, and all else works.
sub does_without ($aio, $why, $hint = '')
{
	my ($alice, $t) = $aio->sessions_and_table('alice', 20);
	$aio->gives('SELECT gate, worker IS NULL FROM io_gate', 'f|t', 'the server has no gate');
	like($aio->sql('SELECT why_not FROM io_gate'), qr/^$why$/, 'io_gate tells why');
	my @calls = _calls($aio);
	cmp_ok(scalar @calls, '>=', 10, 'functions of the gate');
	$alice->fails("SELECT * FROM $_", '55000', qr/(?:there is no I\/O gate|there are no filters).*The reason is that $why\.\n.*?$hint/s, $_) for @calls;
	$alice->gives("SELECT count(*) FROM read_stream_for_blocks('$t', ARRAY[1, 2, 3])", 3, 'reads');
	$alice->gives("SELECT count(*) FROM $t WHERE ctid = '(5,1)'", 1, 'reads synchronously');
	return;
}

# The link that points to the file before whose reads workers stop.
my $link;

# Has servers that are started from now on let their workers be stopped.  Returns why that is not possible, or undef.
sub cannot_stop_workers
{
	$link = $ENV{TEST_AIO_STOPS} = PostgreSQL::Test::Utils::tempdir_short() . '/stops';
	return cannot_preload();
}

END { unlink $link if $link }

# Calls a function while all I/O workers stand still, by a signal.  They are idle then: one
# that stops while it holds the lock of the queue would keep everybody from submitting reads.
sub while_workers_are_still ($self, $function)
{
	$self->wait_for("SELECT bool_and(wait_event = 'IoWorkerMain') FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker'");
	return while_still($self->pids_of_type('io worker'), $function);
}

# Has I/O workers stand still before they read the main fork of a table.
sub stop_workers_at ($self, $table)
{
	symlink $self->file_of($table), $link or die "$link: $!";
	$self->{faults}{stop_workers_at} = 1;
	return;
}

# Lets them go on.
sub continue_workers ($self)
{
	unlink $link or die "$link: $!";
	delete $self->{faults}{stop_workers_at};
	return;
}

# Process ids of the workers that stand still.
sub stopped_workers ($self)
{
	return split /\n/, $self->sql("SELECT pid FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker' AND wait_event = 'DataFileRead' ORDER BY pid");
}

# Test: so many workers stand still, now or soon.
sub workers_stopped ($self, $count, $name = "$count workers stand still")
{
	return $self->gives_soon("SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE backend_type = 'io worker' AND wait_event = 'DataFileRead'", $count, $name);
}

1;
