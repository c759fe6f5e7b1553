package ref

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// groupSize is how many warps a warpgroup has.
const groupSize = 4

// Places of the fields of a matrix descriptor (section 9.7.14.5).
var (
	descriptorStart   = field{shift: 0, bits: 14}
	descriptorLeading = field{shift: 16, bits: 14}
	descriptorStride  = field{shift: 32, bits: 14}
	descriptorBase    = field{shift: 49, bits: 3}
	descriptorMode    = field{shift: 62, bits: 2}
)

// wgmma is wgmma (9.7.14), which is finished as soon as a warp runs it.
func wgmma(group []*thread) {
	t := group[0]
	switch t.wait.Mods.Step {
	case ptx.StepCommit:
		t.b.groups[t.n/warpSize]++
	case ptx.StepMultiply:
		t.warpgroup()
		multiplyGroup(group)
	}
}

// warpgroup is the number of the first warp of t's warpgroup.
func (t *thread) warpgroup() int {
	first := t.n / warpSize / groupSize * groupSize
	if (first+groupSize-1)*warpSize >= len(t.b.threads) {
		t.fail(gpu.LostInstruction, "wgmma where a block has no whole warpgroup")
	}
	return first
}

// groupsDone reports whether the warps of t's warpgroup have committed all that t waits for.
func (t *thread) groupsDone() bool {
	first, own := t.warpgroup(), t.b.groups[t.n/warpSize]
	for warp := first; warp < first+groupSize; warp++ {
		if t.b.groups[warp]+t.wait.Args[0].Value >= own {
			continue
		}
		live := false
		for _, o := range t.b.threads[warp*warpSize:][:min(warpSize, len(t.b.threads)-warp*warpSize)] {
			live = live || o.state != exited
		}
		if !live {
			t.fail(gpu.LostInstruction, fmt.Sprintf("wgmma.wait_group for warp %d, which has exited", warp))
		}
		return false
	}
	return true
}

// multiplyGroup is a warp's part of wgmma.mma_async: 16 rows.
func multiplyGroup(group []*thread) {
	t, i := group[0], group[0].wait
	g := i.Group()
	aBits := i.Element(ptx.FragmentA).ElementBits()
	b := t.fetchMatrix(g.B, g.TransB, 0, i.Columns(), groupDepth(i)).transposed()
	a := newMatrix(16, 128*2/aBits, i.Element(ptx.FragmentA))
	if g.Registers {
		for _, o := range group {
			for v, x := range o.matrixValues(&o.wait.Args[1], ptx.B32, a.ty) {
				row, col := multiplicand(a.ty, 16, a.cols, o.n%warpSize/4, o.n%4, v)
				*a.at(row, col) = x
			}
		}
	} else {
		a = t.fetchMatrix(g.A, g.TransA, t.n/warpSize%groupSize*16, 16, a.cols)
	}
	d := newMatrix(16, i.Columns(), i.Element(ptx.FragmentD))
	register, _ := i.Registers(ptx.FragmentD)
	each := func(visit func(t *thread, v int, x *uint64)) {
		for _, o := range group {
			for v := range i.Columns() / 2 {
				visit(o, v, d.at(o.n%warpSize/4+v/2%2*8, v/4*8+o.n%4*2+v%2))
			}
		}
	}
	if t.get(g.Scale, ptx.Pred) != 0 {
		values := map[*thread][]uint64{}
		for _, o := range group {
			values[o] = o.matrixValues(&o.wait.Args[0], register, d.ty)
		}
		each(func(o *thread, v int, x *uint64) { *x = values[o][v] })
	}
	for row := range d.rows {
		x, from := a.bits[row*a.cols:][:a.cols], make([]int, a.cols)
		for k := range from {
			from[k] = k
		}
		if g.Metadata != nil {
			from = places(group, a.cols, row)
		}
		y := make([]uint64, len(x))
		for col := range d.cols {
			for k, place := range from {
				y[k] = *b.at(place, col)
			}
			*d.at(row, col) = groupSum(i, g.NegateA != g.NegateB, x, y, *d.at(row, col))
		}
	}
	lists := map[*thread][]uint64{}
	each(func(o *thread, v int, x *uint64) { lists[o] = append(lists[o], *x) })
	for o, list := range lists {
		o.setMatrixValues(&o.wait.Args[0], register, d.ty, list)
	}
}

