//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Products of matrices, as lane.MatrixFloat and lane.MatrixInteger compute them, for warps of which all lanes run.
//
// Lanes of a vector are elements of a sum as registers of c have them: 4 rows of a half of the tile, and of each
// row every second column. A and b are decoded once and put into the area: a as registers have it, so that a
// permutation within each row's four lanes gives all of them one column; b in groups of the four columns that a vector
// has, one group for each row. A row of b times a column of a is then a product of two vectors.
//
// Floating point: products and their exponents are exact as float32 in the range that is let through. The largest
// exponent of each sum comes first (exponents are powers of two, so that their sums are products); the products
// are then multiplied until its lowest bit that counts is 1, and cut to integers, of which the sums are exact. What
// is infinite or NaN, or out of that range, is left to the function of the operation.

// The area's part for a product. A block is 4 rows of the half of a tile; there are 4 of them, and of each a has
// up to 4 vectors.
const (
	tileA     = areaLeft + 64
	tilePower = tileA + 4*blockA // the exponents of a
	tileB     = tilePower + 4*blockA
	tileBMax  = tileB + 8*64 // and of b
	tileC     = tileBMax + 8*64
	tileBytes = 2 * 4 * blockC // of c or d
	areaBytes = tileC + tileBytes

	blockA = 4 * 64
	blockC = 2 * 64
)

// tileFuel is what a tile takes of a frame's fuel: about as many instructions.
const tileFuel = 512

// The range of bf16, tf32 and of sums that is computed here, as the bits of float32: exponents of -50 to 50, and of
// sums from -100 on.
const (
	leastFactor = 77 << 23
	factorRange = 101 << 23
	leastSum    = 27 << 23
	sumRange    = 228 << 23
)

// product is a tile's product that is being compiled.
type product struct {
	*emitter
	op     *ir.MatrixOp
	groups int     // of rows of b that a register has
	per    int     // vectors of decoded elements for each vector of a register
	bad    x86.Z   // bits 15 and 31: something is not computed here
	s      []x86.Z // scratch
}

// knownMatrix reports whether a product is compiled.
func knownMatrix(in *ir.Inst) bool {
	op := in.X.Matrix
	if in.Guard != 0 || op.Rows != 16 || op.A > ir.ElementTF32 && op.A != ir.ElementS8 && op.A != ir.ElementU8 {
		return false
	}
	if isWhole(op) {
		if op.B != ir.ElementS8 && op.B != ir.ElementU8 {
			return false
		}
	} else if op.A != op.B || op.After || op.K > op.Depth {
		return false
	}
	groups := op.K / (4 * op.A.PerRegister())
	return (groups == 1 || groups == 2) && op.Number <= 2
}

// isWhole reports whether a product is one of integers.
func isWhole(op *ir.MatrixOp) bool { return op.D == ir.ElementS32 }

// matrixRegs calls visit with the registers of a product.
func matrixRegs(op *ir.MatrixOp, visit func(file ir.RegKind, reg uint32, write bool)) {
	for at := range op.Regs {
		for _, r := range op.Regs[at][:op.Count[at]] {
			visit(ir.In32, r, at == ir.MatrixD)
		}
	}
}

// matrix compiles mma and wmma.mma.
func (e *emitter) matrix(pc int32, in *ir.Inst) {
	op := in.X.Matrix
	e.a.MI(x86.SUB, true, frameAt(offFuel), int32(tileFuel*op.Number))
	e.a.JumpIf(x86.Negative, e.aside(pc))
	m := &product{emitter: e, op: op, groups: op.K / (4 * op.A.PerRegister()), per: 2}
	if op.A == ir.ElementTF32 {
		m.per = 1
	}
	m.s = e.scratches(9)
	m.bad, m.s = m.s[8], m.s[:8]
	own := e.pinned()
	e.plain(&x86.PXORD, m.bad, m.bad, m.bad)
	for n := range op.Number {
		if n == 0 || op.StepA != 0 {
			m.gatherA(op.Regs[ir.MatrixA][n*op.StepA:], own)
		}
		if n == 0 || op.StepB != 0 {
			m.gatherB(op.Regs[ir.MatrixB][n*op.StepB:], own)
		}
		at := tileC + n*4*blockC
		m.gatherC(op.Regs[ir.MatrixC][n*op.StepC:], own, at)
		m.tile(at)
	}
	if !isWhole(op) {
		e.with(&x86.PANDD, m.bad, m.bad, word(0x80008000))
		e.a.VK(&x86.PTESTMD, k7, m.bad, m.bad, x86.Arg{})
		e.a.KK(&x86.KORTESTD, k7, 0, k7)
		e.a.JumpIf(x86.NotEqual, e.asideHelp(pc))
	}
	e.a.MI(x86.SUB, true, frameAt(offBudget), lane.MatrixCost)
	for r, reg := range op.Regs[ir.MatrixD][:op.Count[ir.MatrixD]] {
		at, i := tileC, r
		if op.StepD != 0 {
			at, i = tileC+r/op.StepD*4*blockC, r%op.StepD
		}
		z, _ := e.write(ir.In32, reg, false)
		for p := range 2 {
			e.a.VM(&x86.LOADD, z[p], 0, m.ofSum(at, op.D, i, p), x86.Arg{})
		}
		e.keepPinned(own)
	}
}

