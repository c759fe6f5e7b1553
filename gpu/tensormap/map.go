package tensormap

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Size and Align are those of a descriptor in memory.
const (
	Size  = 128
	Align = 64
)

// MaxRank is the most dimensions that a tensor has.
const MaxRank = 5

// MaxAddress is above the addresses of tensors.
const MaxAddress = 1 << 57

// RowBytes is the most that one row of a box takes in shared memory.
const RowBytes = 256 * 32

// Type is the type of a tensor's elements, with the numbers of CUtensorMapDataType.
type Type uint8

// Types.
const (
	U8 Type = iota
	U16
	U32
	S32
	U64
	S64
	F16
	F32
	F64
	BF16
	F32FTZ
	TF32
	TF32FTZ
	Types // how many there are
)

var typeSizes = [Types]uint8{U8: 1, U16: 2, U32: 4, S32: 4, U64: 8, S64: 8, F16: 2, F32: 4, F64: 8, BF16: 2, F32FTZ: 4, TF32: 4, TF32FTZ: 4}

// Size is the size of an element in bytes.
func (t Type) Size() uint64 { return uint64(typeSizes[t]) }

// Float reports whether elements are floating-point numbers.
func (t Type) Float() bool { return t >= F16 }

// Interleave is how channels lie in memory: all together, or in slices of 16 or 32 bytes.
type Interleave uint8

// Interleaves, with CUDA's numbers.
const (
	InterleaveNone Interleave = iota
	Interleave16
	Interleave32
	numInterleaves
)

// Unit is the bytes that one step along dimension 0 takes: an element, or a slice of channels.
func (m *Map) Unit() uint64 {
	switch m.Interleave {
	case Interleave16:
		return 16
	case Interleave32:
		return 32
	}
	return m.Type.Size()
}

// Swizzle is how chunks of 16 bytes change places in shared memory.
type Swizzle uint8

// Swizzles, with CUDA's numbers.
const (
	SwizzleNone Swizzle = iota
	Swizzle32
	Swizzle64
	Swizzle128
	numSwizzles
)

// span is the bytes of a row that a swizzle permutes.
func (s Swizzle) span() uint64 { return [...]uint64{0, 32, 64, 128}[s] }

// Map is a tensor map, decoded. Dimensions begin with the innermost one.
type Map struct {
	Im2col bool
	Type   Type
	Rank   int
	Base   uint64
	Dim    [MaxRank]uint64 // elements, 1 to 1<<32
	Stride [MaxRank]uint64 // bytes; that of dimension 0 is the size of an element
	Step   [MaxRank]uint32

	Box [MaxRank]uint32 // of a tiled map, in elements before steps

	Lower, Upper     [3]int32 // of an im2col map: corners of W, H, D, the upper from the last pixel
	Channels, Pixels uint32

	Interleave Interleave
	Swizzle    Swizzle
	Promotion  uint8
	NaN        bool // what lies outside reads as NaN, not 0
}

// Limits of the fields.
const (
	maxBox      = 256
	maxStep     = 8
	maxChannels = 256
	maxPixels   = 1024
	maxDim      = 1 << 32
	maxStride   = 1 << 40
	maxBytes    = 228 << 10 // of a box: the shared memory of an H100's multiprocessor
	promotions  = 4
)

// Places of the fields in a descriptor, in bytes. The encoding is this package's own: a
// program may copy and replace fields of a descriptor (Replace), but has no way to read one.
const (
	atKind, atType, atRank, atInterleave, atSwizzle, atPromotion, atFill = 0, 1, 2, 3, 4, 5, 6
	atBase, atDim, atStep, atEmpty, atBox, atCorners, atStride           = 8, 16, 36, 41, 44, 54, 72
)

