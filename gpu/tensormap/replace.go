package tensormap

import "encoding/binary"

// Field is what tensormap.replace changes.
type Field uint8

// Fields.
const (
	FieldAddress Field = iota
	FieldRank
	FieldBox
	FieldDim
	FieldStride
	FieldStep
	FieldType
	FieldInterleave
	FieldSwizzle
	FieldFill
)

// ptxTypes are the types by the numbers that tensormap.replace has for them.
var ptxTypes = [...]Type{U8, U16, U32, S32, U64, S64, F16, F32, F32FTZ, F64, BF16, TF32, TF32FTZ}

// bad is a value of a field that none has: a map with it is refused when it is used.
const bad = 0xff

// Replace changes a field of a descriptor; ord is the dimension where the field has one for each,
// beginning with that of the innermost but for strides, which begin with that of dimension 1. As on an
// H100, boxes and steps wrap around (an extent of 0 is 256, a step of 9 is 1), strides are cut to multiples
// of 16, and the rank is given less one. Of other values that no map has Decode makes an error.
func Replace(b *[Size]byte, f Field, ord int, value uint64) {
	le := binary.LittleEndian
	small := func(limit uint64) byte {
		if value >= limit {
			return bad
		}
		return byte(value)
	}
	switch f {
	case FieldAddress:
		le.PutUint64(b[atBase:], value)
	case FieldRank:
		b[atRank] = small(MaxRank)
	case FieldBox:
		if ord < MaxRank {
			le.PutUint16(b[atBox+2*ord:], uint16((value-1)&(maxBox-1)+1))
		}
	case FieldDim:
		if ord < MaxRank {
			le.PutUint32(b[atDim+4*ord:], uint32(value)-1)
			b[atEmpty] &^= 1 << ord
			if uint32(value) == 0 {
				b[atEmpty] |= 1 << ord
			}
		}
	case FieldStride:
		if ord < MaxRank-1 {
			le.PutUint64(b[atStride+8*ord:], value&^15)
		}
	case FieldStep:
		if ord < MaxRank {
			b[atStep+ord] = byte((value-1)&(maxStep-1) + 1)
		}
	case FieldType:
		b[atType] = bad
		if value < uint64(len(ptxTypes)) {
			b[atType] = byte(ptxTypes[value])
		}
	case FieldInterleave:
		b[atInterleave] = small(uint64(numInterleaves))
	case FieldSwizzle:
		b[atSwizzle] = small(uint64(numSwizzles))
	case FieldFill:
		b[atFill] = small(2)
	}
}
