package lane

import (
	"fmt"
	"math"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/texture"
)

// TexLanes runs an instruction on textures or surfaces, lane after lane. Lanes may have
// different objects; each object is looked at once.
func TexLanes(w *ir.Warp, in *ir.Inst) {
	op, handles := in.X.Tex, &w.R64[in.A]
	run := texKinds[op.Kind]
	for rest := w.Mask; rest != 0; {
		w.Lane = ir.FirstOf(rest)
		handle := handles[w.Lane]
		d := object(w, op, handle)
		same := rest &^ Differing(handles, handle)
		if together(w, op, d, handle, same) {
			rest &^= same
			continue
		}
		for m := rest; m != 0; m &= m - 1 {
			i := ir.FirstOf(m)
			if handles[i] != handle {
				continue
			}
			w.Lane = i
			run(w, op, d)
			rest &^= 1 << i
		}
	}
	w.Budget -= texCost
}

// together runs an instruction for lanes of a mask with the same object at once, and reports whether it could.
func together(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor, handle uint64, mask uint32) bool {
	switch op.Kind {
	case ir.TexFetch:
		switch {
		case op.Offsets:
		case op.Float && fetchPlanned(w, op, d, w.Worker.Tex.Plan(handle), mask):
			return true
		case op.Float && d.Flat():
			fetchFlat(w, op, d, mask)
			return true
		case !op.Float && d.Shape == texture.ShapeBuffer:
			fetchWhole(w, op, d, mask)
			return true
		}
	case ir.TexLoad, ir.TexStore:
		return op.Count == 1 && op.Size >= 4 && !op.Samples && op.Regs[0] != ir.NoReg && surfaceWords(w, op, d, mask)
	}
	return false
}

// texKinds run one lane, w.Lane.
var texKinds = [...]func(*ir.Warp, *ir.TexOp, *texture.Descriptor){
	ir.TexFetch: fetch, ir.TexGather: gather, ir.TexQuery: query, ir.TexLoad: surfaceLoad, ir.TexStore: surfaceStore,
	ir.TexReduce: surfaceReduce,
}

// texCost is how many loop heads a fetch of 32 lanes counts as.
const texCost = 32

// object reads the descriptor of an object, and ends the kernel if it is none that the
// instruction can use.
func object(w *ir.Warp, op *ir.TexOp, handle uint64) *texture.Descriptor {
	e := w.Worker.TLB.Translate(handle, gpu.ProtRead)
	if e == nil || handle%texture.Size != 0 {
		w.FailAddress(w.Lane, gpu.LostAddress, handle, false, "no texture or surface object")
	}
	d, err := w.Worker.Tex.Descriptor(e, handle)
	if err != nil {
		w.FailAddress(w.Lane, gpu.LostAddress, handle, false, err.Error())
	}
	if op.Kind == ir.TexQuery && d.Surface == op.Surface {
		return d
	}
	if op.Detail == ir.ByGradient && d.Aniso {
		w.FailLane(w.Lane, gpu.LostInstruction, fmt.Sprintf("the texture at 0x%x has an anisotropic filter, which is not supported", handle))
	}
	if !d.Fits(op.Surface, op.Shape, op.Layered) {
		w.FailLane(w.Lane, gpu.LostInstruction, fmt.Sprintf("the object at 0x%x is of another kind than the instruction", handle))
	}
	return d
}

// coordinate is the value of a register of the lane, 0 without one.
func coordinate(w *ir.Warp, r uint32) uint32 {
	if r == ir.NoReg {
		return 0
	}
	return w.R32[r][w.Lane]
}

// number is coordinate as a floating-point number.
func number(w *ir.Warp, r uint32) float32 { return math.Float32frombits(coordinate(w, r)) }

// point is where a lane fetches.
func point(w *ir.Warp, op *ir.TexOp) texture.Point {
	p := texture.Point{X: number(w, op.X), Y: number(w, op.Y), Z: number(w, op.Z), Layer: coordinate(w, op.Layer)}
	if op.Offsets {
		p.Offset = offset(w, op)
	}
	return p
}

// offset is how many texels a fetch looks beside its point.
func offset(w *ir.Warp, op *ir.TexOp) (by texture.Offset) {
	for n, r := range op.Offset {
		by[n] = int32(coordinate(w, r))
	}
	return by
}

