package texture

import "math/bits"

// Bounds is what a surface access does outside of the surface.
type Bounds uint8

// What .trap, .clamp and .zero do.
const (
	Trap Bounds = iota // is a fault
	Edge               // takes the nearest element; in a row that is shorter, none
	Zero               // reads zeros, and writes nothing
)

// Place names bytes of a surface: X counts bytes, the others rows, slices and layers.
type Place struct {
	X, Y, Z int32
	Layer   uint32
}

// Element turns the number of an element in a row into its first byte, and returns the
// element's size. Numbers far outside stay outside.
func (d *Descriptor) Element(n int32) (x int32, size uint64) {
	size = d.texelBytes()
	far := int64(MaxWidth) * int64(size)
	return int32(min(max(int64(n)*int64(size), -far), far)), size
}

// Verdict is what an access of a surface may do.
type Verdict uint8

// Verdicts.
const (
	Access     Verdict = iota // the address is good
	Skip                      // read zeros, or write nothing
	OutOfRange                // fault: outside
	Misaligned                // fault: X is no multiple of the size
)

// Resolve returns where an access of size bytes to a surface goes. The layers of a cube
// are its faces. The address is a multiple of size. Precondition: Check accepts d, and size
// is 1, 2, 4, 8 or 16.
func (d *Descriptor) Resolve(p Place, size uint64, b Bounds) (addr uint64, v Verdict) {
	slices, slice := uint32(d.slices()), uint32(0)
	switch {
	case d.Shape == Shape3D:
		slice = uint32(p.Z)
	case d.Layered || d.Shape == ShapeCube:
		slice = p.Layer
	}
	y, height, row := int64(p.Y), int64(d.Height), int64(d.rowBytes())
	if d.Shape == Shape1D {
		y = 0
	}
	x := int64(p.X)
	if uint64(x)%size != 0 {
		return 0, Misaligned
	}
	if row < int64(size) { // no access of this size fits
		if b == Trap {
			return 0, OutOfRange
		}
		return 0, Skip
	}
	if x < 0 || x+int64(size) > row || y < 0 || y >= height || slice >= slices {
		switch b {
		case Trap:
			return 0, OutOfRange
		case Zero:
			return 0, Skip
		}
		x = min(max(x, 0), (row-int64(size))/int64(size)*int64(size))
		y = min(max(y, 0), height-1)
		if d.Shape == Shape3D && p.Z < 0 {
			slice = 0
		}
		slice = min(slice, slices-1)
	}
	return d.Base + uint64(slice)*d.Slice + uint64(y)*d.Pitch + uint64(x), Access
}

// ResolveLanes is Resolve for the lanes of a mask, on a picture without layers. It reports false, and
// nothing else, where some access needs more than its address. Precondition: as Resolve's.
func (d *Descriptor) ResolveLanes(x, y *[32]uint32, mask uint32, size uint64, addr *[32]uint64) bool {
	row := d.rowBytes()
	if d.Shape != Shape1D && d.Shape != Shape2D || d.Layered || row < size {
		return false
	}
	last := row - size
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		at, line := uint64(x[i]), uint32(0) // negative ones are large
		if d.Shape == Shape2D {
			line = y[i]
		}
		if at > last || at&(size-1) != 0 || line >= d.Height {
			return false
		}
		addr[i] = d.Base + uint64(line)*d.Pitch + at
	}
	return true
}
