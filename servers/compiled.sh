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

# What else servers/variant wants; what is compiled is then kept by itself.
further_arguments=()

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

# What the suite, the explorer, the mutants and the lab use of a server.
parts_used=(
	src/include src/port src/common src/backend src/backend/utils/mb/conversion_procs src/backend/snowball
	src/backend/replication/{libpqwalreceiver,pgoutput} src/timezone src/interfaces/libpq src/pl/plpgsql/src
	src/bin/{initdb,pg_basebackup,pg_checksums,pg_config,pg_controldata,pg_ctl,pg_resetwal,pg_waldump,pgbench,psql,scripts}
	src/test/{regress,perl} src/makefiles config
	contrib/{amcheck,bloom,dblink,pageinspect,pg_buffercache,pg_freespacemap,pg_prewarm,pg_visibility,pg_walinspect,pgstattuple}
)

# Compiles these parts, or those.  Programs, modules and pg_regress lie at different depths below the prefix.
build_server() {
	local build=$1 part
	shift
	[ $# -gt 0 ] || set -- "${parts_used[@]}"
	for part; do
		# a version may lack a part
		[ -e "$build/$part/Makefile" ] || continue
		make -s -j"$(nproc)" rpathdir='$$ORIGIN/../lib:$$ORIGIN/..:$$ORIGIN/../../../../..' ${COPT:+COPT="$COPT"} -C "$build/$part" all || return
	done
}

install_server() {
	local build=$1 part all
	shift
	if [ $# -eq 0 ]; then
		set -- "${parts_used[@]}"
		make -s -C "$build/src" install-local DESTDIR="$build/stage" || return
		! grep -q '^enable_injection_points *= *yes' "$build/src/Makefile.global" || set -- "$@" src/test/modules/injection_points
		all=1
	fi
	for part; do
		[ -e "$build/$part/Makefile" ] || continue
		case ${all:-}$part in
			src/backend) make -s -C "$build/$part" install-bin DESTDIR="$build/stage" || return ;;
			*) make -s -C "$build/$part" install DESTDIR="$build/stage" || return ;;
		esac
	done
}

# in_build NAME SOURCE LOG PHASE ARGUMENT…: runs one of the functions above for server NAME, in $cache/tmp.build.
in_build() {
	local name=$1 source=$2 log=$3 phase=$4 environment tmp=$cache/tmp.build
	# configure, make and make install run what they have compiled
	mapfile -t environment < <(server_environment "$name")
	step "$phase" "$log" \
		as_ordinary_user --read "$source_dir" --read "$source" --write "$tmp" --write "$cache/ccache" \
		env HOME="$tmp" PATH="/usr/lib/ccache:$PATH" CCACHE_DIR="$cache/ccache" COPT="${COPT:-}" "${environment[@]}" \
		bash -c '. "$1/servers/compiled.sh"; "$2_server" "${@:3}"' - "$source_dir" "$phase" "$tmp" "${@:5}"
}

# compile_server NAME SOURCE LOG: compiles server NAME from SOURCE into $cache/tmp.build/stage.  If a build of
# SOURCE is there already, compiles what has changed; "parts", if not empty, says in which directories.
#
# All servers are compiled in one directory, one after the other: ccache finds what
# another server's compilation has left only where the paths are the same.
compile_server() {
	local name=$1 source=$2 log=$3 tmp=$cache/tmp.build arguments is_new=
	mapfile -t arguments < <(configure_arguments_of "$(server_column "$name" how)")
	[ -d "$tmp" ] || is_new=yes
	mkdir -p "$cache/ccache" "$tmp"
	# what is kept may have been compiled by another user
	! is_root || chown -R "$(ordinary_user)" "$tmp" "$cache/ccache"
	if [ -n "$is_new" ]; then
		in_build "$name" "$source" "$log" configure "$source" "${arguments[@]}" "${further_arguments[@]}" || return 1
	fi
	in_build "$name" "$source" "$log" build "${parts[@]}" || return 1
	in_build "$name" "$source" "$log" install "${parts[@]}" || return 1
}

# publish_server NAME DIR: puts what has been compiled into DIR.  Further arguments are lines for its stamp.
publish_server() {
	local name=$1 dir=$2 environment
	shift 2
	mapfile -t environment < <(server_environment "$name")
	# hard links: a file that is installed again is a new one
	rm -rf "$dir" "$dir.new"
	cp -al "$cache/tmp.build/stage$configured_prefix" "$dir.new"
	{
		echo "recipe $(recipe_of "$name")"
		env "${environment[@]}" "$dir.new/bin/postgres" --version | sed "s/^[^0-9]*\([^ ]*\).*/$(server_label "$name") \1/"
		[ $# -eq 0 ] || printf '%s\n' "$@"
	} >"$dir.new/.test_aio"
	! is_root || chown -R --reference="$cache" "$dir.new"
	mv "$dir.new" "$dir"
}

# Compiles a server of Debian's source package.
provide_compiled() {
	local name=$1 log=$cache/log/$1.log major
	say "$name: compiled from Debian's source package (log: $log)"
	major=$(server_column "$name" major)
	provide_source_release "$major" "$(server_column "$name" suite)" || return 1
	: >"$log"
	local parts=()
	rm -rf "$cache/tmp.build"
	compile_server "$name" "$(source_release_dir "$major")" "$log" || return 1
	publish_server "$name" "$cache/$name"
	rm -rf "$cache/tmp.build"
}

# Where the source and the objects of a tree are kept, for its next revision; of a release the objects.
kept_build() {
	local path revision further=${further_arguments[*]}
	case $1 in *:*) ;; *) printf '%s/kept/%s%s\n' "$cache" "$1" "${further// /}" && return ;; esac
	split_tree_name "$1"
	printf '%s/kept/%s-%s%s\n' "$cache" "${1%%:*}" "$(printf '%s' "$path" | sha256sum | cut -c1-12)" "${further// /}"
}

