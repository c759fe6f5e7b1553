package hostmem

import "encoding/binary"

// The conversions compile to nothing on a little-endian machine.

func toLE32(v uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return binary.LittleEndian.Uint32(b[:])
}

func toLE16(v uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], v)
	return binary.LittleEndian.Uint16(b[:])
}
