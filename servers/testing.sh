# shellcheck shell=bash
# Servers with a staged extension, for servers/check, the meson build, mutants and
# benchmarks.  Wants PG_CONFIG; $stage is where the extension was installed to, $state
# where test servers and their logs go.

bindir=$("$PG_CONFIG" --bindir)
test_tools=$(dirname "$("$PG_CONFIG" --pgxs)")/../test
PATH=$bindir:$PATH

# Prints the settings by which a server finds the staged extension.
staged_settings() {
	printf '%s\n' "extension_control_path = '$stage/share:\$system'" "dynamic_library_path = '$stage/lib:\$libdir'"
}

# Others may read the settings meanwhile.
write_settings() {
	{
		staged_settings
		printf '%s\n' "shared_preload_libraries = 'test_aio'" "test_aio.gate = '${TEST_AIO_GATE:-try}'" 'fsync = off'
	} >"$state/settings.$$"
	mv "$state/settings.$$" "$state/settings.conf"
}

# One initdb in directory $1 for all test servers: Cluster.pm and pg_regress copy
# it.  Tests that start at the same time may both come here.
make_template() {
	export INITDB_TEMPLATE
	INITDB_TEMPLATE=$1/template-$("$PG_CONFIG" --version | sed 's/^PostgreSQL //; s/ .*//')
	# another one when the extension has changed
	tap_template=$INITDB_TEMPLATE-tap-$(cat "$stage"/share/extension/* | cksum | cut -d' ' -f1)
	exec 7>"$INITDB_TEMPLATE.lock"
	flock 7
	if [ ! -d "$tap_template" ]; then
		rm -rf "$INITDB_TEMPLATE" "$tap_template.new"
		{
			initdb -D "$INITDB_TEMPLATE" -A trust --wal-segsize=1 --no-clean --no-sync &&
				make_tap_template "$INITDB_TEMPLATE" "$tap_template.new"
		} >"$1/initdb.log" 2>&1 || { cat "$1/initdb.log" && return 1; }
		mv "$tap_template.new" "$tap_template"
	fi
	exec 7>&-
}

single_user() {
	printf '%s\n' "${@:2}" |
		postgres --single -F --config-file="$state/settings.conf" -D "$1" postgres
}

# TAP tests copy two hundred servers, for much of their time if these were whole:
# they get by without the template databases.  And each would make the extensions.
make_tap_template() {
	cp -R "$1" "$2"
	single_user "$2" "UPDATE pg_database SET datistemplate = false" "DROP DATABASE template0" "DROP DATABASE template1" \
		"CREATE EXTENSION test_aio" "CREATE EXTENSION pg_buffercache" &&
		[ "$(find "$2/base" -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ] &&
		pg_resetwal -D "$2"
}

# run_regress INPUTDIR TEST…
run_regress() {
	local input=$1
	shift
	"$test_tools/regress/pg_regress" --temp-instance="$state/instance" --temp-config="$state/settings.conf" \
		--inputdir="$input" --outputdir="$state" --bindir="$bindir" --dbname=contrib_regression --load-extension=test_aio "$@"
}

# Where the TAP tests' servers go.  Before Linux 6.6 there was no direct I/O in
# memory; a directory that the user has named is used whatever it can do.
data_directory() {
	local data=${TEST_AIO_DATA:-$state}
	if [[ $data/ == "${TEST_AIO_WORK:-/nowhere}"/data/* ]]; then
		dd if=/dev/zero of="$data/probe" bs=4096 count=1 oflag=direct 2>/dev/null || data=$state
		rm -f "$TEST_AIO_DATA/probe"
	fi
	printf '%s\n' "$data"
}

# the environment of the TAP tests, then a command; the current directory has t/
with_tap_environment() {
	# top_builddir stays unset, or Cluster.pm writes into the server's own tree
	env -u top_builddir \
		PG_REGRESS="$test_tools/regress/pg_regress" \
		PERL5LIB="$PWD/t:$test_tools/perl${PERL5LIB:+:$PERL5LIB}" \
		TEMP_CONFIG="$state/settings.conf" INITDB_TEMPLATE="$tap_template" \
		TESTDATADIR="$(data_directory)" TESTLOGDIR="$state/log" \
		TEST_AIO_IO_URING="$("${BASH_SOURCE[0]%/*}/io_uring_probe" --brief "$PG_CONFIG")" \
		enable_injection_points="$(sed -n 's/^enable_injection_points[[:blank:]]*=[[:blank:]]*//p' \
			"$test_tools/../Makefile.global")" \
		"$@"
}
