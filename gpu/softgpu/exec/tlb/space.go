// Package tlb is how kernels reach memory: the windows of the generic address space, the
// Space behind it, and the cache of translations that each worker has.
package tlb

import "pvdrm/gpu"

// Windows of the generic address space that the engine backs itself. They lie
// above all windows of a device, whose addresses are below 1<<48.
const (
	SharedBase uint64 = 1 << 56 // .shared of the running block, from its first byte
	LocalBase  uint64 = 1 << 57 // .local of the running thread
	ParamBase  uint64 = 1 << 58 // parameters of the running kernel, read only
	GridBase   uint64 = 1 << 59 // workspace of a cooperative launch: global memory of that launch alone
	WindowSize uint64 = 1 << 40 // bytes reserved from each base
)

// ClusterShift is where addresses in .shared have the rank of their block in its cluster: as on
// NVIDIA's GPUs, each block has 16 MiB of one window, so that an address names the same memory in all
// blocks of a cluster.
const ClusterShift = 24

// Space is the address space a kernel runs in. Its methods are called by all
// workers of a kernel at once.
type Space interface {
	// Lookup returns the host memory that backs the mapping around va:
	// page[va-base] is the byte at va. Pages are naturally aligned, a power of
	// two in size and at least 4096 bytes; their memory is aligned to 8 bytes.
	// Ok is false where nothing is mapped.
	//
	// The memory must stay valid until Control.FlushTLB, called after the
	// mapping was removed, has returned.
	Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool)
}
