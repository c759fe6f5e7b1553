//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Wmma.load and wmma.store of matrices that all lanes of a warp name alike, and that lie in one extent or in .shared: all that
// lies between the first and the last element is known to be there, so that no piece needs a look of its own. Pieces of a
// matrix's rows go between memory and the area, where they lie as registers have them.

// transferShape says how registers and pieces belong together.
type transferShape uint8

const (
	transferNone   transferShape = iota
	transferWords                // four lanes have the words of 16 bytes
	transferPairs                // four lanes have the elements of 32 bytes, two neighbours in two registers
	transferTurned               // lanes 4g+t have column g of rows 2t and 2t+1, which have eight elements of 16 bits each
)

// pieceRows is how many rows a register's pieces are of, and groupRegisters how many registers the area has room for.
const (
	pieceRows      = 8
	groupRegisters = 4
)

func transferElement(op *ir.MatrixOp) ir.Element {
	return [...]ir.Element{ir.MatrixA: op.A, ir.MatrixB: op.B, ir.MatrixC: op.C, ir.MatrixD: op.D}[op.Fragment]
}

// transferRegisters are the registers of wmma.load or wmma.store.
func transferRegisters(in *ir.Inst) []uint32 {
	op := in.X.Matrix
	return op.Regs[op.Fragment][:op.Count[op.Fragment]]
}

// shapeOfTransfer finds how a transfer is compiled, if it is.
func shapeOfTransfer(in *ir.Inst) transferShape {
	op, size := in.X.Matrix, uint64(transferElement(in.X.Matrix).Bits())/8
	regs := op.Places[:min(len(transferRegisters(in)), op.Distinct)]
	if in.Guard != 0 || in.Space != ir.SpaceShared && in.Space != ir.SpaceGlobal && in.Space != ir.SpaceGeneric || size == 0 || size > 4 {
		return transferNone
	}
	for _, p := range regs {
		if p.Across%pieceRows != 0 {
			return transferNone
		}
	}
	rows, apart := op.Down == ir.MatrixPlace{Across: 1}, op.Apart && size < 4
	switch {
	case !apart && rows && op.Right == ir.MatrixPlace{Along: 4 / size}:
		return transferWords
	case size == 4 && rows && op.Right == ir.MatrixPlace{Along: 2} && inPairs(regs):
		return transferPairs
	case apart && size == 2 && op.Down == ir.MatrixPlace{Along: 1} && op.Right == ir.MatrixPlace{Across: 2}:
		return transferTurned
	}
	return transferNone
}

// inPairs reports whether each second register has the elements behind those of the one before it.
func inPairs(places []ir.MatrixPlace) bool {
	for r := 0; r+1 < len(places); r += 2 {
		if places[r+1] != (ir.MatrixPlace{Along: places[r].Along + 1, Across: places[r].Across}) {
			return false
		}
	}
	return len(places)%2 == 0
}

// transfer is a wmma.load or wmma.store that is being compiled. The host's address of the matrix is in rax, and the distance of its
// rows in rcx.
type transfer struct {
	*memoryAccess
	op     *ir.MatrixOp
	shape  transferShape
	bytes  int // of an element
	regs   []uint32
	stored [8]value
	loaded [8][2]x86.Z
}

