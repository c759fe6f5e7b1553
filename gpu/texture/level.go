package texture

import (
	"fmt"
	"math"
	"math/bits"
)

// level is one picture of a texture with mipmaps, or the only one of another.
type level struct {
	base, pitch, slice   uint64
	width, height, depth uint32
}

// checkLevels bounds the levels, and all of their texels. The other checks have passed.
func (d *Descriptor) checkLevels() error {
	if d.Levels == 0 {
		if d.LinearMip || d.Aniso || math.Float32bits(d.Bias)|math.Float32bits(d.MinLevel)|math.Float32bits(d.MaxLevel)|d.First|d.Total != 0 {
			return fmt.Errorf("%w: levels of a texture without mipmaps", ErrBad)
		}
		return nil
	}
	placed := *d
	placed.stride()
	first, seen := uint64(d.First), d.slices()
	if d.Shape == Shape3D {
		seen = 0
	}
	switch {
	case d.Shape == ShapeBuffer, max(d.Width, d.Height) > MaxMipmap, d.Levels > d.MaxLevels(), d.Total > MaxLayers, first+seen > uint64(d.Total):
		return fmt.Errorf("%w: %d levels, %d slices of %d from %d on", ErrBad, d.Levels, seen, d.Total, first)
	case d.Pitch != placed.Pitch, d.Slice != placed.Slice, d.offset(d.Levels) > addressEnd-d.Base:
		return fmt.Errorf("%w: levels at 0x%x, pitch %d, slice %d", ErrBad, d.Base, d.Pitch, d.Slice)
	}
	return nil
}

// MaxLevels returns how many levels a texture of these extents can have.
func (d *Descriptor) MaxLevels() uint32 {
	return uint32(bits.Len32(max(d.Width, d.Height, d.Depth)))
}

// extents are those of level n.
func (d *Descriptor) extents(n uint32) (width, height, depth uint32) {
	return max(d.Width>>n, 1), max(d.Height>>n, 1), max(d.Depth>>n, 1)
}

// strides are those of level n.
func (d *Descriptor) strides(n uint32) (pitch, slice uint64) {
	width, height, _ := d.extents(n)
	pitch = (uint64(width)*d.texelBytes() + rowAlign - 1) &^ (rowAlign - 1)
	return pitch, pitch * uint64(height)
}

// offset is where level n begins, counted from Base.
func (d *Descriptor) offset(n uint32) (at uint64) {
	for k := range n {
		_, slice := d.strides(k)
		slices := uint64(d.Total)
		if d.Shape == Shape3D {
			_, _, depth := d.extents(k)
			slices = uint64(depth)
		}
		at = (at + slices*slice + ArrayAlign - 1) &^ (ArrayAlign - 1)
	}
	return at
}

// level returns level n. Precondition: Check accepts d, and n is one of its levels.
func (d *Descriptor) level(n uint32) level {
	if d.Levels == 0 {
		return level{base: d.Base, pitch: d.Pitch, slice: d.Slice, width: d.Width, height: d.Height, depth: d.Depth}
	}
	var l level
	l.width, l.height, l.depth = d.extents(n)
	l.pitch, l.slice = d.strides(n)
	l.base = d.Base + d.offset(n) + uint64(d.First)*l.slice
	return l
}

// Level returns level n as a texture or surface without mipmaps. Precondition: Check
// accepts d, which has mipmaps, and n is one of its levels.
func (d *Descriptor) Level(n uint32) Descriptor {
	l, one := d.level(n), *d
	one.Levels, one.LinearMip, one.Aniso, one.First, one.Total = 0, false, false, 0, 0
	one.Bias, one.MinLevel, one.MaxLevel = 0, 0, 0
	one.Base, one.Pitch, one.Slice = l.base, l.pitch, l.slice
	one.Width, one.Height, one.Depth = l.width, l.height, l.depth
	return one
}

// From leaves out the levels before n. Precondition: as Level's, and d begins with its
// array's first slice.
func (d *Descriptor) From(n uint32) {
	l := d.level(n)
	d.Base, d.Pitch, d.Slice = d.Base+d.offset(n), l.pitch, l.slice
	d.Width, d.Height, d.Depth = l.width, l.height, l.depth
	d.Levels -= n
}
