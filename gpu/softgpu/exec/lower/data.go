package lower

import (
	"encoding/binary"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// maxData bounds the variables of a module.
const maxData = 1 << 28

// dataLayout is where the module's variables in .global and .const go.
type dataLayout struct {
	offsets map[*ptx.Var]uint64
	managed map[string]uint64 // addresses of managed variables that lie elsewhere
	vars    []*ptx.Var
	funcs   map[*ptx.Func]uint64 // addresses
}

// layoutData gives all variables their offsets.
func (c *compiler) layoutData() {
	d, seg := &c.data, &c.prog.Data
	d.offsets, d.funcs, seg.Align = map[*ptx.Var]uint64{}, map[*ptx.Func]uint64{}, 256
	for i, f := range c.order {
		d.funcs[f] = ir.FuncBase + ir.FuncStep*uint64(i)
	}
	for _, space := range []ptx.Space{ptx.SpaceConst, ptx.SpaceGlobal} {
		for _, dir := range c.m.Directives {
			if v, ok := dir.(*ptx.Var); ok && v.Linkage != ptx.LinkExtern && v.Space == space {
				c.place(v)
			}
		}
		if space == ptx.SpaceConst {
			seg.ConstEnd = seg.Size
		}
	}
	for _, v := range d.vars {
		v.EachInit(func(_ uint64, n *ptx.Init) {
			c.effort.Step()
			c.checkInit(v, n)
		})
	}
	piece := min(seg.Size, pieceBytes)
	seg.Fill = func(base uint64, write func(uint64, []byte)) {
		d.fill(base, gatherer{write: write, piece: make([]byte, 0, piece)})
	}
}

// checkInit refuses addresses of what has none in the generic address space
// before a kernel runs.
func (c *compiler) checkInit(v *ptx.Var, n *ptx.Init) {
	if n.Kind != ptx.InitAddr {
		return
	}
	d := &c.data
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
	d := &c.prog.Data
	align := v.Alignment()
	at := (d.Size + align - 1) / align * align
	if align > 1<<20 || at > maxData || v.Size() > maxData-at {
		c.fail(v.Pos, "variable '%s': the variables of a module may take %d bytes at most", v.Name, maxData)
		return
	}
	d.Align = max(d.Align, align)
	c.effort.Memory(2*ir.MapFactor*24 + ir.ListFactor*8)
	c.data.offsets[v] = at
	c.data.vars = append(c.data.vars, v)
	d.Vars = append(d.Vars, ir.Variable{Name: v.Name, Offset: at, Size: v.Size()})
	d.Size = at + v.Size()
	if v.Space == ptx.SpaceConst {
		d.ConstBytes += v.Size()
	}
}

// placed returns the address of a managed variable that lies elsewhere.
func (d *dataLayout) placed(v *ptx.Var) (addr uint64, ok bool) {
	if !v.Managed {
		return 0, false
	}
	addr, ok = d.managed[v.Name]
	return addr, ok
}

// readPragma takes what a pragma at module scope says about the module's memory.
func (c *compiler) readPragma(g *ptx.Pragma) {
	if n, ok := g.MallocHeap(); ok {
		c.prog.Heap = n
	}
	g.Managed(func(name string, addr uint64) {
		if c.data.managed == nil {
			c.data.managed = map[string]uint64{}
		}
		c.effort.Memory(ir.MapFactor * 24)
		c.data.managed[name] = addr
	})
}

// variable is a register that holds the address of a variable of the module.
func (b *builder) variable(v *ptx.Var) (r uint32, ok bool) {
	off, ok := b.c.data.offsets[v]
	if !ok {
		return 0, false
	}
	if addr, ok := b.c.data.placed(v); ok {
		return b.imm64(addr), true
	}
	return b.dataAddr(off), true
}

// fill writes the initial contents of the variables, which lie from base on, piece by piece.
func (d *dataLayout) fill(base uint64, out gatherer) {
	for _, v := range d.vars {
		v.EachInit(func(offset uint64, n *ptx.Init) { d.initialise(&out, base, d.offsets[v]+offset, v, n) })
	}
	out.flush()
}

// pieceBytes is how much of the variables' contents is gathered before it is written.
const pieceBytes = 64 << 10

// gatherer joins what is written one after the other.
type gatherer struct {
	write func(offset uint64, piece []byte)
	at    uint64 // of piece
	piece []byte
}

func (g *gatherer) add(offset uint64, b []byte) {
	if offset != g.at+uint64(len(g.piece)) || len(g.piece)+len(b) > cap(g.piece) {
		g.flush()
		g.at = offset
	}
	g.piece = append(g.piece, b...)
}

func (g *gatherer) flush() {
	if len(g.piece) > 0 {
		g.write(g.at, g.piece)
		g.piece = g.piece[:0]
	}
}

// initialise writes one value of an initialiser at off.
func (d *dataLayout) initialise(out *gatherer, base, off uint64, v *ptx.Var, n *ptx.Init) {
	var x uint64
	if n.Kind == ptx.InitAddr {
		switch ref := n.Ext.Ref.(type) {
		case *ptx.Var:
			x = base + d.offsets[ref] + n.Bits
			if addr, ok := d.placed(ref); ok {
				x = addr + n.Bits
			}
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
	out.add(off, word[:v.Type.Size()])
}
