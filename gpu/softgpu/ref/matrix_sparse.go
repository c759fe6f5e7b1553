package ref

import "pvdrm/gpu/ptx"

// sparseProduct is mma.sp (9.7.13.5): of each row of a, half of the elements are there. Those of
// b that they meet follow from the metadata, row by row.
func sparseProduct(group []*thread, a, b, c *matrix) *matrix {
	i := group[0].wait
	d := newMatrix(c.rows, c.cols, i.Element(ptx.FragmentD))
	for row := range d.rows {
		rowOf := func(m *matrix) *matrix {
			return &matrix{rows: 1, cols: m.cols, ty: m.ty, bits: m.bits[row*m.cols:][:m.cols]}
		}
		met := newMatrix(a.cols, b.cols, b.ty)
		for k, place := range places(group, a.cols, row) {
			for col := range b.cols {
				*met.at(k, col) = *b.at(place, col)
			}
		}
		copy(d.bits[row*d.cols:], product(i, rowOf(a), met, rowOf(c)).bits)
	}
	return d
}

// places are the columns of the elements that a has of a row.
func places(group []*thread, count, row int) (list []int) {
	i := group[0].wait
	for chunk := 0; len(list) < count; chunk++ {
		bits := metadata(group, row, chunk)
		first, second := int(bits&3), int(bits>>2)
		switch i.Element(ptx.FragmentA) {
		case ptx.TF32: // halves of the two elements of a chunk
			list = append(list, 2*chunk+first/2)
		case ptx.S4, ptx.U4: // pairs
			list = append(list, 8*chunk+2*first, 8*chunk+2*first+1, 8*chunk+2*second, 8*chunk+2*second+1)
		default:
			list = append(list, 4*chunk+first, 4*chunk+second)
		}
	}
	return list
}

// metadata is the four bits that tell the places of the elements of a chunk.
func metadata(group []*thread, row, chunk int) uint64 {
	i := group[0].wait
	entry := 4 // of the operands
	if i.Op == ptx.OpWgmma {
		entry = 3
	}
	selector := int(i.Args[entry+1].Value)
	if i.Selectors() == 2 {
		selector *= 2 // it names a pair of threads
	}
	word := func(n int) uint64 {
		for _, t := range group {
			if t.n%warpSize == row%8*4+selector+n {
				return t.get(&t.wait.Args[entry], ptx.B32)
			}
		}
		return 0 // it has exited
	}
	if i.Element(ptx.FragmentA).ElementBits() <= 8 { // eight chunks of one row
		return word(chunk/8*2+row/8) >> (chunk % 8 * 4) & 15
	}
	return word(chunk/4) >> (row/8*16 + chunk%4*4) & 15 // four chunks of two rows
}
