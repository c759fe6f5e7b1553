//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Ldmatrix, stmatrix and movmatrix, for warps of which all lanes run. A matrix of eight rows of 16 bytes is, row after row,
// what a register holds of it: four lanes have a row. Rows go one by one between .shared and the area.

// ofRows reports whether an operation is one of these.
func ofRows(op ir.Opcode) bool { return op == ir.OpRows || op == ir.OpRowsOut || op == ir.OpTurn }

// knownRows reports whether one is compiled.
func knownRows(in *ir.Inst) bool {
	return in.Guard == 0 && (in.Op == ir.OpTurn || in.Space == ir.SpaceShared || in.Space == ir.SpaceGeneric)
}

// matrixRegisters are the registers of ldmatrix or stmatrix.
func matrixRegisters(in *ir.Inst) []uint32 {
	op := in.X.Matrix
	return op.Regs[ir.MatrixD][:op.Count[ir.MatrixD]]
}

// matrixBytes is the size of a matrix.
const matrixBytes = 128

func (e *emitter) matrixRows(pc int32, in *ir.Inst) {
	if in.Op == ir.OpTurn {
		a := *e.use(ir.In32, in.A, false)
		s := [4]x86.Z(e.scratches(4))
		e.matrixToArea(areaRows, &a)
		z, _ := e.write(ir.In32, in.D, false)
		e.turned(areaRows, [2]x86.Z{z[0], z[1]}, s)
		return
	}
	regs, a := matrixRegisters(in), &e.a
	addr := *e.use(ir.In64, in.A, false)
	m := &memoryAccess{emitter: e, wide: true, size: 8, n: 2, in: &ir.Inst{Op: ir.OpLoadsWide, Space: ir.SpaceShared, Imm: in.Imm, Align: 15}}
	if in.Space == ir.SpaceGeneric {
		m.in.Imm -= tlb.SharedBase
	}
	var vals [4]value
	if in.Op == ir.OpRowsOut {
		for q, r := range regs {
			vals[q] = *e.use(ir.In32, r, false)
		}
	}
	m.s = [4]x86.Z(e.scratches(4))
	m.off = [4]x86.Z{t0, t1, t2, t3}
	m.out = e.aside(pc)
	a.RI(x86.MOV, false, x86.RAX, int32(uint32(1<<(8*len(regs))-1)))
	a.KFrom(k5, x86.RAX)
	e.mode = guarded
	m.insideShared(&addr, func(p int) x86.Arg { return x86.Arg{Mask: e.lanes(true, p), Zero: true} }, true)
	m.hostAddresses(areaAddrs)
	e.mode = allOfThem
	a.MI(x86.SUB, true, frameAt(offBudget), lane.TransferCost)
	if in.Op == ir.OpRowsOut {
		for q := range regs {
			m.matrixOut(areaRows+q*matrixBytes, &vals[q], in.X.Matrix.Trans)
		}
	}
	for i := range 8 * len(regs) {
		row, host := x86.Mem{Base: x86.Area, Disp: int32(areaRows + 16*i)}, x86.Mem{Base: x86.RDX}
		a.RM(x86.MOV, true, x86.RDX, x86.Mem{Base: x86.Area, Disp: int32(areaAddrs + 8*i)})
		if in.Op == ir.OpRowsOut {
			a.Copy(&x86.LOADX, &x86.STOREX, host, row, t0)
		} else {
			a.Copy(&x86.LOADX, &x86.STOREX, row, host, t0)
		}
	}
	if in.Op == ir.OpRows {
		for q, r := range regs {
			z, _ := e.write(ir.In32, r, false)
			e.matrixFromArea(areaRows+q*matrixBytes, [2]x86.Z{z[0], z[1]}, in.X.Matrix.Trans, m.s)
		}
	}
}

// matrixToArea writes what lanes have of a matrix.
func (e *emitter) matrixToArea(at int, v *value) {
	for p := range 2 {
		e.a.VM(&x86.STORED, v.part(p), 0, inArea(at, p), x86.Arg{})
	}
}

// matrixOut writes what lanes have of a matrix, or of its transpose, as rows.
func (m *memoryAccess) matrixOut(at int, v *value, trans bool) {
	m.emitter.matrixToArea(at, v)
	if trans {
		z := [2]x86.Z{t2, t3}
		m.turned(at, z, m.s)
		m.emitter.matrixToArea(at, &value{z: [4]x86.Z{z[0], z[1]}})
	}
}

// matrixFromArea loads what lanes have of a matrix of rows in the area, or of its transpose.
func (e *emitter) matrixFromArea(at int, z [2]x86.Z, trans bool, s [4]x86.Z) {
	if trans {
		e.turned(at, z, s)
		return
	}
	for p := range z {
		e.a.VM(&x86.LOADD, z[p], 0, inArea(at, p), x86.Arg{})
	}
}

// turned has in z what lanes have of the transpose of a matrix of 8×8 elements of 16 bits in the area: lane 4g+t has of
// column g the elements of rows 2t and 2t+1, one in a word of each row.
func (e *emitter) turned(at int, z [2]x86.Z, s [4]x86.Z) {
	a := &e.a
	for h := range 2 {
		a.VM(&x86.LOADD, s[2], 0, inArea(at, 0), x86.Arg{})
		for odd := range 2 {
			a.VM(&x86.LOADD, s[odd], 0, constant(offTurned+int32(64*(2*h+odd))), x86.Arg{})
			a.VM(&x86.PERMI2D, s[odd], s[2], inArea(at, 1), x86.Arg{})
			a.VM(&x86.PSRLVD, s[odd], s[odd], constant(offTurnedBy), x86.Arg{})
		}
		a.VB(&x86.PANDD, s[0], s[0], word(0xffff), x86.Arg{})
		a.V(&x86.PSLLD, s[1], 0, s[1], x86.Arg{Imm: 16})
		a.V(&x86.PORD, z[h], s[0], s[1], x86.Arg{})
	}
}