// Encode writes the descriptor. Precondition: Check has returned nil.
func (m *Map) Encode(b *[Size]byte) {
	*b = [Size]byte{atType: byte(m.Type), atRank: byte(m.Rank - 1), atInterleave: byte(m.Interleave), atSwizzle: byte(m.Swizzle), atPromotion: m.Promotion}
	if m.NaN {
		b[atFill] = 1
	}
	le := binary.LittleEndian
	le.PutUint64(b[atBase:], m.Base)
	for n := range m.Rank {
		le.PutUint32(b[atDim+4*n:], uint32(m.Dim[n]-1))
		b[atStep+n] = byte(m.Step[n])
		if n > 0 {
			le.PutUint64(b[atStride+8*(n-1):], m.Stride[n])
		}
		if !m.Im2col {
			le.PutUint16(b[atBox+2*n:], uint16(m.Box[n]))
		}
	}
	if m.Im2col {
		b[atKind] = 1
		le.PutUint16(b[atBox:], uint16(m.Channels))
		le.PutUint16(b[atBox+2:], uint16(m.Pixels))
		for n := range m.Rank - 2 {
			le.PutUint16(b[atCorners+2*n:], uint16(m.Lower[n]))
			le.PutUint16(b[atCorners+6+2*n:], uint16(m.Upper[n]))
		}
	}
}

// ErrInvalid is the error of a descriptor that is none, and of bad parameters.
var ErrInvalid = errors.New("bad tensor map")

// ErrUnsupported is the error of maps that NVIDIA's GPUs have and this package does not.
var ErrUnsupported = errors.New("not supported here")

// ErrAlign is the error of a descriptor whose tensor is not aligned.
var ErrAlign = errors.New("bad tensor map")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Decode reads a descriptor and checks all of its fields. The bytes may be anything.
func (m *Map) Decode(b *[Size]byte) error {
	*m = Map{Im2col: b[atKind] == 1, Type: Type(b[atType]), Rank: int(b[atRank]) + 1, Interleave: Interleave(b[atInterleave]),
		Swizzle: Swizzle(b[atSwizzle]), Promotion: b[atPromotion], NaN: b[atFill] == 1}
	if b[atKind] > 1 || b[atFill] > 1 || b[atEmpty] != 0 {
		return invalid("neither a tiled nor an im2col map")
	}
	if m.Rank > MaxRank || m.Type >= Types {
		return invalid("rank %d, type %d", m.Rank, m.Type)
	}
	le := binary.LittleEndian
	m.Base = le.Uint64(b[atBase:])
	m.Stride[0] = m.Type.Size()
	for n := range m.Rank {
		m.Dim[n] = uint64(le.Uint32(b[atDim+4*n:])) + 1
		m.Step[n] = uint32(b[atStep+n])
		if n > 0 {
			m.Stride[n] = le.Uint64(b[atStride+8*(n-1):])
		}
		if !m.Im2col {
			m.Box[n] = uint32(le.Uint16(b[atBox+2*n:]))
		}
	}
	if m.Im2col {
		m.Channels, m.Pixels = uint32(le.Uint16(b[atBox:])), uint32(le.Uint16(b[atBox+2:]))
		for n := range min(max(m.Rank-2, 0), 3) {
			m.Lower[n] = int32(int16(le.Uint16(b[atCorners+2*n:])))
			m.Upper[n] = int32(int16(le.Uint16(b[atCorners+6+2*n:])))
		}
	}
	return m.Check()
}

// FillElement writes what an element outside of the tensor reads as.
func (m *Map) FillElement(b *[8]byte) {
	*b = [8]byte{}
	if !m.NaN {
		return
	}
	binary.LittleEndian.PutUint64(b[:], outsideNaN)
}

// outsideNaN is the NaN of f16 that fma.oob knows, four times; of other types it is read as such.
const outsideNaN = 0x7ff77ff77ff77ff7

// Convert makes of elements in global memory what a load writes to shared memory: TF32 is rounded to 10 bits
// of fraction, ties to even, with one NaN. The other types stay as they are, F32FTZ too.
func (t Type) Convert(elements []byte) {
	if t != TF32 && t != TF32FTZ {
		return
	}
	const drop, nan = 13, 0x7fffe000
	le := binary.LittleEndian
	for ; len(elements) >= 4; elements = elements[4:] {
		x := le.Uint32(elements)
		if x&0x7fffffff > 0x7f800000 {
			x = nan
		} else {
			x = (x + 1<<(drop-1) - 1 + x>>drop&1) &^ (1<<drop - 1)
		}
		le.PutUint32(elements, x)
	}
}
