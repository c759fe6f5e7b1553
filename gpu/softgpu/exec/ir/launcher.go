package ir

// Launcher takes the launches that kernels make. Several workers call it at once.
type Launcher interface {
	// Launch queues a launch, and returns the error of CUDA's runtime API: 0 where it will run.
	Launch(c *Child) uint32
	// Synchronize begins a wait for all that the kernel has launched, in a kernel that is less than depth launches deep.
	// It reports whether there is something to wait for, or returns the error. The state of the kernel takes up to bytes.
	Synchronize(depth uint32, bytes int) (wait bool, code uint32)
	// LastError returns the error of a thread, and puts another one in its place if set is true.
	LastError(block uint64, thread uint32, code uint32, set bool) uint32
}

// Child is a launch that a kernel makes.
type Child struct {
	Kernel      *Function
	Grid, Block [3]uint32
	Shared      uint32 // dynamic, bytes
	Params      []byte
	Tail        bool   // it runs when all else that its parent launched has ended
	By          uint64 // number of the block that made it
}

// Errors of CUDA's runtime API that a launch by a kernel has.
const (
	ErrConfiguration  = 9
	ErrSyncDepth      = 68
	ErrPendingCount   = 69
	ErrNotAKernel     = 98
	ErrNoLaunchesHere = 801
)

// KernelAt returns the kernel at an address, or nil.
func (p *Program) KernelAt(addr uint64) *Function {
	n := (addr - FuncBase) / FuncStep
	if addr < FuncBase || addr%FuncStep != 0 || n >= uint64(len(p.Funcs)) || !p.Funcs[n].Kernel {
		return nil
	}
	return p.Funcs[n]
}

// KernelAttribute returns an attribute of the kernel at an address, by its number in CUfunction_attribute:
// all ones where there is none.
func (p *Program) KernelAttribute(addr uint64, number uint32) uint32 {
	fn := p.KernelAt(addr)
	if fn == nil {
		return ^uint32(0)
	}
	a := p.Entries[fn.Name].Attrs
	for i, v := range [...]int{a.MaxThreads, a.SharedBytes, a.ConstBytes, a.LocalBytes, a.Regs} {
		if uint32(i) == number {
			return uint32(v)
		}
	}
	return ^uint32(0)
}

// Number is the number of a block in its grid.
func (b *Block) Number() uint64 {
	return uint64(b.ID[0]) + uint64(b.Grid[0])*(uint64(b.ID[1])+uint64(b.Grid[1])*uint64(b.ID[2]))
}
