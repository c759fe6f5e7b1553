// Command libcuda is libcuda.so.1: the CUDA driver API for C programs, on the
// GPU that PVDRM gives to this guest. It is built with -buildmode=c-shared, by
// scripts/libcuda.sh, and is the only part of PVDRM that needs a C compiler.
//
// Each exported function is C code of a few lines, generated from the table in
// frontend/libcuda (entries.c), that hands its arguments as words to one Go
// function. The library keeps no pointer of the program's but numbers. The Go
// runtime in it owns its threads; a program that forks must call exec before
// it uses CUDA, as with any libcuda.
package main

//go:generate go run pvdrm/cmd/libcuda/generate

// main is never run: a C program has its own.
func main() {}
