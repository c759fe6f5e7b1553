package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/texture"
)

// shapes are the shapes of geometries without layers.
var shapes = map[ptx.Geometry]texture.Shape{
	ptx.Geometry1D: texture.Shape1D, ptx.Geometry2D: texture.Shape2D, ptx.Geometry3D: texture.Shape3D, ptx.GeometryCube: texture.ShapeCube,
	ptx.GeometryArray1D: texture.Shape1D, ptx.GeometryArray2D: texture.Shape2D, ptx.GeometryArrayCube: texture.ShapeCube,
}

var boundsOf = map[ptx.Mode]texture.Bounds{ptx.ModeTrap: texture.Trap, ptx.ModeClamp: texture.Edge, ptx.ModeZero: texture.Zero}

var channelOf = map[ptx.Mode]int{ptx.ModeRight: 0, ptx.ModeGreen: 1, ptx.ModeBlue: 2, ptx.ModeAlpha: 3}

var queryOf = map[ptx.Mode]texture.Query{
	ptx.ModeWidth: texture.QueryWidth, ptx.ModeHeight: texture.QueryHeight, ptx.ModeDepth: texture.QueryDepth,
	ptx.ModeChannelType: texture.QueryChannelType, ptx.ModeChannelOrder: texture.QueryChannelOrder,
	ptx.ModeNormalized: texture.QueryNormalized, ptx.ModeArraySize: texture.QueryLayers, ptx.ModeLevels: texture.QueryLevels,
}

// texOp begins the operation of an instruction on the texture or surface o.
func (b *builder) texOp(i *ptx.Instr, kind ir.TexKind, o *ptx.Operand) (op *ir.TexOp, handle uint32, ok bool) {
	if handle, ok = b.texObject(i, o); !ok {
		return nil, 0, false
	}
	g := i.Mods.Geometry
	op = &ir.TexOp{
		Kind: kind, Shape: shapes[g], Layered: g.Layered(), X: ir.NoReg, Y: ir.NoReg, Z: ir.NoReg, Layer: ir.NoReg,
		Regs:     [4]uint32{ir.NoReg, ir.NoReg, ir.NoReg, ir.NoReg},
		Level:    ir.NoReg,
		Gradient: [2][3]uint32{{ir.NoReg, ir.NoReg, ir.NoReg}, {ir.NoReg, ir.NoReg, ir.NoReg}},
		Offset:   [3]uint32{ir.NoReg, ir.NoReg, ir.NoReg},
	}
	t := ptx.S32
	if kind == ir.TexFetch || kind == ir.TexGather {
		t = i.Mods.Types[1]
		op.Float = t == ptx.F32
	}
	list := o.Coordinates()
	if o.Kind != ptx.OperandTexel {
		list = nil
	} else if op.Layered {
		op.Layer = b.src32(&list[0], ptx.U32)
		list = list[1:]
	}
	axes := []*uint32{&op.X, &op.Y, &op.Z}
	for n := range min(g.Axes(), len(list)) {
		*axes[n] = b.src32(&list[n], t)
	}
	return op, handle, true
}

// texObject is the register with the handle of an object, or of what a texture or surface
// reference is bound to: a reference is a variable that holds the handle.
func (b *builder) texObject(i *ptx.Instr, o *ptx.Operand) (uint32, bool) {
	if o.Reg != ptx.NoReg {
		b.use(o.Reg)
		return b.regs[o.Reg].index, true
	}
	v, ok := o.Ref.(*ptx.Var)
	off, placed := b.c.data.offsets[v]
	if !ok || !placed || v.Array {
		b.fail(i, "textures and surfaces are variables of the module, or objects")
		return 0, false
	}
	handle := b.temp64()
	b.access(where{space: ir.SpaceGlobal, base: b.dataAddr(off), wide: true}, handle, 8, 8, false)
	return handle, true
}

