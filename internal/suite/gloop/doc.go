// Package gloop has the nine programs of `pvdrm bench gloop`: those with which GLoop's authors
// measured it, by their published descriptions. Each is there in four versions (Version): an
// ordinary one, one with callbacks on GLoop's event loop, the same without slots in shared memory,
// and one that is cut into a kernel for each scheduling point.
//
// A program makes its input, which is the same in each run, and compares what the GPU returned with
// a reference that the CPU computes in another way. All versions of a program share the code of
// their steps (device/NAME.h); device/NAME.cu has the kernels of the ordinary version and the cut
// one, device/NAME.loop.cu those of the two with callbacks. `make gloop-kernels` compiles them to
// the PTX beside them.
//
// A program uses its context on one goroutine. Servers have a goroutine for each client, and the
// ordinary ones and the cut ones one for each connection, with a lock around the context.
package gloop
