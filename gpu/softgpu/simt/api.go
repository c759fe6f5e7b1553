package simt

import (
	"sync"

	"pvdrm/gpu"
	"pvdrm/internal/crew"
)

// Windows of the generic address space that the engine backs itself. They lie
// above all windows of a device, whose addresses are below 1<<48.
const (
	SharedBase uint64 = 1 << 56 // .shared of the running block, from its first byte
	LocalBase  uint64 = 1 << 57 // .local of the running thread
	ParamBase  uint64 = 1 << 58 // parameters of the running kernel, read only
	WindowSize uint64 = 1 << 40 // bytes reserved from each base
)

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

// Limits are what a device allows one block; Run refuses launches beyond them
// and ends kernels that outgrow StackBytes with LostStack.
type Limits struct {
	SharedBytes int       // static and dynamic .shared of a block, bytes
	MaxThreads  int       // threads of a block
	MaxBlock    [3]uint32 // threads of a block by dimension
	MaxGrid     [3]uint32 // blocks of a grid by dimension
	StackBytes  int       // call stack of one thread (.local, parameters and registers), bytes
}

// DefaultLimits are those of a device of compute capability 7.0 with a stack
// of 32 KiB.
func DefaultLimits() Limits {
	return Limits{
		SharedBytes: 48 << 10,
		MaxThreads:  1024,
		MaxBlock:    [3]uint32{1024, 1024, 64},
		MaxGrid:     [3]uint32{1<<31 - 1, 65535, 65535},
		StackBytes:  32 << 10,
	}
}

// Launch is one run of a kernel.
type Launch struct {
	Grid, Block [3]uint32
	SharedBytes uint32            // dynamic .shared, bytes
	Params      []byte            // laid out as gpu.FunctionAttributes.Params says; Run only reads it
	Limits      Limits            // the zero value stands for DefaultLimits
	Model       *Model            // counts cycles, where CompileTimed made the program; may be nil
	Print       func(text string) // takes what printf of a thread makes; called by all workers at once; may be nil
	Crew        *crew.Crew        // of the device; nil if launches do not follow one another
	Native      Native
}

// Native says when a kernel is compiled to native code, where that is possible
// (see doc.go). Results do not depend on it.
type Native uint8

const (
	NativeHot    Native = iota // once it is worth it
	NativeAtOnce               // before it runs
	NativeNever
)

// Program is a module, decoded. It is immutable after Link, but for what its kernels
// keep from launch to launch, and safe for concurrent use.
type Program struct {
	file    string
	code    []inst
	lines   []int32 // source line of each instruction of code
	funcs   []*function
	kernels map[string]*Kernel
	data    segment
}

// Kernel is an .entry function of a Program.
type Kernel struct {
	prog  *Program
	fn    *function
	attrs gpu.FunctionAttributes

	rested sync.Pool // of *worker: what earlier launches left
	native native
}

// Kernel finds a kernel by name.
func (p *Program) Kernel(name string) (*Kernel, bool) {
	k, ok := p.kernels[name]
	return k, ok
}

// Attributes describes the kernel. SharedBytes is its static .shared,
// LocalBytes the .local of its own frame, Regs the registers of its own frame.
func (k *Kernel) Attributes() gpu.FunctionAttributes {
	a := k.attrs
	a.Params = append([]gpu.Param(nil), a.Params...)
	return a
}
