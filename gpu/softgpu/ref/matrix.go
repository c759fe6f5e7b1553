package ref

import (
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// matrix holds the bits of the elements of a matrix of a warp.
type matrix struct {
	rows, cols int
	ty         ptx.Type
	bits       []uint64
}

func newMatrix(rows, cols int, ty ptx.Type) *matrix {
	return &matrix{rows: rows, cols: cols, ty: ty, bits: make([]uint64, rows*cols)}
}

func (m *matrix) at(row, col int) *uint64 { return &m.bits[row*m.cols+col] }

// extent is the number of rows and columns of a matrix of an instruction.
func extent(i *ptx.Instr, f ptx.Fragment) (rows, cols int) {
	m, n, k := i.Mods.Shape.Size()
	switch f {
	case ptx.FragmentA:
		if i.Mods.Sparse() {
			k /= 2
		}
		return m, k
	case ptx.FragmentB:
		return k, n
	}
	return m, n
}

// place says which element of a matrix value v of a lane is: of mma (section 9.7.13.5), by
// the formulas of each shape. Values are those of a lane's registers, from the lowest bits
// of the first on.
func place(i *ptx.Instr, f ptx.Fragment, lane, v int) (row, col int) {
	group, member := lane/4, lane%4
	shape := i.Mods.Shape
	m, _, k := shape.Size()
	if i.Op == ptx.OpWmma {
		return wmmaPlace(i, f, lane, v)
	}
	switch f {
	case ptx.FragmentA:
		return multiplicand(i.Element(f), m, k, group, member, v)
	case ptx.FragmentB: // as a of one row
		col, row = multiplicand(i.Element(f), 8, k, group, member, v)
		return row, col
	}
	if v >= 2 {
		group += 8
	}
	return group, 2*member + v%2
}

// multiplicand is where value v of a lane lies in a of so many rows and columns.
func multiplicand(ty ptx.Type, rows, cols, group, member, v int) (row, col int) {
	each := 1 // neighbours in a register
	switch ty {
	case ptx.F16, ptx.BF16:
		each = 2
	case ptx.S8, ptx.U8, ptx.E4M3, ptx.E5M2:
		each = 4
	case ptx.S4, ptx.U4:
		each = 8
	case ptx.B1:
		each = 32
	}
	row = group
	block := v / each
	if rows == 16 {
		if block%2 == 1 {
			row += 8
		}
		block /= 2
	}
	return row, block*4*each + member*each + v%each
}

// wmmaPlace is place for wmma, whose order PTX does not tell. NVIDIA's compiler makes mma
// of it, with 16 rows and 8 columns, or of the transposed matrices for 8 rows and 32 columns;
// the order follows from that.
func wmmaPlace(i *ptx.Instr, f ptx.Fragment, lane, v int) (row, col int) {
	group, member := lane/4, lane%4
	rows, cols := extent(i, f)
	shape, ty := i.Mods.Shape, i.Element(f)
	if f == ptx.FragmentA || f == ptx.FragmentB {
		v %= rows * cols / 32 // f16 has more registers than values
	}
	if shape == ptx.ShapeM8N32K16 {
		other := map[ptx.Fragment]ptx.Fragment{ptx.FragmentA: ptx.FragmentB, ptx.FragmentB: ptx.FragmentA, ptx.FragmentC: ptx.FragmentC, ptx.FragmentD: ptx.FragmentD}[f]
		col, row = wmmaTile(ptx.ShapeM32N8K16, ty, other, group, member, v)
		return row, col
	}
	return wmmaTile(shape, ty, f, group, member, v)
}

// wmmaTile is wmmaPlace for shapes that consist of tiles of 16 or 8 rows.
func wmmaTile(shape ptx.Shape, ty ptx.Type, f ptx.Fragment, group, member, v int) (row, col int) {
	m, n, k := shape.Size()
	height := min(m, 16)
	switch f {
	case ptx.FragmentA:
		perTile := height * k / 32
		row, col = multiplicand(ty, height, k, group, member, v%perTile)
		return row + v/perTile*16, col
	case ptx.FragmentB:
		perTile := k * 8 / 32
		col, row = multiplicand(ty, 8, k, group, member, v%perTile)
		return row, col + v/perTile*8
	}
	perTile := height * 8 / 32
	row, col = group, 2*member+v%2
	if v%perTile >= 2 {
		row += 8
	}
	if n > 8 {
		return row, col + v/perTile*8
	}
	return row + v/perTile*16, col
}

// values lists the values that a lane's registers hold, from the lowest bits on.
func (t *thread) matrixValues(o *ptx.Operand, register, ty ptx.Type) (list []uint64) {
	for _, e := range elements(o) {
		x, width := t.get(&e, register), ty.ElementBits()
		for at := 0; at < register.Bits(); at += width {
			list = append(list, x>>at&(1<<width-1))
		}
	}
	return list
}

// setMatrixValues is the opposite of matrixValues.
func (t *thread) setMatrixValues(o *ptx.Operand, register, ty ptx.Type, list []uint64) {
	width := ty.ElementBits()
	per := register.Bits() / width
	for n, e := range elements(o) {
		x := uint64(0)
		for k := range per {
			x |= list[n*per+k] << (k * width)
		}
		t.set(&e, x, register)
	}
}

// gatherMatrix reads the registers that hold a matrix.
func gatherMatrix(group []*thread, f ptx.Fragment, operand int) *matrix {
	i := group[0].wait
	rows, cols := extent(i, f)
	register, _ := i.Registers(f)
	m := newMatrix(rows, cols, i.Element(f))
	for _, t := range group {
		for v, x := range t.matrixValues(&t.wait.Args[operand], register, m.ty) {
			row, col := place(i, f, t.n%warpSize, v)
			*m.at(row, col) = x
		}
	}
	return m
}

// scatterMatrix writes d to its registers.
func scatterMatrix(group []*thread, d *matrix) {
	i := group[0].wait
	register, count := i.Registers(ptx.FragmentD)
	for _, t := range group {
		list := make([]uint64, count*register.Bits()/d.ty.ElementBits())
		for v := range list {
			row, col := place(i, ptx.FragmentD, t.n%warpSize, v)
			list[v] = *d.at(row, col)
		}
		t.setMatrixValues(&t.wait.Args[0], register, d.ty, list)
	}
}

// multiplyMatrices is mma and wmma.mma (9.7.13).
func multiplyMatrices(group []*thread) {
	i := group[0].wait
	if i.Op == ptx.OpMma && i.Mods.Shape == ptx.ShapeM8N8K4 && i.Element(ptx.FragmentA) == ptx.F16 {
		multiplyQuads(group)
		return
	}
	a, b := gatherMatrix(group, ptx.FragmentA, 1), gatherMatrix(group, ptx.FragmentB, 2)
	c := gatherMatrix(group, ptx.FragmentC, 3)
	if i.Mods.Sparse() {
		scatterMatrix(group, sparseProduct(group, a, b, c))
	} else {
		scatterMatrix(group, product(i, a, b, c))
	}
}

// multiplyQuads is mma.m8n8k4 of f16: four products, each of the quad of lanes 4q to 4q+3
// and of that 16 lanes above it (section 9.7.13, "Matrix Fragments for mma.m8n8k4").
func multiplyQuads(group []*thread) {
	i := group[0].wait
	for q := range 4 {
		m := map[ptx.Fragment]*matrix{}
		each := func(f ptx.Fragment, operand int, visit func(t *thread, n int, x *uint64)) {
			rows, cols := extent(i, f)
			if m[f] == nil {
				m[f] = newMatrix(rows, cols, i.Element(f))
			}
			for _, t := range group {
				if lane := t.n % warpSize; lane/4%4 == q {
					register, count := i.Registers(f)
					for n := range count * register.Bits() / m[f].ty.ElementBits() {
						row, col := quadElement(i, f, lane, n)
						visit(t, n, m[f].at(row, col))
					}
				}
			}
		}
		for operand, f := range map[int]ptx.Fragment{1: ptx.FragmentA, 2: ptx.FragmentB, 3: ptx.FragmentC} {
			register, _ := i.Registers(f)
			each(f, operand, func(t *thread, n int, x *uint64) {
				*x = t.matrixValues(&t.wait.Args[operand], register, i.Element(f))[n]
			})
		}
		d := product(i, m[ptx.FragmentA], m[ptx.FragmentB], m[ptx.FragmentC])
		m[ptx.FragmentD] = d
		defer func() { // other products may read the registers that this one writes
			register, count := i.Registers(ptx.FragmentD)
			lists := map[*thread][]uint64{}
			each(ptx.FragmentD, 0, func(t *thread, n int, x *uint64) {
				if lists[t] == nil {
					lists[t] = make([]uint64, count*register.Bits()/d.ty.ElementBits())
				}
				lists[t][n] = *x
			})
			for t, list := range lists {
				t.setMatrixValues(&t.wait.Args[0], register, d.ty, list)
			}
		}()
	}
}

// quadElement is the element of a matrix of mma.m8n8k4 that value n of a lane is.
func quadElement(i *ptx.Instr, f ptx.Fragment, lane, n int) (row, col int) {
	upper := lane / 16 * 4
	switch {
	case f == ptx.FragmentA && i.Mods.Layouts[0] == ptx.LayoutRow:
		return lane%4 + upper, n
	case f == ptx.FragmentA:
		return n + upper, lane % 4
	case f == ptx.FragmentB && i.Mods.Layouts[1] == ptx.LayoutRow:
		return lane % 4, n + upper
	case f == ptx.FragmentB:
		return n, lane%4 + upper
	case i.Element(f) == ptx.F16:
		return lane%4 + upper, n
	}
	return lane&1 + n&2 + upper, n&4 + lane&2 + n&1
}

// product is a·b + c.
func product(i *ptx.Instr, a, b, c *matrix) *matrix {
	d := newMatrix(c.rows, c.cols, i.Element(ptx.FragmentD))
	for row := range d.rows {
		for col := range d.cols {
			x, y := make([]uint64, a.cols), make([]uint64, a.cols)
			for k := range x {
				x[k], y[k] = *a.at(row, k), *b.at(k, col)
			}
			z := *c.at(row, col)
			switch {
			case a.ty == ptx.F64:
				*d.at(row, col) = sumDoubles(x, y, z)
			case a.ty == ptx.B1:
				*d.at(row, col) = commonBits(i.Mods.Bool, x, y, z)
			case d.ty == ptx.S32:
				*d.at(row, col) = integers(a.ty, b.ty, x, y, z, i.Mods.Has(ptx.SatFinite))
			default:
				*d.at(row, col) = floats(i, x, y, z)
			}
		}
	}
	return d
}

// sumDoubles adds products of f64 in the order of k, each with one rounding.
func sumDoubles(x, y []uint64, z uint64) uint64 {
	for k := range x {
		r := double.decode(x[k]).mul(double.decode(y[k])).add(double.decode(z), ptx.RN)
		if r.kind == notANumber {
			z = quiet(y[k], z, x[k])
		} else {
			z = double.encode(r, ptx.RN)
		}
	}
	return z
}

func commonBits(op ptx.Bool, x, y []uint64, z uint64) uint64 {
	for k := range x {
		if op == ptx.BoolAnd {
			z += x[k] & y[k]
		} else {
			z += x[k] ^ y[k]
		}
	}
	return z & (1<<32 - 1)
}

// integers adds products of integers to an s32, which wraps around or is clamped.
func integers(a, b ptx.Type, x, y []uint64, z uint64, clamp bool) uint64 {
	value := func(ty ptx.Type, x uint64) int64 {
		n := 64 - ty.ElementBits()
		if ty == ptx.S8 || ty == ptx.S4 {
			return int64(x<<n) >> n
		}
		return int64(x)
	}
	sum := int64(int32(z))
	for k := range x {
		sum += value(a, x[k]) * value(b, y[k])
	}
	if clamp {
		sum = min(max(sum, -1<<31), 1<<31-1)
	}
	return uint64(uint32(sum))
}

// transferMatrix is wmma.load and wmma.store (9.7.13): elements are read and written one
// after another, by the matrix and its leading dimension in memory.
func (t *thread) transferMatrix(i *ptx.Instr) {
	stores, f := i.Mods.Mode == ptx.ModeStore, i.Mods.Fragment
	value, address := &i.Args[0], &i.Args[1]
	if stores {
		value, address = address, value
	}
	rows, cols := extent(i, f)
	register, count := i.Registers(f)
	ty := i.Element(f)
	column := i.Mods.Layouts[0] == ptx.LayoutCol
	pitch := uint64(cols)
	if column {
		pitch = uint64(rows)
	}
	if len(i.Args) > 2 {
		pitch = t.get(&i.Args[2], ptx.U32)
	}
	s, base := t.address(i, address)
	width := uint64(ty.ElementBits())
	list := make([]uint64, count*register.Bits()/int(width))
	if stores {
		list = t.matrixValues(value, register, ty)
	}
	for v := range list {
		row, col := place(i, f, t.n%warpSize, v)
		n := uint64(row)*pitch + uint64(col)
		if column {
			n = uint64(col)*pitch + uint64(row)
		}
		if width >= 8 {
			m := t.bytes(s, base+n*width/8, width/8, stores)
			if stores {
				write(m, list[v])
			} else {
				list[v] = read(m)
			}
			continue
		}
		// Elements smaller than bytes come in words of 32 bits.
		per := 32 / width
		first := n - uint64(v)%per
		if first*width%8 != 0 {
			t.fail(gpu.LostAlign, "matrix with rows that begin inside of a byte")
		}
		list[v] = read(t.bytes(s, base+first*width/8, 4, false)) >> (uint64(v) % per * width) & (1<<width - 1)
	}
	if !stores {
		t.setMatrixValues(value, register, ty, list)
	}
}
