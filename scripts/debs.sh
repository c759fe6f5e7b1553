# Functions for scripts that run programs of Debian packages in a guest without installing them here.
# To be sourced by bash.

# fetch_debs DIR SUITE PACKAGE... unpacks packages of the mirror that this host uses, and all that they
# depend on, below DIR/root. SUITE is "" for the suites of the host. Apt checks the archive's
# signature, and the packages by it. Once DIR is there nothing is fetched.
fetch_debs() {
	local dir=$1 suite=$2 new=$1.new options packages line mirror
	shift 2
	[ -d "$dir" ] && return
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		echo "fetching $*: this needs Debian's apt-get and dpkg-deb" >&2
		return 1
	fi
	rm -rf "$new"
	mkdir -p "$new"/{lists,cache/archives}/partial "$new"/root
	options=(-q -o Acquire::Retries=3 -o Acquire::Languages=none)
	[ "$(id -u)" != 0 ] || options+=(-o APT::Sandbox::User=root)
	if [ -n "$suite" ]; then
		mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' | sed -n 's|^\(.*/debian/\) main$|\1|p' | head -n 1)
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian/} $suite main" >"$new"/sources.list
		options+=(-o Dir::Etc::sourcelist="$new"/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$new"/lists)
		apt-get "${options[@]}" update >"$new"/log 2>&1 || { cat "$new"/log >&2; return 1; }
	fi
	options+=(-o Dir::State::status=/dev/null -o Dir::Cache="$new"/cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
	packages=$(apt-get "${options[@]}" install --simulate --no-install-recommends "$@" 2>"$new"/log | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p')
	[ -n "$packages" ] || { cat "$new"/log >&2; return 1; }
	echo "fetching $* and what it depends on, $(wc -w <<<"$packages") packages, into $dir" >&2
	(cd "$new"/cache && apt-get "${options[@]}" download $packages) >"$new"/log 2>&1 || { cat "$new"/log >&2; return 1; }
	for line in "$new"/cache/*.deb; do dpkg-deb --extract "$line" "$new"/root || return; done
	rm -rf "$new"/{cache,lists,log,sources.list}
	mv "$new" "$dir"
}

# with_libraries ROOT FILE... prints the paths of files below ROOT, of the shared libraries there that they
# need, and of the loader.
with_libraries() {
	local root=$1 file loader paths
	shift
	loader=$(find "$root" -name ld-linux-x86-64.so.2 -print -quit)
	paths=$(find "$root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd :)
	for file; do
		echo "$file"
		"$loader" --library-path "$paths" --list "$file" | sed -n 's/.* => \(\/.*\) (.*/\1/p'
	done | { cat; echo "$loader"; } | sort -u
}
