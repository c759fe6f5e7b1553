// Package cuda is the CUDA driver API, as Gdev has it, in Go. It is built on
// the ioctls of PVDRM's DRM driver (drm.File) and knows nothing of how they
// reach the GPU.
//
// # Devices
//
// Init gets a function for each device of the process, which opens DRM files on it: each device has a
// backend of its own, and knows nothing of the others. Contexts of all devices take their
// addresses from one space (addressSpace), so that an address tells the device. Pinned memory is lent to
// the contexts of all devices, at the same address (portable). Devices do not reach each other's own memory: what is copied between contexts goes through the program, which its callers do,
// and a stream waits for another context's event in the program (Event.Recorded).
//
// # What belongs to whom
//
// Each Context owns one DRM file and all that lives in it: channels, objects,
// modules. Context.Destroy frees everything. A Driver owns a file only until the
// first context takes it. All of it may be called from several goroutines. It starts some only to
// copy large pieces of pageable memory where processors are ample (staging), which
// end soon after.
//
// GPU addresses are chosen here, inside the windows that the file advertises.
// Small allocations share objects (heap); pageable copies go through one ring
// of pinned memory that is made at the first copy (staging).
//
// # Virtual memory
//
// Memory of cuMemCreate is of no context. A DRM file without a channel has it as long as there is
// any; each context of the device opens it by its key and maps it where the program does, those made
// later too (virtual). Where files share nothing, such memory is of one context.
//
// # Streams
//
// The default stream, written as a nil *Stream, is channel 0 of the context.
// Every other stream has a channel of its own. The legacy rule of CUDA holds,
// by waits that the device resolves and not by waiting in the program: work on
// the default stream begins after all that was queued before on other streams,
// and work on another stream begins after all that was queued before on the
// default stream. Streams made by NewStreamNonBlocking stand outside the rule.
//
// # Pools
//
// A Pool belongs to the device, its memory to contexts: each context that allocates
// from it has an arena of segments, which are objects. A span of a segment that was
// freed keeps the points that the next work of its stream would follow. A stream that gets
// the span is made to wait for those points; the attributes of the pool only choose
// when that is better than new memory.
//
// # Errors
//
// Every error is an *Error: it holds a Result (a CUDA_ERROR_* value, found by
// errors.As and errors.Is) and the cause. After a fault of a kernel or the loss
// of the backend the context is lost: every call but Destroy, Bytes and
// DevicePtr fails with the same Result.
//
// # Locks
//
// From the outermost to the innermost; none is taken while a later one is held:
//
//	Context.life   read by every call for its duration, written by Destroy
//	staging.mu     the ring of pinned memory and what of it is in flight
//	Event.mu       the last record of an event
//	virtual.mu     addresses and memory of cuMemMap, of all contexts
//	registry.mu    memory of the program that is registered (registry)
//	libraries.mu   the stream and the memory for calls of the host's libraries
//	Context.modMu  modules, their functions and variables
//	memory.mu      the heaps, the arenas of pools and the tables of addresses
//	Stream.gone    read while a point of the stream is waited for, written to
//	               give its channel back
//	Context.mu     the order of work: what each stream has queued, EXEC itself
//	pools.mu       the default and the current pool of a device
//	Pool.mu        the amounts and attributes of a pool
//	portable.mu    pinned memory of several contexts
//	addressWindow.mu, addressSpace.mu the addresses of all contexts
//	graphMemory.mu the amounts of memory of graphs
package cuda