// groupDepth is how many rows b has: the k of the instruction.
func groupDepth(i *ptx.Instr) int {
	_, _, k := i.Mods.Shape.Size()
	return k
}

// transposed is the matrix with rows and columns exchanged.
func (m *matrix) transposed() *matrix {
	r := newMatrix(m.cols, m.rows, m.ty)
	for row := range m.rows {
		for col := range m.cols {
			*r.at(col, row) = *m.at(row, col)
		}
	}
	return r
}

// fetchMatrix reads so many rows of a, or columns of b, from where a descriptor says: of each, so
// many elements.
func (t *thread) fetchMatrix(o *ptx.Operand, trans bool, first, count, depth int) *matrix {
	f := ptx.FragmentA
	if o == t.wait.Group().B {
		f = ptx.FragmentB
	}
	m := newMatrix(count, depth, t.wait.Element(f))
	x, width := t.get(o, ptx.B64), m.ty.ElementBits()
	for row := range count {
		for k := range depth {
			at, bit := uint64(0), k*width
			if trans { // elements of 16 bits
				at = groupAddress(x, uint64(first+row)/8, uint64(k), true) + uint64(first+row)%8*2
			} else {
				at = groupAddress(x, uint64(first+row), uint64(bit/128), false) + uint64(bit%128/8)
			}
			if at >= uint64(len(t.b.shared)) || at+uint64(width)/8 > uint64(len(t.b.shared)) {
				e := t.lost(gpu.LostAddress, "matrix of a wgmma outside of .shared")
				e.Addr = at
				panic(e)
			}
			if width < 8 {
				*m.at(row, k) = uint64(t.b.shared[at]) >> (bit % 8) & 1
			} else {
				*m.at(row, k) = read(t.b.shared[at:][:width/8])
			}
		}
	}
	return m
}

// groupAddress is where 16 bytes of a matrix lie: piece y of row x, or transposed, the elements y of
// eight rows, which have number x.
func groupAddress(descriptor, x, y uint64, trans bool) uint64 {
	leading, stride := 16*descriptorLeading.of(descriptor), 16*descriptorStride.of(descriptor)
	at := 16 * descriptorStart.of(descriptor)
	mode := descriptorMode.of(descriptor)
	if mode == 0 {
		if trans {
			return at + x*stride + y/8*leading + y%8*16
		}
		return at + x/8*stride + y*leading + x%8*16
	}
	row := uint64(256) >> mode // bytes of a row that is swizzled
	if trans {
		at += x*16/row*leading + x*16%row + y/8*stride + y%8*row
	} else {
		at += x/8*stride + x%8*row + y*16/row*leading + y*16%row
	}
	turn := at/128 - descriptorBase.of(descriptor)
	return at ^ turn%(row/16)*16
}

// groupSum is one element of the result.
func groupSum(i *ptx.Instr, negative bool, x, y []uint64, z uint64) uint64 {
	a, b, d := i.Element(ptx.FragmentA), i.Element(ptx.FragmentB), i.Element(ptx.FragmentD)
	switch {
	case a == ptx.B1:
		return commonBits(i.Mods.Bool, x, y, z)
	case d == ptx.S32:
		return integers(a, b, x, y, z, i.Mods.Has(ptx.SatFinite))
	}
	t := tensorSum{a: a, b: b, sums: single, result: single, kept: keptBits, negative: negative}
	if d == ptx.F16 {
		t.sums, t.result = half, half
	}
	if a == ptx.E4M3 || a == ptx.E5M2 {
		t.kept, t.native = fewBits, true
		if d == ptx.F32 {
			t.result = format{fraction: fewBits, exponent: 8}
		}
	}
	return t.add(x, y, z)
}
