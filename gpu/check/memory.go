// Package check holds the checks of arguments that all devices make: sizes, ranges
// of addresses, shapes of transfers, geometry of launches. A device calls them
// before it looks at its own state. Every error wraps gpu.ErrInvalid.
package check

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/internal/hostmem"
)

// VRAM checks the size of an allocation.
func VRAM(p *gpu.Properties, size uint64) error {
	if size == 0 || size%p.VRAM.Page != 0 {
		return fmt.Errorf("%w: size %d is not a positive multiple of %d", gpu.ErrInvalid, size, p.VRAM.Page)
	}
	return nil
}

// System checks the runs of pages of an object in system memory.
func System(p *gpu.Properties, runs [][]byte) error {
	if len(runs) == 0 {
		return fmt.Errorf("%w: no pages", gpu.ErrInvalid)
	}
	page := p.System.Page
	for i, r := range runs {
		if len(r) == 0 || uint64(len(r))%page != 0 || !hostmem.Aligned(r, uintptr(page)) {
			return fmt.Errorf("%w: run %d of %d bytes is not made of whole pages of %d bytes", gpu.ErrInvalid, i, len(r), page)
		}
	}
	return nil
}

// Map checks the mapping of [off, off+n) of a memory of size bytes at va, in the
// window for memory of its kind.
func Map(w gpu.Window, size, va, off, n uint64, prot gpu.Prot) error {
	switch {
	case va%w.Page != 0 || off%w.Page != 0 || n%w.Page != 0 || n == 0:
		return fmt.Errorf("%w: address 0x%x, offset 0x%x and size 0x%x must be multiples of 0x%x, and the size positive",
			gpu.ErrInvalid, va, off, n, w.Page)
	case !w.Contains(va, n):
		return fmt.Errorf("%w: %d bytes at 0x%x do not lie in the window of 0x%x bytes at 0x%x", gpu.ErrInvalid, n, va, w.Size, w.Base)
	case off > size || n > size-off:
		return fmt.Errorf("%w: %d bytes at offset %d of a memory of %d", gpu.ErrInvalid, n, off, size)
	case prot != gpu.ProtRead && prot != gpu.ProtRead|gpu.ProtWrite:
		return fmt.Errorf("%w: rights %#x; pages can be read, or read and written", gpu.ErrInvalid, uint32(prot))
	}
	return nil
}

// Unmap checks that [va, va+n) consists of pages of one window.
func Unmap(p *gpu.Properties, va, n uint64) error {
	w := p.VRAM
	if !w.Contains(va, n) {
		w = p.System
	}
	switch {
	case !w.Contains(va, n):
		return fmt.Errorf("%w: %d bytes at 0x%x do not lie in one window", gpu.ErrInvalid, n, va)
	case va%w.Page != 0 || n%w.Page != 0 || n == 0:
		return fmt.Errorf("%w: address 0x%x and size 0x%x must be multiples of 0x%x, and the size positive", gpu.ErrInvalid, va, n, w.Page)
	}
	return nil
}
