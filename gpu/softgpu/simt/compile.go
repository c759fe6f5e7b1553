package simt

import (
	"fmt"
	"slices"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// maxDiagnostics is how many complaints Compile collects before it gives up.
const maxDiagnostics = 20

// compiler decodes one module.
type compiler struct {
	m      *ptx.Module
	timed  bool // count cycles, see Model
	prog   *Program
	funcs  map[*ptx.Func]*function // definitions
	order  []*ptx.Func             // in the order of Program.funcs
	shared map[*ptx.Var]uint64     // offsets of .shared variables
	last   *builder                // of the function that was decoded last
	diags  []gpu.Diagnostic
}

// Compile decodes a module that ptx.Verify has accepted. The error is a
// *gpu.BuildError that names what the engine does not run and where it stands.
func Compile(m *ptx.Module) (*Program, error) { return compile(m, false) }

func compile(m *ptx.Module, timed bool) (*Program, error) {
	c := &compiler{
		m:     m,
		timed: timed,
		prog:  &Program{file: m.File, kernels: map[string]*Kernel{}},
		funcs: map[*ptx.Func]*function{},
	}
	if m.AddressSize != 64 {
		c.fail(ptx.Pos{Line: 1, Col: 1}, ".address_size %d is not supported, only 64", m.AddressSize)
		return nil, c.err()
	}
	for _, d := range m.Directives {
		f, ok := d.(*ptx.Func)
		if !ok {
			continue
		}
		for _, u := range f.Unsupported {
			c.fail(f.Pos, "directive %s of function '%s' is not supported", u, f.Name)
		}
		if f.Defined {
			fn := &function{name: f.Name}
			c.funcs[f] = fn
			c.order = append(c.order, f)
			c.prog.funcs = append(c.prog.funcs, fn)
		}
	}
	c.layoutData()
	c.layoutShared()
	for _, f := range c.order {
		c.signature(f, c.funcs[f])
	}
	statements := 0
	for _, f := range c.order {
		statements += len(f.Body)
	}
	c.prog.code = make([]inst, 0, roomFor(statements))
	c.prog.lines = make([]int32, 0, roomFor(statements))
	for _, f := range c.order {
		if len(c.diags) >= maxDiagnostics {
			break
		}
		c.lower(f, c.funcs[f])
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	for _, f := range c.order {
		if f.Entry {
			c.kernel(f, c.funcs[f])
		}
	}
	return c.prog, nil
}

func (c *compiler) fail(at ptx.Pos, format string, args ...any) {
	if len(c.diags) < maxDiagnostics {
		c.diags = append(c.diags, gpu.Diagnostic{File: c.m.File, Line: int(at.Line), Col: int(at.Col),
			Message: "error: " + fmt.Sprintf(format, args...)})
	}
}

func (c *compiler) err() error {
	if len(c.diags) == 0 {
		return nil
	}
	return &gpu.BuildError{Diagnostics: c.diags}
}

// signature lays out the parameters: those of a kernel in its parameter block,
// those of a function in its frame.
func (c *compiler) signature(f *ptx.Func, fn *function) {
	if f.Entry {
		return
	}
	formals := func(list []*ptx.Var) (out []formal) {
		for _, v := range list {
			p := formal{size: int(v.Size())}
			if v.Space == ptx.SpaceReg {
				p.kind = kindOf(v.Type)
			} else {
				p.offset = fn.allocate(v)
			}
			out = append(out, p)
		}
		return out
	}
	fn.results = formals(f.Results)
	fn.params = formals(f.Params)
}

// allocate gives v a place in the local memory of a frame.
func (fn *function) allocate(v *ptx.Var) int {
	// Rows are 4 bytes; 16 is the most any access is aligned to.
	align := max(int(v.Alignment()), 4)
	fn.localBytes = (fn.localBytes + align - 1) / align * align
	at := fn.localBytes
	fn.localBytes += int(v.Size())
	return at
}

// kernel enters a kernel and its attributes.
func (c *compiler) kernel(f *ptx.Func, fn *function) {
	a := gpu.FunctionAttributes{
		Name:        f.Name,
		ParamBytes:  fn.paramBytes,
		SharedBytes: int(fn.shared),
		LocalBytes:  fn.localBytes,
		ConstBytes:  int(c.prog.data.constBytes),
		Regs:        min(fn.regs32+2*fn.regs64, 255),
		MaxThreads:  1024,
	}
	if fn.maxThreads != 0 {
		a.MaxThreads = min(fn.maxThreads, 1024)
	}
	offset := 0
	for _, v := range f.Params {
		offset = alignUp(offset, int(v.Alignment()))
		a.Params = append(a.Params, gpu.Param{Offset: offset, Size: int(v.Size())})
		offset += int(v.Size())
	}
	c.prog.kernels[f.Name] = &Kernel{prog: c.prog, fn: fn, attrs: a}
}

func alignUp(n, align int) int { return (n + align - 1) / align * align }

// threadsOf is the product of a .maxntid or .reqntid, in which dimensions that are not
// written are 0.
func threadsOf(d [3]uint32) (n uint64) {
	if d[0] == 0 {
		return 0
	}
	n = uint64(d[0])
	for _, x := range d[1:] {
		n *= uint64(max(x, 1))
	}
	return n
}

// position names the source line of an instruction.
func (p *Program) position(pc int32) string {
	if pc < 0 || int(pc) >= len(p.lines) {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.file, p.lines[pc])
}

// Addresses of functions, for indirect calls.
const (
	funcBase uint64 = 1 << 59
	funcStep        = 16
)

// funcAt returns the function at an address if a call through site may reach
// it, else nil.
func (p *Program) funcAt(addr uint64, site *callSite) *function {
	n := (addr - funcBase) / funcStep
	if addr < funcBase || addr%funcStep != 0 || n >= uint64(len(p.funcs)) {
		return nil
	}
	fn := p.funcs[n]
	if !sameSizes(fn.params, site.paramSizes) || !sameSizes(fn.results, site.resultSizes) {
		return nil
	}
	if fn.kernel || site.may != nil && !slices.Contains(site.may, fn) {
		return nil
	}
	return fn
}

func sameSizes(formals []formal, sizes []int) bool {
	if len(formals) != len(sizes) {
		return false
	}
	for i := range formals {
		if formals[i].size != sizes[i] {
			return false
		}
	}
	return true
}

// kindOf says which register file holds a type.
func kindOf(t ptx.Type) regKind {
	switch {
	case t == ptx.Pred:
		return inPred
	case t.Size() == 8:
		return in64
	}
	return in32
}
