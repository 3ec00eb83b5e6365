# shellcheck shell=bash
# Running a command as an ordinary user, in namespaces of its own: its processes
# die with it, and it may see the root file system of the stock servers as /.

# Prefix of a command that gives up root for good.
drop_root() {
	dropped=()
	is_root || return 0
	local user
	user=$(ordinary_user)
	id -u "$user" >/dev/null 2>&1 || die "there is no user \"$user\"" "name one: TEST_AIO_USER=…"
	[ "$(id -u "$user")" -ne 0 ] || die "\"$user\" is root" "name an ordinary user: TEST_AIO_USER=…"
	dropped=(setpriv "--reuid=$(id -u "$user")" "--regid=$(id -g "$user")"
		--clear-groups --inh-caps=-all --bounding-set=-all)
}

# First directory on the way to $1 that the ordinary user may not pass.
closed_on_the_way() {
	"${dropped[@]}" sh -c '
		path=${1#/} at=
		IFS=/
		set -f
		for part in $path; do
			at=$at/$part
			[ -x "$at" ] || { printf "%s\n" "$at"; exit; }
		done' - "$1"
}

# A closed door on the way can be got round, but not one at the end of it.
check_readable() {
	local path
	for path; do
		"${dropped[@]}" test -r /proc/self/fd/6 -a -x /proc/self/fd/6 6<"$path" ||
			die "user \"$(ordinary_user)\" may not read $path" \
				"set TEST_AIO_USER to a user who may: TEST_AIO_USER=$(stat -c %U "$path")$([ -e "$path/PG_VERSION" ] || echo "; or open it: chmod -R go+rX '$path'")"
	done
}

can_isolate() {
	command -v bwrap >/dev/null &&
		bwrap --ro-bind / / --proc /proc --unshare-pid --unshare-ipc true 2>/dev/null
}

why_no_isolation() {
	if ! command -v bwrap >/dev/null; then
		echo "bwrap is not installed: apt-get install bubblewrap"
	elif is_root; then
		echo "this container gives root no right to mount (CAP_SYS_ADMIN)"
	else
		echo "the system lets ordinary users make no namespaces (sysctl user.max_user_namespaces," \
			"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or a container's seccomp profile)"
	fi
}

# io_uring and its tests want locked memory and many open files.  Not more than
# 65536, though: programs exist that close all they might have.
raise_limits() {
	! is_root || ulimit -l unlimited 2>/dev/null || true
	ulimit -S -l "$(ulimit -H -l)" 2>/dev/null || true
	local hard
	hard=$(ulimit -H -n)
	if [ "$hard" = unlimited ] || [ "$hard" -gt 65536 ]; then hard=65536; fi
	[ "$(ulimit -S -n)" = unlimited ] || [ "$(ulimit -S -n)" -ge "$hard" ] || ulimit -S -n "$hard"
}

# Adds a mount of directory $2, at its own path unless $3 names another.  Its
# parents are made one by one, since bwrap itself would close them to others.
mount_at() {
	local how=$1 from=$2 to=${3:-$2} parent=
	local rest=${to#/}
	while [ "$rest" != "${rest#*/}" ]; do
		parent=$parent/${rest%%/*}
		rest=${rest#*/}
		mounts+=(--dir "$parent")
	done
	mounts+=("$how" "$from" "$to")
}

# The machine's own file system, except that what lies behind a closed door
# (root's home, typically) is shown at the same path, and that what servers leave
# in shared memory when they are killed is gone at the end.
mounts_outside() {
	local path closed
	mounts=(--dev-bind / / "${proc[@]}" --perms 1777 --tmpfs /dev/shm)
	for path in "${reads[@]}" "${writes[@]}"; do
		[ -e "$path" ] || continue
		closed=$(closed_on_the_way "$path")
		[ -n "$closed" ] || continue
		[[ " ${mounts[*]} " == *" --tmpfs $closed "* ]] || mounts+=(--tmpfs "$closed")
	done
}

# A new root: the stock servers' programs and configuration, read-only, and
# nothing of the machine's but /tmp, devices and /sys.
mounts_inside() {
	local root=$1 path
	mounts=()
	# /usr/local and /usr/src are left out so that a checkout may lie there
	for path in "$root"/usr/*; do
		case ${path##*/} in
			local | src) ;;
			*) mount_at --ro-bind "$path" "/usr/${path##*/}" ;;
		esac
	done
	for path in "$root"/*; do
		[ ! -L "$path" ] || mounts+=(--symlink "$(readlink "$path")" "/${path##*/}")
	done
	mounts+=(--ro-bind "$root/etc" /etc --perms 0644 --ro-bind-data 9 /etc/passwd
		"${proc[@]}" --dev /dev --perms 1777 --tmpfs /dev/shm --ro-bind-try /sys /sys
		--bind /tmp /tmp --perms 1777 --tmpfs /var/tmp --dir /run)
}

passwd_inside() {
	local user
	user=$(ordinary_user)
	grep -v "^$user:" "$1/etc/passwd"
	printf '%s:x:%s:%s::/:/bin/sh\n' "$user" "$(id -u "$user")" "$(id -g "$user")"
}

# as_ordinary_user [--inside ROOT] [--read DIR]… [--write DIR]… [--memory DIR] [--chdir DIR] COMMAND…
# DIRs are seen at their own paths; those to read cannot be written, and what is written to memory,
# at most 2 GB, is gone at the end.
as_ordinary_user() {
	local inside='' chdir=/ reads=() writes=() memory='' dropped mounts path
	while :; do
		case $1 in
			--inside) inside=$2 ;;
			--read) reads+=("$2") ;;
			--write) writes+=("$2") ;;
			--memory) memory=$2 ;;
			--chdir) chdir=$2 ;;
			*) break ;;
		esac
		shift 2
	done
	drop_root
	check_readable "${reads[@]}" "${writes[@]}"
	raise_limits
	if ! can_isolate; then
		as_ordinary_user_openly "$@"
		return
	fi
	# with TEST_AIO_HOST_PIDS, processes have the ids that a debugger outside knows
	local proc=(--proc /proc) pids=(--unshare-pid)
	[ -z "${TEST_AIO_HOST_PIDS:-}" ] || proc=(--dev-bind /proc /proc) pids=()
	if [ -n "$inside" ]; then mounts_inside "$inside"; else mounts_outside; fi
	for path in "${reads[@]}"; do mount_at --ro-bind "$path"; done
	for path in "${writes[@]}"; do mount_at --bind "$path"; done
	[ -z "$memory" ] || mounts+=(--perms 1777 --size 4000000000 --tmpfs "$memory")
	! is_root || mounts+=(--cap-add ALL)
	bwrap "${mounts[@]}" "${pids[@]}" --unshare-ipc --die-with-parent --chdir "$chdir" \
		"${dropped[@]}" "$@" 9< <([ -z "$inside" ] || passwd_inside "$inside")
}

# Where no namespace can be had, a server of the machine's own still works,
# as long as the way to it is open.
as_ordinary_user_openly() {
	local path closed
	[ -z "$inside" ] || die "a stock server's root file system cannot be entered" "$(why_no_isolation)"
	for path in "${reads[@]}" "${writes[@]}"; do
		closed=$(closed_on_the_way "$path")
		[ -z "$closed" ] || die "user \"$(ordinary_user)\" cannot get at $path because of $closed" \
			"$(why_no_isolation)" \
			"put the servers and the checkout where everyone may read: XDG_CACHE_HOME=/var/tmp/cache …"
	done
	cd "$chdir" || return
	setpriv --pdeathsig KILL "${dropped[@]}" "$@"
}
