#!/bin/sh
# Compiles kernels.cu with nvcc and runs it on the first NVIDIA GPU. Arguments:
# the folder for the results (kernels_sm75.ptx, kernels_sm90.ptx, expected.txt).
set -e
cd "$(dirname "$0")"
nvcc --version | grep release
for arch in 75 90; do
  nvcc -ptx -arch=compute_$arch -O3 -Wno-deprecated-gpu-targets kernels.cu -o "$1/kernels_sm$arch.ptx"
done
python3 run.py "$1/kernels_sm90.ptx" > "$1/expected.txt"
