#!/bin/sh
# Builds libcuda.so.1 with libpvdrm-cuda.so, which it loads, on top of it
# libcudart.so.11.0, .12 and .13, and libpvdrm-static.so, which leads programs with a static runtime
# to these, libgloop.so, and libnvidia-ml.so.1 with libpvdrm-nvml.so, into a directory: libcuda.sh DIRECTORY. Needs a C compiler for glibc on x86-64;
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

# gopart NAME COMMAND makes one of the libraries in Go.
gopart() {
	CC="${CC:-gcc}" CGO_ENABLED=1 GOOS=linux GOARCH=amd64 "$go" build -buildmode=c-shared -trimpath -buildvcs=false \
		-ldflags "-s -w -extldflags '-Wl,-soname,$1 -Wl,--version-script=$here/$2/exports.map'" -o "$tmp/$1" "./$2"
	mv -f "$tmp/$1" "$out/$1"
}

# library NAME SOURCES OPTIONS makes one of the libraries in C.
library() {
	name=$1
	shift
	"${CC:-gcc}" -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -pthread -o "$tmp/$name" "$@" -s -Wl,-z,defs,-soname,"$name"
	mv -f "$tmp/$name" "$out/$name"
}

# It has handlers for forks and ends of threads, so it stays once it is loaded.
gopart libpvdrm-cuda.so cmd/libcuda
library libcuda.so.1 -D_GNU_SOURCE frontend/cuda/capi/entry/*.c -ldl -Wl,-z,nodelete,--version-script=frontend/cuda/capi/entry/exports.map
ln -sf libcuda.so.1 "$out/libcuda.so"

# The runtime API is compiled once for each major version.
for version in 11.0 12 13; do
	library libcudart.so.$version -DMAJOR=${version%.0} frontend/cuda/rt/c/*.c "$out/libcuda.so.1" -Wl,--version-script=frontend/cuda/rt/c/exports$version.map
done

library libpvdrm-static.so frontend/cuda/rt/static/*.c

# libgloop.so, which runs GLoop programs of C, is compiled by a C++ compiler and needs no C++ library.
if echo 'int x;' | "${CXX:-g++}" -x c++ -E - >/dev/null 2>&1; then
	"${CXX:-g++}" -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -shared -pthread -nodefaultlibs \
		-o "$tmp/libgloop.so" frontend/gloop/c/*.cc "$out/libcuda.so.1" -lc -lgcc -s -Wl,-z,defs,-soname,libgloop.so
	mv -f "$tmp/libgloop.so" "$out/libgloop.so"
else
	echo "libcuda.sh: no C++ compiler (${CXX:-g++}), so there is no libgloop.so; on Debian: apt-get install g++" >&2
fi

gopart libpvdrm-nvml.so cmd/libnvml
library libnvidia-ml.so.1 -D_GNU_SOURCE frontend/nvml/entry/*.c -ldl -Wl,-z,nodelete,--version-script=frontend/nvml/entry/exports.map
ln -sf libnvidia-ml.so.1 "$out/libnvidia-ml.so"

# The stubs of NVIDIA's libraries, each by all its names, with NVIDIA's versions of symbols.
mkdir -p "$out/cuda-libs"
grep -v '^#' frontend/cuda/libs/files.txt | while read -r source name prefix versions; do
	script="$tmp/$name.map"
	case "$versions" in
	versions) echo "$name { global: $prefix*; local: *; };" >"$script" ;;
	*) echo "{ global: $prefix*; local: *; };" >"$script" ;;
	esac
	library "$name" -D_GNU_SOURCE "frontend/cuda/libs/$source" frontend/cuda/libs/stub.c "$out/libcuda.so.1" -ldl -Wl,--version-script="$script"
	mv -f "$out/$name" "$out/cuda-libs/$name"
done
