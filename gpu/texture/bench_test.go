package texture

import (
	"encoding/binary"
	"testing"
)

// plain is memory without checks.
type plain []byte

func (p plain) Texels(b *Batch) {
	for n, addr := range b.Addr[:b.N] {
		switch b.Size {
		case 4:
			b.Data[n].Lo = uint64(binary.LittleEndian.Uint32(p[addr:]))
		case 8:
			b.Data[n].Lo = binary.LittleEndian.Uint64(p[addr:])
		case 16:
			b.Data[n] = Raw{Lo: binary.LittleEndian.Uint64(p[addr:]), Hi: binary.LittleEndian.Uint64(p[addr+8:])}
		default:
			b.Data[n].Lo = uint64(p[addr])
		}
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, c := range []struct {
		name string
		d    Descriptor
	}{
		{name: "nearest float", d: Descriptor{Format: F32, Channels: 1}},
		{name: "linear float", d: Descriptor{Format: F32, Channels: 1, Linear: true, Normalized: true}},
		{name: "linear bytes", d: Descriptor{Format: U8, Channels: 4, Floats: true, Linear: true, Normalized: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := c.d
			d.Shape, d.Width, d.Height, d.Depth, d.Layers = Shape2D, 64, 64, 1, 1
			n, err := d.Place()
			if err != nil {
				b.Fatal(err)
			}
			u := on(plain(make([]byte, n)))
			for i := 0; b.Loop(); i++ {
				u.Fetch(&d, Point{X: float32(i&63) / 2, Y: float32(i>>6&63) / 3})
			}
		})
	}
}
