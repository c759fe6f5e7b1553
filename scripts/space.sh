#!/usr/bin/env bash
# Says whether a run of .ci/run has room for what it writes: the temporary directory, and the caches of Go and
# staticcheck. It fails where not even a run with full caches would end, and warns where one with empty caches might not.
# space.sh [TMP_MB CACHE_MB]
#
# The figures are of 2026-11-28, rounded up. Temporary files: the 43 fuzz programs are there at the same time, 15 to 29 MB
# each, beside what the linker and the guests of tests write. Caches: what a build of all packages and tests compiles is
# 0.6 GB, and a run compiles it three times, plainly, for the race detector, and instrumented for fuzzing; staticcheck
# keeps 0.7 GB. Go drops what was not used for five days, so a cache grows with each commit, and a full one is no help to
# the packages that changed: half of the figure is asked for then.
set -euo pipefail
go=${GO:-go}
need_tmp=${1:-2000} need_cache=${2:-4000}
tmp=${GOTMPDIR:-${TMPDIR:-/tmp}}
cache=$("$go" env GOCACHE)
mkdir -p "$cache"
[ -d "$tmp" ] || { echo "space: there is no directory $tmp for temporary files" >&2; exit 1; }

free() { df -Pm "$1" | awk 'NR == 2 { print $4 }'; }
size() { du -sm "$1" 2>/dev/null | cut -f1; }

have=$(size "$cache")
missing=$((need_cache - have))
[ "$missing" -ge $((need_cache / 2)) ] || missing=$((need_cache / 2))
same=$([ "$(stat -c %d "$tmp")" = "$(stat -c %d "$cache")" ] && echo yes || echo no)
if [ "$same" = yes ]; then
	free_tmp=$(free "$tmp") least=$need_tmp most=$((need_tmp + missing))
	[ "$free_tmp" -lt "$most" ] || exit 0
	echo "space: $free_tmp MB are free for temporary files ($tmp) and Go's cache ($cache, $have MB);" \
		"a run takes up to $need_tmp MB and $missing MB" >&2
else
	free_tmp=$(free "$tmp") free_cache=$(free "$cache") least=$need_tmp
	[ "$free_tmp" -lt "$need_tmp" ] || [ "$free_cache" -lt "$missing" ] || exit 0
	echo "space: $free_tmp MB are free for temporary files ($tmp), of which a run takes up to $need_tmp MB," \
		"and $free_cache MB for Go's cache ($cache, $have MB), which takes up to $missing MB more" >&2
fi
cat >&2 <<END
space: what helps:
  go clean -cache                  empties Go's cache, where it is larger than $need_cache MB: builds of other commits are in it
  TMPDIR=DIR GOCACHE=DIR .ci/run   uses another disk
  rm -r what killed runs left in $tmp, while nothing else runs:
END
shopt -s nullglob
left=("$tmp"/go-build* "$tmp"/pvdrm-bin-* "$tmp"/pvdrm-run-* "$tmp"/pvdrm-test-* "$tmp"/gloop-grep*)
if [ ${#left[@]} -gt 0 ]; then
	du -sm "${left[@]}" 2>/dev/null | sort -rn | head -n 8 | awk '{ printf "    %6d MB  %s\n", $1, $2 }' >&2
else
	echo "    nothing that PVDRM or Go leaves there" >&2
fi
if [ "$free_tmp" -lt "$least" ]; then
	echo "space: that is too little for any run" >&2
	exit 1
fi
