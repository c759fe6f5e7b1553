// Package softgpu is a discrete GPU in software: device memory with page
// tables in it, a limited number of channels, a compute engine that runs PTX
// (package exec) and a copy engine. Package hw is the hardware; this package drives it
// as a gpu.Device.
//
// # Address spaces
//
// GPU virtual addresses have 40 bits. Each context has one address space, whose
// two-level page tables lie in VRAM in the format of package hw; engines reach
// them through the channel descriptor, as in hardware, and trust nothing that
// they read there. A page is 4 KiB or 2 MiB, in VRAM or in system memory.
// System memory is named by bus addresses, which mean something only in the bus
// of the context that they were handed out to: no page table entry, whoever
// wrote it, can name host memory that was not given to its context.
//
// Three windows divide the address space: VRAM and system memory, where the
// owner of a context maps what it likes, and modules, where the device puts the
// variables of loaded modules.
//
// # From command to engine
//
// Each channel has a goroutine that takes its batches in order. For each
// command it waits for the turn on an engine (type engine, where the choice
// between channels is made), runs the command and gives the engine back. There
// is no other way to an engine. A launch that ends within microseconds runs on the goroutine that submits
// it, if the channel rests and the engine is free (inline.go).
//
// # Who owns what
//
// A device owns VRAM, its contexts, and the programs that it keeps for later modules; a context owns its address space,
// memories, modules and channels; a channel owns its goroutine, which ends with
// Channel.Close. Nothing else starts goroutines, save exec.Run for the time of
// one kernel, and package jit, which compiles large functions in the background for the whole
// process. A command that ends is charged for its share of that.
//
// # Stopping
//
// A context can be stopped (type hold): its channels then rest before they take a batch, before
// they ask for an engine, or within a transfer or a kernel (at the points that exec/run names).
// While they rest with no transfer begun, the context can be written down (snapshot.go).
//
// Locks, in the order in which they are taken:
//
//	hold.op         one Preempt, Snapshot or Resume at a time
//	context.mu      one call at a time of everything but Submit; closed flags
//	device.mu       the set of contexts and the channel slots
//	share.mu        whether its user has closed it
//	pages.mu        who has VRAM that is shared
//	space.mu        mappings, page tables, bus. Engines hold it shared: the
//	                compute engine for one walk, the copy engine for one slice
//	frames.mu       which frames of VRAM are free
//
//	channel.mu      the queue, and where the channel rests
//
// engine.mu (the turns), hold.mu (the mode) and life.mu (why a context ended, and what runs
// in it) are leaves: nothing is locked under them.
//
// Removing a mapping clears the entries under space.mu, and so waits for the
// copy engine, then flushes the TLBs of the kernels that run in the context.
// Only after that are the frames freed; they are zeroed on the way. Some of them keep the host's pages for a while
// (vram.go), so that the next program need not wait for them.
package softgpu

//go:generate go run ./internal/ptxdoc ../../docs/ptx.md
