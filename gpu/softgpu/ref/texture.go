package ref

import (
	"math"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/texture"
)

// shapes are the shapes of textures and surfaces by the geometry of an instruction.
var shapes = map[ptx.Geometry]texture.Shape{
	ptx.Geometry1D: texture.Shape1D, ptx.GeometryArray1D: texture.Shape1D,
	ptx.Geometry2D: texture.Shape2D, ptx.GeometryArray2D: texture.Shape2D, ptx.Geometry3D: texture.Shape3D,
	ptx.GeometryCube: texture.ShapeCube, ptx.GeometryArrayCube: texture.ShapeCube,
}

var queries = map[ptx.Mode]texture.Query{
	ptx.ModeWidth: texture.QueryWidth, ptx.ModeHeight: texture.QueryHeight, ptx.ModeDepth: texture.QueryDepth,
	ptx.ModeChannelType: texture.QueryChannelType, ptx.ModeChannelOrder: texture.QueryChannelOrder,
	ptx.ModeNormalized: texture.QueryNormalized, ptx.ModeArraySize: texture.QueryLayers, ptx.ModeLevels: texture.QueryLevels,
}

// Texels reads texels, for package texture.
func (t *thread) Texels(b *texture.Batch) {
	for n := range b.N {
		m := t.bytes(ptx.SpaceGlobal, b.Addr[n], b.Size, false)
		b.Data[n] = texture.Raw{Lo: read(m)}
		if b.Size > 8 {
			b.Data[n].Hi = read(m[8:])
		}
	}
}

// object reads the descriptor of a texture or surface.
func (t *thread) object(i *ptx.Instr, o *ptx.Operand) *texture.Descriptor {
	var raw [texture.Size]byte
	var handle uint64
	if o.Reg != ptx.NoReg {
		handle = t.regs[o.Reg]
	} else { // a reference is a variable with the handle of what it is bound to
		s, addr := t.variable(o.Ref.(*ptx.Var))
		handle = read(t.bytes(s, addr, 8, false))
	}
	if handle%texture.Size != 0 {
		t.fail(gpu.LostAddress, "no texture or surface object")
	}
	copy(raw[:], t.bytes(ptx.SpaceGlobal, handle, texture.Size, false))
	d := new(texture.Descriptor)
	if err := d.Decode(&raw); err != nil {
		t.fail(gpu.LostAddress, err.Error())
	}
	surface := i.Op == ptx.OpSuld || i.Op == ptx.OpSust || i.Op == ptx.OpSured || i.Op == ptx.OpSuq
	query := i.Op == ptx.OpTxq || i.Op == ptx.OpSuq
	g := i.Mods.Geometry
	if i.Mods.Has(ptx.Gradient) && d.Aniso {
		t.fail(gpu.LostInstruction, "the texture has an anisotropic filter")
	}
	if query && d.Surface != surface || !query && !d.Fits(surface, shapes[g], g.Layered()) {
		t.fail(gpu.LostInstruction, "the object is of another kind than the instruction")
	}
	return d
}

// coordinates are those of an operand: x, y and z, and the layer.
func (t *thread) coordinates(i *ptx.Instr, o *ptx.Operand) (c [3]uint32, layer uint32) {
	list, g := o.Coordinates(), i.Mods.Geometry
	if g.Layered() {
		layer, list = uint32(t.get(&list[0], ptx.U32)), list[1:]
	}
	for n := range g.Axes() {
		ty := ptx.S32
		if i.Mods.Types[1] == ptx.F32 {
			ty = ptx.F32
		}
		c[n] = uint32(t.get(&list[n], ty))
	}
	return c, layer
}

