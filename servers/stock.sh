# shellcheck shell=bash
# The recipe of the stock servers: Debian's own packages in one root file system,
# because they want a newer C library than the machine may have.

# Prints the major versions, the oldest first.
stock_majors() {
	local name
	for name in $(select_servers how stock); do server_column "$name" major; done | sort -n
}

# Prints the suites that are needed, one a line: that of the newest server last.
stock_suites() {
	local name
	echo sid
	for name in $(select_servers how stock); do
		echo "$(server_column "$name" major) $(server_column "$name" suite)"
	done | sort -n | sed 's/.* //' | grep -vx sid | awk '!seen[$0]++'
}

# The server-dev packages depend on a clang and an llvm of 800 MB, for bitcode
# that nobody here needs.  This empty package stands in for any version of them.
make_no_llvm_package() {
	local dir=$1 provides=clang version
	for version in {19..25}; do
		provides+=", clang-$version, llvm-$version-dev"
	done
	mkdir -p "$dir/no-llvm/DEBIAN"
	cat >"$dir/no-llvm/DEBIAN/control" <<-END
		Package: test-aio-no-llvm
		Version: 1
		Architecture: all
		Maintainer: nobody <nobody@localhost>
		Provides: $provides
		Description: stands in for clang and llvm, which only bitcode needs
	END
	dpkg-deb --root-owner-group --build "$dir/no-llvm" "$dir/no-llvm.deb"
}

# What must be there before the packages are: which of them come from another suite
# than sid, that no cluster is made, and a name for the loopback address.
make_early_files() {
	local etc=$1/early/etc
	mkdir -p "$etc/apt/preferences.d" "$etc/apt/apt.conf.d" "$etc/postgresql-common"
	printf 'Package: %s\nPin: release a=%s\nPin-Priority: 990\n' \
		"${packages_newest[*]}" "$(stock_suites | tail -n 1)" >"$etc/apt/preferences.d/test_aio"
	{
		echo 'Acquire::Check-Valid-Until "false";'
		apt_transport_options
	} >"$etc/apt/apt.conf.d/90test_aio"
	echo 'create_main_cluster = false' >"$etc/postgresql-common/createcluster.conf"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$etc/hosts"
}

# As root straight into a directory.  Otherwise through a tar file, unpacked
# without owners: a directory full of other users' files could never be removed.
run_mmdebstrap() {
	local dir=$1 mirror=$2 mode=root target=$1/root
	if ! is_root; then
		mode=unshare
		target=$dir/root.tar
	fi
	local include major suite sources=()
	include=$(IFS=,; echo "${packages_inside[*]}")
	for major in "${majors[@]}"; do include+=,postgresql-$major,postgresql-server-dev-$major; done
	for suite in $(stock_suites); do sources+=("deb $mirror $suite main"); done
	TMPDIR=${TMPDIR:-/tmp} mmdebstrap --mode="$mode" --variant=apt \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		--aptopt='Acquire::Languages "none"' \
		--aptopt='Acquire::Retries "3"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*/LC_MESSAGES/*.mo' \
		--dpkgopt=force-confold \
		--setup-hook="sync-in '$dir/early' /" \
		--essential-hook="upload '$dir/no-llvm.deb' /no-llvm.deb" \
		--essential-hook='chroot "$1" dpkg -i /no-llvm.deb && rm "$1/no-llvm.deb"' \
		--include="$include" \
		'' "$target" "${sources[@]}" || return
	if ! is_root; then
		mkdir "$dir/root"
		tar -xf "$target" -C "$dir/root" --no-same-owner --exclude='./dev/*'
		rm "$target"
		# nobody but the owner has a business here, and the owner wants to remove it
		chmod -R u+rwX "$dir/root"
	fi
}

# A server that the archive does not have gets a line without a version.
stock_versions() {
	local root=$1 version
	for version in $(stock_majors); do
		awk -v p="Package: postgresql-$version" -v name="$version-stock" '$0 == p {found = 1} found && /^Version:/ {v = $2; exit} END {print name, v}' "$root/var/lib/dpkg/status"
	done
}

# Prints the major versions that apt did not find.
majors_not_found() {
	sed -nE "s/^E: (Unable to locate package |Package '?)postgresql-(server-dev-)?([0-9]+)('? has no .*)?\$/\\3/p" "$1" | sort -u
}

# Makes the root file system; once more if the archive changes meanwhile, and without the servers that it does not have.
make_stock_root() {
	local majors missing again=1
	mapfile -t majors < <(stock_majors)
	until step "downloading and unpacking about 170 MB" "$3" run_mmdebstrap "$1" "$2"; do
		missing=$(majors_not_found "$3")
		if [ -n "$missing" ]; then
			mapfile -t majors < <(printf '%s\n' "${majors[@]}" | grep -vxF "$missing")
			[ ${#majors[@]} -gt 0 ] || return 1
			say "  the archive does not have $(paste -sd ' ' <<<"$missing"): once more, with ${majors[*]}"
		elif [ "$again" = 1 ] && grep -qE '404 +Not Found|Hash Sum mismatch|has unexpected size' "$3"; then
			say "  the archive has changed meanwhile: once more"
			again=
		else
			return 1
		fi
		rm -rf --one-file-system "$1/root" "$1/root.tar"
		: >"$3"
	done
}

provide_stock() {
	local dir=$cache/stock tmp=$cache/tmp.stock log=$cache/log/stock.log mirror
	mirror=$(debian_mirror)
	say "stock $(stock_majors | paste -sd ' '): a root file system of Debian's packages (log: $log)"
	rm -rf --one-file-system "$tmp"
	mkdir -p "$tmp"
	: >"$log"
	make_no_llvm_package "$tmp" >>"$log" 2>&1
	make_early_files "$tmp"
	make_stock_root "$tmp" "$mirror" "$log" || return 1
	{
		echo "recipe $(recipe_of "$(select_servers how stock | sed -n 1p)")"
		stock_versions "$tmp/root"
	} >"$tmp/root/.test_aio"
	rm -rf --one-file-system "$dir"
	mv "$tmp/root" "$dir"
	rm -rf --one-file-system "$tmp"
}
