// Package cuda runs PVDRM's guests on an NVIDIA GPU, by way of libcuda.so.1,
// which is opened at run time: programs that import this package start without it.
//
// # A process for each context
//
// An illegal access in a CUDA process makes every later call of that process
// fail, and an endless kernel can be stopped by ending the process only. So each
// gpu.Context is a worker process of its own, from the same program (ServeWorker),
// and aborting is killing: the driver frees what the process had, and the other
// contexts of the backend, of other backends and of native programs go on. A worker
// ends with its socket, thus with its backend, whatever its kernels do. A context
// trusts its worker no more than its guest.
//
// A backend that is confined can start no process. So each device has a keeper,
// one more process of the same program (ServeKeeper), that starts workers, hands
// over their sockets and descriptors of their processes (pidfd), by which the
// backend kills them, and tells how they ended. Workers end with their keeper.
//
// # Memory and addresses
//
// VRAM is allocated in pages of 2 MiB with cuMemCreate and mapped where the guest
// says, in a window that the worker has reserved with cuMemAddressReserve.
// Granted pages are parts of memfds (package hostmem knows which): the worker maps
// them with MAP_FIXED where the guest says, in a window that it has reserved with
// mmap, and registers them with cuMemHostRegister, after which the GPU sees them
// at that same address. Both windows are the same in every worker.
//
// Kernels reach what the GPU's page tables hold. Copies, fills and timestamps are
// checked against the mappings of the context before the driver sees them: it
// would take an address that is not mapped for memory of its own process.
//
// Taking granted pages away waits in the driver for the kernels that run in the
// context, for as long as the launch limit lets them; a kernel that uses VRAM which
// is taken away faults at once, as elsewhere.
//
// # Life of a command
//
// Whoever submits a batch validates its commands and writes them into the lane, a
// queue in memory shared with the worker, as far as nothing is in the way; the
// channel's goroutine begins the others, when it is their turn on the engine and at
// the gate. In the worker one thread polls the lane, starts the command on the
// stream of the channel, and has the GPU write the command's number into the fence
// of the channel behind it (cuStreamWriteValue32). The goroutine sees the number
// there: the way back involves neither the worker nor a system call. Or whoever submits
// sees it in Poll, which he calls while he waits; the goroutine naps then. Who waits
// polls for a time (spinTime, pollSpin, waitSpin) and then looks every few dozen µs, the
// worker's thread for restTime before it sleeps. Commands
// that are expected to be short are handed over before the ones ahead of them in
// their channel have ended (flight), and with a gate for a turn of bounded length.
// The fence of a very short one (quietTime) is left out if another one is there
// behind it, of which there are up to maxSilent in a row: they are then seen to end
// together.
// Engine time is measured on the host, from handing a command over, or the end of
// the one before it, to seeing its fence.
//
// PTX is checked by package ptx, as for every device, then compiled by the driver;
// what was compiled is kept by the hash of its source and serves the other contexts
// of the device.
//
// # Who owns what
//
// A device owns its contexts; a context owns its worker, its mappings, memories,
// modules and channels; a channel owns its goroutine, which ends with
// Channel.Close. A device has a goroutine that reads what its keeper tells.
//
// Locks, in the order in which they are taken:
//
//	context.mu      one call at a time of everything but Submit; requests to the worker
//	context.gen     which worker there is; for reading by who begins or ends commands
//	channel.run     what is begun and has not ended
//	device.mu       counts of VRAM and channels, the set of contexts
//	space.mu        what is mapped
//
// channel.mu (the queue and news), context.laneMu (writing the lane, which commands run),
// engine.mu (times), imageCache.mu, keeper.mu and context.lifeMu (why the context ended) are
// leaves: nothing is locked under them.
package cuda
