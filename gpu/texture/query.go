package texture

// Query is what a program can ask about a texture or surface.
type Query uint8

// Queries.
const (
	QueryWidth Query = iota
	QueryHeight
	QueryDepth
	QueryChannelType // OpenCL's number
	QueryChannelOrder
	QueryNormalized
	QueryLayers
	QueryLevels
)

// channelTypes are OpenCL's numbers of channel types, which PTX has taken over.
var channelTypes = [numFormats]uint32{U8: 0x10da, U16: 0x10db, U32: 0x10dc, S8: 0x10d7, S16: 0x10d8, S32: 0x10d9, F16: 0x10dd, F32: 0x10de}

// normalTypes are those of integers that are read as normalized numbers.
var normalTypes = [numFormats]uint32{U8: 0x10d2, U16: 0x10d3, S8: 0x10d0, S16: 0x10d1}

// channelOrders are OpenCL's numbers by the number of channels.
var channelOrders = [5]uint32{1: 0x10b0, 2: 0x10b2, 4: 0x10b5}

// Answer returns what txq and suq answer about a level. What a texture does not have, and
// the extents of levels that there are not, is 0. Precondition: Check accepts d.
func (d *Descriptor) Answer(q Query, level uint32) uint32 {
	if level != 0 && level >= d.Levels {
		return 0
	}
	width, height, depth := d.extents(level)
	switch q {
	case QueryWidth:
		return width
	case QueryHeight:
		if d.Shape != ShapeBuffer {
			return height
		}
	case QueryDepth:
		switch {
		case d.Shape == Shape3D:
			return depth
		case d.Surface && d.Shape == ShapeCube:
			return d.Layers * faces
		case d.Layered:
			return d.Layers
		}
	case QueryChannelType:
		if d.Floats {
			return normalTypes[d.Format]
		}
		return channelTypes[d.Format]
	case QueryChannelOrder:
		return channelOrders[d.Channels]
	case QueryNormalized:
		if d.Normalized {
			return 1
		}
	case QueryLayers:
		if d.Layered {
			return d.Layers
		}
	case QueryLevels:
		return max(d.Levels, 1)
	}
	return 0
}

// Fits reports whether an instruction on a texture or surface of a shape may use d. Plain
// memory is a texture of one dimension, and the faces of a cube are the layers of a surface.
func (d *Descriptor) Fits(surface bool, s Shape, layered bool) bool {
	switch {
	case d.Surface != surface:
		return false
	case surface && d.Shape == ShapeCube:
		return s == Shape2D && layered
	case d.Shape == ShapeBuffer:
		return s == Shape1D && !layered
	}
	return d.Shape == s && d.Layered == layered
}
