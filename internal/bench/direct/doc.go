// Package direct runs programs of the suite on NVIDIA's driver itself: the native
// side of a bench with --device cuda, without anything of PVDRM between.
//
// A device belongs to the goroutine that opened it, which is bound to its thread
// until it closes it, as the driver's current context is the thread's.
package direct
