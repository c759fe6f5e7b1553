// Package rt is the table of entry points of PVDRM's libcudart.so.11.0, .12 and
// libcudart.so.13, the CUDA runtime API for C and C++ programs. The library itself
// is C, in frontend/cuda/rt/c, on the driver API of libcuda.so.1: what is listed here as
// working has a function there, and what does not gets one that returns an error, generated
// from the table. The documentation's table comes from here, too.
package rt
