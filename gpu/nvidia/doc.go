// Package nvidia runs PVDRM's guests on an NVIDIA GPU through libcuda.so.1, which it
// opens at run time: programs that import this package start without the library.
//
// # A process for each context
//
// After an illegal access every later call of a CUDA process fails, and only the end of
// the process stops an endless kernel. So each gpu.Context is a worker process of its
// own, from the same program (ServeWorker), and aborting a context kills its worker: the
// driver frees the resources of the process, and the other contexts of the backend, of
// other backends and of native programs go on. A worker ends with its socket, and so with
// its backend, whatever its kernels do. A context trusts its worker no more than its guest.
//
// A confined backend cannot start processes. So each device has a keeper, another process
// of the same program (ServeKeeper), that starts workers (package workers), answers what they
// ask of NVIDIA's resource manager (guard), and stops what they run (stopper).
//
// # Memory and addresses
//
// A worker allocates VRAM in pages of 2 MiB with cuMemCreate, and maps them at the
// address that the guest chose, in a window that it has reserved with cuMemAddressReserve.
// Granted pages are parts of memfds (package hostmem knows which): the worker maps them
// with MAP_FIXED at the guest's address, in a window that it has reserved with mmap, and
// registers them with cuMemHostRegister, after which the GPU sees them at that same
// address. Both windows are the same in every worker.
//
// Kernels reach the memory that the GPU's page tables map. The device checks copies, fills
// and timestamps against the mappings of the context before it passes them to the driver,
// which would take an unmapped address for memory of its own process.
//
// The driver unmaps granted pages only after the kernels that run in the context, which
// the launch limit bounds. A kernel that uses VRAM which is unmapped faults at once, as on
// other devices.
//
// # Life of a command
//
// The goroutine that submits a batch validates its commands. It writes those that need not
// wait into the lane, a queue in memory shared with the worker; the channel's goroutine
// begins the others when the engine and the gate let it. In the worker one thread polls the
// lane, starts the command on the stream of the channel, and queues a write of the command's
// number to the fence of the channel behind it (cuStreamWriteValue32). The channel's
// goroutine reads the number there, so completion involves neither the worker nor a system
// call. The submitter reads it in Poll, which it calls while it waits; the channel's
// goroutine naps then. Waiters poll for a time (spinTime, pollSpin, waitSpin) and then back
// off to every few dozen µs; the worker's thread backs off for restTime before it sleeps.
//
// Commands that are expected to be short enter the lane before the ones ahead of them in
// their channel have completed (flight), and with a gate for a turn of bounded length. A very
// short command (quietTime) gets no fence of its own if another one is queued behind it, up
// to maxSilent in a row: these complete together. Engine time is measured on the host, from
// the entry into the lane, or the end of the previous command, until the fence is seen.
//
// # Graphs
//
// A batch of the same commands that comes again and again becomes a graph of the driver (graph): the worker keeps
// what it was given, has the driver capture it, and launches that by one entry of the lane. The graph is one command
// in flight.
//
// # Compiling
//
// Package ptx reads the declarations of a module: kernels, parameters, variables. The driver
// checks the instructions, since it knows those of its GPU. It compiles the source in a
// worker without a guest's context (compiler): a caller that gives up kills that worker, and
// the calls and commands of contexts go on meanwhile. The device caches the machine code
// under the hash of its source for its other contexts.
//
// # Libraries
//
// A worker opens the host's cuBLAS, cuDNN and others (package cudalibs/host) before it is confined, and
// has each start. A gpu.Call is an entry of the lane like a launch: the path thread calls the functions
// of its batch, which queue their work on the stream of the channel, and write results to granted
// memory. The backend checks where arguments and results lie, and leaves what they are to the worker,
// which is the guest's own.
//
// # Confinement
//
// ServeWorker has its caller confine a worker (Confine) before it serves the first guest.
// Command record records the ioctl requests that the driver makes from then on
// (testdata/ioctls.txt), and generates the list for the filter. Two requests, RM control and RM
// alloc, stand for many that a filter cannot distinguish: a worker's keeper makes the recorded ones
// (guard). It makes what frees objects, too, and so counts the VRAM that its workers have, and holds it
// to a limit (books); the backend reads the counts in memory of the keeper's (ledger).
//
// # OpenGL
//
// Renderers that draw with NVIDIA's OpenGL (backend/virtio/virgl) are guarded in the same way (GLKeeper, GLYield), by
// tables of their own (glControls, glClasses): they make channels and memory while they serve, and open their devices for
// each mapping, by their keeper.
//
// # Preemption
//
// The keeper sees the channels that a worker makes while it starts, and can disable them with a
// duplicate of the worker's descriptor (stopper): what runs leaves the GPU with its state. A context
// is stopped so by its owner (gpu.Preempter), by a channel whose kernel has to leave the compute
// engine (channel.park), or not at all. The watchdog finds workers that use the GPU on their own.
//
// # Division
//
// Where the driver cannot stop kernels, and on demand, launches that others wait for are cut into parts
// (divide), which stay one command.
//
// # Revocation
//
// What cannot be stopped with its state, or is to leave for good, can be run again: a task, or with
// Config.Replays any work whose first unfinished command may begin again (lasting). The keeper holds the
// VRAM then, so that it outlives the worker (store), and a worker that was started beforehand takes over
// (pool).
//
// # Sharing
//
// VRAM of one context is given to others of the device in the same way (common): the keeper remembers how each
// page was made (madePages), holds those of a memory on descriptors when the backend says so, and has other
// workers import them.
//
// # Peers
//
// A guest with several GPUs has a device of this package for each, in a process of its own. A worker maps memory of another GPU
// (AdoptPeer) as it maps shared memory of its own one: it asks for an allocation on the other GPU, and its keeper answers with a page, which it
// has got from the keeper of that GPU (peerLine). While a worker starts it maps a page of each GPU that it reaches
// (reachPeers), so that no request of the driver comes later that it does not make anyway.
//
// # Words
//
// A gpu.Word is an operation of the stream. A command that waits for a word is alone in flight, and holds no engine. When its
// channel closes the wait stays behind, with the channel's slot, until the word or the end of the context ends it (vacate).
//
// # Following
//
// A batch that waits for another channel of its context (gpu.Follower) has its stream wait for the fence of that one
// (following), so that it lies in the driver before the other has ended. The time that it waits so is not its own (delayed).
//
// # Ownership and locks
//
// A device owns its contexts; a context owns its worker, its mappings, memories,
// modules and channels; a channel owns its goroutine, which ends with
// Channel.Close.
//
// Locks, in the order in which they are taken:
//
//	context.mu      one call at a time of everything but Submit; requests to the worker
//	context.gen     the current worker; read-locked to begin or complete commands
//	compiler.turn   the worker that compiles; under the two above only to rebuild a context
//	channel.run     the commands in flight
//	halt.mu         whether the context is stopped; orders to the keeper
//	device.mu       counts of VRAM and channels, the set of contexts; ledger.mu is locked under it
//	space.mu        the mappings
//
// channel.mu (the queue and news), context.laneMu (writing the lane, which commands run),
// usage.mu (times), ledger.mu (accounts of workers), imageCache.mu, pool.mu and context.lifeMu (why the context ended) are
// leaves, as is graphs.mu: nothing is locked under them, but for a stopLine's lock, under which one order goes to the
// keeper. In the keeper, keeping.mu may be held when store.mu is taken;
// books.mu is a leaf.
package nvidia
