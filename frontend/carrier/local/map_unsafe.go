package local

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/carrier"
)

// MapAt is part of carrier.Carrier. The descriptor of the memory is closed already,
// but mremap of no bytes of a shared mapping makes another one of the same pages.
func (c *Carrier) MapAt(p *carrier.Pages, addr, size uint64) ([]byte, error) {
	if size > uint64(len(p.Mem)) {
		return nil, fmt.Errorf("%d bytes of %d: %w", size, len(p.Mem), unix.EINVAL)
	}
	at, err := carrier.Reserve(addr, size)
	if err != nil {
		return nil, err
	}
	// The old mapping is live, and the new one replaces what was reserved for it.
	_, err = unix.MremapPtr(unsafe.Pointer(unsafe.SliceData(p.Mem)), 0, at, uintptr(size), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if err != nil {
		_ = unix.MunmapPtr(at, uintptr(size)) // err is what to report
		return nil, fmt.Errorf("mapping %d granted bytes at 0x%x: %w", size, addr, err)
	}
	// It is size bytes of memory that Go does not move or free.
	return unsafe.Slice((*byte)(at), size), nil
}