func (e *emitter) transfer(pc int32, in *ir.Inst) {
	op, code := in.X.Matrix, ir.OpLoadWide
	t := &transfer{op: op, shape: shapeOfTransfer(in), bytes: transferElement(op).Bits() / 8, regs: transferRegisters(in)}
	out := in.Op == ir.OpTransferOut
	if out {
		code = ir.OpStoreWide
	}
	t.memoryAccess = &memoryAccess{emitter: e, wide: true, size: 4, n: 2, file: ir.In32, whole: true, in: &ir.Inst{Op: code, Space: in.Space, Imm: in.Imm}}
	addr, pitch := *e.use(ir.In64, in.A, false), value{uniform: true}
	if op.Stride != ir.NoReg {
		pitch = *e.use(ir.In32, op.Stride, false)
	}
	for r, reg := range t.regs {
		if out {
			t.stored[r] = *e.use(ir.In32, reg, false)
		}
	}
	t.s = [4]x86.Z(e.scratches(4))
	t.off = [4]x86.Z{t0, t1, t2, t3}
	t.out = e.aside(pc)
	t.alike(&addr, &pitch)
	t.find(pc, addr.z[0], pitch.z[0])
	e.a.MI(x86.SUB, true, frameAt(offBudget), lane.TransferCost)
	n := min(len(t.regs), op.Distinct)
	for first := 0; first < n; first += groupRegisters {
		last := min(first+groupRegisters, n)
		if out {
			for r := first; r < last; r++ {
				t.toArea(r, areaRows+(r-first)*matrixBytes)
			}
		}
		for r := first; r < last; r++ {
			t.pieces(r, areaRows+(r-first)*matrixBytes, out)
		}
		for r := first; r < last && !out; r++ {
			t.fromArea(r, areaRows+(r-first)*matrixBytes)
		}
	}
	for r := n; r < len(t.regs) && !out; r++ { // these repeat the first ones
		z, _ := e.write(ir.In32, t.regs[r], false)
		for p := range 2 {
			e.copyTo(z[p], t.loaded[r%n][p])
		}
	}
}

// alike leaves where lanes name different matrices.
func (t *transfer) alike(addr, pitch *value) {
	if addr.uniform && pitch.uniform {
		return
	}
	a, differ := &t.emitter.a, t.s[1]
	a.V(&x86.PXORQ, differ, differ, differ, x86.Arg{})
	if !addr.uniform {
		a.V(&x86.BROADCASTQ, t.s[0], 0, addr.z[0], x86.Arg{})
		for p := range 4 {
			a.V(&x86.PTERNLOGQ, differ, t.s[0], addr.part(p), x86.Arg{Imm: orXor})
		}
	}
	if !pitch.uniform {
		a.V(&x86.BROADCASTD, t.s[0], 0, pitch.z[0], x86.Arg{})
		for p := range 2 {
			a.V(&x86.PTERNLOGD, differ, t.s[0], pitch.part(p), x86.Arg{Imm: orXor})
		}
	}
	a.VK(&x86.PTESTMD, k7, differ, differ, x86.Arg{})
	a.KK(&x86.KORTESTD, k7, 0, k7)
	a.JumpIf(x86.NotEqual, t.out)
}

// find has the host's address of the matrix in rax, and the distance of its rows in rcx, where what lies from its first
// element to its last one is all there, and words are aligned. Else it leaves.
func (t *transfer) find(pc int32, addr, pitch x86.Z) {
	a, other := &t.emitter.a, t.out
	global := t.in.Space != ir.SpaceShared
	if global {
		other = t.anotherPage(pc, &value{z: [4]x86.Z{addr}, uniform: true})
	}
	a.ToGP(&x86.TOGPQ, x86.RAX, addr)
	a.Imm64(x86.RDX, t.in.Imm)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	if t.op.Stride == ir.NoReg {
		a.RI(x86.MOV, false, x86.RCX, int32(t.op.Pitch))
	} else {
		a.ToGP(&x86.TOGPD, x86.RCX, pitch)
	}
	for range bits.Len(uint(t.bytes)) - 1 {
		a.RR(x86.ADD, true, x86.RCX, x86.RCX)
	}
	a.RR(x86.MOV, true, x86.RBX, x86.RAX)
	a.RR(x86.OR, true, x86.RBX, x86.RCX)
	a.RI(x86.AND, true, x86.RBX, 3)
	a.JumpIf(x86.NotEqual, t.out)
	along, across := t.op.Wide, t.op.Tall // as they lie in memory
	if t.op.Swap != t.op.Column {
		along, across = across, along
	}
	a.RR(x86.MOV, true, x86.RBX, x86.RCX)
	for range bits.Len(uint(across)) - 1 { // which is a power of two
		a.RR(x86.ADD, true, x86.RBX, x86.RBX)
	}
	a.RR(x86.SUB, true, x86.RBX, x86.RCX)
	a.RI(x86.ADD, true, x86.RBX, int32(along*t.bytes))
	if !global {
		t.inOwnShared(t.out)
		return
	}
	ready := a.NewLabel()
	if t.in.Space == ir.SpaceGeneric {
		outside := a.NewLabel()
		t.inOwnShared(outside)
		a.Jump(ready)
		a.Bind(outside)
	}
	site := t.site(pc)
	a.RM(x86.SUB, true, x86.RAX, plus(site, siteFrom))
	a.RM(x86.MOV, true, x86.RDX, plus(site, siteExtent))
	t.enough(other)
	a.RM(x86.ADD, true, x86.RAX, plus(site, siteHost))
	a.Bind(ready)
}

