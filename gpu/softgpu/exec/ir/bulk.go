package ir

import "pvdrm/gpu/tensormap"

// BulkOp is a bulk copy, one instruction of a lane.
type BulkOp struct {
	Kind BulkKind
	// To is where the copy writes, From where it reads; of boxes one of them is shared memory
	// and the other the tensor at Map. Bar is the mbarrier that counts what was copied.
	To, From, Map, Bar Address
	Size, Mask         uint32  // registers of 32 bits: bytes, and the blocks of a multicast; NoReg: none
	Atom               *AtomOp // of a reduction without a tensor

	Rank    int
	Im2col  bool
	At      [tensormap.MaxRank]uint32 // registers of 32 bits
	Offsets [3]uint32
	Atoms   *[tensormap.Types]*AtomOp // of a reduction, by the type of elements; nil: none
}

// Address is a 64-bit register and an offset, in a space.
type Address struct {
	Reg    uint32
	Offset uint64
	Space  Space
}

// BulkKind is what a BulkOp does.
type BulkKind uint8

// Kinds of BulkOps.
const (
	BulkCopy     BulkKind = iota // bytes
	BulkLoad                     // a box into shared memory
	BulkStore                    // and back
	BulkPrefetch                 // a box that nothing is done with

)

// ReplaceOp is tensormap.replace: 64-bit register a + imm is the address of the map.
type ReplaceOp struct {
	Field tensormap.Field
	Ord   int
	Value uint32 // register of 32 or 64 bits
	Size  uint64 // of Value, in bytes
}

// TensorCache is the tensor map that a worker has decoded last, with the bytes it was made of.
type TensorCache struct {
	raw  [tensormap.Size]byte
	Map  tensormap.Map
	err  error
	used bool
	// Row is room for the longest row of a box.
	Row [tensormap.RowBytes]byte
}

// Decode returns the map that bytes describe. The result is valid until the next call.
func (c *TensorCache) Decode(b *[tensormap.Size]byte) (*tensormap.Map, error) {
	if !c.used || c.raw != *b {
		c.raw, c.used = *b, true
		c.err = c.Map.Decode(b)
	}
	return &c.Map, c.err
}
