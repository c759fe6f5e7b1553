#!/usr/bin/env bash
# Fuzzes for so many processor-hours, divided among the targets by their weights in
# tests/fuzz/targets.txt: fuzz-long.sh [HOURS [DIR]]. DIR keeps the corpus, what fails,
# and the account of the time.
set -euo pipefail
hours=${1:-8} dir=${2:-.cache/fuzz} programs=${PROGRAMS:-$(nproc)}
mkdir -p "$dir"
scripts/fuzz-build.sh tests/fuzz/targets.txt "$dir"
echo "$hours processor-hours by $programs programs"
nice scripts/fuzz-run.sh "$dir" $((hours * 3600 / programs)) "$programs"
if [ -n "$(find "$dir/crashers" -type f -print -quit)" ]; then
	echo "inputs that fail are in $dir/crashers: copy each to testdata/fuzz of its package, and mend what it shows" >&2
	exit 1
fi
