package texture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Size is what a descriptor takes, in bytes, and its alignment.
const Size = 128

// Shape is how many coordinates a texture or surface has.
type Shape uint8

// Shapes.
const (
	Shape1D Shape = 1 + iota
	Shape2D
	Shape3D
	ShapeCube // six layers, or, if layered, six for each layer
	// ShapeBuffer is memory without rows, which is fetched from by integers.
	ShapeBuffer
	numShapes
)

// Mode is what becomes of a coordinate outside the texture.
type Mode uint8

// Address modes, with CUDA's numbers.
const (
	Wrap Mode = iota
	Clamp
	Mirror
	Border
	numModes
)

// Descriptor is a texture or surface object.
type Descriptor struct {
	Surface  bool
	Shape    Shape
	Format   Format
	Channels uint8 // 1, 2 or 4
	Layered  bool

	// Of textures.
	Normalized bool    // coordinates go from 0 to 1
	Floats     bool    // integer channels are read as normalized numbers
	Linear     bool    // the filter; otherwise the nearest texel
	Address    [3]Mode // of x, y and z
	Border     [4]float32
	SRGB       bool // colours of bytes read as numbers are stored as sRGB has them
	Seamless   bool // a filter on a cube looks beyond the edges of a face; other shapes ignore it

	Width, Height, Depth uint32 // in texels; 1 for what the shape has not
	Layers               uint32 // 1 unless Layered; of layered cubes the cubes
	Base                 uint64
	Pitch                uint64 // bytes from one row to the next
	Slice                uint64 // and from one layer, face or slice in depth to the next

	// Of textures with mipmaps, whose levels lie one behind the other. Extents, pitch and
	// slice are those of the first level.
	Levels    uint32 // 0: a texture without mipmaps
	LinearMip bool   // the filter between levels; otherwise the nearest level
	Aniso     bool   // asks for an anisotropic filter where there are gradients
	Bias      float32
	MinLevel  float32
	MaxLevel  float32
	First     uint32 // the first slice of each level that is seen; 0 in three dimensions
	Total     uint32 // slices of each level in memory; 0 in three dimensions
}

// Limits of extents, in texels: those of NVIDIA's GPUs of compute capability 7.0 to 9.0.
const (
	MaxWidth    = 131072 // 1D and 2D
	MaxHeight   = 65536
	MaxExtent3D = 16384
	MaxLayered  = 32768 // width and height of layered textures, and of cubes
	MaxLayers   = 2048
	MaxMipmap   = 32768 // width and height with mipmaps
	MaxBuffer   = 1 << 28
)

// addressEnd is where GPU addresses end.
const addressEnd = 1 << 48

// Positions of the fields.
const (
	atMagic    = 0
	atShape    = 4
	atFormat   = 5
	atChannels = 6
	atAddress  = 8
	atFlags    = 12
	atBase     = 16
	atPitch    = 24
	atSlice    = 32
	atWidth    = 40
	atHeight   = 44
	atDepth    = 48
	atLayers   = 52
	atBorder   = 56
	atLevels   = 72
	atBias     = 76
	atMinLevel = 80
	atMaxLevel = 84
	atFirst    = 88
	atTotal    = 92
	atEnd      = 96 // what follows is zero
)

// maxAccess is the widest access of a surface, in bytes, to which its rows are aligned.
const maxAccess = 16

// magic is the first word of a descriptor; that of a surface has the next number.
const magic = 0x5056_5458

// Flags.
const (
	flagLayered = 1 << iota
	flagNormalized
	flagFloats
	flagLinear
	flagSRGB
	flagLinearMip
	flagAniso
	flagSeamless
	flagsEnd
)

