#!/bin/sh
# Builds libcuda.so.1 and, on top of it, libcudart.so.12 and libcudart.so.13 into
# a directory: libcuda.sh DIRECTORY. Needs a C compiler for glibc on x86-64;
# without one it says so and makes nothing.
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

# The runtime API is plain C, compiled once for each major version.
for major in 12 13; do
	name=libcudart.so.$major
	"${CC:-gcc}" -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -DMAJOR=$major -shared -pthread \
		-o "$tmp/$name" cmd/libcudart/*.c "$out/libcuda.so.1" -s -Wl,-z,defs,-soname,$name -Wl,--version-script=cmd/libcudart/exports$major.map
	mv -f "$tmp/$name" "$out/$name"
done
