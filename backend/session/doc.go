// Package session serves one DRM file of a guest: it consumes the ring, validates
// every request, and drives a context of the GPU device with it.
//
// A session has one goroutine, the pump, which owns everything in Session that
// is not marked otherwise: the ends of the ring, the tables of objects, modules
// and channels. Others reach it in three ways, none of which blocks: Kick wakes
// it, Revoke hands it the id of a grant that the guest took back, and the
// device's completion callbacks store progress into channel records and, if
// work waits for a point, wake it. A channel that is freed is closed by a goroutine
// of its own, which hands it back, and so is a module compiled: see load.go. What
// others hand to the pump lies in lists under Session.mu.
//
// # Where the pump waits
//
// What the pump does holds up the requests of its own file, and the end of Revoke, for
// other files nothing: each has a pump of its own, and what serves the guest's machine
// calls nothing here that waits but Close. The pump waits
//
//   - for room in the completion queue, as long as the frontend likes; it gives up revoked
//     grants meanwhile;
//   - in Map, Unmap and the closing of memory, modules and objects, for the device's locks,
//     and where a mapping goes for each worker of a running kernel to pass a loop head: some
//     ten microseconds of softgpu; on CUDA for a round trip to the worker process, see
//     package cuda;
//   - for a launch of a few operations without loops, which the software GPU runs at once: some
//     microseconds, and some hundred where each touches memory for the first time;
//   - in NewVRAM, for the host to clear pages that others gave back;
//   - when the session ends, for kernels that are aborted, which takes no longer than that,
//     and for the compilation that is canceled, which takes milliseconds.
//
// # Memory
//
// All that a guest makes the backend keep in private memory is counted, before it is
// allocated, against a quota of the guest or a constant: PrivateBytes adds them up, and
// private.go lists them.
//
// Locks: Session.mu guards the fields under it and is held for a few
// instructions; channel.mu orders the callbacks of one channel. Neither is held
// while the other is taken or while the device or the carrier is called.
package session
