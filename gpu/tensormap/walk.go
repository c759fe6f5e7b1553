package tensormap

// Row is a part of a box whose elements lie side by side in shared memory.
type Row struct {
	At     uint64 // where it begins in the box, in bytes, before the swizzle
	Addr   uint64 // of its first element in global memory, if that lay inside
	Length uint64 // units of dimension 0, see Map.Unit
	Step   uint64 // from one of them to the next in global memory, in units
	// Units of [First, Last) lie inside of the tensor; First == Last where none does.
	First, Last uint64
}

// Count is how many elements a box has along a dimension.
func (m *Map) Count(n int) uint64 {
	switch {
	case n == 0 && m.Interleave == InterleaveNone:
		return uint64(m.Box[0])
	case n == m.Rank-2 && m.Interleave != InterleaveNone:
		return 1 // slice of channels, whatever the box says
	}
	return (uint64(m.Box[n]) + uint64(m.Step[n]) - 1) / uint64(m.Step[n])
}

// BoxBytes is how many bytes a copy of a box counts at an mbarrier.
func (m *Map) BoxBytes() uint64 {
	if m.Im2col {
		return m.Type.Size() * uint64(m.Channels) * uint64(m.Pixels)
	}
	n := m.Unit()
	for d := range m.Rank {
		n *= m.Count(d)
	}
	return n
}

// RowPitch is how far apart rows of a box lie in shared memory: with a swizzle they take its whole span.
func (m *Map) RowPitch() uint64 {
	bytes := m.Count(0) * m.Unit()
	if m.Im2col {
		bytes = uint64(m.Channels) * m.Type.Size()
	}
	if m.Interleave == InterleaveNone {
		return max(bytes, m.Swizzle.span())
	}
	return bytes
}

// Room is how much shared memory a box takes.
func (m *Map) Room() uint64 {
	row := m.Count(0) * m.Unit()
	if m.Im2col {
		row = uint64(m.Channels) * m.Type.Size()
	}
	return m.BoxBytes() / row * m.RowPitch()
}

// inside cuts the row at coordinate c of dimension 0 to what lies inside of an extent.
func inside(r *Row, c, extent int64) {
	step := int64(r.Step)
	first, last := (max(-c, 0)+step-1)/step, min((extent-c+step-1)/step, int64(r.Length))
	if first < last {
		r.First, r.Last = uint64(first), uint64(last)
	}
}

// extent returns how far dimension 0 goes, in elements. Writes end with a chunk of 16 bytes, not with an element.
func (m *Map) extent(writes bool) int64 {
	if chunk := 16 / m.Type.Size(); writes && m.Interleave == InterleaveNone {
		return int64((m.Dim[0] + chunk - 1) / chunk * chunk)
	}
	return int64(m.Dim[0])
}

// CheckStart reports where a copy must not begin: between 16 bytes; a column of pixels outside of the
// corners; and what is written in front of the tensor.
func (m *Map) CheckStart(at *[MaxRank]int32, writes bool) error {
	if m.Interleave == InterleaveNone && uint64(int64(at[0]))*m.Type.Size()%16 != 0 {
		return invalid("a box at %d, which is not aligned to 16 bytes", at[0])
	}
	for n, c := range at[:m.Rank] {
		if writes && c < 0 {
			return invalid("writes at %d in dimension %d", c, n)
		}
		if k := n - 1; m.Im2col && n > 0 && n < m.Rank-1 && (c < m.Lower[k] || int64(c) >= int64(m.Dim[n])+int64(m.Upper[k])) {
			return invalid("a column at %d in dimension %d, outside of its corners", c, n)
		}
	}
	return nil
}

// Swizzled is where an address of a box lies after the swizzle: among eight rows of 128 bytes
// chunks of 16 bytes change places.
func (s Swizzle) Swizzled(addr uint64) uint64 {
	if s == SwizzleNone {
		return addr
	}
	return addr ^ addr>>3&(s.span()-16)
}

// Tiles calls visit for each row of the box at a coordinate, which is read or written.
func (m *Map) Tiles(at *[MaxRank]int32, writes bool, visit func(*Row)) {
	row := Row{Length: m.Count(0), Step: 1}
	if m.Interleave != InterleaveNone {
		row.Step = uint64(m.Step[0])
	}
	bytes := m.RowPitch()
	var index [MaxRank]uint64
	extent := m.extent(writes)
	for {
		in, addr := true, m.Base+uint64(int64(at[0]))*m.Unit()
		for n := 1; n < m.Rank; n++ {
			c := int64(at[n]) + int64(index[n]*uint64(m.Step[n]))
			in = in && c >= 0 && uint64(c) < m.Dim[n]
			addr += uint64(c) * m.Stride[n]
		}
		row.Addr, row.First, row.Last = addr, 0, 0
		if in {
			inside(&row, int64(at[0]), extent)
		}
		visit(&row)
		row.At += bytes
		n := 1
		for ; n < m.Rank; n++ {
			if index[n]++; index[n] < m.Count(n) {
				break
			}
			index[n] = 0
		}
		if n >= m.Rank {
			return
		}
	}
}

// PixelRows calls visit for the channels of each pixel of a column: from a coordinate on, along W,
// then H, D and N, within the corners. The offsets are added to where each pixel is read.
func (m *Map) PixelRows(at *[MaxRank]int32, offsets *[3]uint16, writes bool, visit func(*Row)) {
	row := Row{Length: uint64(m.Channels), Step: 1}
	bytes, last := m.RowPitch(), m.Rank-1
	var c [MaxRank]int64
	extent := m.extent(writes)
	for n := range m.Rank {
		c[n] = int64(at[n])
	}
	for range m.Pixels {
		in, addr := true, m.Base+uint64(c[0])*m.Type.Size()
		for n := 1; n <= last; n++ {
			x := c[n]
			if n < last {
				x += int64(offsets[n-1])
			}
			in = in && x >= 0 && uint64(x) < m.Dim[n]
			addr += uint64(x) * m.Stride[n]
		}
		row.Addr, row.First, row.Last = addr, 0, 0
		if in {
			inside(&row, c[0], extent)
		}
		visit(&row)
		row.At += bytes
		for n := 1; n <= last; n++ {
			c[n] += int64(m.Step[n])
			if n == last || c[n] < int64(m.Dim[n])+int64(m.Upper[n-1]) {
				break
			}
			c[n] = int64(m.Lower[n-1])
		}
	}
}
