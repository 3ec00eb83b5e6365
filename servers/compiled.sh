# shellcheck shell=bash
# Compiling servers: those of Debian's source package, as upstream released it, and
# those of a tree that the user names.

# Any prefix will do: the server finds its files from where its programs are,
# and the cache may be seen at another place by another user.
configured_prefix=/test_aio

# The unpacked release of a major version; servers/source prints it.
source_release_dir() { printf '%s\n' "$cache/source-$1"; }

download_source_release() {
	local dir=$1 mirror=$2 major=$3 suite=$4
	private_apt "$dir" "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
	apt-get -c "$dir/apt.conf" update
	cd "$dir" && apt-get -c "$dir/apt.conf" source --download-only --only-source "postgresql-$major/$suite"
}

unpack_source_release() {
	local dir=$1 major=$2
	mkdir "$dir/unpacked"
	tar -xf "$dir/postgresql-$major"_*.orig.tar.* -C "$dir/unpacked" --strip-components=1 --no-same-owner
}

# provide_source_release MAJOR SUITE
provide_source_release() {
	local major=$1 suite=$2 dir tmp=$cache/tmp.source-$1 log=$cache/log/source-$1.log mirror
	dir=$(source_release_dir "$major")
	[ -x "$dir/configure" ] && return
	mirror=$(debian_mirror)
	rm -rf "$tmp"
	mkdir -p "$tmp"
	: >"$log"
	step "downloading the source package of $major" "$log" download_source_release "$tmp" "$mirror" "$major" "$suite" || return 1
	step "unpacking it" "$log" unpack_source_release "$tmp" "$major" || return 1
	mv "$tmp/unpacked" "$dir"
	rm -rf "$tmp"
}

# Prints the arguments of configure that a server gets for how it is made, one a line.
# PGXS compiles the extension with the same CFLAGS.
#
# -O0 halves the time to compile.  It also keeps accesses that the optimizer would
# remove before the sanitizers see them.
configure_arguments_of() {
	case $1 in
		instrumented | source)
			printf '%s\n' 'CFLAGS=-O1 -g' --enable-cassert --enable-injection-points
			;;
		sanitizers)
			printf '%s\n' 'CFLAGS=-O0 -g -fno-omit-frame-pointer -fsanitize=address,undefined' \
				--enable-cassert --enable-injection-points
			;;
		source-optimised) echo 'CFLAGS=-O2 -g' ;;
	esac
}

# Prints the arguments of configure for the libraries that this machine has.
library_arguments() {
	local package
	for package in liburing:liburing numa:libnuma 'icu-uc icu-i18n:icu' zlib:zlib; do
		# shellcheck disable=SC2086  # icu is two packages
		if pkg-config --exists ${package%:*} 2>/dev/null; then
			echo "--with-${package#*:}"
		else
			echo "--without-${package#*:}"
		fi
	done
	if echo '#include <stdio.h>
		#include <readline/readline.h>' | gcc -E - >/dev/null 2>&1; then
		echo --with-readline
	else
		echo --without-readline
	fi
}

# What follows runs as the ordinary user, with $1 the directory to build in and
# $2 the source; configure is given what is after that.
configure_server() {
	local libraries
	mapfile -t libraries < <(library_arguments)
	cd "$1" && "$2/configure" --prefix="$configured_prefix" CC=gcc --enable-debug --enable-tap-tests \
		"${libraries[@]}" "${@:3}"
}

# Programs, modules and pg_regress lie at different depths below the prefix.
build_server() {
	cd "$1" && make -j"$(nproc)" -s world-bin \
		rpathdir='$$ORIGIN/../lib:$$ORIGIN/..:$$ORIGIN/../../../../..'
}

install_server() {
	cd "$1" || return
	make -s install-world-bin DESTDIR="$1/stage" || return
	! grep -q '^enable_injection_points *= *yes' src/Makefile.global ||
		make -s -C src/test/modules/injection_points install DESTDIR="$1/stage"
}

# compile_server NAME SOURCE DIR LOG: compiles server NAME from SOURCE and puts it into
# DIR.  Further arguments are lines for its stamp.
#
# All servers are compiled in one directory, one after the other: ccache finds what
# another server's compilation has left only where the paths are the same.
compile_server() {
	local name=$1 source=$2 dir=$3 log=$4 label tmp phase arguments environment
	shift 4
	label=$(server_label "$name")
	tmp=$cache/tmp.build
	mapfile -t arguments < <(configure_arguments_of "$(server_column "$name" how)")
	# configure, make and make install run what they have compiled
	mapfile -t environment < <(server_environment "$name")
	rm -rf "$tmp"
	mkdir -p "$tmp" "$cache/ccache"
	! is_root || chown -R "$(ordinary_user)" "$tmp" "$cache/ccache"
	for phase in configure build install; do
		step "$phase" "$log" \
			as_ordinary_user --read "$source_dir" --read "$source" --write "$tmp" --write "$cache/ccache" \
			env HOME="$tmp" PATH="/usr/lib/ccache:$PATH" CCACHE_DIR="$cache/ccache" "${environment[@]}" \
			bash -c '. "$1/servers/compiled.sh"; "$2_server" "${@:3}"' - \
			"$source_dir" "$phase" "$tmp" "$source" "${arguments[@]}" || return 1
	done
	{
		echo "recipe $(recipe_of "$name")"
		env "${environment[@]}" "$tmp/stage$configured_prefix/bin/postgres" --version | sed "s/^[^0-9]*\([^ ]*\).*/$label \1/"
		[ $# -eq 0 ] || printf '%s\n' "$@"
	} >"$tmp/stage$configured_prefix/.test_aio"
	rm -rf "$dir"
	mv "$tmp/stage$configured_prefix" "$dir"
	! is_root || chown -R --reference="$cache" "$dir"
	rm -rf "$tmp"
}

# Compiles a server of Debian's source package.
provide_compiled() {
	local name=$1 log=$cache/log/$1.log major
	say "$name: compiled from Debian's source package (log: $log)"
	major=$(server_column "$name" major)
	provide_source_release "$major" "$(server_column "$name" suite)" || return 1
	: >"$log"
	compile_server "$name" "$(source_release_dir "$major")" "$cache/$name" "$log"
}

# Compiles a server of a tree.  The source has the same path for all trees, for ccache.
provide_tree() {
	local name=$1 label log source
	label=$(tree_label "$name")
	log=$cache/log/$label.log
	source=$cache/tmp.source
	say "$label: compiled from ${name#*:} (log: $log)"
	: >"$log"
	rm -rf "$source"
	mkdir -p "$source"
	step "taking the source" "$log" unpack_tree "$name" "$source" || return 1
	[ -x "$source/configure" ] || die "there is no source of PostgreSQL at ${name#*:}" "it has no configure"
	compile_server "$name" "$source" "$cache/$label" "$log" "from ${name#*:}" || return 1
	rm -rf "$source"
}
