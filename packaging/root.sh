# shellcheck shell=bash
# A copy of the stock servers' root file system in which packages are built,
# installed and removed.  Sourced by the scripts beside it, which run as root.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source-path=SCRIPTDIR/../servers
. "$here/../servers/lib.sh"

root=$source_dir/build/packaging/root

is_root || die "packages are installed by root: sudo $0"

# inside [-as USER] COMMAND…: runs a command in the copy.
inside() {
	local as=()
	if [ "$1" = -as ]; then
		as=(setpriv "--reuid=$2" "--regid=$2" --clear-groups --inh-caps=-all --bounding-set=-all)
		shift 2
	fi
	bwrap --bind "$root" / --proc /proc --dev /dev --perms 1777 --tmpfs /dev/shm --ro-bind-try /etc/resolv.conf /etc/resolv.conf \
		--unshare-pid --unshare-ipc --die-with-parent --cap-add ALL --chdir /build \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/build DEBIAN_FRONTEND=noninteractive \
		MAKEFLAGS=with_llvm=no PG_SUPPORTED_VERSIONS="${majors[*]}" "${inside_environment[@]}" "${as[@]}" "$@"
}
inside_environment=()

# the servers in that root, and their major versions
mapfile -t stock < <(select_servers how stock)
mapfile -t majors < <(for name in "${stock[@]}"; do server_column "$name" major; done)

# Makes the copy, with the packages that all scripts here need.
make_root() {
	local log=$source_dir/build/packaging/root.log
	"$source_dir/servers/provide" "${stock[@]}"
	rm -rf --one-file-system "$root"
	mkdir -p "${root%/*}"
	cp -a "$cache/stock" "$root"
	mkdir -p "$root/build"
	: >"$log"
	step "installing tools in a copy of the stock servers' root" "$log" \
		install_inside "${packages_deb[@]}" "${packages_pgxn[@]}" "${packages_extension[@]}"
}

install_inside() {
	inside apt-get -o Acquire::Retries=3 update -qq &&
		inside apt-get install -y -qq --no-install-recommends "$@"
}

# Unpacks what "make dist" makes into directory $1 of the copy, and gives it to the
# user that builds there.
unpack_dist() {
	local zip
	zip=$source_dir/$("$here/dist")
	rm -rf "$root/build/unpacked" "${root:?}$1"
	unzip -q "$zip" -d "$root/build/unpacked"
	mkdir -p "$root$(dirname "$1")"
	mv "$root/build/unpacked"/* "$root$1"
	rm -rf "$root/build/unpacked"
	inside chown -R postgres:postgres /build
}

# Prints every file and link in the copy that a package could have brought.
files_inside() {
	(cd "$root" && find etc usr var/lib/postgresql ! -name '*.pyc' ! -type d | sort)
}
