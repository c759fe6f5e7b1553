//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Loads by groups of eight lanes. Blocks that are eight threads wide load rows of eight, and lanes of a row load the
// same. Gathers would take each element of each lane for itself; here a group is loaded from one address, which is
// that of its first lane.
//
// Groups are found where each lane is known to be inside and aligned already, so that what a group accesses, from
// its first lane's first byte to its last lane's last one, is what its lanes access. Later loads by the same register
// are inside where reach has found so: see places.go.

// groupLanes is how many lanes are in a group.
const groupLanes = 8

// grouped reports whether an access looks for groups: where a gather takes several steps for them.
func (m *memoryAccess) grouped() bool { return !stores(m.in.Op) && m.whole && m.total() >= 8 }

// inGroups loads what the lanes of groups have at m.off, from the host's address in rdx on, and jumps to done. It goes
// on behind that where lanes lie in another way.
func (m *memoryAccess) inGroups(done x86.Label) {
	a, rows, other := &m.emitter.a, m.a.NewLabel(), m.a.NewLabel()
	same, apart := m.s[0], m.s[1] // in what lanes differ from the first of their group, and from a row
	step := constant(offStep64 + int32(bits.TrailingZeros(uint(m.total())))*128)
	for g := range groupsOfLanes {
		z, first := m.off[g], m.s[2]
		if !m.wide {
			z = t2
			from := m.off[g/2]
			if g%2 != 0 {
				a.V(&x86.EXTRACTI64X4, from, 0, z, x86.Arg{Imm: 1})
				from = z
			}
			a.V(&x86.PMOVZXDQ, z, 0, from, x86.Arg{})
		}
		a.ToGP(&x86.TOGPQ, x86.RBX, z)
		a.RR(x86.ADD, true, x86.RBX, x86.RDX)
		a.Store(true, groupAt(g), x86.RBX)
		a.V(&x86.BROADCASTQ, first, 0, z, x86.Arg{})
		a.V(&x86.PSUBQ, first, z, first, x86.Arg{})
		if g == 0 {
			a.V(&x86.MOVD, same, 0, first, x86.Arg{})
			a.VM(&x86.PXORQ, apart, first, step, x86.Arg{})
			continue
		}
		a.V(&x86.PORQ, same, same, first, x86.Arg{})
		a.VM(&x86.PTERNLOGQ, apart, first, step, x86.Arg{Imm: orXor})
	}
	for _, shape := range []struct {
		differ x86.Z
		none   x86.Label
		kind   int32
	}{{differ: same, none: rows, kind: placeEightSame}, {differ: apart, none: other, kind: placeEight}} {
		a.VK(&x86.PTESTMQ, k7, shape.differ, shape.differ, x86.Arg{})
		a.KK(&x86.KORTESTD, k7, 0, k7)
		a.JumpIf(x86.NotEqual, shape.none)
		length := m.total()
		if shape.kind == placeEight {
			length *= groupLanes
		}
		m.reach(shape.kind, length, groupsOfLanes, func(g int) { a.RM(x86.MOV, true, x86.RBX, groupAt(g)) })
		m.loadGroups(shape.kind, groupAt, 0)
		a.Jump(done)
		a.Bind(shape.none)
	}
}

func groupAt(g int) x86.Mem { return frameAt(offGroups + 8*int32(g)) }

// againInGroups is a load by a register that has a place, where groups are known to be inside. Else it goes on behind.
func (m *memoryAccess) againInGroups(done x86.Label) {
	a, at := &m.emitter.a, placeAt(m.place.at)
	for _, kind := range []int32{placeEight, placeEightSame} {
		other := a.NewLabel()
		a.MI(x86.CMP, true, plus(at, placeReach), kind)
		a.JumpIf(x86.NotEqual, other)
		m.loadGroups(kind, func(g int) x86.Mem { return plus(at, placeHost+8*g) }, m.ahead)
		a.Jump(done)
		a.Bind(other)
	}
}

// loadGroups loads groups, of which the host's addresses are at places of the frame, so many bytes further.
func (m *memoryAccess) loadGroups(kind int32, at func(g int) x86.Mem, ahead int32) {
	a := &m.emitter.a
	for h := range 2 {
		for k, r := range m.rows {
			a.RM(x86.MOV, true, r, at(2*h+k))
		}
		if kind == placeEight {
			each := groupLanes * m.total() / 64 // vectors of a group
			m.loadHalf(h, func(i int) x86.Mem { return x86.Mem{Base: m.rows[i/each], Disp: ahead + int32(i%each*64)} })
			continue
		}
		for i := range m.n {
			low, high := x86.Mem{Base: m.rows[0], Disp: ahead + int32(i*m.size)}, x86.Mem{Base: m.rows[1], Disp: ahead + int32(i*m.size)}
			if m.size == 8 {
				a.VM(&x86.BROADCASTQ, m.dst[i][2*h], 0, low, x86.Arg{})
				a.VM(&x86.BROADCASTQ, m.dst[i][2*h+1], 0, high, x86.Arg{})
				continue
			}
			d := m.dst[i][h]
			a.VM(&x86.BROADCASTD, d, 0, low, x86.Arg{})
			a.VM(&x86.BROADCASTD, m.s[0], 0, high, x86.Arg{})
			a.V(&x86.INSERTI64X4, d, d, m.s[0], x86.Arg{Imm: 1})
		}
	}
}
