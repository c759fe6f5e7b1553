// Package virgl renders for the OpenGL of virtual machines with virglrenderer, the
// library behind QEMU's virtio-gpu-gl too. Mesa in the guest sends command streams
// in the virgl format; the library runs them on the host's OpenGL: a GPU by its
// render node, or the processors (Mesa's llvmpipe). It is opened at run time, so
// programs that import this package start without it.
//
// # Processes
//
//	backend ───────────── worker: libvirglrenderer, Mesa
//	   │  requests, replies    ▲
//	   └──── keeper ───────────┘ starts it
//
// A guest's commands end up in a large library and a graphics driver, neither of
// which was made to be given anything at all. So they run in a process of their own,
// the worker: one for each guest, without capabilities, confined (package sandbox), with a
// limit on its memory. If it crashes, hangs or is killed, the guest loses its GL
// contexts and resources, and what it waits for ends with an error; it may make new
// ones, for which there is a new worker. No other guest notices.
//
// A confined backend can start no processes, so it starts a keeper before, which
// does only that, for one worker at a time (package workers). The keeper of a worker that draws with NVIDIA's
// OpenGL also answers what that asks of NVIDIA's driver (nvidia.GLKeeper).
//
// # What goes between backend and worker
//
// A stream socket carries requests of 72 bytes with a payload (request, op), and
// replies of 16 bytes (reply), which repeat the request's number. Requests are run in
// order and are answered in order, but for fences: a fence is answered when all
// that was submitted before it has been rendered. The first message is the worker's
// greeting. Numbers are little-endian. Both ends are the same program, so the
// protocol has no version.
//
// Guest RAM is not copied: its memfds go to the worker as descriptors, it maps them,
// and the pages of a resource become a list of iovecs for the library. Pixels to be shown
// come back through a memfd of the backend's.
//
// The backend believes nothing that a worker says but that a command has ended.
//
// # Whose turn it is
//
// Behind a gate (gpu.Gate), submissions and transfers wait for the token of the
// compute engine, so kernels and rendering of all guests together are shared by weight. A row of
// submissions shares a turn for as long as no other guest wants it, and the time from
// its start to its last fence is charged. Where processors render (Config.Beside), renderers of
// several guests have turns at the same time, and each is charged its part of it.
//
// # Goroutines
//
// Renderer.mu guards the queue of commands. The pump, one goroutine of each Renderer,
// takes them from there and owns all else: what the guest has, what is out, the
// turn, the worker. Another one reads replies for it. Functions called when a command has
// ended are called by the pump with no lock held, or by the function that queued a command
// that cannot be taken any more.
//
// A worker runs all but the library's own threads on the main thread, as the library
// wants it: it waits for its socket and for the descriptor by which the library
// tells that fences have signalled. It spins only if it is told to look for a time
// before it sleeps (WorkerConfig.Look), and only for a GPU of NVIDIA's.
package virgl
