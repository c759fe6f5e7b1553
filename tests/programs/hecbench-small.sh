#!/bin/bash
# Builds the programs of hecbench-small.txt whose size lies in their source, or that print their
# results only if a macro of their own is defined. The others are HeCBench's own builds.
#
#	hecbench-small.sh BIN SRC
#
# SRC/HeCBench is the repository; BIN/HeCBench has the binaries of hecbench.txt. The programs
# come into BIN/HeCBench-small, and SRC/HeCBench-small becomes a link to the sources.
set -euo pipefail
bin=$(realpath "$1") src=$(realpath "$2")
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
shopt -s nullglob
mkdir -p "$bin/HeCBench-small"
ln -sfn HeCBench "$src/HeCBench-small"
for built in "$bin"/HeCBench/*; do
	[ -e "$bin/HeCBench-small/${built##*/}" ] || ln -s "../HeCBench/${built##*/}" "$bin/HeCBench-small/"
done

# small NAME MACROS FILE EDIT: builds a program with macros, FILE of it edited by sed.
small() {
	cp -rL "$src/HeCBench/src/$1" "$top/$1"
	[ -z "$4" ] || sed -i -E "$4" "$top/$1/$3"
	[ -z "$4" ] || ! cmp -s "$src/HeCBench/src/$1/$3" "$top/$1/$3" || { echo "$1: nothing to edit in $3" >&2; exit 1; }
	rm -f "$bin/HeCBench-small/$1"
	make -s -C "$top/$1" ARCH=sm_90 EXTRA_CFLAGS="$2" >"$top/log" 2>&1 || { cat "$top/log" >&2; exit 1; }
	cp "$top/$1/main" "$bin/HeCBench-small/$1"
	rm -rf "${top:?}/$1"
	echo "$1"
}

only=${ONLY:-.}
while IFS='|' read -r name macros file edit; do
	[[ $name =~ ^[a-z] && $name =~ $only ]] || continue
	small "$name" "$macros" "$file" "$edit"
done <<'TABLE'
ace-cuda|-DVERIFY|main.cu|s/SIZE 400/SIZE 64/
addBiasResidualLayerNorm-cuda||main.cu|s/m = 4096/m = 16/; s/i < 100;/i < 1;/
aligned-types-cuda||main.cu|s/MEM_SIZE = 50000000/MEM_SIZE = 500000/; s/ITERATIONS = 1000/ITERATIONS = 2/
atomicCost-cuda||main.cu|s/length = 922521600/length = 921600/
base64e-cuda||main.cu|s/LENGTH 33554432/LENGTH 65536/; s/uiTestCycle = 100/uiTestCycle = 2/
bh-cuda|-DDEBUG||
binomial-cuda||binomialOptions.h|s/MAX_OPTIONS 1024/MAX_OPTIONS 16/; s/ITERATIONS 1000/ITERATIONS 1/
bitpacking-cuda||main.cu|s/, 83621, 872163, 100000001/, 83621/
bitpermute-cuda||main.cu|s/permute\(27,/permute(16,/; s/permute\(28,/permute(17,/
bn-cuda||kernels.cu|s/t1<DATA_N/t1<30/
bonds-cuda||bondsEngine.cu|s/\{1000000\}/{10000}/
bscan-cuda||main.cu|s/12\*7\*8\*9\*10/7*8*9/
bsearch-cuda|-DDEBUG||
car-cuda||main.cu|s/\{128, 3, 480, 640, 9, 1024, 1024\}/{2, 3, 48, 64, 9, 102, 102}/
che-cuda||kernels.h|s/SIZE 256/SIZE 32/
clenergy-cuda||clenergy.cu|s/atomcount = 1000000/atomcount = 20000/; s/= 768/= 128/
crossEntropy-cuda||reference.h|s/bs = 128/bs = 2/
crs-cuda|-DDUMP||
d3q19-bgk-cuda||main.cu|s/bench_ini_iter = 1000/bench_ini_iter = 150/; s/bench_max_iter = 2000/bench_max_iter = 160/; s/i < 10;/i < 1;/; s/mlups\[10\]/mlups[1]/
ddbp-cuda||main.cu|s/= 1996;/= 100;/; s/= 2457;/= 123;/; s/= 78;/= 6;/; s/= 1664;/= 83;/; s/= 2048;/= 102;/; s/= 15;/= 3;/
degrid-cuda||degrid.h|s/40000/100/; s/REPEAT   100/REPEAT 1/
dslash-cuda|-DLDIM=8 -DITERATIONS=10||
ert-cuda||main.cu|s/MEMORY_MAX      33554432/MEMORY_MAX      262144/
feynman-kac-cuda||main.cu|s/N = 1000;/N = 10;/; s/h = 0.001;/h = 0.02;/
flame-cuda|-DDUMP||
TABLE
