package virtgpu

import "encoding/binary"

// pixelSize is the size of a pixel of any 2D format, in bytes.
const pixelSize = 4

// pixelFormat says at which byte of a pixel each colour lies.
type pixelFormat struct {
	name       string
	b, g, r, a int
	opaque     bool // the byte at a means nothing
}

// formats are the formats of 2D resources (virtio 1.2, section 5.7.6.8, enum
// virtio_gpu_formats). The names give the order of the bytes in memory.
var formats = map[uint32]pixelFormat{
	1:   {name: "B8G8R8A8", b: 0, g: 1, r: 2, a: 3},
	2:   {name: "B8G8R8X8", b: 0, g: 1, r: 2, a: 3, opaque: true},
	3:   {name: "A8R8G8B8", b: 3, g: 2, r: 1, a: 0},
	4:   {name: "X8R8G8B8", b: 3, g: 2, r: 1, a: 0, opaque: true},
	67:  {name: "R8G8B8A8", b: 2, g: 1, r: 0, a: 3},
	68:  {name: "X8B8G8R8", b: 1, g: 2, r: 3, a: 0, opaque: true},
	121: {name: "A8B8G8R8", b: 1, g: 2, r: 3, a: 0},
	134: {name: "R8G8B8X8", b: 2, g: 1, r: 0, a: 3, opaque: true},
}

// image is the host's copy of a 2D resource.
type image struct {
	width, height uint32
	format        pixelFormat
	pix           []byte // rows of width pixels without gaps
}

// row returns n pixels of row y from x on.
func (m *image) row(x, y, n uint32) []byte {
	start := (uint64(y)*uint64(m.width) + uint64(x)) * pixelSize
	return m.pix[start:][:uint64(n)*pixelSize]
}

// appendBGRX appends the pixels of r, row by row, in the order blue, green, red,
// alpha: what QEMU calls x8r8g8b8 and a8r8g8b8. Precondition: r lies in the image.
func (m *image) appendBGRX(dst []byte, r rect) []byte {
	f := m.format
	for y := r.y; y < r.y+r.h; y++ {
		src := m.row(r.x, y, r.w)
		if f.b == 0 && f.g == 1 && f.r == 2 {
			start := len(dst)
			dst = append(dst, src...)
			for i := start + 3; f.opaque && i < len(dst); i += pixelSize {
				dst[i] = 0xff
			}
			continue
		}
		for ; len(src) > 0; src = src[pixelSize:] {
			px := uint32(src[f.b]) | uint32(src[f.g])<<8 | uint32(src[f.r])<<16 | uint32(src[f.a])<<24
			if f.opaque {
				px |= 0xff << 24
			}
			dst = binary.LittleEndian.AppendUint32(dst, px)
		}
	}
	return dst
}