// Encode writes the descriptor's bytes.
func (d *Descriptor) Encode(b *[Size]byte) {
	*b = [Size]byte{}
	le := binary.LittleEndian
	first, flags := uint32(magic), uint32(0)
	if d.Surface {
		first++
	}
	for bit, on := range [...]bool{d.Layered, d.Normalized, d.Floats, d.Linear, d.SRGB, d.LinearMip, d.Aniso, d.Seamless} {
		if on {
			flags |= 1 << bit
		}
	}
	le.PutUint32(b[atMagic:], first)
	b[atShape], b[atFormat], b[atChannels] = byte(d.Shape), byte(d.Format), d.Channels
	for n, m := range d.Address {
		b[atAddress+n] = byte(m)
	}
	le.PutUint32(b[atFlags:], flags)
	le.PutUint64(b[atBase:], d.Base)
	le.PutUint64(b[atPitch:], d.Pitch)
	le.PutUint64(b[atSlice:], d.Slice)
	le.PutUint32(b[atWidth:], d.Width)
	le.PutUint32(b[atHeight:], d.Height)
	le.PutUint32(b[atDepth:], d.Depth)
	le.PutUint32(b[atLayers:], d.Layers)
	for n, x := range d.Border {
		le.PutUint32(b[atBorder+4*n:], math.Float32bits(x))
	}
	le.PutUint32(b[atLevels:], d.Levels)
	le.PutUint32(b[atBias:], math.Float32bits(d.Bias))
	le.PutUint32(b[atMinLevel:], math.Float32bits(d.MinLevel))
	le.PutUint32(b[atMaxLevel:], math.Float32bits(d.MaxLevel))
	le.PutUint32(b[atFirst:], d.First)
	le.PutUint32(b[atTotal:], d.Total)
}

// ErrBad is the error of Decode and Check.
var ErrBad = errors.New("bad texture or surface descriptor")

// Decode reads a descriptor and checks it. The caller has copied the bytes: nothing else
// writes to them. After an error d holds nothing of use.
func (d *Descriptor) Decode(b *[Size]byte) error {
	le := binary.LittleEndian
	first, flags := le.Uint32(b[atMagic:]), le.Uint32(b[atFlags:])
	if first != magic && first != magic+1 {
		return fmt.Errorf("%w: no descriptor", ErrBad)
	}
	unused := b[7] | b[11]
	for _, x := range b[atEnd:] {
		unused |= x
	}
	if unused != 0 || flags >= flagsEnd {
		return fmt.Errorf("%w: unused bits are set", ErrBad)
	}
	*d = Descriptor{
		Surface: first != magic, Shape: Shape(b[atShape]), Format: Format(b[atFormat]), Channels: b[atChannels],
		Layered: flags&flagLayered != 0, Normalized: flags&flagNormalized != 0, Floats: flags&flagFloats != 0, Linear: flags&flagLinear != 0,
		Address: [3]Mode{Mode(b[atAddress]), Mode(b[atAddress+1]), Mode(b[atAddress+2])},
		Width:   le.Uint32(b[atWidth:]), Height: le.Uint32(b[atHeight:]), Depth: le.Uint32(b[atDepth:]), Layers: le.Uint32(b[atLayers:]),
		Base: le.Uint64(b[atBase:]), Pitch: le.Uint64(b[atPitch:]), Slice: le.Uint64(b[atSlice:]),
	}
	number := func(at int) float32 { return math.Float32frombits(le.Uint32(b[at:])) }
	for n := range d.Border {
		d.Border[n] = number(atBorder + 4*n)
	}
	d.SRGB, d.LinearMip, d.Aniso, d.Seamless = flags&flagSRGB != 0, flags&flagLinearMip != 0, flags&flagAniso != 0, flags&flagSeamless != 0
	d.Levels, d.First, d.Total = le.Uint32(b[atLevels:]), le.Uint32(b[atFirst:]), le.Uint32(b[atTotal:])
	d.Bias, d.MinLevel, d.MaxLevel = number(atBias), number(atMinLevel), number(atMaxLevel)
	return d.Check()
}

