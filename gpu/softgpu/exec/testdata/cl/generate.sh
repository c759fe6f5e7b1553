#!/bin/sh
# Compiles the OpenCL C kernels of this folder to PTX (clang 14 or later).
set -e
cd "$(dirname "$0")"
for f in *.cl; do
  clang -x cl -cl-std=CL1.2 --target=nvptx64-nvidia-cuda -march=sm_70 -Xclang -target-feature -Xclang +ptx63 \
    -O2 -S -nocudalib -Xclang -finclude-default-header "$f" -o "../ptx/${f%.cl}.ptx"
done
