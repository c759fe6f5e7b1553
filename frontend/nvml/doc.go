// Package nvml is the C interface of NVIDIA's management library without any C: every entry point
// is a row of a table, with a handler that takes its arguments as machine words. cmd/libnvml gives
// each row a C symbol and makes libnvidia-ml.so.1 of it.
//
// Names, numbers and layouts come from NVIDIA's public documentation. The devices are
// those that this guest has; what it has and uses of each comes from its backend (frontend.File.Usage), and
// is the guest's own part. What a paravirtual device does not have (sensors, fans, clocks, links)
// is NVML_ERROR_NOT_SUPPORTED, and what only an administrator may set NVML_ERROR_NO_PERMISSION.
//
// # The program's memory
//
// Pointers of the program are numbers here, as in frontend/cuda/capi: a wrong one is
// NVML_ERROR_INVALID_ARGUMENT and never a fault inside the library.
//
// # Locks
//
// Library.mu guards all that changes, and is held while the backend is asked, but not while a
// sample period passes. Calls may come from any thread.
package nvml
