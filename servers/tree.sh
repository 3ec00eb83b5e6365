# shellcheck shell=bash
# Servers that are compiled from a tree of the user's: source:PATH[@REVISION], with
# assertions and injection points, and source-optimised:PATH[@REVISION], without.  PATH is
# a git repository, bare or with a work tree, or just a directory.
#
# A server is known by its source, not by its path: by the commit; if the work tree
# differs from the commit, also by its contents; outside of git by the contents alone.

# A path may have an "@" in it, and a revision may, too.  Sets path and revision.
split_tree_name() {
	local rest=${1#*:}
	path=$rest revision=
	while [ ! -d "$path" ]; do
		[ "$path" != "${path%@*}" ] || die "there is no directory ${rest%%@*}" "name a source tree: source:PATH[@REVISION]"
		path=${path%@*}
		revision=${rest:${#path}+1}
	done
	path=$(cd "$path" && pwd -P)
	[ "${rest#"${rest%@}"}" != @ ] || die "there is no revision after the @ of $rest"
}

# Is $1 a repository of its own?  One that git will not open is an error, not a
# directory like others.
is_repository() {
	local top
	if [ ! -e "$1/.git" ] && { [ ! -e "$1/HEAD" ] || [ ! -d "$1/objects" ]; }; then return 1; fi
	top=$(git -C "$1" rev-parse --git-dir 2>&1) || die "git cannot read $1" "$top"
}

# Runs git with objects and an index of its own: nothing is written to the repository.
# Wants path, and scratch, a directory.
git_aside() {
	local objects
	objects=$(git -C "$path" rev-parse --path-format=absolute --git-path objects)
	mkdir -p "$scratch/objects"
	GIT_INDEX_FILE=$scratch/index GIT_OBJECT_DIRECTORY=$scratch/objects \
		GIT_ALTERNATE_OBJECT_DIRECTORIES=$objects git -C "$path" "$@"
}

# Prints the git tree that the work tree would make: files that git ignores are left out.
work_tree() {
	local index
	index=$(git -C "$path" rev-parse --path-format=absolute --git-path index)
	[ ! -e "$index" ] || cp -p "$index" "$scratch/index"
	git_aside add --all . && git_aside write-tree
}

# The files of a directory without git.
list_files() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z); }

# Finds out what the source is.  Sets path, identity, and tree: the tree or commit for
# "git archive", or nothing outside of git.
identify_tree() {
	local revision commit
	split_tree_name "$1"
	tree=
	if is_repository "$path"; then
		commit=$(git -C "$path" rev-parse --verify --quiet "${revision:-HEAD}^{commit}") ||
			die "there is no commit ${revision:-HEAD} in $path"
		tree=$commit
		identity=${commit:0:12}
		if [ -z "$revision" ] && [ "$(git -C "$path" rev-parse --is-inside-work-tree)" = true ]; then
			tree=$(work_tree) || die "git cannot look through $path"
			[ "$tree" = "$(git -C "$path" rev-parse "$commit^{tree}")" ] || identity+=-${tree:0:12}
		fi
		git_aside cat-file -e "$tree:src/backend" 2>/dev/null || die "there is no source of PostgreSQL in ${1#*:}"
		return
	fi
	[ -d "$path/src/backend" ] || die "there is no source of PostgreSQL in $path"
	[ -z "$revision" ] || die "$path is no git repository" "without one there is no revision \"$revision\""
	[ ! -e "$path/config.status" ] || die "$path was configured in place" "run this there: make distclean; or name what is installed from it: PG_CONFIG=/path/to/pg_config make check"
	identity=files-$(list_files "$path" | (cd "$path" && xargs -0 sha256sum) | sha256sum | cut -c1-12)
}

# What is known already: looking through a tree takes a second or more.
declare -A tree_labels=()

# Finds out the labels of those names that are trees.
know_trees() {
	local name label
	for name; do
		case $name in
			source:* | source-optimised:*) label=$(tree_label "$name") && tree_labels[$name]=$label || return ;;
		esac
	done
}

# Prints the name by which files know the server: source-0123456789ab, and the like.
tree_label() {
	local path tree identity scratch
	if [ -n "${tree_labels[$1]:-}" ]; then
		printf '%s\n' "${tree_labels[$1]}"
		return
	fi
	scratch=$(mktemp -d)
	# a subshell, since it may exit
	identity=$(identify_tree "$1" && printf '%s' "$identity") || { rm -rf "$scratch" && return 1; }
	rm -rf "$scratch"
	printf '%s-%s\n' "${1%%:*}" "$identity"
}

# Unpacks the source into directory $2.
unpack_tree() {
	local path tree identity scratch rc=0
	scratch=$(mktemp -d)
	identify_tree "$1"
	[ "${1%%:*}-$identity" = "$(tree_label "$1")" ] || die "$path has changed meanwhile"
	if [ -n "$tree" ]; then
		git_aside archive "$tree" | tar -x -C "$2" || rc=1
	else
		list_files "$path" | tar -c -C "$path" --null --files-from=- | tar -x -C "$2" --no-same-owner || rc=1
	fi
	rm -rf "$scratch"
	return "$rc"
}
