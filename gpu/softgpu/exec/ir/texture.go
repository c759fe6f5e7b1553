package ir

import (
	"encoding/binary"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/tlb"
	"pvdrm/gpu/texture"
)

// TexOp is an instruction on textures or surfaces: 64-bit register a holds the object.
type TexOp struct {
	Kind    TexKind
	Surface bool
	Shape   texture.Shape
	Layered bool
	Float   bool // the coordinates
	Detail  Detail
	Samples bool // of TexStore: the format of the surface counts, and X counts elements

	// 32-bit registers; NoReg where there is none.
	X, Y, Z, Layer uint32
	Level          uint32       // of ByLevel and TexQuery
	Gradient       [2][3]uint32 // of ByGradient
	Offset         [3]uint32    // in texels
	Offsets        bool         // there is an offset

	Count int       // of Regs
	Regs  [4]uint32 // results, or what is stored; NoReg: not wanted
	Size  uint64    // bytes of each; those of 8 lie in 64-bit registers

	Channel int // of TexGather
	Bounds  texture.Bounds
	Query   texture.Query
	Update  UpdateFunc // of TexReduce
}

// Detail is how a fetch chooses the level of a texture with mipmaps.
type Detail uint8

// Ways to choose a level.
const (
	FirstLevel Detail = iota
	ByLevel
	ByGradient
)

// TexKind is what a TexOp does.
type TexKind uint8

// Kinds of TexOps.
const (
	TexFetch TexKind = iota
	TexGather
	TexQuery
	TexLoad
	TexStore
	TexReduce
)

// TexCache holds the descriptors that a worker has decoded last, each with the bytes it was made of.
type TexCache struct {
	objects [4]texObject
	unit    texture.Unit
	// Of fetches by all lanes at once; nil before the first.
	lanes *texture.Lanes
}

// texObject is a descriptor, and the plan of its fetches.
type texObject struct {
	raw     [texture.Size / 8]uint64
	desc    texture.Descriptor
	err     error
	used    bool
	asked   bool // whether there can be a plan is known
	planned bool
	plan    *texture.Plan // nil before the first that there could be
}

// object is where a descriptor at an address is kept.
func (c *TexCache) object(addr uint64) *texObject {
	return &c.objects[addr/texture.Size%uint64(len(c.objects))]
}

// Descriptor decodes the descriptor at an address, which the translation holds. The result
// is valid until the next call.
//
//go:norace
func (c *TexCache) Descriptor(e *tlb.Translation, addr uint64) (*texture.Descriptor, error) {
	o := c.object(addr)
	same := o.used
	for n := range o.raw { // each word is read once: the guest may write at the same time
		x := *tlb.At[uint64](e, addr+8*uint64(n))
		same = same && x == o.raw[n]
		o.raw[n] = x
	}
	if !same {
		var b [texture.Size]byte
		for n, x := range o.raw {
			binary.LittleEndian.PutUint64(b[8*n:], x)
		}
		o.used, o.asked, o.err = true, false, o.desc.Decode(&b)
	}
	return &o.desc, o.err
}

// Plan returns the plan of fetches from the descriptor that Descriptor returned for an address, or nil if
// there can be none.
func (c *TexCache) Plan(addr uint64) *texture.Plan {
	o := c.object(addr)
	if !o.asked {
		if o.plan == nil {
			o.plan = new(texture.Plan)
		}
		o.asked, o.planned = true, o.plan.Make(&o.desc)
	}
	if !o.planned {
		return nil
	}
	return o.plan
}

// Unit returns the worker's texture unit, which reads for warp w.
func (c *TexCache) Unit(w *Warp) *texture.Unit {
	c.unit.Memory = w
	return &c.unit
}

// Lanes returns the worker's room for the fetches of a warp, with what was in it.
func (c *TexCache) Lanes() *texture.Lanes {
	if c.lanes == nil {
		c.lanes = new(texture.Lanes)
	}
	return c.lanes
}

// Texels reads texels for lane w.Lane, as texture.Memory has it.
//
//go:norace
func (w *Warp) Texels(b *texture.Batch) {
	var e tlb.Translation // of the texel before
	for n := range b.N {
		addr := b.Addr[n]
		if e.Page == nil || addr&^e.Mask != e.Base {
			t := w.Worker.TLB.Translate(addr, gpu.ProtRead)
			if t == nil {
				w.FailAddress(w.Lane, gpu.LostAddress, addr, false, "texel")
			}
			e = *t
		}
		to := &b.Data[n]
		switch b.Size {
		case 1:
			to.Lo = uint64(*tlb.At[uint8](&e, addr))
		case 2:
			to.Lo = uint64(*tlb.At[uint16](&e, addr))
		case 4:
			to.Lo = uint64(*tlb.At[uint32](&e, addr))
		case 8:
			to.Lo = *tlb.At[uint64](&e, addr)
		default:
			to.Lo, to.Hi = *tlb.At[uint64](&e, addr), *tlb.At[uint64](&e, addr+8)
		}
	}
}
