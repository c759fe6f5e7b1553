#!/bin/sh
# Builds libcuda.so.1 into a directory: libcuda.sh DIRECTORY. Needs a C compiler
# for glibc on x86-64; without one it says so and makes nothing.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
go=${GO:-$("$here/scripts/go.sh")}
if ! echo '#include <pthread.h>' | "${CC:-gcc}" -E - >/dev/null 2>&1; then
	echo "libcuda.sh: no C compiler (${CC:-gcc} and its headers), so there is no libcuda.so.1 for C programs; on Debian: apt-get install gcc libc6-dev" >&2
	exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$here"
CC="${CC:-gcc}" CGO_ENABLED=1 GOOS=linux GOARCH=amd64 "$go" build -buildmode=c-shared -trimpath -buildvcs=false \
	-ldflags "-s -w -extldflags '-Wl,-soname,libcuda.so.1 -Wl,--version-script=$here/cmd/libcuda/exports.map'" \
	-o "$tmp/libcuda.so.1" ./cmd/libcuda
mv -f "$tmp/libcuda.so.1" "$out/libcuda.so.1"
ln -sf libcuda.so.1 "$out/libcuda.so"
