package ir

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Program is a module, decoded. It is immutable after Link and safe for concurrent use.
type Program struct {
	File    string
	Code    []Inst
	Lines   []int32 // source line of each instruction of code
	Funcs   []*Function
	Entries map[string]Entry
	Data    segment
	Mallocs bool // some function calls malloc: contexts that run it need a heap
	// Launches says that some function launches kernels.
	Launches bool
	Clusters bool              // some function has a barrier of clusters
	Heap     uint64            // bytes of it that the module asks for; 0: as many as the device has by default
	globals  map[string]global // after Link

	print struct { // see Fingerprint
		sync.Once
		sum uint64
	}
}

// Entry is a kernel.
type Entry struct {
	Fn    *Function
	Attrs gpu.FunctionAttributes
}

// segment is the module's variables in .global and .const.
type segment struct {
	Size, Align uint64
	ConstBytes  uint64
	ConstEnd    uint64     // .const lies first, up to here
	Vars        []Variable // until Link
	Base        uint64
	Linked      bool

	// fill writes the initial contents, for Link.
	Fill func(base uint64, write func(offset uint64, piece []byte))
}

// Variable is where a variable lies in its segment.
type Variable struct {
	Name         string
	Offset, Size uint64
}

// DataBytes returns what the module's variables in .global and .const take, in
// bytes, and the alignment that the address given to Link must have.
func (p *Program) DataBytes() (size, align uint64) { return p.Data.Size, p.Data.Align }

// Link gives the module's variables their addresses, from base on, and returns
// their initial contents, to be written at base before the first run. It must
// be called exactly once, before any run, also for a module without variables.
func (p *Program) Link(base uint64) (image []byte, err error) {
	image = make([]byte, p.Data.Size)
	err = p.LinkTo(base, func(offset uint64, piece []byte) { copy(image[offset:], piece) })
	if err != nil {
		return nil, err
	}
	return image, nil
}

// LinkTo is Link that calls write with the initial contents piece by piece, each with its
// offset from base, in no particular order; everything else is zero. A piece is valid
// during the call.
func (p *Program) LinkTo(base uint64, write func(offset uint64, piece []byte)) error {
	d := &p.Data
	switch {
	case d.Linked:
		return fmt.Errorf("%w: module %s is linked already", gpu.ErrInvalid, p.File)
	case base%d.Align != 0 || base+d.Size < base || base+d.Size > tlb.SharedBase:
		return fmt.Errorf("%w: module %s cannot be linked at 0x%x", gpu.ErrInvalid, p.File, base)
	}
	d.Base, d.Linked = base, true
	for _, fn := range p.Funcs {
		for _, i := range fn.Relocs {
			fn.Const64[i].Value += base
		}
	}
	p.globals = make(map[string]global, len(d.Vars))
	for _, v := range d.Vars {
		p.globals[strings.Clone(v.Name)] = global{addr: base + v.Offset, size: v.Size}
	}
	d.Fill(base, write)
	d.Vars, d.Fill = nil, nil // what they name can go
	return nil
}

// global is where a variable lies.
type global struct{ addr, size uint64 }

// Global finds a variable in .global or .const after Link.
func (p *Program) Global(name string) (addr, size uint64, ok bool) {
	g, ok := p.globals[name]
	return g.addr, g.size, ok
}

// Addresses of functions, for indirect calls.
const (
	FuncBase uint64 = 1 << 59
	FuncStep        = 16
)

// FuncAt returns the function at an address if a call through site may reach
// it, else nil.
func (p *Program) FuncAt(addr uint64, site *CallSite) *Function {
	n := (addr - FuncBase) / FuncStep
	if addr < FuncBase || addr%FuncStep != 0 || n >= uint64(len(p.Funcs)) {
		return nil
	}
	if fn := p.Funcs[n]; p.MayCall(fn, site) {
		return fn
	}
	return nil
}

// MayCall reports whether an indirect call through site may reach fn.
func (p *Program) MayCall(fn *Function, site *CallSite) bool {
	return sameSizes(fn.Params, site.ParamSizes) && sameSizes(fn.Results, site.ResultSizes) &&
		!fn.Kernel && (site.May == nil || slices.Contains(site.May, fn))
}

func sameSizes(formals []Formal, sizes []int) bool {
	if len(formals) != len(sizes) {
		return false
	}
	for i := range formals {
		if formals[i].Size != sizes[i] {
			return false
		}
	}
	return true
}
