package run

import (
	"sync"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/internal/heap"
	"pvdrm/internal/parallel"
)

// Limits are what a device allows one block; Run refuses launches beyond them
// and ends kernels that outgrow StackBytes with LostStack.
type Limits struct {
	SharedBytes int       // static and dynamic .shared of a block, bytes
	MaxThreads  int       // threads of a block
	MaxBlock    [3]uint32 // threads of a block by dimension
	MaxGrid     [3]uint32 // blocks of a grid by dimension
	MaxCluster  int       // blocks of a cluster
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
		MaxCluster:  16,
		StackBytes:  32 << 10,
	}
}

// Launch is one run of a kernel.
type Launch struct {
	Grid, Block [3]uint32
	Cluster     [3]uint32         // blocks of a cluster; zero where the kernel says it, or a block is one
	SharedBytes uint32            // dynamic .shared, bytes
	Params      []byte            // laid out as gpu.FunctionAttributes.Params says; Run only reads it
	Limits      Limits            // the zero value stands for DefaultLimits
	Model       *ir.Model         // counts cycles, where CompileTimed made the program; may be nil
	Print       func(text string) // takes what printf of a thread makes; called by all workers at once; may be nil
	Heap        *heap.Heap        // of malloc and free; nil: malloc returns 0
	Tree        *Tree             // takes the launches of the kernel; nil: it can make none
	Workers     *parallel.Pool    // of the device; nil if launches do not follow one another
	Native      jit.Native
	Tally       *Tally // counts what is interpreted, and why; nil: nothing is counted
	From        *State // the launch goes on from here; nil: it begins
	Cooperative bool   // all blocks run at the same time, and have a workspace for barriers of the grid
}

// Program is a module, decoded. It is immutable after Link, but for what its kernels
// keep from launch to launch, and safe for concurrent use.
type Program struct {
	*ir.Program
	kernels map[string]*Kernel
	called  map[*ir.Function]*jit.Code // of the other functions
}

// NewProgram makes the kernels of a program.
func NewProgram(p *ir.Program) *Program {
	called := map[*ir.Function]*jit.Code{}
	out := &Program{Program: p, kernels: make(map[string]*Kernel, len(p.Entries)), called: called}
	for _, fn := range p.Funcs {
		if !fn.Kernel {
			called[fn] = new(jit.Code)
		}
	}
	for name, e := range p.Entries {
		out.kernels[name] = &Kernel{prog: p, fn: e.Fn, attrs: e.Attrs, called: called, straight: isStraight(p, e.Fn)}
	}
	return out
}

// ChargeTo makes the nanoseconds that it takes to compile functions of the program in the background, beside
// launches, count in charge. It is called before the first launch.
func (p *Program) ChargeTo(charge *atomic.Int64) {
	for _, k := range p.kernels {
		k.native.ChargeTo(charge)
	}
	for _, c := range p.called {
		c.ChargeTo(charge)
	}
}

// Kernel is an .entry function of a Program.
type Kernel struct {
	prog  *ir.Program
	fn    *ir.Function
	attrs gpu.FunctionAttributes

	rested sync.Pool // of *worker: what earlier launches left
	native jit.Code
	called map[*ir.Function]*jit.Code // of the program's other functions; never written

	straight bool // see Short
}

// Kernel finds a kernel by name.
func (p *Program) Kernel(name string) (*Kernel, bool) {
	k, ok := p.kernels[name]
	return k, ok
}

// Fixed is what Attributes copies. It must not change.
func (k *Kernel) Fixed() *gpu.FunctionAttributes { return &k.attrs }

// Attributes describes the kernel. SharedBytes is its static .shared,
// LocalBytes the .local of its own frame, Regs the registers of its own frame.
func (k *Kernel) Attributes() gpu.FunctionAttributes {
	a := k.attrs
	a.Params = append([]gpu.Param(nil), a.Params...)
	return a
}
