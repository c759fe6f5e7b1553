package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// TransferCost is how many loop heads a transfer of a matrix counts as.
const TransferCost = 16

// matrixPlace is where the first element of register r of a lane lies in the matrix of a
// transfer, and whether its other elements follow in the same column.
func matrixPlace(op *ir.MatrixOp, e ir.Element, r, lane int) (row, col int, down bool) {
	g, t, half, per := lane>>2, lane&3, op.Rows/8, e.PerRegister()
	number := 0 // of the tile
	switch op.Fragment {
	case ir.MatrixA:
		n := op.K / (4 * per) * half
		number, r = r/n, r%n
		row, col = op.Rows*number+g+8*(r%half), r/half*4*per+t*per
	case ir.MatrixB:
		n := op.K / (4 * per)
		number, r = r/n, r%n
		row, col, down = r*4*per+t*per, 8*number+g, true
	default:
		perRow := 2 / per // registers
		number, r = r/(perRow*half), r%(perRow*half)
		row, col = g+8*(r/perRow), 2*t+r%perRow
		if op.Tall > op.Rows {
			row += op.Rows * number
		} else {
			col += 8 * number
		}
	}
	if op.Swap {
		return col, row, !down
	}
	return row, col, down
}

// distinct is how many registers of a transfer hold different elements; the others repeat
// them.
func distinct(op *ir.MatrixOp, e ir.Element) int {
	return max(op.Tall*op.Wide/(32*e.PerRegister()), 1)
}

// element is what the matrix of a transfer consists of.
func element(op *ir.MatrixOp) ir.Element {
	return [...]ir.Element{ir.MatrixA: op.A, ir.MatrixB: op.B, ir.MatrixC: op.C, ir.MatrixD: op.D}[op.Fragment]
}

// MatrixLoad is wmma.load.
func MatrixLoad(w *ir.Warp, in *ir.Inst) {
	op := in.X.Matrix
	e := element(op)
	regs, n := op.Regs[op.Fragment][:op.Count[op.Fragment]], distinct(op, e)
	w.Budget -= TransferCost
	if loadEven(w, in, e, regs, n) {
		return
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		base, pitch := matrixBase(w, in, lane)
		var words [8]uint64
		for r := range regs {
			if r < n {
				words[r] = loadMatrix(w, in.Space, op, e, lane, r, base, pitch)
			} else {
				words[r] = words[r%n]
			}
		}
		for r, reg := range regs {
			if e == ir.ElementF64 {
				w.R64[reg][lane] = words[r]
			} else {
				w.R32[reg][lane] = uint32(words[r])
			}
		}
	}
}

// MatrixStore is wmma.store.
func MatrixStore(w *ir.Warp, in *ir.Inst) {
	op := in.X.Matrix
	e := element(op)
	size := uint64(e.Bits()) / 8
	w.Budget -= TransferCost
	if storeEven(w, in, e, op.Regs[op.Fragment][:op.Count[op.Fragment]]) {
		return
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		base, pitch := matrixBase(w, in, lane)
		for r, reg := range op.Regs[op.Fragment][:op.Count[op.Fragment]] {
			x := operand(w, reg, max(size, 4), lane)
			at, apart := elementAddress(w, op, e, lane, r, base, pitch)
			for k := range uint64(e.PerRegister()) {
				storeLane(w, in.Space, lane, at+k*apart, size, size, x>>(8*size*k))
			}
		}
	}
}

// matrixBase is where the matrix of a transfer begins for a lane, and its leading dimension.
func matrixBase(w *ir.Warp, in *ir.Inst, lane int) (base, pitch uint64) {
	pitch = uint64(in.X.Matrix.Pitch)
	if r := in.X.Matrix.Stride; r != ir.NoReg {
		pitch = uint64(w.R32[r][lane])
	}
	return w.R64[in.A][lane] + in.Imm, pitch
}

// elementAddress is where the first element of a register lies, and how far its others are
// apart, in bytes.
func elementAddress(w *ir.Warp, op *ir.MatrixOp, e ir.Element, lane, r int, base, pitch uint64) (addr, apart uint64) {
	row, col, down := matrixPlace(op, e, r, lane)
	along, across := uint64(col), uint64(row)
	if op.Column {
		along, across = across, along
	}
	bits, at := uint64(e.Bits()), across*pitch+along
	if down == op.Column {
		pitch = 1
	}
	if bits < 8 && at*bits%8 != 0 {
		w.FailAddress(lane, gpu.LostAlign, base, false, "matrix with rows that begin inside of a byte")
	}
	return base + at*bits/8, pitch * bits / 8
}

