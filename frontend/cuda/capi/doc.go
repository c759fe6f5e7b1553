// Package capi is the C interface of the CUDA driver API without any C: every
// entry point is a row of a table, with a handler that takes its arguments as
// machine words. cmd/libcuda gives each row a C symbol and makes libcuda.so.1 of it.
//
// Names, numbers and layouts are those of NVIDIA's public documentation of the
// driver API. The work itself is done by frontend/cuda.
//
// # The program's memory
//
// Pointers of the program are numbers here. They are read and written only
// through Memory, which reports what is not mapped: a wrong pointer is
// CUDA_ERROR_INVALID_VALUE and never a fault inside the library.
//
// # Handles
//
// What the program holds (contexts, modules, functions, streams, events) are
// numbers of a table that is looked into at each use, so a handle that is wrong
// or destroyed is an error too.
//
// # Devices
//
// A CUdevice is the number of a cuda.Device among those that CUDA_VISIBLE_DEVICES shows (visible.go). What belongs to a
// context belongs to its device. Copies find the context by the address, and go through this
// process where two contexts have the ends; so do waits of a stream for another context's event. Nothing else
// joins devices: peer access is refused.
//
// # What belongs to whom
//
// Calls come from any thread of the program. A thread's stack of contexts is used
// by calls of that thread alone. One goroutine for each host function
// (cuLaunchHostFunc) waits for its turn and calls it, and so does one for the rest of a graph that
// has host functions, from the first on.
//
// # Graphs and capture
//
// Package graph holds graphs and captures; the work of a node is one of the types of
// graph_work.go. While a stream is captured, Library.run looks each call up in captureRules before
// its handler: it becomes a node, is refused, or works as ever. An executable graph is a list of
// steps; what the device does between two events or host functions is one cuda.Batch.
//
// # Locks
//
// From the outermost to the innermost; frontend/cuda is called with the first
// six held:
//
//	libraries.mu   handles of the host's libraries, and the order of their calls
//	graphs.mu      graphs, their nodes, and captures
//	graphExec.mu   an executable graph
//	Library.once   cuInit, making and destroying the primary context
//	library.mu     a CUlibrary: the contexts that it is loaded into
//	linker.mu      the input of a CUlinkState
//	module.mu      the functions of a module
//	function.mu    the configuration of legacy launches
//	Library.mu     the tables of threads and contexts
//	context.mu     what a context has beside its cuda.Context
//	handles.mu     the table of handles
package capi