// texture is tex, tld4, txq and suq (9.7.9, 9.7.10).
func (t *thread) texture(i *ptx.Instr) {
	d := t.object(i, &i.Args[1])
	if i.Args[1].Kind != ptx.OperandTexel {
		level := uint32(0)
		if i.Mods.Has(ptx.Level) {
			level = uint32(t.get(&i.Args[2], ptx.U32))
		}
		t.set(&i.Args[0], uint64(d.Answer(queries[i.Mods.Mode], level)), ptx.B32)
		return
	}
	at, layer := t.coordinates(i, &i.Args[1])
	p := texture.Point{X: math.Float32frombits(at[0]), Y: math.Float32frombits(at[1]), Z: math.Float32frombits(at[2]), Layer: layer}
	if last := i.Offset(); last != nil {
		for n := range i.Mods.Geometry.Axes() {
			p.Offset[n] = int32(t.get(&last.Elems[n], ptx.S32))
		}
	}
	var c [4]uint32
	u := &texture.Unit{Memory: t}
	whole := texture.Texel{X: int32(at[0]), Y: int32(at[1]), Z: int32(at[2]), Layer: layer, Offset: p.Offset}
	switch {
	case i.Op == ptx.OpTld4:
		c = u.Gather(d, p, map[ptx.Mode]int{ptx.ModeGreen: 1, ptx.ModeBlue: 2, ptx.ModeAlpha: 3}[i.Mods.Mode])
	case i.Mods.Types[1] == ptx.S32:
		if i.Mods.Has(ptx.Level) {
			whole.Level = int32(t.get(&i.Args[2], ptx.S32))
		}
		c = u.Load(d, whole)
	case i.Mods.Has(ptx.Level):
		c = u.FetchLevel(d, p, math.Float32frombits(uint32(t.get(&i.Args[2], ptx.F32))))
	case i.Mods.Has(ptx.Gradient):
		c = u.FetchGradient(d, p, t.gradient(i, &i.Args[2]), t.gradient(i, &i.Args[3]))
	default:
		c = u.Fetch(d, p)
	}
	for n := range i.Args[0].Elems {
		t.set(&i.Args[0].Elems[n], uint64(c[n]), i.Mods.Type())
	}
}

// gradient is how the coordinates of an instruction change.
func (t *thread) gradient(i *ptx.Instr, o *ptx.Operand) texture.Vector {
	var c [3]float32
	list := elements(o)
	for n := range i.Mods.Geometry.Axes() {
		c[n] = math.Float32frombits(uint32(t.get(&list[n], ptx.F32)))
	}
	return texture.Vector{X: c[0], Y: c[1], Z: c[2]}
}

// surface is suld, sust and sured (9.7.10).
func (t *thread) surface(i *ptx.Instr) {
	object, value, writes := &i.Args[1], &i.Args[0], i.Op != ptx.OpSuld
	if writes {
		object, value = value, object
	}
	d, ty, elems := t.object(i, object), i.Mods.Type(), elements(value)
	at, layer := t.coordinates(i, object)
	p := texture.Place{X: int32(at[0]), Y: int32(at[1]), Z: int32(at[2]), Layer: layer}
	size := uint64(ty.Size())
	whole := size * uint64(len(elems))
	if i.Mods.Has(ptx.Samples) {
		p.X, whole = d.Element(p.X)
		size = uint64(d.Format.Size())
		elems = elems[:min(len(elems), int(d.Channels))]
	}
	bounds := map[ptx.Mode]texture.Bounds{ptx.ModeTrap: texture.Trap, ptx.ModeClamp: texture.Edge, ptx.ModeZero: texture.Zero}[i.Mods.Mode]
	addr, v := d.Resolve(p, whole, bounds)
	m := make([]byte, whole)
	switch v {
	case texture.Misaligned:
		t.fail(gpu.LostAlign, "surface")
	case texture.OutOfRange:
		t.fail(gpu.LostAddress, "outside of the surface")
	case texture.Access:
		m = t.bytes(ptx.SpaceGlobal, addr, whole, writes)
	}
	if i.Mods.Has(ptx.Samples) {
		clear(m) // channels without a value become 0
	}
	for n := range elems {
		part := m[uint64(n)*size:][:size]
		switch {
		case i.Op == ptx.OpSuld:
			t.set(&elems[n], read(part), ty)
		case i.Op == ptx.OpSured:
			write(part, reduced(i.Mods.Atomic, ty, read(part), t.get(&elems[n], ty)))
		case i.Mods.Has(ptx.Samples):
			write(part, uint64(d.Format.Pack(uint32(t.get(&elems[n], ty)))))
		default:
			write(part, t.get(&elems[n], ty))
		}
	}
}

// reduced is what sured makes of what is there.
func reduced(op ptx.Atomic, ty ptx.Type, old, x uint64) uint64 {
	switch {
	case op == ptx.AtomicAdd:
		return old + x
	case op == ptx.AtomicAnd:
		return old & x
	case op == ptx.AtomicOr:
		return old | x
	case compare(ptx.CmpLT, ty, x, old) == (op == ptx.AtomicMin):
		return x
	}
	return old
}
