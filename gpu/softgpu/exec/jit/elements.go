//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/jit/internal/x86"

// loadElements loads two or four elements for each lane of half h of the warp, by permutations of AVX2, which
// has none of two vectors by a table.
func (m *memoryAccess) loadElements(h int, at func(i int) x86.Mem) {
	a, s := &m.emitter.a, m.s
	imm := func(n int) x86.Arg { return x86.Arg{Imm: uint8(n)} }
	a.VM(&x86.LOADD, s[0], 0, at(0), x86.Arg{})
	if m.n == 2 {
		for i := range 2 {
			a.VM(&x86.EVERY2, m.dst[i][h], s[0], at(1), imm(i))
		}
		return
	}
	// Elements 0 and 2 of 8 lanes by turns, and 1 and 3.
	a.VM(&x86.EVERY2, s[1], s[0], at(1), imm(0))
	a.VM(&x86.EVERY2, s[0], s[0], at(1), imm(1))
	a.VM(&x86.LOADD, s[2], 0, at(2), x86.Arg{})
	a.VM(&x86.EVERY2, s[3], s[2], at(3), imm(0))
	a.VM(&x86.EVERY2, s[2], s[2], at(3), imm(1))
	for i := range 2 {
		a.V(&x86.EVERY2, m.dst[2*i][h], s[1], s[3], imm(i))
		a.V(&x86.EVERY2, m.dst[2*i+1][h], s[0], s[2], imm(i))
	}
}

// loadDoubles loads two elements of 8 bytes for each lane of half h of the warp: vectors at 0 and 1 are those of its
// first 8 lanes, and 2 and 3 of the others.
func (m *memoryAccess) loadDoubles(h int, at func(i int) x86.Mem) {
	a := &m.emitter.a
	for g := range 2 {
		a.VM(&x86.LOADQ, m.s[0], 0, at(2*g), x86.Arg{})
		for i := range 2 {
			d := m.dst[i][2*h+g]
			if m.pairs {
				a.VM(&x86.EVERY2PAIRS, d, m.s[0], at(2*g+1), x86.Arg{Imm: uint8(i)})
				continue
			}
			a.VM(&x86.LOADD, m.s[1], 0, constant(offEvery2Two+int32(64*i)), x86.Arg{})
			a.VM(&x86.PERMI2D, m.s[1], m.s[0], at(2*g+1), x86.Arg{})
			a.V(&x86.MOVQ, d, 0, m.s[1], x86.Arg{})
		}
	}
}

// joins is the permutation of AVX2 that PERMI2D has a table for, and the half that it is of.
func joins(table int32) (op *x86.Op, half uint8) {
	if table < offJoinPairs {
		return &x86.JOIN, uint8((table - offJoin) / 64)
	}
	return &x86.JOINPAIRS, uint8((table - offJoinPairs) / 64)
}

// storeHalf stores half h of the warp into vectors whose lanes follow one another.
func (m *memoryAccess) storeHalf(h int, at func(i int) x86.Mem) {
	a := &m.emitter.a
	join := func(d, x, y x86.Z, table int32) {
		if m.pairs {
			op, half := joins(table)
			a.V(op, d, x, y, x86.Arg{Imm: half})
			return
		}
		a.VM(&x86.LOADD, d, 0, constant(table), x86.Arg{})
		a.V(&x86.PERMI2D, d, x, y, x86.Arg{})
	}
	v := &m.vals
	switch {
	case m.size == 8 && m.n == 2:
		for i := range 4 { // 4 lanes each
			join(m.s[0], v[0].part(2*h+i/2), v[1].part(2*h+i/2), offJoinPairs+int32(64*(i%2)))
			a.VM(&x86.STOREQ, m.s[0], 0, at(i), x86.Arg{})
		}
	case m.size == 8:
		a.VM(&x86.STOREQ, v[0].part(2*h), 0, at(0), x86.Arg{})
		a.VM(&x86.STOREQ, v[0].part(2*h+1), 0, at(1), x86.Arg{})
	case m.n == 1:
		_, store := m.moves()
		a.VM(store, v[0].part(h), 0, at(0), x86.Arg{})
	case m.n == 2:
		for i := range 2 {
			join(m.s[0], v[0].part(h), v[1].part(h), offJoin+int32(64*i))
			a.VM(&x86.STORED, m.s[0], 0, at(i), x86.Arg{})
		}
	default:
		for i := range 2 { // 8 lanes each
			join(m.s[0], v[0].part(h), v[1].part(h), offJoin+int32(64*i))
			join(m.s[1], v[2].part(h), v[3].part(h), offJoin+int32(64*i))
			for k := range 2 {
				join(m.s[2], m.s[0], m.s[1], offJoinPairs+int32(64*k))
				a.VM(&x86.STORED, m.s[2], 0, at(2*i+k), x86.Arg{})
			}
		}
	}
}