// inOwnShared makes the address in rax one of the host, if it is one of .shared, and else goes to a label. It leaves if the
// rbx bytes from there on are not inside.
func (t *transfer) inOwnShared(outside x86.Label) {
	a := &t.emitter.a
	a.RR(x86.MOV, true, x86.RDX, x86.RAX)
	if t.in.Space == ir.SpaceGeneric {
		a.RM(x86.SUB, true, x86.RDX, double(tlb.SharedBase))
	}
	a.RM(x86.SUB, true, x86.RDX, frameAt(offOwn))
	a.RM(x86.CMP, true, x86.RDX, frameAt(offLimits+8)) // how many bytes there are
	a.JumpIf(x86.AboveEqual, outside)
	a.RR(x86.MOV, true, x86.RAX, x86.RDX)
	a.RM(x86.MOV, true, x86.RDX, frameAt(offLimits+8))
	t.enough(t.out)
	a.RM(x86.ADD, true, x86.RAX, frameAt(offShared))
}

// enough goes to a label if there are less than rbx bytes from the offset in rax on, of the rdx that there are in all.
func (t *transfer) enough(less x86.Label) {
	a := &t.emitter.a
	a.RR(x86.SUB, true, x86.RDX, x86.RAX)
	a.JumpIf(x86.Below, less)
	a.RR(x86.CMP, true, x86.RDX, x86.RBX)
	a.JumpIf(x86.Below, less)
}

// pieces copies the pieces of register r, or of a pair, between memory and a place in the area.
func (t *transfer) pieces(r, at int, out bool) {
	a, place := &t.emitter.a, t.op.Places[r]
	each := 1
	if t.shape == transferPairs {
		if r%2 != 0 {
			return
		}
		each = 2
	}
	a.Lea(x86.RDX, x86.Place{Base: x86.RAX, Index: x86.RSP, Disp: int32(place.Along) * int32(t.bytes)})
	for range place.Across / pieceRows {
		a.Lea(x86.RDX, x86.Place{Base: x86.RDX, Index: x86.RCX, Shift: 3})
	}
	for row := range pieceRows {
		for k := range each {
			host, own := x86.Mem{Base: x86.RDX, Disp: int32(16 * k)}, x86.Mem{Base: x86.Area, Disp: int32(at + 16*(row*each+k))}
			if out {
				a.Copy(&x86.LOADX, &x86.STOREX, host, own, t0)
			} else {
				a.Copy(&x86.LOADX, &x86.STOREX, own, host, t0)
			}
		}
		if row+1 < pieceRows {
			a.RR(x86.ADD, true, x86.RDX, x86.RCX)
		}
	}
}

// fromArea loads register r. Of a pair the first one loads both.
func (t *transfer) fromArea(r, at int) {
	e := t.emitter
	if t.shape != transferPairs {
		z, _ := e.write(ir.In32, t.regs[r], false)
		t.loaded[r] = [2]x86.Z{z[0], z[1]}
		e.matrixFromArea(at, t.loaded[r], t.shape == transferTurned, t.s)
		return
	}
	if r%2 != 0 {
		return
	}
	for k := range 2 {
		t.dst[k], _ = e.write(ir.In32, t.regs[r+k], false)
		t.loaded[r+k] = [2]x86.Z(t.dst[k][:2])
	}
	for h := range 2 {
		t.loadHalf(h, func(i int) x86.Mem { return inArea(at, 2*h+i) })
	}
}

// toArea is the inverse.
func (t *transfer) toArea(r, at int) {
	if t.shape != transferPairs {
		t.matrixOut(at, &t.stored[r], t.shape == transferTurned)
		return
	}
	if r%2 != 0 {
		return
	}
	t.vals[0], t.vals[1] = t.stored[r], t.stored[r+1]
	for h := range 2 {
		t.storeHalf(h, func(i int) x86.Mem { return inArea(at, 2*h+i) })
	}
}