// loadMatrix reads the elements of a register of a lane. Those that lie together are read as
// one word where it is aligned, or where they are smaller than bytes.
func loadMatrix(w *ir.Warp, s ir.Space, op *ir.MatrixOp, e ir.Element, lane, r int, base, pitch uint64) uint64 {
	at, apart := elementAddress(w, op, e, lane, r, base, pitch)
	size := uint64(e.Bits()) / 8
	switch {
	case size == 0 || apart == size && size < 4 && at%4 == 0:
		return loadLane(w, s, lane, at, 4, 4)
	case size >= 4:
		return loadLane(w, s, lane, at, size, size)
	}
	x := uint64(0)
	for k := range uint64(e.PerRegister()) {
		x |= loadLane(w, s, lane, at+k*apart, size, size) << (8 * size * k)
	}
	return x
}

// rowBytes is a row of the matrices of ldmatrix and stmatrix: 8 elements of 16 bits.
const rowBytes = 16

// rowAddress is the address of a row, which must lie in shared memory.
func rowAddress(w *ir.Warp, in *ir.Inst, lane int, write bool) uint64 {
	addr := w.R64[in.A][lane] + in.Imm
	if in.Space == ir.SpaceGeneric {
		s, at := ir.WindowOf(addr)
		if s != ir.SpaceCluster {
			w.FailAddress(lane, gpu.LostAddress, addr, write, "matrix outside of .shared")
		}
		return at
	}
	return addr
}

// LoadMatrix is ldmatrix: thread 8q+i has the address of row i of matrix q. Rows whose
// thread does not run are zeros.
func LoadMatrix(w *ir.Warp, in *ir.Inst) {
	op := in.X.Matrix
	w.Budget -= TransferCost
	if offsets, ok := ownRows(w, in, op.Count[ir.MatrixD]); ok {
		loadOwnRows(w, op, &offsets)
		return
	}
	var rows [32][4]uint32
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		if lane >= 8*op.Count[ir.MatrixD] {
			break
		}
		addr := rowAddress(w, in, lane, false)
		row := checkLane(w, ir.SpaceShared, lane, addr, rowBytes, rowBytes, false)
		for k := range rows[lane] {
			rows[lane][k] = uint32(loadBytes(row[4*k:], 4))
		}
	}
	for q, reg := range op.Regs[ir.MatrixD][:op.Count[ir.MatrixD]] {
		for m := w.Mask; m != 0; m &= m - 1 {
			lane := ir.FirstOf(m)
			w.R32[reg][lane] = fragmentOf((*[8][4]uint32)(rows[8*q:]), lane, op.Trans)
		}
	}
}

// fragmentOf is what a lane has of a matrix of 8×8 elements of 16 bits, or of its transpose.
func fragmentOf(rows *[8][4]uint32, lane int, trans bool) uint32 {
	g, t := lane>>2, lane&3
	if !trans {
		return rows[g][t]
	}
	shift := 16 * (g & 1)
	return rows[2*t][g>>1]>>shift&0xffff | rows[2*t+1][g>>1]>>shift<<16
}

// StoreMatrix is stmatrix. Elements of threads that do not run are zeros.
func StoreMatrix(w *ir.Warp, in *ir.Inst) {
	op := in.X.Matrix
	count := op.Count[ir.MatrixD]
	w.Budget -= TransferCost
	if offsets, ok := ownRows(w, in, count); ok {
		storeOwnRows(w, op, &offsets)
		return
	}
	var rows [32][4]uint32
	for q, reg := range op.Regs[ir.MatrixD][:count] {
		for m := w.Mask; m != 0; m &= m - 1 {
			lane := ir.FirstOf(m)
			spread((*[8][4]uint32)(rows[8*q:]), lane, w.R32[reg][lane], op.Trans)
		}
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		if lane >= 8*count {
			break
		}
		addr := rowAddress(w, in, lane, true)
		checkLane(w, ir.SpaceShared, lane, addr, rowBytes, rowBytes, true)
		for k, x := range rows[lane] {
			storeLane(w, ir.SpaceShared, lane, addr+4*uint64(k), 4, 4, uint64(x))
		}
	}
}

// spread puts what a lane has of a matrix, or of its transpose, into its rows.
func spread(rows *[8][4]uint32, lane int, x uint32, trans bool) {
	g, t := lane>>2, lane&3
	if !trans {
		rows[g][t] = x
		return
	}
	shift := 16 * (g & 1)
	rows[2*t][g>>1] |= x & 0xffff << shift
	rows[2*t+1][g>>1] |= x >> 16 << shift
}

// MoveMatrix is movmatrix: d is the transpose of a.
func MoveMatrix(w *ir.Warp, in *ir.Inst) {
	var rows [8][4]uint32
	for lane, x := range &w.R32[in.A] {
		spread(&rows, lane, x, false)
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		w.R32[in.D][lane] = fragmentOf(&rows, lane, true)
	}
}
