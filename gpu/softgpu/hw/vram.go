package hw

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// VRAM is device memory. The host gives it a page when it is first touched, and gets it back
// when it is zeroed: either way it reads as zero.
type VRAM struct {
	mem    []byte // begins at a multiple of LargePage
	mapped []byte // around it
}

// NewVRAM makes device memory of a size, a multiple of LargePage.
func NewVRAM(size uint64) (*VRAM, error) {
	mapped, err := unix.Mmap(-1, 0, int(size+LargePage), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d MiB of address space for VRAM (choose a smaller size, or see ulimit -v and vm.overcommit_memory): %w", size>>20, err)
	}
	skip := -addressOf(mapped) % LargePage
	return &VRAM{mem: mapped[skip : skip+size : skip+size], mapped: mapped}, nil
}

// Unmap gives all of it back. Preconditions: nothing uses it any more.
func (v *VRAM) Unmap() error {
	if err := unix.Munmap(v.mapped); err != nil {
		return fmt.Errorf("release VRAM: %w", err)
	}
	v.mem, v.mapped = nil, nil
	return nil
}

// Size returns the number of bytes.
func (v *VRAM) Size() uint64 { return uint64(len(v.mem)) }

// Whole asks the host for large pages: a kernel that writes its result would wait for hundreds
// of small ones, one by one. Preconditions: the range lies in VRAM.
func (v *VRAM) Whole(addr, n uint64) {
	if first, end := (addr+LargePage-1)&^(LargePage-1), (addr+n)&^(LargePage-1); first < end {
		// The host may have none: then it gives small pages.
		_ = unix.Madvise(v.mem[first:end], unix.MADV_HUGEPAGE)
	}
}

// populateBytes bounds what Populate asks for: some hundred microseconds for the host.
const populateBytes = 512 << 10

// Populate has the host give all pages of a small range now: the first kernel that writes there would wait for
// them one by one, which takes several times as long. Preconditions: the range lies in VRAM and consists of pages.
func (v *VRAM) Populate(addr, n uint64) {
	if n <= populateBytes {
		// Linux before 5.14 knows nothing of it: then the host gives them as they are touched.
		_ = unix.Madvise(v.mem[addr:addr+n], unix.MADV_POPULATE_WRITE)
	}
}

// Zero zeroes a range. Preconditions: it lies in VRAM and consists of pages; no translation to
// it is in use.
func (v *VRAM) Zero(addr, n uint64) {
	mem := v.mem[addr : addr+n]
	if unix.Madvise(mem, unix.MADV_DONTNEED) != nil {
		clear(mem)
	}
}

// Bytes returns n bytes of VRAM, or nil if they are not all in it.
func (v *VRAM) Bytes(addr, n uint64) []byte {
	size := uint64(len(v.mem))
	if addr > size || n > size-addr {
		return nil
	}
	return v.mem[addr : addr+n : addr+n]
}

// Word reads a 64-bit word of a structure in VRAM. Addresses that are not aligned or not in
// VRAM read as zero.
func (v *VRAM) Word(addr uint64) uint64 {
	if b := v.Bytes(addr, 8); b != nil && addr%8 == 0 {
		return LoadWord(b)
	}
	return 0
}

// SetWord writes a 64-bit word of a structure in VRAM. Preconditions: addr is aligned and lies
// in VRAM.
func (v *VRAM) SetWord(addr, value uint64) {
	StoreWord(v.mem[addr:addr+8], value)
}
