package virtio

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend/carrier"
)

// MapAt is part of carrier.Carrier.
func (c *Carrier) MapAt(p *carrier.Pages, addr, size uint64) ([]byte, error) {
	if size > uint64(len(p.Mem)) {
		return nil, fmt.Errorf("%d bytes of %d: %w", size, len(p.Mem), unix.EINVAL)
	}
	where := &drm.VirtgpuMap{Handle: p.Handle}
	if err := Ioctl(c.fd, drm.IoctlVirtgpuMap, where); err != nil {
		return nil, fmt.Errorf("mapping %d granted bytes: %w", size, err)
	}
	at, err := carrier.Reserve(addr, size)
	if err != nil {
		return nil, err
	}
	// The new mapping replaces what was reserved for it.
	_, err = unix.MmapPtr(c.fd, int64(where.Offset), at, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		_ = unix.MunmapPtr(at, uintptr(size)) // err is what to report
		return nil, fmt.Errorf("mapping %d granted bytes at 0x%x: %w", size, addr, err)
	}
	// It is size bytes of memory that Go does not move or free.
	return unsafe.Slice((*byte)(at), size), nil
}
