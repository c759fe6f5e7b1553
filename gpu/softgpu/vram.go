package softgpu

import (
	"fmt"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// vram is device memory. The host gives it a page when it is first touched,
// and gets it back when it is freed; both ways what is allocated reads as zero.
// Large allocations ask the host for large pages: a kernel that writes its result
// would wait for hundreds of small ones, one by one.
type vram struct {
	mem    []byte // begins at a multiple of largePage
	mapped []byte // around it
	*frames
}

func newVRAM(size uint64) (*vram, error) {
	mapped, err := unix.Mmap(-1, 0, int(size+largePage), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d MiB of address space for VRAM (choose a smaller size, or see ulimit -v and vm.overcommit_memory): %w", size>>20, err)
	}
	skip := -addressOf(mapped) % largePage
	return &vram{mem: mapped[skip : skip+size : skip+size], mapped: mapped, frames: newFrames(size)}, nil
}

// unmap gives all of it back. Preconditions: nothing uses it any more.
func (v *vram) unmap() error {
	if err := unix.Munmap(v.mapped); err != nil {
		return fmt.Errorf("release VRAM: %w", err)
	}
	v.mem, v.mapped = nil, nil
	return nil
}

// alloc takes size bytes, a multiple of 4 KiB. They read as zero.
func (v *vram) alloc(size uint64) ([]extent, error) {
	if ext := v.frames.alloc(size); ext != nil {
		for _, e := range ext {
			if first, end := (e.addr+largePage-1)&^(largePage-1), (e.addr+e.size)&^(largePage-1); first < end {
				// The host may have none: then it gives small pages.
				_ = unix.Madvise(v.mem[first:end], unix.MADV_HUGEPAGE)
			}
		}
		return ext, nil
	}
	return nil, v.full(size)
}

// allocContiguous takes size bytes, at most 2 MiB, in one piece.
func (v *vram) allocContiguous(size uint64) (uint64, error) {
	if addr, ok := v.frames.allocContiguous(size); ok {
		return addr, nil
	}
	return 0, v.full(size)
}

func (v *vram) full(size uint64) error {
	return fmt.Errorf("%w: %d bytes asked for, %d of %d in use", gpu.ErrNoMemory, size, v.used(), len(v.mem))
}

// free zeroes the extents and then lets others have them. Preconditions: no
// translation to them is in use.
func (v *vram) free(extents ...extent) {
	for _, e := range extents {
		mem := v.mem[e.addr : e.addr+e.size]
		if unix.Madvise(mem, unix.MADV_DONTNEED) != nil {
			clear(mem)
		}
		v.release(e)
	}
}

// bytes returns n bytes of VRAM, or nil if they are not all in it.
func (v *vram) bytes(addr, n uint64) []byte {
	size := uint64(len(v.mem))
	if addr > size || n > size-addr {
		return nil
	}
	return v.mem[addr : addr+n : addr+n]
}

// word reads a 64-bit word of a structure in VRAM. Addresses that are not
// aligned or not in VRAM read as zero.
func (v *vram) word(addr uint64) uint64 {
	if b := v.bytes(addr, 8); b != nil && addr%8 == 0 {
		return loadWord(b)
	}
	return 0
}

// setWord writes a 64-bit word of a structure in VRAM. Preconditions: addr is
// aligned and lies in VRAM.
func (v *vram) setWord(addr, value uint64) {
	storeWord(v.mem[addr:addr+8], value)
}

// reserve takes the first size bytes for good. Preconditions: nothing is
// allocated yet; size is a multiple of 4 KiB.
func (v *vram) reserve(size uint64) {
	for at := uint64(0); at < size; at += largePage {
		v.frames.allocContiguous(min(size-at, largePage))
	}
}