# Moves a kept build to where servers are compiled.  If what follows is interrupted, the build is lost.
take_kept_build() {
	# without its label, nobody takes for whole what a failure leaves of it
	rm -rf "$cache/tmp.build" "$cache/tmp.source" "$1/label"
	[ ! -d "$1/build" ] || mv "$1/build" "$cache/tmp.build"
	[ ! -d "$1/source" ] || mv "$1/source" "$cache/tmp.source"
}

# Keeps what is compiled there, as the server with this label, and forgets other trees than the last four.
keep_build() {
	rm -rf "$1"
	mkdir -p "$1"
	printf '%s\n' "$2" >"$1/label"
	mv "$cache/tmp.build" "$1/build"
	[ ! -d "$cache/tmp.source" ] || mv "$cache/tmp.source" "$1/source"
	find "$cache/kept" -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' | sort -rn | sed '1,4d; s/^[^ ]* //' |
		while read -r old; do rm -rf "$old"; done
	# servers of work trees that have been edited since
	find "$cache" -mindepth 1 -maxdepth 1 -name '*-????????????-????????????' -mtime +7 -exec rm -rf {} +
}

# Brings $cache/tmp.source to the state of a tree; prints the files that have changed.  Others keep their times,
# for which make would compile them.
update_source() {
	local path tree identity scratch source=$cache/tmp.source rc=0
	scratch=$(mktemp -d)
	mkdir -p "$source"
	identify_tree "$1"
	[ "${1%%:*}-$identity" = "$(tree_label "$1")" ] || die "$path has changed meanwhile"
	if [ -z "$tree" ]; then
		rsync -rlp --checksum --delete --out-format=%n "$path/" "$source/" || rc=1
	else
		# git's index tells what is there
		rm -f "$scratch/index"
		if [ -e "$source/.index" ]; then cp -p "$source/.index" "$scratch/index"; else rm -rf "$source" && mkdir "$source"; fi
		git_aside diff-index --cached --name-only "$tree" && git_aside --work-tree="$source" read-tree --reset -u "$tree" &&
			mv "$scratch/index" "$source/.index" || rc=1
	fi
	rm -rf "$scratch"
	return "$rc"
}

# Decides what is compiled again for changed files, a name a line: sets parts.
plan_parts() {
	local file objects=0
	parts=()
	[ -d "$cache/tmp.build" ] || return 0
	while read -r file; do
		case $file in
			configure | *.in | config/*) rm -rf "$cache/tmp.build" && parts=() && return ;;
			# configure makes links to those that are there
			*/Makefile) [ -e "$cache/tmp.build/$file" ] || { rm -rf "$cache/tmp.build" && parts=() && return; } && parts+=(.) ;;
			# compiled into other programs, or modules of their own
			src/backend/access/rmgrdesc/*.c | src/backend/replication/*.c | src/backend/utils/mb/*.c | src/backend/snowball/*.c | src/backend/jit/*.c) parts+=(.) ;;
			src/backend/*.c) parts+=(src/backend) ;;
			# make knows no dependencies on headers, but ccache does
			*.h) parts+=(.) objects=1 ;;
			contrib/*) [[ " ${parts_used[*]} " != *" ${file%/*} "* ]] || parts+=("${file%/*}") ;;
			src/test/modules/injection_points/* | src/test/regress/*.[ch] | src/test/perl/*) parts+=(.) ;;
			*/ | doc/* | src/test/* | src/tools/* | */README* | */meson.build | *.md) ;;
			*/*) parts+=(.) ;;
		esac
	done <<<"$1"
	# without an object make is content with what was linked from it, if the source is not newer
	[ $objects -eq 0 ] || find "$cache/tmp.source" "$cache/tmp.build" -name '*.c' -exec touch {} +
	mapfile -t parts < <(printf '%s\n' "${parts[@]}" | sort -u | sed '/^$/d')
	[ ${#parts[@]} -gt 0 ] || parts=(src/backend)
	[[ " ${parts[*]} " != *" . "* ]] || parts=()
}

# Compiles a tree in $cache/tmp.build, where its kept build is used.  The source has the same path for all trees,
# for ccache.
compile_tree() {
	local name=$1 log=$2 changed parts
	take_kept_build "$(kept_build "$name")"
	changed=$(update_source "$name" 2>"$log") || { cat "$log" >&2 && return 1; }
	[ -x "$cache/tmp.source/configure" ] || die "there is no source of PostgreSQL at ${name#*:}" "it has no configure"
	plan_parts "$changed"
	compile_server "$name" "$cache/tmp.source" "$log"
}

provide_tree() {
	local name=$1 label log
	label=$(tree_label "$name")
	log=$cache/log/$label.log
	say "$label: compiled from ${name#*:} (log: $log)"
	compile_tree "$name" "$log" || return 1
	publish_server "$name" "$cache/$label" "from ${name#*:}"
	keep_build "$(kept_build "$name")" "$label"
}
