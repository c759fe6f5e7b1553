#!/bin/sh
# Compiles GLoop programs: gloop.sh FILE.cu... makes FILE.ptx and FILE.noshared.ptx, which keeps
# loops out of shared memory. The first line of each has a digest of what it was made of, which tests
# compare (frontend/gloop/device). Needs clang 16 (clang-16 of Debian), and no CUDA SDK.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
device=$here/frontend/gloop/device
clang=${GLOOP_CLANG:-clang-16}
export LC_ALL=C # the order of the headers

for source in "$@"; do
	dir=$(dirname "$source")
	headers=
	for h in "$dir"/*.h; do
		[ ! -e "$h" ] || headers="$headers $h"
	done
	# shellcheck disable=SC2086 # names without spaces
	digest=$(cat "$device"/*.h $headers "$source" | sha256sum | cut -d' ' -f1)
	for shared in 1 0; do
		out=${source%.cu}.ptx
		[ $shared = 1 ] || out=${source%.cu}.noshared.ptx
		"$clang" -x cuda --cuda-gpu-arch=sm_70 -nocudainc -nocudalib --cuda-device-only \
			-Xclang -target-feature -Xclang +ptx63 -O2 -std=c++17 -Wall -Wextra -Werror \
			-DGLOOP_SHARED=$shared -I"$device" -S "$source" -o "$out.tmp"
		{ echo "// made by scripts/gloop.sh of sources $digest"; cat "$out.tmp"; } >"$out"
		rm "$out.tmp"
	done
done