// ofSum is where part p of register i of c or d is.
func (m *product) ofSum(at int, element ir.Element, i, p int) x86.Mem {
	if element == ir.ElementF16 {
		return inArea(at+(2*i+p)*blockC, 0)
	}
	return inArea(at+(2*(i/2)+p)*blockC+i%2*64, 0)
}

// gatherA decodes a.
func (m *product) gatherA(regs []uint32, own uint32) {
	for r, reg := range regs[:2*m.groups] {
		v := *m.use(ir.In32, reg, false)
		for p := range 2 {
			m.check(v.part(p))
			for n := range m.per {
				m.decode(m.op.A, v.part(p), n)
				at := (2*(r%2)+p)*blockA + (r/2*m.per+n)*64
				m.a.VM(&x86.STORED, t0, 0, inArea(tileA+at, 0), x86.Arg{})
				if !isWhole(m.op) {
					m.a.VM(&x86.STORED, t1, 0, inArea(tilePower+at, 0), x86.Arg{})
				}
			}
		}
		m.keepPinned(own)
	}
}

// gatherB decodes b. Of a register, lane 4g+t has column g of row t: by three permutations, each of which takes one bit
// of the numbers of lanes, four columns of a row come to lie together.
func (m *product) gatherB(regs []uint32, own uint32) {
	x, y := m.s[:4], m.s[4:8]
	for r, reg := range regs[:m.groups] {
		v := *m.use(ir.In32, reg, false)
		for bit := range 2 {
			m.every2(x[2*r+bit], v.part(0), v.part(1), bit)
		}
		m.keepPinned(own)
	}
	for i := range 4 { // low bit of the row, then its high bit
		m.every2(y[i], x[i>>1], x[2*(m.groups-1)+i>>1], i&1)
	}
	for i := range 4 { // the high bit of the row, then that of the column
		m.every2(x[i], y[i>>1], y[2+i>>1], i&1)
	}
	for i := range 4 {
		m.check(x[i])
		for n := range m.per {
			m.decode(m.op.B, x[i], n)
			at := (2*i + n) * 64
			m.a.VM(&x86.STORED, t0, 0, inArea(tileB+at, 0), x86.Arg{})
			if !isWhole(m.op) {
				m.a.VM(&x86.STORED, t1, 0, inArea(tileBMax+at, 0), x86.Arg{})
			}
		}
	}
}

// row is where the elements of a row of b are of which n is that in a register; odd: of the odd columns.
func (m *product) row(from, group, t, n, odd int) x86.Mem {
	return inArea(from+(2*(t&2|odd)+n)*64+((t&1)*2+group)*16, 0)
}

// every2 takes every second lane of two vectors, from one on; d is neither of them.
func (e *emitter) every2(d, a, b x86.Z, from int) {
	if e.pairs {
		e.a.V(&x86.EVERY2, d, a, b, x86.Arg{Imm: uint8(from)})
		return
	}
	e.a.VM(&x86.LOADD, d, 0, constant(offEvery2+int32(64*from)), x86.Arg{})
	e.a.V(&x86.PERMI2D, d, a, b, x86.Arg{})
}

// gatherC puts c into the area.
func (m *product) gatherC(regs []uint32, own uint32, at int) {
	count := 4 / m.op.C.PerRegister()
	for i, reg := range regs[:count] {
		v := *m.use(ir.In32, reg, m.op.C == ir.ElementF32)
		for p := range 2 {
			z := v.part(p)
			switch m.op.C {
			case ir.ElementF16:
				m.checkF16(z)
			case ir.ElementF32:
				m.checkRange(z, leastSum, sumRange)
			}
			m.a.VM(&x86.STORED, z, 0, m.ofSum(at, m.op.C, i, p), x86.Arg{})
		}
		m.keepPinned(own)
	}
}

// tile computes the sums of a tile from c, which they replace. Rbx and rdx go from block to block of a and of c.
func (m *product) tile(at int) {
	a, next := &m.a, m.a.NewLabel()
	a.RR(x86.MOV, true, x86.RBX, x86.Area)
	a.RR(x86.MOV, true, x86.RDX, x86.Area)
	a.RI(x86.MOV, false, x86.RCX, 4)
	a.Bind(next)
	if isWhole(m.op) {
		m.wholeBlock(at)
	} else {
		m.floatBlock(at)
	}
	a.RI(x86.ADD, true, x86.RBX, blockA)
	a.RI(x86.ADD, true, x86.RDX, blockC)
	a.RI(x86.SUB, false, x86.RCX, 1)
	a.JumpIf(x86.NotEqual, next)
}

// products calls each with all products of a block: column k of a is in t0, and a row of b for even and odd columns in t1.
func (m *product) products(a, b int, each func(odd int)) {
	for group := range m.groups {
		for t := range 4 {
			for n := range m.per {
				from := x86.Mem{Base: x86.RBX, Disp: int32(a + (group*m.per+n)*64)}
				m.a.VM(&x86.PSHUFD, t0, 0, from, x86.Arg{Imm: uint8(0x55 * t)})
				for odd := range 2 {
					m.a.VM(&x86.BROADCASTX4, t1, 0, m.row(b, group, t, n, odd), x86.Arg{})
					each(odd)
				}
			}
		}
	}
}
