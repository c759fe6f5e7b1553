#!/usr/bin/env bash
# Runs every fuzz target of the tree for a time each (default 5s), as many at once as there
# are processors. A crash leaves its input in the package's testdata/fuzz: commit it with the fix.
set -euo pipefail
export time=${1:-5s}
go=${GO:-go}
programs=$(mktemp -d)
export programs
trap 'rm -rf "$programs"' EXIT

# one PACKAGE TARGET
one() {
	local pkg=$1 name=$2 out
	# fuzz TIME|Nx
	fuzz() { out=$(cd "$pkg" && "$programs/${pkg//\//-}.test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzzcachedir "$programs/corpus" \
		-test.fuzztime "$1" -test.fuzzminimizetime 50x -test.parallel 1 2>&1); }
	if ! fuzz "$time"; then
		# At the end of the time Go before 1.27 may take the end for an error (go.dev/issue/75804).
		# That is no finding: nothing was written. A number of runs has no such end, and tells.
		if [[ $out != *"context deadline exceeded"* || $out == *"Failing input"* ]] || ! fuzz 2000x; then
			printf '%s ./%s:\n%s\n' "$name" "$pkg" "$out"
			exit 255 # xargs starts no more
		fi
	fi
	printf '%-28s ./%s\n' "$name" "$pkg"
}
export -f one

targets=$(git ls-files -c -o --exclude-standard '*_test.go' | xargs grep -n '^func Fuzz' |
	sed -E 's|/[^/]*_test.go:[0-9]*:func (Fuzz[A-Za-z0-9_]*).*| \1|')
[ -n "$targets" ] || { echo "no fuzz target found" >&2; exit 1; }
# -fuzz instruments the code; the program has all targets of its package.
# Linking takes one processor: several packages are built at once.
build() { "$go" test -c -fuzz . -o "$programs/${1//\//-}.test" "./$1" || exit 255; }
export -f build
export go
cut -d' ' -f1 <<<"$targets" | sort -u | xargs -P "$(nproc)" -I{} bash -c 'build {}'
xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' one <<<"$targets"
echo "make fuzz: $(wc -l <<<"$targets") targets, $time each, nothing found"
