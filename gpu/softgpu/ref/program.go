package ref

import (
	"encoding/binary"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

const (
	maxDiagnostics = 20
	maxBytes       = 1 << 28 // of the variables of a module in one state space, or of a function
	maxAlign       = 1 << 20
)

// Program is a module that the interpreter can run. Link changes it; after
// that it is only read.
type Program struct {
	file    string
	kernels map[string]*Kernel
	funcs   map[*ptx.Func]*function // definitions
	byAddr  []*function             // function n has address funcBase + n·funcStep
	offsets map[*ptx.Var]uint64     // variables in .const and .global, from base
	vars    []*ptx.Var              // the same, .const first
	consts  uint64                  // bytes of those in .const
	size    uint64                  // bytes of all
	base    uint64
	diags   []gpu.Diagnostic
}

// Addresses of functions.
const (
	funcBase uint64 = 1 << 59
	funcStep uint64 = 16
)

// function is a definition with the places of its variables.
type function struct {
	f       *ptx.Func
	addr    uint64
	offsets map[*ptx.Var]uint64 // .local and .param variables in a frame; parameters of a kernel in its parameter block
	local   uint64              // bytes of local memory of a frame
	params  uint64              // bytes of a kernel's parameters
	sums    []*sum              // by statement, nil for most; see contract.go
	gone    []bool              // statements that sums replace
}

// Kernel is an .entry function.
type Kernel struct {
	prog    *Program
	fn      *function
	shared  map[*ptx.Var]uint64 // offsets of the .shared variables that it reaches
	static  uint64              // bytes of those
	dynamic uint64              // offset of the dynamic part, where it reaches that
}

// Compile prepares a module that ptx.Load made. The error is a *gpu.BuildError
// that names what the interpreter has not and where that stands.
func Compile(m *ptx.Module) (*Program, error) {
	if err := exec.Runnable(m); err != nil {
		return nil, err
	}
	p := &Program{file: m.File, kernels: map[string]*Kernel{}, funcs: map[*ptx.Func]*function{}, offsets: map[*ptx.Var]uint64{}}
	if m.AddressSize != 64 {
		p.fail(ptx.Pos{Line: 1, Col: 1}, ".address_size %d is not supported, only 64", m.AddressSize)
	}
	for _, space := range []ptx.Space{ptx.SpaceConst, ptx.SpaceGlobal} {
		for _, d := range m.Directives {
			if v, ok := d.(*ptx.Var); ok && v.Space == space && v.Linkage != ptx.LinkExtern {
				p.vars = append(p.vars, v)
				p.place(v, p.offsets, &p.size)
			}
		}
		if space == ptx.SpaceConst {
			p.consts = p.size
		}
	}
	for _, d := range m.Directives {
		if f, ok := d.(*ptx.Func); ok {
			p.function(f)
		}
	}
	p.check()
	for _, fn := range p.byAddr {
		if fn.f.Entry && len(p.diags) == 0 {
			p.kernels[fn.f.Name] = p.kernel(fn)
		}
	}
	if len(p.diags) > 0 {
		return nil, &gpu.BuildError{Diagnostics: p.diags}
	}
	return p, nil
}

func (p *Program) fail(at ptx.Pos, format string, args ...any) {
	if len(p.diags) < maxDiagnostics {
		p.diags = append(p.diags, gpu.Diagnostic{File: p.file, Line: int(at.Line), Col: int(at.Col),
			Message: "error: " + fmt.Sprintf(format, args...)})
	}
}

// place gives v the next offset after *end.
func (p *Program) place(v *ptx.Var, offsets map[*ptx.Var]uint64, end *uint64) {
	at := alignUp(*end, v.Alignment())
	if v.Alignment() > maxAlign || at > maxBytes || v.Size() > maxBytes-at {
		p.fail(v.Pos, "variable '%s': variables of one state space may take %d bytes at most", v.Name, maxBytes)
		return
	}
	offsets[v], *end = at, at+v.Size()
}

func alignUp(n, align uint64) uint64 { return (n + align - 1) / align * align }

// function lays out a function.
func (p *Program) function(f *ptx.Func) {
	if !f.Defined {
		return
	}
	fn := &function{f: f, offsets: map[*ptx.Var]uint64{}, addr: funcBase + funcStep*uint64(len(p.byAddr))}
	p.funcs[f] = fn
	p.byAddr = append(p.byAddr, fn)
	for _, list := range [][]*ptx.Var{f.Results, f.Params} {
		for _, v := range list {
			switch {
			case f.Entry:
				p.place(v, fn.offsets, &fn.params)
			case v.Space == ptx.SpaceParam:
				p.place(v, fn.offsets, &fn.local)
			case v.Vec > 0 || v.Type == ptx.B128:
				p.fail(v.Pos, "parameter '%s' is a register of vector type or of 128 bits, which is not supported", v.Name)
			}
		}
	}
	for _, v := range f.Locals {
		if v.Space == ptx.SpaceLocal || v.Space == ptx.SpaceParam {
			p.place(v, fn.offsets, &fn.local)
		}
	}
	fn.local = alignUp(fn.local, 16)
	for _, r := range f.Regs {
		if r.Type.Size() > 8 && r.Type != ptx.B128 {
			p.fail(f.Pos, "register '%s' of type .%s is not supported", r.Name, r.Type)
		}
	}
	fn.contract()
}

// check refuses references to what the module does not define.
func (p *Program) check() {
	for _, fn := range p.byAddr {
		for _, s := range fn.f.Body {
			i, ok := s.(*ptx.Instr)
			if !ok {
				continue
			}
			for k := range i.Args {
				p.checkRef(i.Args[k].Pos, i.Args[k].Ref)
			}
			if i.Call != nil && i.Call.Callee.Kind == ptx.OperandSymbol {
				f := i.Call.Callee.Ref.(*ptx.Func)
				if p.funcs[definition(f)] == nil && !runtimeFunctions[f.Name] {
					p.fail(i.Call.Callee.Pos, "undefined function '%s'", f.Name)
				}
			}
		}
	}
	for _, v := range p.vars {
		v.EachInit(func(_ uint64, n *ptx.Init) {
			if n.Kind != ptx.InitAddr {
				return
			}
			if d, ok := n.Ext.Ref.(*ptx.Var); ok && d.Space == ptx.SpaceShared {
				p.fail(n.Ext.Pos, "initialiser of '%s': '%s' has no address in the generic address space", v.Name, n.Ext.Name)
			}
			p.checkRef(n.Ext.Pos, n.Ext.Ref)
		})
	}
}

func (p *Program) checkRef(at ptx.Pos, ref ptx.Decl) {
	switch d := ref.(type) {
	case *ptx.Func:
		if p.funcs[definition(d)] == nil {
			p.fail(at, "undefined function '%s'", d.Name)
		}
	case *ptx.Var:
		if d.Linkage == ptx.LinkExtern && d.Space != ptx.SpaceShared {
			p.fail(at, "undefined variable '%s'", d.Name)
		}
	}
}

// definition is the definition of a declared function, if the module has one.
func definition(f *ptx.Func) *ptx.Func {
	if f.Def != nil {
		return f.Def
	}
	return f
}

// kernel places the .shared variables that a kernel can reach: by name in
// itself or in a function that it calls, or in any function if it makes
// indirect calls.
func (p *Program) kernel(entry *function) *Kernel {
	k := &Kernel{prog: p, fn: entry, shared: map[*ptx.Var]uint64{}}
	seen := map[*function]bool{}
	visit := []*function{entry}
	var extern []*ptx.Var
	for len(visit) > 0 {
		fn := visit[0]
		visit = visit[1:]
		if fn == nil || seen[fn] {
			continue
		}
		seen[fn] = true
		for _, s := range fn.f.Body {
			i, ok := s.(*ptx.Instr)
			if !ok {
				continue
			}
			for a := range i.Args {
				v, ok := i.Args[a].Ref.(*ptx.Var)
				if !ok || v.Space != ptx.SpaceShared {
					continue
				}
				if _, placed := k.shared[v]; v.Linkage == ptx.LinkExtern {
					extern = append(extern, v)
				} else if !placed {
					p.place(v, k.shared, &k.static)
				}
			}
			switch {
			case i.Call == nil:
			case i.Call.Callee.Kind == ptx.OperandSymbol:
				visit = append(visit, p.funcs[definition(i.Call.Callee.Ref.(*ptx.Func))])
			case !seen[nil]: // an indirect call
				seen[nil] = true
				visit = append(visit, p.byAddr...)
			}
		}
	}
	k.dynamic = k.static
	for _, v := range extern {
		k.dynamic = alignUp(k.dynamic, max(v.Alignment(), 16))
	}
	for _, v := range extern {
		k.shared[v] = k.dynamic
	}
	return k
}

// Link places the variables of the module at base and returns their initial
// contents, to be written there before the first run. It must be called once.
func (p *Program) Link(base uint64) (image []byte, err error) {
	if base%256 != 0 || base+p.size < base || base+p.size > exec.SharedBase {
		return nil, fmt.Errorf("%w: module %s cannot be linked at 0x%x", gpu.ErrInvalid, p.file, base)
	}
	p.base = base
	image = make([]byte, p.size)
	for _, v := range p.vars {
		v.EachInit(func(off uint64, n *ptx.Init) {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], p.initial(v, n))
			copy(image[p.offsets[v]+off:], word[:v.Type.Size()])
		})
	}
	return image, nil
}

// initial is one value of an initialiser.
func (p *Program) initial(v *ptx.Var, n *ptx.Init) uint64 {
	if n.Kind != ptx.InitAddr {
		return n.Imm(v.Type)
	}
	var x uint64
	switch d := n.Ext.Ref.(type) {
	case *ptx.Var:
		x = p.base + p.offsets[d] + n.Bits
	case *ptx.Func:
		x = p.funcs[definition(d)].addr
	}
	for m := n.Ext.Mask; m != 0 && m&1 == 0; m >>= 1 { // 0xFF00(name): the byte that the mask names
		x >>= 1
	}
	return x
}

// Kernel finds a kernel by name.
func (p *Program) Kernel(name string) (*Kernel, bool) {
	k, ok := p.kernels[name]
	return k, ok
}
