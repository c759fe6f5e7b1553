// Command libcuda is the CUDA driver API for C programs, on the GPU that PVDRM
// gives to this guest, in two shared libraries that lie in one directory. Only
// they need a C compiler; scripts/libcuda.sh builds them.
//
// libcuda.so.1 (entry, plain C) is what a program loads. Each function that it
// exports is C code of a few lines, generated from the table in frontend/cuda/capi
// (entries.c), that hands its arguments as words to one Go function. The first
// call loads libpvdrm-cuda.so, this package, built with -buildmode=c-shared, and
// with it Go's runtime and its threads. So a program may fork before it calls
// CUDA; after that a child must call exec, as with any libcuda.
//
// The Go library keeps no pointer of the program's but numbers.
package main

// main is never run: a C program has its own.
func main() {}
