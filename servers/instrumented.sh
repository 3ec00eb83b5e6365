# shellcheck shell=bash
# The recipes of 18-instrumented and 18-sanitizers: Debian's source package, as
# upstream released it, compiled with everything that makes a bug show.

# The unpacked release; servers/source prints it.
source_18_dir() { printf '%s\n' "$cache/source-18"; }

# Any prefix will do: the server finds its files from where its programs are,
# and the cache may be seen at another place by another user.
configured_prefix=/test_aio

download_source_18() {
	local dir=$1 mirror=$2
	private_apt "$dir" "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main"
	apt-get -c "$dir/apt.conf" update
	cd "$dir" && apt-get -c "$dir/apt.conf" source --download-only --only-source postgresql-18/sid
}

unpack_source_18() {
	local dir=$1
	mkdir "$dir/unpacked"
	tar -xf "$dir"/postgresql-18_*.orig.tar.* -C "$dir/unpacked" --strip-components=1 --no-same-owner
}

provide_source_18() {
	local dir tmp=$cache/tmp.source-18 log=$cache/log/source-18.log mirror
	dir=$(source_18_dir)
	[ -x "$dir/configure" ] && return
	mirror=$(debian_mirror)
	rm -rf "$tmp"
	mkdir -p "$tmp"
	: >"$log"
	step "downloading the source package of 18" "$log" download_source_18 "$tmp" "$mirror" || return 1
	step "unpacking it" "$log" unpack_source_18 "$tmp" || return 1
	mv "$tmp/unpacked" "$dir"
	rm -rf "$tmp"
}

# Prints the arguments of configure that are a server's own, one a line.  PGXS
# compiles the extension with the same CFLAGS.
#
# -O0 halves the time to compile.  It also keeps accesses that the optimizer would
# remove before the sanitizers see them.
configure_arguments_of() {
	case $1 in
		18-sanitizers) echo 'CFLAGS=-O0 -g -fno-omit-frame-pointer -fsanitize=address,undefined' ;;
	esac
}

# What follows runs as the ordinary user, with $1 the directory to build in and
# $2 the source; configure is given what is after that.
configure_18() {
	cd "$1" && "$2/configure" --prefix="$configured_prefix" CC=gcc CFLAGS='-O1 -g' \
		--enable-cassert --enable-debug --enable-injection-points --enable-tap-tests \
		--with-liburing --with-libnuma --with-icu --with-readline --with-zlib "${@:3}"
}

# Programs, modules and pg_regress lie at different depths below the prefix.
build_18() {
	cd "$1" && make -j"$(nproc)" -s world-bin \
		rpathdir='$$ORIGIN/../lib:$$ORIGIN/..:$$ORIGIN/../../../../..'
}

install_18() {
	cd "$1" || return
	make -s install-world-bin DESTDIR="$1/stage" &&
		make -s -C src/test/modules/injection_points install DESTDIR="$1/stage"
}

# Compiles the server that $1 names.
provide_compiled() {
	local name=$1 dir=$cache/$1 tmp=$cache/tmp.$1 log=$cache/log/$1.log
	local source phase arguments environment
	say "$name: compiled from Debian's source package (log: $log)"
	provide_source_18 || return 1
	source=$(source_18_dir)
	mapfile -t arguments < <(configure_arguments_of "$name")
	# configure, make and make install run what they have compiled
	mapfile -t environment < <(server_environment "$name")
	rm -rf "$tmp"
	mkdir -p "$tmp" "$cache/ccache"
	: >"$log"
	! is_root || chown -R "$(ordinary_user)" "$tmp" "$cache/ccache"
	for phase in configure build install; do
		step "$phase" "$log" \
			as_ordinary_user --read "$source_dir" --read "$source" --write "$tmp" --write "$cache/ccache" \
			env HOME="$tmp" PATH="/usr/lib/ccache:$PATH" CCACHE_DIR="$cache/ccache" "${environment[@]}" \
			bash -c '. "$1/servers/instrumented.sh"; "$2_18" "${@:3}"' - \
			"$source_dir" "$phase" "$tmp" "$source" "${arguments[@]}" || return 1
	done
	{
		echo "recipe $(recipe_of "$name")"
		env "${environment[@]}" "$tmp/stage$configured_prefix/bin/postgres" --version | sed "s/^.* /$name /"
	} >"$tmp/stage$configured_prefix/.test_aio"
	rm -rf "$dir"
	mv "$tmp/stage$configured_prefix" "$dir"
	! is_root || chown -R --reference="$cache" "$dir"
	rm -rf "$tmp"
}
