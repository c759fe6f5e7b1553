package host

import (
	"encoding/binary"
	"unsafe"

	"github.com/ebitengine/purego"

	"pvdrm/internal/cudalibs"
)

// call calls a function and returns what it returns.
func (v *invoker) call(fn uintptr, args []cudalibs.Argument) uint64 {
	put := func(i int, w uint64) { binary.LittleEndian.PutUint64(v.frame[8*i:], w) }
	ints, floats, spilled := 0, 0, 0
	for _, a := range args {
		switch {
		case a.Float:
			put(frameFloats+floats, a.Word) // a row has no more of them than registers
			floats++
		case ints < registers:
			put(frameInts+ints, a.Word)
			ints++
		default:
			put(frameSpilled+spilled, a.Word)
			spilled++
		}
	}
	base := addressOf(v.frame)
	put(frameFunction, uint64(fn))
	put(frameCount, uint64(spilled))
	put(frameStack, base+8*frameSpilled)
	purego.SyscallN(v.code, uintptr(base))
	return binary.LittleEndian.Uint64(v.frame[8*frameReturned:])
}

// addressOf is where b lies. B is memory that Go does not move or free, such as a mapping.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// textAt copies a C string that a library returned, up to most bytes.
func textAt(at uint64, most int) []byte {
	if at == 0 {
		return nil
	}
	text := make([]byte, 0, 64)
	for i := range uint64(most) {
		// A number that is no Go pointer becomes an address by way of a pointer to it.
		p := at + i
		c := **(**byte)(unsafe.Pointer(&p))
		if c == 0 {
			break
		}
		text = append(text, c)
	}
	return text
}
