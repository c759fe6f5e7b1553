package simt

import (
	"encoding/binary"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// maxData bounds the variables of a module, since their image is made whole.
const maxData = 1 << 28

// segment is the module's variables in .global and .const.
type segment struct {
	size, align uint64
	constBytes  uint64
	constEnd    uint64 // .const lies first, up to here
	offsets     map[*ptx.Var]uint64
	names       map[string]*ptx.Var
	vars        []*ptx.Var
	funcs       map[*ptx.Func]uint64 // addresses
	base        uint64
	linked      bool
}

// layoutData gives all variables their offsets.
func (c *compiler) layoutData() {
	d := &c.prog.data
	d.offsets, d.names, d.align = map[*ptx.Var]uint64{}, map[string]*ptx.Var{}, 256
	d.funcs = map[*ptx.Func]uint64{}
	for i, f := range c.order {
		d.funcs[f] = funcBase + funcStep*uint64(i)
	}
	for _, space := range []ptx.Space{ptx.SpaceConst, ptx.SpaceGlobal} {
		for _, dir := range c.m.Directives {
			if v, ok := dir.(*ptx.Var); ok && v.Linkage != ptx.LinkExtern && v.Space == space {
				c.place(v)
			}
		}
		if space == ptx.SpaceConst {
			d.constEnd = d.size
		}
	}
	for _, v := range d.vars {
		v.EachInit(func(_ uint64, n *ptx.Init) { c.checkInit(v, n) })
	}
}

// checkInit refuses addresses of what has none in the generic address space
// before a kernel runs.
func (c *compiler) checkInit(v *ptx.Var, n *ptx.Init) {
	if n.Kind != ptx.InitAddr {
		return
	}
	d := &c.prog.data
	switch ref := n.Ext.Ref.(type) {
	case *ptx.Var:
		if _, ok := d.offsets[ref]; !ok {
			c.fail(n.Ext.Pos, "initialiser of '%s': '%s' is not a variable of this module in .global or .const", v.Name, n.Ext.Name)
		}
	case *ptx.Func:
		if _, ok := d.funcs[definition(ref)]; !ok {
			c.fail(n.Ext.Pos, "initialiser of '%s': undefined function '%s'", v.Name, n.Ext.Name)
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

// place adds a variable to the segment.
func (c *compiler) place(v *ptx.Var) {
	d := &c.prog.data
	align := v.Alignment()
	at := (d.size + align - 1) / align * align
	if align > 1<<20 || at > maxData || v.Size() > maxData-at {
		c.fail(v.Pos, "variable '%s': the variables of a module may take %d bytes at most", v.Name, maxData)
		return
	}
	d.align = max(d.align, align)
	d.offsets[v] = at
	d.names[v.Name] = v
	d.vars = append(d.vars, v)
	d.size = at + v.Size()
	if v.Space == ptx.SpaceConst {
		d.constBytes += v.Size()
	}
}

// DataBytes returns what the module's variables in .global and .const take, in
// bytes, and the alignment that the address given to Link must have.
func (p *Program) DataBytes() (size, align uint64) { return p.data.size, p.data.align }

// Link gives the module's variables their addresses, from base on, and returns
// their initial contents, to be written at base before the first run. It must
// be called exactly once, before any run, also for a module without variables.
func (p *Program) Link(base uint64) (image []byte, err error) {
	d := &p.data
	switch {
	case d.linked:
		return nil, fmt.Errorf("%w: module %s is linked already", gpu.ErrInvalid, p.file)
	case base%d.align != 0 || base+d.size < base || base+d.size > SharedBase:
		return nil, fmt.Errorf("%w: module %s cannot be linked at 0x%x", gpu.ErrInvalid, p.file, base)
	}
	d.base, d.linked = base, true
	for _, fn := range p.funcs {
		for _, i := range fn.relocs {
			fn.const64[i].value += base
		}
	}
	image = make([]byte, d.size)
	for _, v := range d.vars {
		at := d.offsets[v]
		v.EachInit(func(offset uint64, n *ptx.Init) { d.initialise(image, at+offset, v, n) })
	}
	return image, nil
}

// initialise writes one value of an initialiser at off.
func (d *segment) initialise(image []byte, off uint64, v *ptx.Var, n *ptx.Init) {
	var x uint64
	if n.Kind == ptx.InitAddr {
		switch ref := n.Ext.Ref.(type) {
		case *ptx.Var:
			x = d.base + d.offsets[ref] + n.Bits
		case *ptx.Func:
			x = d.funcs[definition(ref)]
		}
		for m := n.Ext.Mask; m != 0 && m&1 == 0; m >>= 1 {
			x >>= 1
		}
	} else {
		x = n.Imm(v.Type)
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], x)
	copy(image[off:], word[:v.Type.Size()])
}

// Global finds a variable in .global or .const after Link.
func (p *Program) Global(name string) (addr, size uint64, ok bool) {
	v := p.data.names[name]
	if v == nil || !p.data.linked {
		return 0, 0, false
	}
	return p.data.base + p.data.offsets[v], v.Size(), true
}
