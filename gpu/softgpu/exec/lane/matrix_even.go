package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// evenMatrix is the matrix of a transfer that all lanes of a warp name alike, and that lies in
// one page or in the block's .shared: no access to it needs a check of its own. Distances are in
// bytes.
type evenMatrix struct {
	page        *tlb.Translation
	base, pitch uint64 // in the page: address, and from row to row
	size        uint64 // of an element
	right, down uint64 // from the place of a thread to that of the next, and of the fourth behind it
	apart       uint64 // between the elements of a register
	words       bool   // which are one aligned word
}

// PlaceMatrix finds the places of what threads have of a matrix that is transferred. They lie
// as evenly in all registers and for all threads as in register 0 for threads 0, 1 and 4.
func PlaceMatrix(op *ir.MatrixOp) {
	e := element(op)
	at := func(r, lane int) ir.MatrixPlace {
		row, col, down := matrixPlace(op, e, r, lane)
		if op.Column {
			row, col = col, row
		}
		op.Apart = down != op.Column
		return ir.MatrixPlace{Along: uint64(col), Across: uint64(row)}
	}
	op.Distinct = distinct(op, e)
	for r := range min(op.Count[op.Fragment], op.Distinct) {
		op.Places[r] = at(r, 0)
	}
	first, right, down := op.Places[0], at(0, 1), at(0, 4)
	op.Right = ir.MatrixPlace{Along: right.Along - first.Along, Across: right.Across - first.Across}
	op.Down = ir.MatrixPlace{Along: down.Along - first.Along, Across: down.Across - first.Across}
}

// evenly finds the matrix of a transfer. It reports false where the lanes have to be looked at
// one by one.
func evenly(w *ir.Warp, in *ir.Inst, e ir.Element, need gpu.Prot) (m evenMatrix, ok bool) {
	op := in.X.Matrix
	m.size = uint64(e.Bits()) / 8
	if w.Mask != ir.AllLanes || m.size == 0 || !alike(&w.R64[in.A]) {
		return m, false
	}
	if op.Stride != ir.NoReg && !alike(&w.R32[op.Stride]) {
		return m, false
	}
	m.base, m.pitch = matrixBase(w, in, 0)
	m.pitch *= m.size
	if m.base%m.size != 0 {
		return m, false
	}
	along, across := op.Wide, op.Tall
	if op.Swap != op.Column {
		along, across = across, along
	}
	last := uint64(across-1)*m.pitch + uint64(along)*m.size - 1 // less than 1<<41
	m.right, m.down, m.apart = m.bytes(op.Right), m.bytes(op.Down), m.size
	if op.Apart {
		m.apart = m.pitch
	}
	m.words = m.size == 4 || !op.Apart && m.base%4 == 0 && m.pitch%4 == 0
	s := in.Space
	if s == ir.SpaceGeneric {
		s, m.base = ir.WindowOf(m.base)
	}
	switch s {
	case ir.SpaceGlobal:
		m.page = w.Worker.TLB.Translate(m.base, need)
		return m, m.page != nil && last <= m.page.Mask-m.base&m.page.Mask
	case ir.SpaceShared, ir.SpaceCluster:
		m.page = &w.Block.Window
		m.base -= w.Block.Own()
		limit := uint64(len(w.Block.Shared))
		return m, m.base < limit && last < limit-m.base
	}
	return m, false
}

// alike reports whether all lanes have the same.
func alike[T uint32 | uint64](reg *[32]T) bool {
	differ := T(0)
	for _, x := range reg {
		differ |= x ^ reg[0]
	}
	return differ == 0
}

// bytes is how many bytes lie before a place.
func (m *evenMatrix) bytes(p ir.MatrixPlace) uint64 { return p.Across*m.pitch + p.Along*m.size }

// load reads the elements of a register of all lanes.
//
//go:norace
func (m *evenMatrix) load(first uint64, d *[32]uint32) {
	page, down, right, apart := m.page, m.down, m.right, m.apart
	for g := range uint64(8) {
		for t := range uint64(4) {
			addr := first + g*down + t*right
			x := uint32(0)
			switch {
			case m.words:
				x = *tlb.At[uint32](page, addr)
			case m.size == 2:
				x = uint32(*tlb.At[uint16](page, addr)) | uint32(*tlb.At[uint16](page, addr+apart))<<16
			default:
				for k := range uint64(4) {
					x |= uint32(*tlb.At[uint8](page, addr+k*apart)) << (8 * k)
				}
			}
			d[4*g+t] = x
		}
	}
}

// load64 is load for elements of 64 bits.
//
//go:norace
func (m *evenMatrix) load64(first uint64, d *[32]uint64) {
	for g := range uint64(8) {
		for t := range uint64(4) {
			d[4*g+t] = *tlb.At[uint64](m.page, first+g*m.down+t*m.right)
		}
	}
}

// store writes the elements of a register of all lanes.
//
//go:norace
func (m *evenMatrix) store(first uint64, s *[32]uint32) {
	page, down, right, apart := m.page, m.down, m.right, m.apart
	for g := range uint64(8) {
		for t := range uint64(4) {
			addr, x := first+g*down+t*right, s[4*g+t]
			switch {
			case m.words:
				*tlb.At[uint32](page, addr) = x
			case m.size == 2:
				*tlb.At[uint16](page, addr) = uint16(x)
				*tlb.At[uint16](page, addr+apart) = uint16(x >> 16)
			default:
				for k := range uint64(4) {
					*tlb.At[uint8](page, addr+k*apart) = uint8(x >> (8 * k))
				}
			}
		}
	}
}

// store64 is store for elements of 64 bits.
//
//go:norace
func (m *evenMatrix) store64(first uint64, s *[32]uint64) {
	for g := range uint64(8) {
		for t := range uint64(4) {
			*tlb.At[uint64](m.page, first+g*m.down+t*m.right) = s[4*g+t]
		}
	}
}

// loadEven is MatrixLoad of a whole matrix at once, where that is possible.
func loadEven(w *ir.Warp, in *ir.Inst, e ir.Element, regs []uint32, n int) bool {
	m, ok := evenly(w, in, e, gpu.ProtRead)
	if !ok {
		return false
	}
	for r, reg := range regs {
		first := m.base + m.bytes(in.X.Matrix.Places[r])
		switch {
		case e == ir.ElementF64 && r < n:
			m.load64(first, &w.R64[reg])
		case e == ir.ElementF64:
			w.R64[reg] = w.R64[regs[r%n]]
		case r < n:
			m.load(first, &w.R32[reg])
		default:
			w.R32[reg] = w.R32[regs[r%n]]
		}
	}
	return true
}

// storeEven is MatrixStore of a whole matrix at once, where that is possible.
func storeEven(w *ir.Warp, in *ir.Inst, e ir.Element, regs []uint32) bool {
	m, ok := evenly(w, in, e, gpu.ProtWrite)
	if !ok {
		return false
	}
	for r, reg := range regs {
		first := m.base + m.bytes(in.X.Matrix.Places[r])
		if e == ir.ElementF64 {
			m.store64(first, &w.R64[reg])
		} else {
			m.store(first, &w.R32[reg])
		}
	}
	return true
}