// gradient is how the point changes.
func gradient(w *ir.Warp, r *[3]uint32) texture.Vector {
	return texture.Vector{X: number(w, r[0]), Y: number(w, r[1]), Z: number(w, r[2])}
}

// results gives a lane its four results.
func results(w *ir.Warp, op *ir.TexOp, c *[4]uint32) {
	for n, r := range op.Regs {
		if r != ir.NoReg {
			w.R32[r][w.Lane] = c[n]
		}
	}
}

func fetch(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor) {
	var c [4]uint32
	u := w.Worker.Tex.Unit(w)
	switch {
	case !op.Float:
		c = u.Load(d, texture.Texel{
			X: int32(coordinate(w, op.X)), Y: int32(coordinate(w, op.Y)), Z: int32(coordinate(w, op.Z)),
			Layer: coordinate(w, op.Layer), Level: int32(coordinate(w, op.Level)), Offset: offset(w, op),
		})
	case op.Detail == ir.ByLevel:
		c = u.FetchLevel(d, point(w, op), number(w, op.Level))
	case op.Detail == ir.ByGradient:
		c = u.FetchGradient(d, point(w, op), gradient(w, &op.Gradient[0]), gradient(w, &op.Gradient[1]))
	default:
		c = u.Fetch(d, point(w, op))
	}
	results(w, op, &c)
}

func gather(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor) {
	c := w.Worker.Tex.Unit(w).Gather(d, point(w, op), op.Channel)
	results(w, op, &c)
}

func query(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor) {
	w.R32[op.Regs[0]][w.Lane] = d.Answer(op.Query, coordinate(w, op.Level))
}

// surfaceAddress is where a lane accesses a surface. Ok is false where it reads zeros, or
// writes nothing.
func surfaceAddress(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor, write bool) (addr uint64, ok bool) {
	p := texture.Place{
		X: int32(coordinate(w, op.X)), Y: int32(coordinate(w, op.Y)), Z: int32(coordinate(w, op.Z)), Layer: coordinate(w, op.Layer),
	}
	size := op.Size * uint64(op.Count)
	if op.Samples {
		p.X, size = d.Element(p.X)
	}
	addr, v := d.Resolve(p, size, op.Bounds)
	switch v {
	case texture.Access:
		return addr, true
	case texture.Skip:
		return 0, false
	case texture.Misaligned:
		w.FailAddress(w.Lane, gpu.LostAlign, d.Base, write, fmt.Sprintf("byte %d of a row of a surface", p.X))
	}
	w.FailAddress(w.Lane, gpu.LostAddress, d.Base, write, fmt.Sprintf("outside of the surface: byte %d, row %d, slice %d, layer %d", p.X, p.Y, p.Z, p.Layer))
	return 0, false
}

func surfaceLoad(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor) {
	addr, ok := surfaceAddress(w, op, d, false)
	for n, r := range op.Regs[:op.Count] {
		x := uint64(0)
		if ok {
			x = loadLane(w, ir.SpaceGlobal, w.Lane, addr+uint64(n)*op.Size, op.Size, op.Size)
		}
		switch {
		case r == ir.NoReg:
		case op.Size == 8:
			w.R64[r][w.Lane] = x
		default:
			w.R32[r][w.Lane] = uint32(x)
		}
	}
}

func surfaceStore(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor) {
	addr, ok := surfaceAddress(w, op, d, true)
	if !ok {
		return
	}
	if op.Samples {
		var c [4]uint32
		for n, r := range op.Regs[:op.Count] {
			c[n] = w.R32[r][w.Lane]
		}
		size := uint64(d.Format.Size())
		for n := range int(d.Channels) { // those without a value become 0
			storeLane(w, ir.SpaceGlobal, w.Lane, addr+uint64(n)*size, size, size, uint64(d.Format.Pack(c[n])))
		}
		return
	}
	for n, r := range op.Regs[:op.Count] {
		storeLane(w, ir.SpaceGlobal, w.Lane, addr+uint64(n)*op.Size, op.Size, op.Size, operand(w, r, op.Size, w.Lane))
	}
}

// surfaceReduce is one atomic step towards all other workers, as AtomLanes is.
func surfaceReduce(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor) {
	addr, ok := surfaceAddress(w, op, d, true)
	if !ok {
		return
	}
	atom := ir.AtomOp{Size: op.Size, Update: op.Update}
	atomLane(w, ir.SpaceGlobal, w.Lane, addr, &atom, operand(w, op.Regs[0], op.Size, w.Lane), 0)
}
