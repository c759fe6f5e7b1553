package tensormap

import "fmt"

// Check reports whether the map is one that cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col
// make: each of their rules in turn.
func (m *Map) Check() error {
	switch {
	case m.Type >= Types:
		return invalid("unknown type of elements %d", m.Type)
	case m.Rank < 1 || m.Rank > MaxRank || m.Rank < 3 && (m.Im2col || m.Interleave != InterleaveNone):
		return invalid("rank %d", m.Rank)
	case m.Interleave >= numInterleaves || m.Swizzle >= numSwizzles || m.Promotion >= promotions:
		return invalid("interleave %d, swizzle %d, promotion %d", m.Interleave, m.Swizzle, m.Promotion)
	case m.NaN && !m.Type.Float():
		return invalid("NaN as the fill of integers")
	case m.Base >= MaxAddress:
		return invalid("address 0x%x", m.Base)
	case m.Base%m.grain() != 0:
		return fmt.Errorf("%w: address 0x%x is not aligned to %d", ErrAlign, m.Base, m.grain())
	}
	for n := range m.Rank {
		if err := m.checkDimension(n); err != nil {
			return err
		}
	}
	if m.Im2col {
		return m.checkPixels()
	}
	return m.checkBox()
}

// grain is what addresses and strides are multiples of.
func (m *Map) grain() uint64 {
	if m.Interleave == Interleave32 {
		return 32
	}
	return 16
}

// checkDimension checks extent, stride and step of a dimension.
func (m *Map) checkDimension(n int) error {
	switch s := m.Stride[n]; {
	case m.Dim[n] == 0 || m.Dim[n] > maxDim:
		return invalid("extent %d of dimension %d", m.Dim[n], n)
	case n > 0 && (s%m.grain() != 0 || s >= maxStride):
		return invalid("stride %d of dimension %d", s, n)
	case m.Step[n] == 0 || m.Step[n] > maxStep:
		return invalid("step %d of dimension %d", m.Step[n], n)
	}
	return nil
}

// checkRow checks the bytes of a row in shared memory.
func (m *Map) checkRow(elements uint32) error {
	bytes := uint64(elements) * m.Type.Size()
	switch {
	case bytes%16 != 0:
		return invalid("rows of %d bytes, want a multiple of 16", bytes)
	case m.Interleave != InterleaveNone:
	case m.Swizzle != SwizzleNone && bytes > m.Swizzle.span():
		return invalid("rows of %d bytes for a swizzle of %d", bytes, m.Swizzle.span())
	}
	return nil
}

func (m *Map) checkBox() error {
	bytes := m.Type.Size()
	for n := range m.Rank {
		if m.Box[n] == 0 || m.Box[n] > maxBox {
			return invalid("%d elements of dimension %d in a box", m.Box[n], n)
		}
		if count := m.Box[n] / m.Step[n]; n > 0 || m.Interleave != InterleaveNone {
			bytes *= uint64(max(count, 1)) // rounded down, though a copy rounds up
		} else {
			bytes *= uint64(m.Box[n])
		}
	}
	if bytes > maxBytes {
		return invalid("%d bytes in a box", bytes)
	}
	return m.checkRow(m.Box[0])
}

// corners are the limits of corners by the number of dimensions that have some.
var corners = [...]int32{1: 1 << 15, 2: 1 << 7, 3: 1 << 4}

func (m *Map) checkPixels() error {
	if m.Channels == 0 || m.Channels > maxChannels || m.Pixels == 0 || m.Pixels > maxPixels {
		return invalid("%d channels of %d pixels", m.Channels, m.Pixels)
	}
	axes := m.Rank - 2
	for n := range axes {
		limit, lower, upper := corners[axes], m.Lower[n], m.Upper[n]
		if lower < -limit || lower >= limit || upper < -limit || upper >= limit {
			return invalid("corners %d and %d of dimension %d", lower, upper, n+1)
		}
		if int64(m.Dim[n+1])+int64(upper)-int64(lower) <= 0 {
			return invalid("no pixels between corners %d and %d of dimension %d", lower, upper, n+1)
		}
	}
	if m.BoxBytes() > maxBytes {
		return invalid("%d bytes in a column", m.BoxBytes())
	}
	if err := m.checkRow(m.Channels); err != nil {
		return err
	}
	if m.Interleave != InterleaveNone {
		return fmt.Errorf("%w: pixels of interleaved tensors", ErrUnsupported)
	}
	return nil
}
