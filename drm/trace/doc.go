// Package trace records the calls that a program makes on a DRM file of PVDRM,
// with what it writes into mapped memory, and makes them again on another file.
//
// # What is in a trace
//
// A trace is a list of events in the order in which they ended. Most are ioctls
// with their arguments, results and errno. Two tell of memory that the program
// has mapped: WRITTEN is what the program put there before the GPU was told to
// use it, whole; SEEN is what the GPU had left there when a wait ended, as a hash
// for each page. Handles, channels, modules, functions, points and GPU addresses
// are symbols: a replay gets numbers of its own for them and translates.
//
// The format is described in docs/trace.md and versioned; Reader refuses what is
// truncated, too long or unknown, and takes no more memory than the file is long.
//
// # Which memory the GPU wrote
//
// A page that changed between an EXEC and its WAIT was changed by the program or
// by the GPU. The recorder takes it for the GPU's if a command in flight names
// it: as the destination of a copy, fill or timestamp, or if a kernel has an
// argument that points into the mapping that it lies in.
//
// # Who owns what
//
// Writer and Recorder may be used from several goroutines: the Writer's mutex
// guards the file, each recorded file's own mutex its memory; it is taken first.
// A Reader and a Replayer belong to one goroutine.
package trace
