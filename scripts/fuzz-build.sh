#!/usr/bin/env bash
# Builds the instrumented test programs of the packages in a list of targets into
# DIR/bin, and copies what they read at the start into DIR/src. DIR is then all that
# scripts/fuzz-run.sh needs: fuzz-build.sh TARGETS DIR
set -euo pipefail
list=$1 dir=$2
go=${GO:-go}
mkdir -p "$dir/bin" "$dir/src"
grep -v '^#' "$list" >"$dir/targets.txt"
while read -r pkg; do
	names=$(awk -v p="$pkg" '$1 == p { printf "%s%s", sep, $2; sep = "|" }' "$dir/targets.txt")
	echo "$pkg"
	# -fuzz instruments the code; which target is meant does not matter.
	CGO_ENABLED=0 GOEXPERIMENT=simd "$go" test -c -trimpath -ldflags '-s -w' -fuzz "^($names)\$" -o "$dir/bin/${pkg//\//-}.test" "./$pkg"
	mkdir -p "$dir/src/$pkg"
	for data in testdata corpus; do
		if [ -d "$pkg/$data" ]; then
			cp -r "$pkg/$data" "$dir/src/$pkg/"
		fi
	done
done < <(cut -d' ' -f1 "$dir/targets.txt" | sort -u)
