package lane

import (
	"encoding/binary"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// pieceBytes is how much of a matrix in shared memory lies together whatever the swizzling:
// elements of a row of a or column of b, or where they are transposed, of eight of these.
const pieceBytes = 16

// matrixPlan is where a matrix of a wgmma lies, as its descriptor says (section 9.7.14.5,
// "Matrix Descriptor Format"). All in bytes.
type matrixPlan struct {
	start  uint64
	lead   uint64 // leading dimension byte offset
	stride uint64 // stride dimension byte offset
	phase  uint64 // base offset
	wide   uint64 // pieces of a row that is swizzled: 2, 4 or 8; 1 without
}

// planOf reads a descriptor.
func planOf(x uint64) matrixPlan {
	field := func(at, bits int) uint64 { return x >> at & (1<<bits - 1) }
	return matrixPlan{start: field(0, 14) << 4, lead: field(16, 14) << 4, stride: field(32, 14) << 4, phase: field(49, 3),
		wide: [...]uint64{1, 8, 4, 2}[field(62, 2)]}
}

// piece is the address of piece n of a row of a or a column of b.
func (p *matrixPlan) piece(row, n uint64) uint64 {
	return p.swizzle(p.start + row%8*pieceBytes*p.wide + row/8*p.stride + n%p.wide*pieceBytes + n/p.wide*p.lead)
}

// across is the address of a piece of eight rows or columns, of number eight, for one k.
func (p *matrixPlan) across(eight, k uint64) uint64 {
	at := p.start + k%8*pieceBytes*p.wide
	if p.wide == 1 {
		return at + eight*p.stride + k/8*p.lead
	}
	return p.swizzle(at + eight%p.wide*pieceBytes + eight/p.wide*p.lead + k/8*p.stride)
}

// swizzle exchanges pieces of a row by the number of the row in memory.
func (p *matrixPlan) swizzle(at uint64) uint64 {
	return at ^ (at>>7-p.phase)&(p.wide-1)*pieceBytes
}

// groupRows reads so many rows of a, or columns of b, each with so many bits, as the threads of a
// warp would have them in registers.
func groupRows(w *ir.Warp, op *ir.GroupOp, matrix int, file [][32]uint32, first, count, bits int) {
	x := w.R64[op.Place[matrix]][w.First()]
	plan := planOf(x)
	pieces, tall := bits/(8*pieceBytes), count/8
	if op.Trans[matrix] {
		groupColumns(w, &plan, file, first, count, bits/16)
		return
	}
	for c := range pieces {
		for r := range count {
			from := pieceAt(w, plan.piece(uint64(first+r), uint64(c)))
			to := file[c*tall+r>>3][r&7<<2:][:4]
			for n := range to {
				to[n] = binary.LittleEndian.Uint32(from[4*n:])
			}
		}
	}
}

// groupColumns is groupRows for a transposed matrix, of 16-bit elements.
func groupColumns(w *ir.Warp, plan *matrixPlan, file [][32]uint32, first, count, depth int) {
	tall := count / 8
	for k := range depth {
		shift := 16 * (k & 1)
		for r := range count {
			from := pieceAt(w, plan.across(uint64(first+r)/8, uint64(k)))
			to := &file[k>>3*tall+r>>3][r&7<<2|k&7>>1]
			*to = *to&^(0xffff<<shift) | uint32(binary.LittleEndian.Uint16(from[r&7*2:]))<<shift
		}
	}
}

// pieceAt is 16 bytes of shared memory.
func pieceAt(w *ir.Warp, at uint64) []byte {
	s := w.Block.Shared
	if at+pieceBytes > uint64(len(s)) {
		w.FailAddress(w.First(), gpu.LostAddress, at, false, fmt.Sprintf("matrix of a wgmma outside of the %d bytes of .shared", len(s)))
	}
	return s[at:][:pieceBytes]
}
