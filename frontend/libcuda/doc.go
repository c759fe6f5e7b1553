// Package libcuda is the C interface of the CUDA driver API without any C: every
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
// # What belongs to whom
//
// Calls come from any thread of the program. A thread's stack of contexts is
// used by calls of that thread alone. Library.mu guards the primary context and
// the table of threads; handles.mu the table of handles; context.mu what a
// context has beside its cuda.Context; function.mu the arguments of legacy
// launches; stream.mu the host functions of a stream. None is held while another is taken or frontend/cuda is called,
// but Library.mu, which is held while the primary context is made and destroyed.
// One goroutine for each stream with host functions (cuLaunchHostFunc) runs
// until all of them have been called.
package libcuda
