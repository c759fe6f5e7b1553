// Package opencl runs the programs of package suite with their OpenCL sources on PoCL, an
// implementation of OpenCL for processors: what somebody without a GPU would take instead of the
// software GPU.
//
// The library libOpenCL.so.1 is loaded when it is asked for. Kernels work on shared virtual
// memory, so that addresses mean the same to them and to the program. What was compiled stays
// until the process ends: only the first run of a program waits for the compiler.
package opencl
