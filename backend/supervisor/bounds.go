package supervisor

import (
	"fmt"
	"runtime"

	"pvdrm/backend/file"
	"pvdrm/gem/quota"
	"pvdrm/internal/cgroup"
)

// Bounds of a guest's processes, in bytes where nothing else stands.
type Bounds struct {
	Heap      uint64 `json:"heap"`      // what Go's runtime is to keep to (GOMEMLIMIT)
	Memory    uint64 `json:"memory"`    // private memory that the backend may have (RLIMIT_DATA), device memory included
	Start     uint64 `json:"start"`     // the same until it serves, and for its workers; 0 is no bound
	Processes uint64 `json:"processes"` // threads of the backend and of its workers
	Group     uint64 `json:"group"`     // memory of all of them, that of guests included (control group)
	Weight    uint   `json:"weight"`    // of the processor (control group)
}

// Needs of a backend besides the memory that its guest can make it allocate.
const (
	heapPart     = 4        // what of it the heap is to stay below: collections begin late when much is allocated at once
	roomPart     = 6        // added to it for fragments of the heap
	idleMemory   = 80 << 20 // mapped and never touched by Go's runtime: tables of addresses, stacks of threads
	largePage    = 2 << 20
	perContext   = 48 // threads of a CUDA worker
	someThreads  = 512
	weightOfOne  = 100 // of a control group; the kernel's default
	mostWeight   = 10000
	slackOfGroup = 256 << 20 // page tables, sockets and other memory of the kernel's; keepers
)

// Demand has the quotas and resources from which BoundsOf derives the bounds of a backend.
type Demand struct {
	Limits   quota.Limits
	VRAM     uint64 // bytes of device memory that are memory of the backend; 0 for a GPU that has its own
	Workers  bool   // it has CUDA workers
	Renderer uint64 // bytes that its renderer may allocate; 0 without one
	Weight   uint32 // of the guest at the arbiter
}

// BoundsOf derives bounds from quotas.
func BoundsOf(d Demand) Bounds {
	private := file.PrivateBytes(d.Limits)
	if d.Workers {
		private += file.ImageBytes(d.Limits)
	}
	b := Bounds{Heap: private - private/heapPart, Memory: private + private/roomPart + idleMemory, Weight: uint(min(max(d.Weight, 1)*weightOfOne, mostWeight))}
	if d.VRAM != 0 {
		b.Memory += d.VRAM + largePage
	}
	b.Processes = someThreads + uint64(4*runtime.NumCPU())
	if d.Workers {
		// A worker's library reserves more addresses than it uses: only control groups bound it.
		b.Processes += perContext * d.Limits.Of(quota.Contexts)
	} else {
		b.Start = max(b.Memory, d.Renderer)
		b.Group = b.Memory + d.Renderer + d.Limits.Of(quota.Granted) + slackOfGroup
	}
	return b
}

// group returns the limits of a control group.
func (b Bounds) group() cgroup.Limits {
	return cgroup.Limits{MemoryBytes: b.Group, PIDs: b.Processes, CPUWeight: b.Weight}
}

// environment returns the settings of Go's runtime.
func (b Bounds) environment() string { return fmt.Sprintf("GOMEMLIMIT=%d", b.Heap) }
