package ref

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/internal/cprintf"
)

// print is vprintf: it prints the arguments at args in the given format and
// returns how many there are.
func (t *thread) print(format, args uint64) uint64 {
	read := func(addr, size uint64) uint64 { return read(t.bytes(ptx.SpaceGeneric, addr, size, false)) }
	text, n := cprintf.Format(read, format, args)
	if t.b.launch.Print != nil {
		t.b.launch.Print(text)
	}
	return uint64(n)
}
