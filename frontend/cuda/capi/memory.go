package capi

import "pvdrm/internal/progmem"

// Memory is the memory of the program.
type Memory = progmem.Memory

// hostRange is memory of the program from an address on, as io.ReaderAt and io.WriterAt.
type hostRange struct {
	mem  Memory
	addr uint64
}

func (h hostRange) ReadAt(p []byte, off int64) (int, error) {
	return len(p), h.mem.Read(p, h.addr+uint64(off))
}

func (h hostRange) WriteAt(p []byte, off int64) (int, error) {
	return len(p), h.mem.Write(h.addr+uint64(off), p)
}