// detail decodes the level of detail or the gradients.
func (b *builder) detail(i *ptx.Instr, op *ir.TexOp) {
	switch {
	case i.Mods.Has(ptx.Level):
		op.Detail = ir.ByLevel
		op.Level = b.src32(&i.Args[2], i.Mods.Types[1])
	case i.Mods.Has(ptx.Gradient):
		op.Detail = ir.ByGradient
		for k := range op.Gradient {
			for n, x := range vector(&i.Args[2+k])[:i.Mods.Geometry.Axes()] {
				op.Gradient[k][n] = b.src32(&x, ptx.F32)
			}
		}
	}
}

// emitTex emits the operation. Results have been named before.
func (b *builder) emitTex(op *ir.TexOp, handle uint32) {
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.TexLanes, A: handle, D: ir.NoReg, X: &ir.Extra{Tex: op}, Other: -1})
}

// texture decodes tex and tld4.
func (b *builder) texture(i *ptx.Instr) {
	kind := ir.TexFetch
	if i.Op == ptx.OpTld4 {
		kind = ir.TexGather
	}
	op, handle, ok := b.texOp(i, kind, &i.Args[1])
	if !ok {
		return
	}
	op.Channel = channelOf[i.Mods.Mode]
	b.detail(i, op)
	if last := i.Offset(); last != nil {
		op.Offsets = true
		for n := range i.Mods.Geometry.Axes() {
			op.Offset[n] = b.src32(&last.Elems[n], ptx.S32)
		}
	}
	b.texResults(op, handle, i.Args[0].Elems, i.Mods.Type())
}

// texResults emits an operation with the results that its instruction names.
func (b *builder) texResults(op *ir.TexOp, handle uint32, elems []ptx.Operand, t ptx.Type) {
	op.Count, op.Size = len(elems), uint64(t.Size())
	for n := range elems {
		if elems[n].Kind == ptx.OperandReg {
			op.Regs[n] = b.dst(&elems[n], kindOf(t))
		}
	}
	b.emitTex(op, handle)
	for n := range elems {
		b.finish(&elems[n], op.Regs[n], t)
	}
}

// texQuery decodes txq and suq.
func (b *builder) texQuery(i *ptx.Instr) {
	op, handle, ok := b.texOp(i, ir.TexQuery, &i.Args[1])
	if !ok {
		return
	}
	op.Surface, op.Query = i.Op == ptx.OpSuq, queryOf[i.Mods.Mode]
	if i.Mods.Has(ptx.Level) {
		op.Level = b.src32(&i.Args[2], ptx.U32)
	}
	b.texResults(op, handle, i.Args[:1], ptx.B32)
}

// surface decodes suld, sust and sured.
func (b *builder) surface(i *ptx.Instr) {
	kind, object, value := ir.TexLoad, &i.Args[1], &i.Args[0]
	if i.Op != ptx.OpSuld {
		kind, object, value = ir.TexStore, value, object
	}
	if i.Op == ptx.OpSured {
		kind = ir.TexReduce
	}
	op, handle, ok := b.texOp(i, kind, object)
	if !ok {
		return
	}
	t, elems := i.Mods.Type(), vector(value)
	op.Surface, op.Bounds, op.Samples = true, boundsOf[i.Mods.Mode], i.Mods.Has(ptx.Samples)
	if kind == ir.TexReduce {
		name := t
		if i.Mods.Atomic == ptx.AtomicAdd && t == ptx.S32 {
			name = ptx.U32
		}
		op.Update = lane.Updates[i.Mods.Atomic.String()+"."+name.String()]
		if op.Update == nil {
			b.fail(i, "")
			return
		}
	}
	if kind == ir.TexLoad {
		b.texResults(op, handle, elems, t)
		return
	}
	op.Count, op.Size = len(elems), uint64(t.Size())
	for n := range elems {
		if op.Size == 8 {
			op.Regs[n] = b.src64(&elems[n], t)
		} else {
			op.Regs[n] = b.src32(&elems[n], t)
		}
	}
	b.emitTex(op, handle)
}
