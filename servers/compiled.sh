# shellcheck shell=bash
# Compiling servers: those of Debian's source package, as upstream released it, and
# those of a tree that the user names.

# Any prefix will do: the server finds its files from where its programs are,
# and the cache may be seen at another place by another user.
configured_prefix=/test_aio

# The unpacked release of a major version; servers/provide --source prints it.
source_release_dir() { printf '%s\n' "$cache/source-$1"; }

# Whatever the release is, from this suite, or from those to which a package moves on.
download_source_release() {
	local dir=$1 mirror=$2 major=$3 suite
	for suite in "$4" sid experimental testing stable; do
		private_apt "$dir" "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
		# once more, since the archive may change between the list and the package
		for _ in 1 2; do
			apt-get -c "$dir/apt.conf" update &&
				(cd "$dir" && apt-get -c "$dir/apt.conf" source --download-only --only-source "postgresql-$major") && return
		done
	done
	echo "no suite of $mirror has the source of postgresql-$major"
	return 1
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
	step "unpacking it" "$log" \
		tar -xf "$tmp/postgresql-$major"_*.orig.tar.* --one-top-level="$tmp/unpacked" --strip-components=1 --no-same-owner || return 1
	mv "$tmp/unpacked" "$dir"
	rm -rf "$tmp"
}

# Prints the arguments of configure for the libraries that this machine has.
library_arguments() {
	local package
	for package in liburing:liburing numa:libnuma 'icu-uc icu-i18n:icu' zlib:zlib readline:readline; do
		# shellcheck disable=SC2086  # icu is two packages
		if pkg-config --exists ${package%:*} 2>/dev/null; then
			echo "--with-${package#*:}"
		else
			echo "--without-${package#*:}"
		fi
	done
}

# What follows runs as the ordinary user, with $1 the directory to build in and $2 the source; configure is given what is
# after that.  It makes links to the Makefiles that are there.
configure_server() {
	local new
	cd "$1/objects" || return
	new=$(cd "$2" && find src contrib -name Makefile | while read -r file; do [ -e "$1/objects/$file" ] || echo "$file"; done)
	[ -e config.status ] && [ -z "$new" ] || CCACHE_DISABLE=1 "$2/configure" --prefix="$configured_prefix" CC=gcc "${@:3}"
}

# What the suite, the explorer, the mutants and the lab use of a server.
parts_used=(
	src/include src/port src/common src/backend src/backend/utils/mb/conversion_procs src/backend/snowball
	src/backend/replication/{libpqwalreceiver,pgoutput,pgrepack}
	src/timezone src/interfaces/libpq src/fe_utils src/pl/plpgsql/src
	src/bin/{initdb,pg_basebackup,pg_checksums,pg_combinebackup,pg_config,pg_controldata,pg_ctl,pg_resetwal,pg_waldump,pgbench,psql}
	src/test/{regress,perl} src/makefiles config
	contrib/{amcheck,bloom,pageinspect,pg_buffercache,pg_freespacemap,pg_prewarm,pg_visibility,pg_walinspect,pgstattuple}
)

# Of these directories, and of programs and modules, the suite does not need fast code, and to compile them takes long.
slow_to_compile=(
	access/{brin,gin,gist,hash,spgist} backup commands libpq nodes optimizer/geqo parser regex replication rewrite
	statistics tsearch utils/adt utils/misc
)

# Compiles and installs the parts that this version has, by one make, which keeps all processors busy; first the parts that
# others would make, too, at the same time.  Programs, modules and pg_regress lie at different depths below the prefix.
build_server() {
	local quickly=
	cd "$1/objects" || return
	rm -rf "$1/stage"
	# where snowball installs before it makes directories
	mkdir -p "$1/stage$configured_prefix/share/postgresql/tsearch_data"
	# the suite's own server (configure_arguments_of())
	if grep -q '^CFLAGS = .*-g1' src/Makefile.global; then
		[ -n "$COPT" ] || quickly=COPT=-O0
		# the first time there is nothing to find, and filling it takes as long as a tenth of the rest
		[ -e src/backend/postgres ] || export CCACHE_DISABLE=1
	fi
	! grep -q '^enable_injection_points *= *yes' src/Makefile.global || parts_used+=(src/test/modules/injection_points)
	make -s -j"$(nproc)" -f - rpathdir='$$ORIGIN/../lib:$$ORIGIN/..:$$ORIGIN/../../../../..' DESTDIR="$1/stage" ${COPT:+COPT="$COPT"} <<-END
		parts := \$(patsubst %/Makefile,%,\$(wildcard \$(addsuffix /Makefile,${parts_used[*]})))
		unoptimised := \$(if $quickly,\$(wildcard \$(addprefix src/backend/,${slow_to_compile[*]})))
		.PHONY: all headers \$(parts) \$(unoptimised)
		all: \$(parts)
		headers: ; \$(MAKE) -C src install-local && \$(MAKE) -C src/backend generated-headers
		\$(unoptimised): headers ; \$(MAKE) -C \$@ $quickly
		src/backend: \$(unoptimised)
		\$(parts): ; \$(MAKE) -C \$@ install \$(if \$(filter src/bin/% src/fe_utils src/pl/% src/test/% contrib/%,\$@),$quickly)
		src/port src/common: headers
		\$(filter-out src/port src/common,\$(parts)): src/port src/common
		src/backend/replication/libpqwalreceiver \$(filter src/bin/%,\$(parts)): src/interfaces/libpq src/fe_utils
		src/timezone: src/backend
	END
}

