#!/usr/bin/env bash
# Builds llm.c's GPT-2 of fp32 twice: gpu, its CUDA program, whose kernels PVDRM runs, and cpu, its C program
# with OpenMP, where the compiler has it. Needs clang with the nvptx back end, and no CUDA SDK.
#
#   scripts/llmc/build.sh LLMC LIB OUT    LLMC: a checkout of llm.c (MIT licence); LIB: bin/lib of PVDRM
set -euo pipefail
llmc=$(cd "$1" && pwd) lib=$(cd "$2" && pwd) out=$3
here=$(cd "$(dirname "$0")" && pwd)
clang=${CLANG:-clang}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# In this kernel a warp stores its sum of the next row while others may still read those of the last: on a GPU they
# are in step by chance. A barrier at the end of each row makes it right in any order.
awk '/__global__ void softmax_autoregressive_backward_kernel\(/ { in_kernel = 1 }
	{ print }
	in_kernel && /__stcs\(dpreatt_bth/ { getline; print; print "        block.sync();"; in_kernel = 0; done = 1 }
	END { exit !done }' "$llmc/train_gpt2_fp32.cu" >"$out/train_gpt2_fp32.cu"

flags=(-nocudainc -nocudalib --cuda-gpu-arch=sm_70 -Xclang -target-sdk-version=11.0 -O3 -DNDEBUG -w
	-I"$here/include" -I"$out" -I"$llmc" -I"$here")
"$clang" -x cuda --cuda-device-only "${flags[@]}" -Xclang -target-feature -Xclang +ptx63 -mllvm -unroll-threshold=2000 -S "$here/gpu.cu" -o "$out/gpu.ptx"

# A fatbin with that PTX: the header of the whole, and of its one image.
bytes=$((($(stat -c %s "$out/gpu.ptx") + 8) / 8 * 8))
cat >"$out/fatbin.S" <<END
.long 0xba55ed50; .short 1, 16; .quad 64 + $bytes
.short 1, 0x101; .long 64; .quad $bytes; .long 0, 0, 0, 70; .zero 32
.incbin "$out/gpu.ptx"
.balign 8, 0; .org 80 + $bytes
END
gcc -c "$out/fatbin.S" -o "$out/fatbin.o"
objcopy -O binary -j .text "$out/fatbin.o" "$out/gpu.fatbin"
"$clang" -x cuda --cuda-host-only "${flags[@]}" -Xclang -fcuda-include-gpubinary -Xclang "$out/gpu.fatbin" -c "$here/gpu.cu" -o "$out/gpu.o"
g++ "$out/gpu.o" "$lib"/libcudart.so.12 -Wl,-rpath-link,"$lib" -lm -o "$out/gpu"
gcc -Ofast -march=native -w -fopenmp -DOMP -I"$llmc" -I"$here" "$here/cpu.c" -lm -o "$out/cpu"
gcc -O2 "$here/model.c" -lm -o "$out/model"
