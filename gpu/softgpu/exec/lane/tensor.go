package lane

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/tensormap"
)

// boxAlign is the alignment of boxes in shared memory.
const boxAlign = 128

// box is a copy of a box under way.
type box struct {
	w      *ir.Warp
	op     *ir.BulkOp
	m      *tensormap.Map
	shared []byte // from the box on
	addr   uint64 // of the box
	row    []byte
	fill   [8]byte
}

// boxCopy copies a box of a tensor, or the pixels of one, or reduces them.
func boxCopy(w *ir.Warp, op *ir.BulkOp, rank int) uint64 {
	b := box{w: w, op: op, m: tensorMapOf(w, op)}
	var at [tensormap.MaxRank]int32
	for n := range op.Rank {
		at[n] = int32(w.R32[op.At[n]][w.Lane])
	}
	if err := b.m.CheckStart(&at, op.Kind == ir.BulkStore); err != nil {
		w.FailLane(w.Lane, gpu.LostInstruction, err.Error())
	}
	if op.Kind == ir.BulkPrefetch {
		return 0
	}
	bytes := b.m.BoxBytes()
	side := &op.To
	if op.Kind == ir.BulkStore {
		side = &op.From
	}
	s, addr := placeIn(w, side, rank)
	b.addr, b.shared = addr, sharedBytes(w, s, addr, b.m.Room(), boxAlign, op.Kind == ir.BulkLoad)
	b.row = w.Worker.Tensor.Row[:]
	visit := b.load
	if op.Kind == ir.BulkStore {
		if visit = b.store; op.Atoms != nil {
			visit = b.reduce
		}
	}
	b.m.FillElement(&b.fill)
	if !b.m.Im2col {
		b.m.Tiles(&at, op.Kind == ir.BulkStore, visit)
	} else {
		var offsets [3]uint16
		for n := range op.Rank - 2 {
			if op.Kind == ir.BulkLoad {
				offsets[n] = uint16(w.R32[op.Offsets[n]][w.Lane])
			}
		}
		b.m.PixelRows(&at, &offsets, op.Kind == ir.BulkStore, visit)
	}
	complete(w, op, rank, bytes)
	return bytes
}

// tensorMapOf reads the tensor map of lane w.Lane, and ends the kernel if it is none that the
// instruction can use. The bytes are read once: the guest may write at the same time.
func tensorMapOf(w *ir.Warp, op *ir.BulkOp) *tensormap.Map {
	if w.Worker.Tensor == nil {
		w.Worker.Tensor = new(ir.TensorCache)
	}
	s, addr := place(w, &op.Map)
	if addr%tensormap.Align != 0 {
		w.FailAddress(w.Lane, gpu.LostAlign, addr, false, "tensor map")
	}
	var raw [tensormap.Size]byte
	for n := uint64(0); n < tensormap.Size; n += 8 {
		binary.LittleEndian.PutUint64(raw[n:], loadLane(w, s, w.Lane, addr+n, 8, 8))
	}
	m, err := w.Worker.Tensor.Decode(&raw)
	if errors.Is(err, tensormap.ErrAlign) {
		w.FailAddress(w.Lane, gpu.LostAlign, addr, false, err.Error())
	}
	if err != nil {
		w.FailLane(w.Lane, gpu.LostInstruction, fmt.Sprintf("at 0x%x: %s", addr, err))
	}
	if m.Rank != op.Rank || m.Im2col != op.Im2col {
		w.FailLane(w.Lane, gpu.LostInstruction, fmt.Sprintf("the tensor map at 0x%x is of another rank or mode than the instruction", addr))
	}
	return m
}

// chunk is the shared memory of 16 bytes of the box, where the swizzle puts them.
func (b *box) chunk(at uint64) []byte {
	off := b.m.Swizzle.Swizzled(b.addr+at) - b.addr
	if off >= uint64(len(b.shared)) || uint64(len(b.shared))-off < bulkGrain {
		b.w.FailAddress(b.w.Lane, gpu.LostAddress, b.addr+off, b.op.Kind == ir.BulkLoad, "swizzled box")
	}
	return b.shared[off:][:bulkGrain]
}

// each calls do for the parts of a row that lie inside of the tensor and side by side in global memory: where in
// the row and where in memory, and how many bytes.
func (b *box) each(r *tensormap.Row, unit uint64, do func(n, at, bytes uint64)) {
	if r.Step == 1 {
		if r.First < r.Last {
			do(r.First*unit, r.Addr+r.First*unit, (r.Last-r.First)*unit)
		}
		return
	}
	for k := r.First; k < r.Last; k++ {
		do(k*unit, r.Addr+k*r.Step*unit, unit)
	}
}

// load fills a row of the box.
func (b *box) load(r *tensormap.Row) {
	size := b.m.Unit()
	row := b.row[:r.Length*size]
	inside := row[r.First*size : r.Last*size]
	if len(inside) < len(row) {
		for n := uint64(0); n < uint64(len(row)); n += b.m.Type.Size() {
			copy(row[n:], b.fill[:b.m.Type.Size()])
		}
	}
	b.each(r, size, func(n, at, bytes uint64) { readGlobal(b.w, at, row[n:n+bytes]) })
	b.m.Type.Convert(inside)
	for n := 0; n < len(row); n += bulkGrain {
		copy(b.chunk(r.At+uint64(n)), row[n:])
	}
}

// gather is a row of the box.
func (b *box) gather(r *tensormap.Row) []byte {
	row := b.row[:r.Length*b.m.Unit()]
	for n := 0; n < len(row); n += bulkGrain {
		copy(row[n:], b.chunk(r.At+uint64(n)))
	}
	return row
}

// store writes a row of the box into the tensor.
func (b *box) store(r *tensormap.Row) {
	size := b.m.Unit()
	row := b.gather(r)
	b.each(r, size, func(n, at, bytes uint64) { writeGlobal(b.w, at, row[n:n+bytes]) })
}

// reduce is store with an operation.
func (b *box) reduce(r *tensormap.Row) {
	size, row, atom := b.m.Type.Size(), b.gather(r), b.op.Atoms[b.m.Type]
	if atom == nil {
		b.w.FailLane(b.w.Lane, gpu.LostInstruction, "the tensor's elements do not have this operation")
	}
	b.each(r, b.m.Unit(), func(n, at, bytes uint64) {
		for k := uint64(0); k < bytes; k += size {
			atomLane(b.w, ir.SpaceGlobal, b.w.Lane, at+k, atom, loadBytes(row[n+k:], size), 0)
		}
	})
}

// ReplaceLanes is tensormap.replace, lane after lane.
func ReplaceLanes(w *ir.Warp, in *ir.Inst) {
	op := in.X.Replace
	a := ir.Address{Reg: in.A, Offset: in.Imm, Space: in.Space}
	for m := w.Mask; m != 0; m &= m - 1 {
		w.Lane = ir.FirstOf(m)
		s, addr := place(w, &a)
		if addr%tensormap.Align != 0 {
			w.FailAddress(w.Lane, gpu.LostAlign, addr, true, "tensor map")
		}
		var raw [tensormap.Size]byte
		for n := uint64(0); n < tensormap.Size; n += 8 {
			binary.LittleEndian.PutUint64(raw[n:], loadLane(w, s, w.Lane, addr+n, 8, 8))
		}
		tensormap.Replace(&raw, op.Field, op.Ord, operand(w, op.Value, op.Size, w.Lane))
		for n := uint64(0); n < tensormap.Size; n += 8 {
			storeLane(w, s, w.Lane, addr+n, 8, 8, binary.LittleEndian.Uint64(raw[n:]))
		}
	}
}
