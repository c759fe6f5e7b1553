// Command libnvml is NVIDIA's management library for C programs, on the GPU that PVDRM gives to this
// guest, in two shared libraries that lie in one directory, as cmd/libcuda is: libnvidia-ml.so.1
// (frontend/nvml/entry, plain C) is what a program loads. Its first call loads libpvdrm-nvml.so, this
// package, built with -buildmode=c-shared.
//
// It is not part of libpvdrm-cuda.so, so that a program may call NVML, fork, and use CUDA in the
// child, as PyTorch's programs do.
package main

// main is never run: a C program has its own.
func main() {}