// Check reports what makes a descriptor unusable.
func (d *Descriptor) Check() error {
	if !d.Format.Valid() || d.Channels != 1 && d.Channels != 2 && d.Channels != 4 || d.Shape == 0 || d.Shape >= numShapes {
		return fmt.Errorf("%w: shape %d, format %d, %d channels", ErrBad, d.Shape, d.Format, d.Channels)
	}
	for _, m := range d.Address {
		if m >= numModes {
			return fmt.Errorf("%w: address mode %d", ErrBad, m)
		}
	}
	switch numbers := d.Format.Float() || d.Floats; {
	case d.Floats && !d.Format.Normalizes():
		return fmt.Errorf("%w: format %d has no normalized numbers", ErrBad, d.Format)
	case d.Linear && !numbers:
		return fmt.Errorf("%w: integers cannot be filtered", ErrBad)
	case d.LinearMip && !numbers:
		return fmt.Errorf("%w: integers cannot be filtered between levels", ErrBad)
	case d.SRGB && (d.Format != U8 || !d.Floats):
		return fmt.Errorf("%w: sRGB is for bytes that are read as numbers", ErrBad)
	case d.Surface && (d.Seamless || d.Normalized || d.Floats || d.Linear || d.Levels != 0 || d.Address != [3]Mode{} || d.Shape == ShapeBuffer):
		return fmt.Errorf("%w: a surface is not sampled", ErrBad)
	case d.Layered && (d.Shape == Shape3D || d.Shape == ShapeBuffer):
		return fmt.Errorf("%w: shape %d has no layers", ErrBad, d.Shape)
	}
	if err := d.checkExtents(); err != nil {
		return err
	}
	if err := d.checkStrides(); err != nil {
		return err
	}
	return d.checkLevels()
}

// checkExtents bounds the extents by what the shape has.
func (d *Descriptor) checkExtents() error {
	w, h, depth, layers := uint32(MaxWidth), uint32(1), uint32(1), uint32(1)
	switch d.Shape {
	case Shape2D:
		h = MaxHeight
	case Shape3D:
		w, h, depth = MaxExtent3D, MaxExtent3D, MaxExtent3D
	case ShapeCube:
		w, h = MaxLayered, MaxLayered
	case ShapeBuffer:
		w = MaxBuffer
	}
	if d.Layered {
		w, h, layers = min(w, MaxLayered), min(h, MaxLayered), MaxLayers
		if d.Shape == ShapeCube {
			layers /= faces
		}
	}
	if d.Width-1 >= w || d.Height-1 >= h || d.Depth-1 >= depth || d.Layers-1 >= layers { // 0 wraps around
		return fmt.Errorf("%w: %d by %d by %d texels, %d layers", ErrBad, d.Width, d.Height, d.Depth, d.Layers)
	}
	if d.Shape == ShapeCube && d.Width != d.Height {
		return fmt.Errorf("%w: a cube of %d by %d texels", ErrBad, d.Width, d.Height)
	}
	return nil
}

// checkStrides bounds all texels, and aligns them to their size.
func (d *Descriptor) checkStrides() error {
	row, size := d.rowBytes(), d.texelBytes()
	if d.Surface {
		size = maxAccess
	}
	if d.Pitch >= addressEnd || d.Slice >= addressEnd || (d.Base|d.Pitch|d.Slice)%size != 0 {
		return fmt.Errorf("%w: base 0x%x, pitch %d, slice %d", ErrBad, d.Base, d.Pitch, d.Slice)
	}
	rows, slices := uint64(d.Height), d.slices()
	switch {
	case rows > 1 && d.Pitch < row,
		d.Base >= addressEnd,
		rows > 1 && d.Pitch > addressEnd/rows, // so that no product below overflows
		slices > 1 && d.Slice > addressEnd/slices,
		slices > 1 && d.Slice < (rows-1)*d.Pitch+row,
		d.span() > addressEnd-d.Base:
		return fmt.Errorf("%w: texels at 0x%x, pitch %d, slice %d", ErrBad, d.Base, d.Pitch, d.Slice)
	}
	return nil
}

const faces = 6

// slices are how many pictures lie one behind the other.
func (d *Descriptor) slices() uint64 {
	n := uint64(d.Depth) * uint64(d.Layers)
	if d.Shape == ShapeCube {
		n *= faces
	}
	return n
}

func (d *Descriptor) texelBytes() uint64 { return uint64(d.Format.Size()) * uint64(d.Channels) }

func (d *Descriptor) rowBytes() uint64 { return uint64(d.Width) * d.texelBytes() }

// Bytes is how much memory the texels span from Base on. Precondition: Check accepts d.
func (d *Descriptor) Bytes() uint64 {
	if d.Levels != 0 {
		return d.offset(d.Levels)
	}
	return d.span()
}

// span is Bytes of one level.
func (d *Descriptor) span() uint64 {
	return (d.slices()-1)*d.Slice + (uint64(d.Height)-1)*d.Pitch + d.rowBytes()
}
