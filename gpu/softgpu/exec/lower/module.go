package lower

import (
	"fmt"
	"strings"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// maxDiagnostics is how many complaints Compile collects before it gives up.
const maxDiagnostics = 20

// compiler decodes one module.
type compiler struct {
	m      *ptx.Module
	timed  bool // count cycles, see Model
	prog   *ir.Program
	data   dataLayout
	funcs  map[*ptx.Func]*ir.Function // definitions
	order  []*ptx.Func                // in the order of program.funcs
	shared map[*ptx.Var]uint64        // offsets of .shared variables
	last   *builder                   // of the function that was decoded last
	effort *ptx.Effort
	diags  []gpu.Diagnostic
}

// Module decodes a module that ptx.Verify has accepted, within an effort; timed
// programs count cycles. The error is a *gpu.BuildError that names what the engine
// does not run, or the effort's. The program refers to nothing of the module once
// it is linked.
func Module(e *ptx.Effort, m *ptx.Module, timed bool) (p *ir.Program, err error) {
	defer e.Catch(&err)
	if err := Runnable(m); err != nil {
		return nil, err
	}
	return compile(e, m, timed)
}

func compile(e *ptx.Effort, m *ptx.Module, timed bool) (*ir.Program, error) {
	c := &compiler{
		effort: e,
		m:      m,
		timed:  timed,
		prog:   &ir.Program{File: strings.Clone(m.File), Entries: map[string]ir.Entry{}},
		funcs:  map[*ptx.Func]*ir.Function{},
	}
	if m.AddressSize != 64 {
		c.fail(ptx.Pos{Line: 1, Col: 1}, ".address_size %d is not supported, only 64", m.AddressSize)
		return nil, c.err()
	}
	for _, d := range m.Directives {
		if g, ok := d.(*ptx.Pragma); ok {
			c.readPragma(g)
		}
		f, ok := d.(*ptx.Func)
		if !ok {
			continue
		}
		if f.Defined {
			e.Memory(ir.FunctionBytes)
			fn := &ir.Function{Name: strings.Clone(f.Name)}
			c.funcs[f] = fn
			c.order = append(c.order, f)
			fn.Number = len(c.prog.Funcs)
			c.prog.Funcs = append(c.prog.Funcs, fn)
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
	e.Memory(roomFor(statements) * (ir.InstBytes + 4))
	c.prog.Code = make([]ir.Inst, 0, roomFor(statements))
	c.prog.Lines = make([]int32, 0, roomFor(statements))
	for _, f := range c.order {
		if len(c.diags) >= maxDiagnostics {
			break
		}
		c.lower(f, c.funcs[f])
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	depths(c.prog)
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
func (c *compiler) signature(f *ptx.Func, fn *ir.Function) {
	if f.Entry {
		return
	}
	formals := func(list []*ptx.Var) (out []ir.Formal) {
		for _, v := range list {
			p := ir.Formal{Size: int(v.Size())}
			if v.Space == ptx.SpaceReg {
				p.Kind = kindOf(v.Type)
			} else {
				p.Offset = allocate(fn, v)
			}
			c.effort.Memory(3 * ir.FormalBytes)
			out = append(out, p)
		}
		return out
	}
	fn.Results = formals(f.Results)
	fn.Params = formals(f.Params)
}

// allocate gives v a place in the local memory of the frames of fn.
func allocate(fn *ir.Function, v *ptx.Var) int {
	// Rows are 4 bytes; 16 is the most any access is aligned to.
	align := max(int(v.Alignment()), 4)
	fn.LocalBytes = (fn.LocalBytes + align - 1) / align * align
	at := fn.LocalBytes
	fn.LocalBytes += int(v.Size())
	return at
}

// kernel enters a kernel and its attributes.
func (c *compiler) kernel(f *ptx.Func, fn *ir.Function) {
	c.effort.Memory(ir.KernelBytes + 3*16*len(f.Params))
	a := gpu.FunctionAttributes{
		Name:        fn.Name,
		ParamBytes:  fn.ParamBytes,
		SharedBytes: int(fn.Shared),
		LocalBytes:  fn.LocalBytes,
		ConstBytes:  int(c.prog.Data.ConstBytes),
		Regs:        min(fn.Regs32+2*fn.Regs64, 255),
		MaxThreads:  1024,
	}
	if fn.MaxThreads != 0 {
		a.MaxThreads = min(fn.MaxThreads, 1024)
	}
	offset := 0
	for _, v := range f.Params {
		offset = alignUp(offset, int(v.Alignment()))
		a.Params = append(a.Params, gpu.Param{Offset: offset, Size: int(v.Size())})
		offset += int(v.Size())
	}
	c.prog.Entries[fn.Name] = ir.Entry{Fn: fn, Attrs: a}
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

// kindOf says which register file holds a type.
func kindOf(t ptx.Type) ir.RegKind {
	switch {
	case t == ptx.Pred:
		return ir.InPred
	case t.Size() == 8:
		return ir.In64
	}
	return ir.In32
}
