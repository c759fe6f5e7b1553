package cudatest

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// exported is the memory that descriptors of PrimeExport stand for. They may be of another GPU.
var exported sync.Map // int → []byte

// PrimeExport implements drm.Driver.
func (f *File) PrimeExport(handle uint32) (int, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("PrimeExport"); err != nil {
		return -1, err
	}
	o := f.objects[handle]
	if o == nil || o.domain != drm.DomainSystem {
		f.g.violation("PrimeExport of handle %d", handle)
		return -1, syscall.EOPNOTSUPP
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // any descriptor
	if err != nil {
		return -1, err
	}
	exported.Store(fd, o.data)
	return fd, nil
}

// PrimeImport implements drm.Driver.
func (f *File) PrimeImport(fd int) (uint32, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("PrimeImport"), f.live()); err != nil {
		return 0, err
	}
	data, ok := exported.LoadAndDelete(fd)
	if !ok {
		return 0, fmt.Errorf("descriptor %d is not PrimeExport's: %w", fd, syscall.EINVAL)
	}
	h := f.id()
	f.objects[h] = &object{of: f.g, data: data.([]byte), domain: drm.DomainSystem}
	return h, nil
}
