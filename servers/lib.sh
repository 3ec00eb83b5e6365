# shellcheck shell=bash
# What the scripts in this directory share: where things are kept, who runs
# them, how they report.

umask 022
# A calling make's flags and job server are not for the makes that we run; those
# of PostgreSQL take MAKELEVEL for a sign that their headers are there.
# shellcheck disable=SC2034  # for servers/run
[[ ${MAKEFLAGS:-} != *' -- '* ]] || make_variables=${MAKEFLAGS#*' -- '}
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES

# shellcheck disable=SC2034  # used by the scripts that source this
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/test_aio
. "$source_dir/servers/packages"
. "$source_dir/servers/tree.sh"

say() { printf '%s\n' "$*" >&2; }
die() {
	say "error: $1"
	shift
	for line in "$@"; do say "  $line"; done
	exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# PostgreSQL refuses to run as root, and compilers need not.
ordinary_user() {
	if ! is_root; then
		id -un
	elif [ -n "${TEST_AIO_USER:-}" ]; then
		printf '%s\n' "$TEST_AIO_USER"
	elif [ "${SUDO_USER:-root}" != root ]; then
		printf '%s\n' "$SUDO_USER"
	else
		echo nobody
	fi
}

# select_servers COLUMN VALUE: prints the names of the servers of "packages" with
# this value in this column; all servers without arguments.
select_servers() {
	local row name major how suite usual has
	for row in "${servers[@]}"; do
		# shellcheck disable=SC2034  # columns are chosen by their names
		read -r name major how suite usual has <<<"$row"
		[ $# -eq 0 ] || [ "${!1}" = "$2" ] || continue
		printf '%s\n' "$name"
	done
}

# server_column NAME COLUMN: prints one column of a server of "packages", or of a tree, which
# also goes by the name that servers/provide --list shows.
server_column() {
	local row name major how suite usual has
	case $1 in
		source:* | source-optimised:*) [ "$2" != how ] || echo "${1%%:*}" && return ;;
		source-*) if [ -e "$cache/$1/.test_aio" ]; then
			[ "$2" != how ] || sed -E 's/(-[0-9a-f]{12}|-files)+$//' <<<"$1"
			return
		fi ;;
	esac
	for row in "${servers[@]}"; do
		# shellcheck disable=SC2034
		read -r name major how suite usual has <<<"$row"
		[ "$name" != "$1" ] || { printf '%s\n' "${!2}" && return; }
	done
	die "no server is called \"$1\"" "known: $(select_servers | paste -sd ' '), source:PATH[@REVISION], source-optimised:PATH[@REVISION]; PG_CONFIG=/path/to/pg_config names another"
}

# the name of a server in the names of files
server_label() {
	case $1 in
		pg_config:*) echo own ;;
		source:* | source-optimised:*) tree_label "$1" ;;
		*) printf '%s\n' "$1" ;;
	esac
}

# the directory that holds a server
server_dir() {
	local how label
	how=$(server_column "$1" how) || return
	case $how in
		stock) printf '%s\n' "$cache/stock" ;;
		*) label=$(server_label "$1") && printf '%s\n' "$cache/$label" ;;
	esac
}

# its pg_config, as commands see it that run with that server
server_pg_config() {
	case $(server_column "$1" how) in
		stock) echo "/usr/lib/postgresql/$(server_column "$1" major)/bin/pg_config" ;;
		*) printf '%s\n' "$(server_dir "$1")/bin/pg_config" ;;
	esac
}

# Prints the environment that a server's programs need, one variable a line.  The
# user's own options come last, and win.
server_environment() {
	[ "$(server_column "$1" how)" = sanitizers ] || return 0
	# detect_leaks: processes of the server end without freeing their memory.
	# detect_stack_use_after_return: it moves variables to a false stack, and
	# the server measures the depth of its stack by a variable's address.
	# abort_on_error: a crash of the server makes the test fail.
	printf '%s\n' \
		"ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:${ASAN_OPTIONS:-}" \
		"UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}"
}

# Prints the arguments of configure that a server gets for how it is made, one a line.
# PGXS compiles the extension with the same CFLAGS.
#
# -O0 halves the time to compile.  It also keeps accesses that the optimizer would
# remove before the sanitizers see them.  -g1, enough for backtraces, saves a fifth.
configure_arguments_of() {
	printf '%s\n' --enable-tap-tests --enable-depend
	case $1 in
		instrumented) echo 'CFLAGS=-O1 -g1' ;;
		source) echo 'CFLAGS=-O1 -g' ;;
		sanitizers) echo 'CFLAGS=-O0 -g -fno-omit-frame-pointer -fsanitize=address,undefined' ;;
		source-optimised) echo 'CFLAGS=-O2 -g' ;;
	esac
	[ "$1" = source-optimised ] || printf '%s\n' --enable-cassert --enable-injection-points
	# the user's own come last, and win
	xargs -r -n 1 <<<"${TEST_AIO_CONFIGURE:-}"
}

# A number that differs if what a recipe makes does; raise that of the stock servers when theirs changes.
recipe_of() {
	local how
	how=$(server_column "$1" how)
	case $how in
		stock) echo 2 ;;
		*) { configure_arguments_of "$how" && sed -n '/^parts_used=/,/^)/p' "$source_dir/servers/compiled.sh"; } | cksum | cut -d' ' -f1 ;;
	esac
}

# The stamp is written last, so what has one is complete: the recipe's number
# and the versions it made.
is_made() {
	local dir stamp
	dir=$(server_dir "$1") || return
	stamp=$dir/.test_aio
	[ -r "$stamp" ] && [ "$(head -n 1 "$stamp")" = "recipe $(recipe_of "$1")" ]
}

# Debian's archive may have lacked a stock server when their root file system was made.
is_provided() {
	is_made "$1" && ! grep -qx "$1 " "$(server_dir "$1")/.test_aio"
}

# Prints why a server is not there.
why_not_provided() {
	is_made "$1" && echo "Debian's archive did not have it on $(date -r "$(server_dir "$1")/.test_aio" +%F): servers/provide --again $1;" \
		"or name a server of your own: PG_CONFIG=/path/to/pg_config, SERVER=source:PATH" || echo "servers/provide $1"
}

# step WHAT LOG COMMAND…: run it with its output in LOG, say what it does and
# how long that took; the end of LOG when it fails.
step() {
	local what=$1 log=$2 start=$SECONDS pid rc=0
	shift 2
	say "  $what …"
	# a process group of its own, to be ended as a whole
	set -m
	"$@" >>"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	# shellcheck disable=SC2064
	trap "kill -- -$pid 2>/dev/null; wait $pid; exit 130" INT TERM
	wait "$pid" || rc=$?
	trap - INT TERM
	if [ "$rc" -eq 0 ]; then
		say "  $what: done in $((SECONDS - start)) s"
		return 0
	fi
	say "error: $what failed (exit status $rc); the end of $log:"
	tail -n 20 "$log" | sed 's/^/  | /' >&2
	return 1
}
