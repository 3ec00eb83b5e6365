# shellcheck shell=bash
# Debian's mirror and packages.  Nothing here touches the package lists of the
# machine, except install_packages, which is what root is asked for.

# The mirror is the one that this machine uses itself: apt knows it, whichever
# format its sources are written in.
debian_mirror() {
	if [ -n "${TEST_AIO_MIRROR:-}" ]; then
		printf '%s/\n' "${TEST_AIO_MIRROR%/}"
		return
	fi
	local mirror codename id
	read -r id codename < <(. /etc/os-release && printf '%s %s\n' "$ID" "${VERSION_CODENAME:-}")
	[ "$id" = debian ] || die "this is not Debian: its mirrors do not have the packages" \
		"name a mirror of Debian's: TEST_AIO_MIRROR=http://… $0"
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 2>/dev/null |
		awk -v codename="$codename" '
			$1 ~ /^(https?|file|ftp):/ && $3 == "main" &&
			($2 == codename || $2 ~ /^(oldstable|stable|testing|unstable|sid)$/) {
				# others, too, name their suites so
				if ($1 ~ /\/debian\/?$/) { best = $1; exit }
				if (!best) best = $1
			}
			END { if (best) print best }')
	[ -n "$mirror" ] || die "no Debian mirror in this machine's apt configuration" \
		"name one: TEST_AIO_MIRROR=http://… $0"
	printf '%s\n' "$mirror"
}

# private_apt DIR LINE…: an apt state of our own below DIR, with these sources;
# writes DIR/apt.conf, to be used with apt-get -c.
private_apt() {
	local dir=$1
	shift
	mkdir -p "$dir/lists/partial" "$dir/archives/partial"
	printf '%s\n' "$@" >"$dir/sources.list"
	: >"$dir/status"
	# The suites outlive their Release files' validity on mirrors that are
	# snapshots.  The hooks are the machine's own business.
	cat >"$dir/apt.conf" <<-END
		Dir::State "$dir";
		Dir::State::status "$dir/status";
		Dir::Cache "$dir";
		Dir::Etc "$dir";
		Acquire::Check-Valid-Until "false";
		Acquire::Languages "none";
		Acquire::Retries "3";
		APT::Sandbox::User "";
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
	END
}

# Proxies and the like, for an apt that does not read this machine's files.
apt_transport_options() {
	apt-config dump --format '%F "%v";%n' Acquire::http Acquire::https 2>/dev/null |
		grep -Ei '::(proxy|proxy-auto-detect)' | grep -v '""' || true
}

missing_packages() {
	local package
	for package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			printf '%s\n' "$package"
	done
}

# A machine that has just been made has no package lists, an old one stale ones.
apt_install() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y --no-install-recommends "$@" && return
	apt-get -o Acquire::Retries=3 update && apt-get install -y --no-install-recommends "$@"
}

# install_packages LOG PACKAGE…: those that are missing, as root.
install_packages() {
	local log=$1 missing
	shift
	mapfile -t missing < <(missing_packages "$@")
	[ ${#missing[@]} -eq 0 ] && return
	say "This installs ${#missing[@]} packages into this system, by apt-get as root (servers/provide --help):"
	printf '%s\n' "${missing[*]}" | fold -s -w 90 | sed 's/^/  /' >&2
	step "installing ${#missing[@]} packages of this system" "$log" apt_install "${missing[@]}"
}
