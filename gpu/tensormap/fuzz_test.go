package tensormap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// seeds are maps of every kind.
func seeds() []Map {
	return []Map{
		{Type: F32, Rank: 2, Base: 0x10000, Dim: [MaxRank]uint64{100, 60}, Stride: [MaxRank]uint64{4, 448}, Step: [MaxRank]uint32{1, 1}, Box: [MaxRank]uint32{32, 32}},
		{Type: U16, Rank: 5, Base: 0x10000, Dim: [MaxRank]uint64{64, 9, 8, 7, 1 << 32}, Stride: [MaxRank]uint64{2, 128, 1280, 16000, 1<<40 - 16},
			Step: [MaxRank]uint32{1, 2, 8, 3, 1}, Box: [MaxRank]uint32{16, 5, 3, 2, 4}, Swizzle: Swizzle64, Promotion: 3},
		{Type: F16, Rank: 4, Base: 0x20000, Dim: [MaxRank]uint64{37, 7, 6, 3}, Stride: [MaxRank]uint64{32, 1184, 8288, 49728}, Step: [MaxRank]uint32{2, 1, 1, 1},
			Box: [MaxRank]uint32{24, 3, 7, 2}, Interleave: Interleave32, Swizzle: Swizzle32, NaN: true},
		{Im2col: true, Type: BF16, Rank: 4, Base: 0x30000, Dim: [MaxRank]uint64{16, 9, 7, 3}, Stride: [MaxRank]uint64{2, 32, 288, 2016}, Step: [MaxRank]uint32{1, 2, 1, 1},
			Lower: [3]int32{-1, -2}, Upper: [3]int32{-1, 3}, Channels: 8, Pixels: 40},
	}
}

func TestEncodingKeepsAllFields(t *testing.T) {
	for _, m := range seeds() {
		require.NoError(t, m.Check())
		var b [Size]byte
		m.Encode(&b)
		var got Map
		require.NoError(t, got.Decode(&b))
		m.Stride[0] = got.Stride[0]
		require.Equal(t, m, got)
	}
}

// FuzzDescriptor walks over a box of any descriptor that Decode accepts, after a field was replaced: rows must be
// as many as the box has, lie side by side, and what is inside of the tensor must be so.
func FuzzDescriptor(f *testing.F) {
	for _, m := range seeds() {
		var b [Size]byte
		m.Encode(&b)
		f.Add(b[:], int64(0), uint64(0), uint8(FieldRank), uint64(1))
		f.Add(b[:], int64(-20), uint64(3), uint8(FieldBox)+16, uint64(0))
	}
	f.Add(make([]byte, Size), int64(1<<31-1), uint64(1<<63), uint8(FieldType), uint64(99))
	f.Fuzz(func(t *testing.T, raw []byte, at int64, offset uint64, field uint8, value uint64) {
		var b [Size]byte
		copy(b[:], raw)
		Replace(&b, Field(field&15), int(field>>4), value)
		var m Map
		if m.Decode(&b) != nil {
			return
		}
		walk(t, &m, int32(at), uint16(offset))
	})
}

// walk visits a box that begins at a coordinate of all dimensions.
func walk(t *testing.T, m *Map, at int32, offset uint16) {
	if m.BoxBytes() > 64*maxBytes || m.BoxBytes() == 0 || m.Room() < m.BoxBytes() {
		t.Fatalf("a box of %d bytes in %d: %+v", m.BoxBytes(), m.Room(), *m)
	}
	end, rows := uint64(0), uint64(0)
	visit := func(r *Row) {
		inside := r.Last > r.First
		if r.At != end || r.Last > r.Length || r.First > r.Last || r.Length*m.Unit() > RowBytes {
			t.Fatalf("row %+v of %+v", *r, *m)
		}
		if first := uint64(int64(at)) + r.First*r.Step; inside && (first >= m.Dim[0] || uint64(int64(at))+(r.Last-1)*r.Step >= m.Dim[0]) {
			t.Fatalf("row %+v at %d of %+v", *r, at, *m)
		}
		end, rows = end+m.RowPitch(), rows+1
	}
	var start [MaxRank]int32
	for n := range m.Rank {
		start[n] = at
	}
	if m.Im2col {
		m.PixelRows(&start, &[3]uint16{offset, offset, offset}, false, visit)
	} else {
		m.Tiles(&start, false, visit)
	}
	if end != m.Room() || rows > 4*maxBytes {
		t.Fatalf("%d rows up to %d of %d: %+v", rows, end, m.Room(), *m)
	}
	for line := uint64(0); line < 1024; line += 16 {
		if s := m.Swizzle.Swizzled(line); s/128 != line/128 || m.Swizzle.Swizzled(s) != line {
			t.Fatalf("chunk %d is swizzled to %d", line, s)
		}
	}
}
