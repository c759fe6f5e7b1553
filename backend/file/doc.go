// Package file implements what a DRM file means on a device: GEM objects and their mappings,
// modules, channels, batches and their waits. Package session drives a File with what comes
// through a ring; package native calls it directly.
//
// # Who calls
//
// A File has one owner: the pump of a session, or the goroutine that holds the lock of a native file. All
// methods are the owner's but those whose comments name other goroutines. Nothing here waits
// for a kernel or a compiler: what may take long is cut in three, and the owner runs the middle
// part on a goroutine of its own.
//
//	FreeChannel ──► Freeing.Wait ──► EndFree
//	LoadPart ─────► Load.Compile ──► EndLoad
//
// Snapshot and Restore write a file down and build it again, on another device or machine. The
// state of its context is the device's; what lies in the guest's memory (granted pages, the ring,
// sync objects, which the frontend keeps) is the owner's to carry.
//
// The device reports the ends of batches on goroutines of its own. There they are published
// through an Observer, and counted in atomic words that the owner collects.
//
// # Where the owner waits
//
//   - in Map, Unmap and the closing of memory, modules and objects, for the device's locks,
//     and where a mapping goes for each worker of a running kernel to pass a loop head: some
//     ten microseconds of softgpu; on an NVIDIA GPU for a round trip to the worker process, see
//     package nvidia;
//   - in NewVRAM, for the host to clear pages that others gave back;
//   - in Close, for kernels that are aborted, which takes no longer than that.
//
// # Memory
//
// All that a guest makes the backend keep in private memory is charged to a quota of the guest,
// before it is allocated, or bounded by a constant: PrivateBytes adds them up, and bounds.go
// lists them.
//
// Locks: Channel.mu orders the ends of one channel's batches. It is held while Observer.Reached
// runs, and not while the device is called.
package file
