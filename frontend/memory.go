package frontend

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/hypercall"
)

func unmap(mem []byte) error { return os.NewSyscallError("munmap", unix.Munmap(mem)) }

// pageOf is the size to which objects of a domain are rounded up.
func (f *File) pageOf(d drm.Domain) (uint64, error) {
	switch d {
	case drm.DomainVRAM:
		return f.param[drm.ParamVRAMPage-1], nil
	case drm.DomainSystem:
		return max(f.param[drm.ParamSystemPage-1], pageBytes), nil
	}
	return 0, fmt.Errorf("domain %d: %w", d, syscall.EINVAL)
}

// GemNew is PVDRM_GEM_NEW.
func (f *File) GemNew(size uint64, d drm.Domain) (uint32, error) {
	page, err := f.pageOf(d)
	if err != nil {
		return 0, err
	}
	if size == 0 || size > 1<<46 {
		return 0, fmt.Errorf("object of %d bytes: %w", size, syscall.EINVAL)
	}
	o := &object{domain: d, size: (size + page - 1) &^ (page - 1)}
	if d == drm.DomainVRAM {
		return f.announce(o, hypercall.OpGemNew, func(h uint32) []byte {
			return hypercall.GemNew{Handle: h, Size: o.size}.Append(nil)
		})
	}
	if o.pages, err = f.link.carrier.Alloc(o.size); err != nil {
		return 0, err
	}
	return f.grant(o)
}

// grant makes a GEM object of granted pages, or gives them back.
func (f *File) grant(o *object) (uint32, error) {
	h, err := f.announce(o, hypercall.OpGemGrant, func(h uint32) []byte {
		return hypercall.GemGrant{Handle: h, Resource: o.pages.ID, Size: o.size}.Append(nil)
	})
	if err != nil {
		_ = f.link.carrier.Free(o.pages) // err is what to report
	}
	return h, err
}

// announce gives o a handle and tells the backend.
func (f *File) announce(o *object, op hypercall.Op, payload func(handle uint32) []byte) (uint32, error) {
	h, err := add(f, f.objects, o)
	if err != nil {
		return 0, err
	}
	if _, err := f.link.do(op, payload(h)); err != nil {
		_, _ = take(f, f.objects, h) // it is ours; err is what to report
		return 0, err
	}
	return h, nil
}

// GemMap returns the memory of a system-memory object.
func (f *File) GemMap(handle uint32) ([]byte, error) {
	o, err := get(f, f.objects, handle)
	if err != nil {
		return nil, err
	}
	if o.pages == nil {
		return nil, fmt.Errorf("object %d is in VRAM, copy it instead: %w", handle, syscall.ENXIO)
	}
	return o.pages.Mem[:o.size:o.size], nil
}

// GemSize is the size of an object, in bytes.
func (f *File) GemSize(handle uint32) (uint64, error) {
	o, err := get(f, f.objects, handle)
	if err != nil {
		return 0, err
	}
	return o.size, nil
}

// GemClose is DRM_IOCTL_GEM_CLOSE. An object of granted pages is closed at
// once, so that its pages are not given back while the device has them.
func (f *File) GemClose(handle uint32) error {
	o, err := take(f, f.objects, handle)
	if err != nil {
		return err
	}
	payload := hypercall.ID{ID: handle}.Append(nil)
	if o.pages == nil {
		return f.link.post(hypercall.OpGemClose, payload)
	}
	_, err = f.link.do(hypercall.OpGemClose, payload)
	return errors.Join(err, f.link.carrier.Free(o.pages))
}

// VMBind is PVDRM_VM_BIND.
func (f *File) VMBind(ops []drm.BindOp, async bool) error {
	for len(ops) > 0 {
		n := min(len(ops), maxBatch)
		m := hypercall.VMBind{Ops: make([]hypercall.BindOp, n)}
		for i, o := range ops[:n] {
			m.Ops[i] = hypercall.BindOp{Op: o.Op, Flags: o.Flags, Handle: o.Handle, Addr: o.Addr, Offset: o.BOOffset, Range: o.Range}
		}
		var err error
		if payload := m.Append(nil); async {
			err = f.link.post(hypercall.OpVMBind, payload)
		} else {
			_, err = f.link.do(hypercall.OpVMBind, payload)
		}
		if err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// PrimeExport is DRM_IOCTL_PRIME_HANDLE_TO_FD.
func (f *File) PrimeExport(handle uint32) (fd int, err error) {
	o, err := get(f, f.objects, handle)
	if err != nil {
		return -1, err
	}
	if o.pages == nil {
		return -1, fmt.Errorf("object %d is in VRAM, only system memory can be shared: %w", handle, syscall.EOPNOTSUPP)
	}
	return f.link.carrier.Export(o.pages)
}

// PrimeImport is DRM_IOCTL_PRIME_FD_TO_HANDLE. The descriptor stays the caller's.
func (f *File) PrimeImport(fd int) (uint32, error) {
	pages, err := f.link.carrier.Import(fd)
	if err != nil {
		return 0, err
	}
	return f.grant(&object{domain: drm.DomainSystem, size: uint64(len(pages.Mem)) &^ (pageBytes - 1), pages: pages})
}
