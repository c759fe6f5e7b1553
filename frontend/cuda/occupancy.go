package cuda

import "math"

// Multiprocessor is what the blocks of a kernel share while they run together.
type Multiprocessor struct {
	Blocks   int // the most, however small
	Threads  int
	Warp     int
	Regs     int
	Shared   int // bytes for one block
	Reserved int // bytes of shared memory that each block takes besides its own
	Unit     int // bytes: a block takes a multiple of shared memory
	Block    int // threads of the largest block
}

// How NVIDIA's multiprocessors give out registers since compute capability 5.0: to whole
// warps, in multiples of regUnit, from one of their quarters.
const (
	regUnit  = 256
	quarters = 4
)

// Blocks since compute capability 8.0 take so much more shared memory, in finer units.
const (
	ampereMajor    = 8
	ampereReserved = 1 << 10
	ampereUnit     = 128
	earlierUnit    = 256
)

// Multiprocessor returns what the blocks on one of the device's multiprocessors share.
func (dev *Device) Multiprocessor() Multiprocessor {
	get := func(a Attribute) int { return dev.param(attributeParams[a]) }
	m := Multiprocessor{
		Blocks:  get(AttributeMaxBlocksPerMultiprocessor),
		Threads: get(AttributeMaxThreadsPerMultiprocessor),
		Warp:    get(AttributeWarpSize),
		Regs:    get(AttributeMaxRegistersPerBlock),
		Shared:  get(AttributeMaxSharedMemoryPerBlock),
		Unit:    earlierUnit,
		Block:   get(AttributeMaxThreadsPerBlock),
	}
	if major, _ := dev.ComputeCapability(); major >= ampereMajor {
		m.Reserved, m.Unit = ampereReserved, ampereUnit
	}
	return m
}

// Resident counts the blocks of so many threads, registers of a thread and bytes of shared memory that
// run together. It is at least 1 for a block that fits, and 0 for others.
func (m Multiprocessor) Resident(threads, regs int, shared uint64) int {
	if threads <= 0 || threads > m.Block || m.Warp <= 0 || shared > uint64(m.Shared) {
		return 0
	}
	warps := (threads + m.Warp - 1) / m.Warp
	n := min(m.Blocks, m.Threads/m.Warp/warps)
	n = min(n, m.warps(regs)/warps)
	if each := roundUp(int(shared), m.Unit) + m.Reserved; each > 0 {
		n = min(n, (m.Shared+m.Reserved)/each)
	}
	return max(n, 1) // a block that can be launched at all
}

// warps is how many warps have registers, where a thread has so many.
func (m Multiprocessor) warps(regs int) int {
	if regs <= 0 || m.Warp <= 0 {
		return math.MaxInt
	}
	return m.Regs / quarters / roundUp(regs*m.Warp, regUnit) * quarters
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
