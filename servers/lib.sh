# shellcheck shell=bash
# What the scripts in this directory share: where things are kept, who runs
# them, how they report.

umask 022
# A calling make's flags and job server are not for the makes that we run; those
# of PostgreSQL take MAKELEVEL for a sign that their headers are there.
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES

# shellcheck disable=SC2034  # used by the scripts that source this
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/test_aio
# shellcheck disable=SC2034
server_names=(18-instrumented 18-sanitizers 18-stock 19-stock)
# the servers of "make servers" and "make check-all"
# shellcheck disable=SC2034
usual_servers=(18-instrumented 18-stock 19-stock)

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

# the directory that holds a server
server_dir() {
	case $1 in
		18-instrumented | 18-sanitizers) printf '%s\n' "$cache/$1" ;;
		18-stock | 19-stock) printf '%s\n' "$cache/stock" ;;
		*) die "no server is called \"$1\"" "known: ${server_names[*]}" ;;
	esac
}

# its pg_config, as seen by whoever runs with that server
server_pg_config() {
	case $1 in
		18-instrumented | 18-sanitizers) printf '%s\n' "$cache/$1/bin/pg_config" ;;
		18-stock) echo /usr/lib/postgresql/18/bin/pg_config ;;
		19-stock) echo /usr/lib/postgresql/19/bin/pg_config ;;
	esac
}

# Prints the environment that a server's programs need, one variable a line.  The
# user's own options come last, and win.
server_environment() {
	case $1 in
		18-sanitizers)
			# detect_leaks: processes of the server end without freeing their memory.
			# detect_stack_use_after_return: it moves variables to a false stack, and
			# the server measures the depth of its stack by a variable's address.
			# abort_on_error: a crash of the server makes the test fail.
			printf '%s\n' \
				"ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:${ASAN_OPTIONS:-}" \
				"UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}"
			;;
	esac
}

# Raise one when a recipe changes what it makes; what is there is then made anew.
recipe_of() {
	case $1 in
		18-instrumented | 18-sanitizers) echo 1 ;;
		18-stock | 19-stock) echo 1 ;;
	esac
}

# The stamp is written last, so what has one is complete: the recipe's number
# and the versions it made.
is_provided() {
	local stamp
	stamp=$(server_dir "$1")/.test_aio
	[ -r "$stamp" ] && [ "$(head -n 1 "$stamp")" = "recipe $(recipe_of "$1")" ]
}

elapsed() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# step WHAT LOG COMMAND…: run it with its output in LOG, say what it does and
# how long that took; the end of LOG when it fails.
step() {
	local what=$1 log=$2 start=$SECONDS pid rc=0 said=0
	shift 2
	# a process group of its own, to be ended as a whole
	set -m
	"$@" >>"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	# shellcheck disable=SC2064
	trap "kill -- -$pid 2>/dev/null; wait $pid; exit 130" INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		if [ -t 2 ]; then
			printf '\r  %-46s %s ' "$what" "$(elapsed $((SECONDS - start)))" >&2
		elif [ $((SECONDS - start)) -ge $((said * 30)) ]; then
			# no terminal: a sign of life every half minute
			printf '  %-46s %s …\n' "$what" "$(elapsed $((SECONDS - start)))" >&2
			said=$(((SECONDS - start) / 30 + 1))
		fi
		sleep 0.5
	done
	wait "$pid" || rc=$?
	trap - INT TERM
	if [ "$rc" -eq 0 ]; then
		[ -t 2 ] && printf '\r' >&2
		printf '  %-46s %s done\n' "$what" "$(elapsed $((SECONDS - start)))" >&2
		return 0
	fi
	[ -t 2 ] && echo >&2
	say "error: $what failed (exit status $rc); the end of $log:"
	tail -n 20 "$log" | sed 's/^/  | /' >&2
	return 1
}