# in_build NAME LOG PHASE ARGUMENT…: runs one of the functions above for server NAME, in $build.
in_build() {
	local name=$1 log=$2 phase=$3 environment
	# configure, make and make install run what they have compiled
	mapfile -t environment < <(server_environment "$name")
	step "$phase" "$log" \
		as_ordinary_user --read "$source_dir" --write "$build" --write "$cache/ccache" \
		env HOME="$build" PATH="/usr/lib/ccache:$PATH" CCACHE_DIR="$cache/ccache" CCACHE_BASEDIR="$cache" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 COPT="${COPT:-}" "${environment[@]}" \
		bash -c '. "$1/servers/compiled.sh"; "$2_server" "${@:3}"' - "$source_dir" "$phase" "$build" "$build/source" "${@:4}"
}

# Sets arguments, those of configure, and build, the directory where a server is compiled: one for each source and each
# set of arguments.  Further arguments are configure's.
choose_build() {
	local name=$1 path revision how
	how=$(server_column "$name" how)
	mapfile -t arguments < <(configure_arguments_of "$how" && library_arguments)
	arguments+=("${@:2}")
	case $name in *:*) split_tree_name "$name" ;; *) path=$(server_column "$name" major) ;; esac
	build=$cache/build/$(printf '%s\n' "$how" "$path" "${arguments[@]}" | sha256sum | cut -c1-16)
}

# compile_server NAME LOG: compiles what has changed of server NAME in $build.
compile_server() {
	local name=$1 log=$2
	# compiled otherwise by servers/variant, which did not come to its end
	[ ! -e "$build/unclean" ] || rm -rf "$build"/{objects,unclean}
	mkdir -p "$build"/{objects,stage} "$cache/ccache"
	update_source "$name" >"$log" 2>&1 || { cat "$log" >&2 && return 1; }
	[ -x "$build/source/configure" ] || die "there is no source of PostgreSQL at ${name#*:}" "it has no configure"
	! is_root || { chown "$(ordinary_user)" "$build" && chown -R "$(ordinary_user)" "$build"/{objects,stage} "$cache/ccache"; }
	in_build "$name" "$log" configure "${arguments[@]}" && in_build "$name" "$log" build || return 1
	# the last four are kept, and servers of work trees that have been edited since for a week
	touch "$build"
	find "$cache/build" -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' | sort -rn | sed '1,4d; s/^[^ ]* //' | xargs -r -d '\n' rm -rf
	find "$cache" -mindepth 1 -maxdepth 1 -name '*-????????????-????????????' -mtime +7 -exec rm -rf {} +
}

# publish_server NAME DIR: puts what has been compiled into DIR.  Further arguments are lines for its stamp.
publish_server() {
	local name=$1 dir=$2 environment
	shift 2
	mapfile -t environment < <(server_environment "$name")
	# hard links: a file that is installed again is a new one
	rm -rf "$dir" "$dir.new"
	cp -al "$build/stage$configured_prefix" "$dir.new"
	{
		echo "recipe $(recipe_of "$name")"
		env "${environment[@]}" "$dir.new/bin/postgres" --version | sed "s/^[^0-9]*\([^ ]*\).*/$(server_label "$name") \1/"
		[ $# -eq 0 ] || printf '%s\n' "$@"
	} >"$dir.new/.test_aio"
	! is_root || chown -R --reference="$cache" "$dir.new"
	mv "$dir.new" "$dir"
}

# Brings $build/source to the state of a tree, or of a release.  Files that have not changed keep their times, for which
# make would compile them.
update_source() {
	local path tree='' identity scratch source=$build/source rc=0
	scratch=$(mktemp -d)
	mkdir -p "$source"
	case $1 in
		*:*) identify_tree "$1" && { [ "${1%%:*}-$identity" = "$(tree_label "$1")" ] || die "$path has changed meanwhile"; } ;;
		*) path=$(source_release_dir "$(server_column "$1" major)") ;;
	esac
	if [ -z "$tree" ]; then
		rsync -rlp --checksum --delete "$path/" "$source/" || rc=1
	else
		# git's index tells what is there
		rm -f "$scratch/index"
		if [ -e "$source/.index" ]; then cp -p "$source/.index" "$scratch/index"; else rm -rf "$source" && mkdir "$source"; fi
		git_aside --work-tree="$source" read-tree --reset -u "$tree" && mv "$scratch/index" "$source/.index" || rc=1
	fi
	rm -rf "$scratch"
	return "$rc"
}

# Compiles a server of Debian's source package, or of a tree.
provide_compiled() {
	local name=$1 label log major arguments build from=()
	label=$(server_label "$name")
	log=$cache/log/$label.log
	case $name in
		*:*) say "$label: compiled from ${name#*:} (log: $log)" && from=("from ${name#*:}") ;;
		*)
			say "$name: compiled from Debian's source package, once: three minutes of a processor (log: $log)"
			major=$(server_column "$name" major)
			provide_source_release "$major" "$(server_column "$name" suite)" || return 1
			;;
	esac
	choose_build "$name"
	[ -z "${again:-}" ] || rm -rf "$build"
	compile_server "$name" "$log" || return 1
	publish_server "$name" "$cache/$label" "${from[@]}"
}
