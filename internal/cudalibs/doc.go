// Package cudalibs describes the functions of NVIDIA's CUDA libraries, so that a guest can call them
// by name while the host's real library does the work.
//
// The libraries have a CUDA runtime inside that checks the driver by private means, and so do not run
// on a driver of ours. A guest gets libraries of the same names in their place, whose functions hand
// their arguments to libcuda.so.1. That encodes a call with this package, and the guest's own worker
// on the host decodes it and calls the real function (package host).
//
// # One table
//
// The files in tables have a row for each function, see parse.go for their form. From them come the
// C stubs (Stubs), the encoder, the decoder, the page of the documentation (Page), and the seeds of
// the fuzz targets. Command propose reads NVIDIA's headers and proposes rows for what the table lacks.
//
// # Calls
//
// A record is one call: its function, and each argument as its class says. Records go to the worker
// in batches: calls that only prepare something (Late) wait in the guest for the next call that needs
// an answer or the GPU. Setters of a library handle's state (stream, workspace, math mode) do not
// travel at all: a record has the whole state of its handle, and the worker sets what differs.
//
// Handles are numbers that the guest chooses. The worker keeps what the real library returned for
// them, so a wrong number is the library's own error and is never dereferenced.
//
// Texts and versions are the same in every call (Function.Constant). They need no context in the guest, and no
// library that starts.
//
// The package has no state but the table, and no goroutines.
package cudalibs
