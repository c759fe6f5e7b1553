package frontend

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend/carrier"
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
func (f *File) GemNew(size uint64, d drm.Domain, flags drm.GemFlags) (uint32, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	page, err := f.pageOf(d)
	if err != nil {
		return 0, err
	}
	if size == 0 || size > 1<<46 || flags&^(drm.GemNoShare|drm.GemDirty) != 0 {
		return 0, fmt.Errorf("object of %d bytes, flags 0x%x: %w", size, flags, syscall.EINVAL)
	}
	o := &object{Domain: d, Size: (size + page - 1) &^ (page - 1)}
	if d == drm.DomainVRAM {
		return f.announce(o, hypercall.OpGemNew, func(h uint32) []byte {
			return hypercall.GemNew{Handle: h, Size: o.Size}.Append(nil)
		})
	}
	if flags&drm.GemNoShare != 0 && f.fromSlab(o) {
		if flags&drm.GemDirty == 0 {
			clear(memory(o))
		}
		return f.grant(o)
	}
	if handle, old, ok := f.fromPool(o.Size); ok {
		if flags&drm.GemDirty == 0 {
			clear(memory(old))
		}
		return handle, nil
	}
	o.Pages, err = f.link.carrier.Alloc(o.Size)
	if err != nil && f.drain(0) { // what lies in the pool may be what is missing
		o.Pages, err = f.link.carrier.Alloc(o.Size)
	}
	if err != nil {
		return 0, err
	}
	return f.grant(o)
}

// grant makes a GEM object of granted pages, or gives them back.
func (f *File) grant(o *object) (uint32, error) {
	h, err := f.announce(o, hypercall.OpGemGrant, func(h uint32) []byte {
		return hypercall.GemGrant{Handle: h, Resource: o.Pages.ID, Offset: o.Offset, Size: o.Size}.Append(nil)
	})
	if err != nil {
		_ = f.release(o) // err is what to report
	}
	return h, err
}

// release gives back the pages of an object that the backend no longer has.
func (f *File) release(o *object) error {
	if !o.InSlab {
		return f.link.carrier.Free(o.Pages)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Unplace(o)
}

// announce gives o a handle and tells the backend.
func (f *File) announce(o *object, op hypercall.Op, payload func(handle uint32) []byte) (uint32, error) {
	f.mu.Lock()
	h, err := f.objects.Add(o)
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	_, err = f.link.do(op, payload(h))
	if errors.Is(err, syscall.ENOENT) { // it does not know the pages yet
		if err = f.link.carrier.Settle(); err == nil {
			_, err = f.link.do(op, payload(h))
		}
	}
	if err != nil {
		_ = f.forget(h) // it is ours; err is what to report
		return 0, err
	}
	return h, nil
}

// GemMap returns the memory of a system-memory object.
func (f *File) GemMap(handle uint32) ([]byte, error) {
	o, err := f.object(handle)
	if err != nil {
		return nil, err
	}
	if o.Pages == nil {
		return nil, fmt.Errorf("object %d is in VRAM, copy it instead: %w", handle, syscall.ENXIO)
	}
	return memory(o), nil
}

// GemMapAt is part of drm.Placer.
func (f *File) GemMapAt(handle uint32, addr, size uint64) ([]byte, error) {
	o, err := f.object(handle)
	if err != nil {
		return nil, err
	}
	if o.Pages == nil || o.InSlab || size == 0 || size > o.Size {
		return nil, fmt.Errorf("%d bytes of object %d, which is in VRAM, smaller, or was made not to be shared: %w", size, handle, syscall.EINVAL)
	}
	return f.link.carrier.MapAt(o.Pages, addr, size)
}

// GemUnmapAt is part of drm.Placer.
func (f *File) GemUnmapAt(mem []byte) error { return os.NewSyscallError("munmap", carrier.Unmap(mem)) }

// GemSize is the size of an object, in bytes.
func (f *File) GemSize(handle uint32) (uint64, error) {
	o, err := f.object(handle)
	if err != nil {
		return 0, err
	}
	return o.Size, nil
}

// GemInfo tells size, domain and offset for mmap of an object.
func (f *File) GemInfo(handle uint32) (drm.GemInfo, error) {
	o, err := f.object(handle)
	if err != nil {
		return drm.GemInfo{}, err
	}
	return drm.NewGemInfo(handle, o.Domain, o.Size, o.Pages != nil), nil
}

// GemClose is DRM_IOCTL_GEM_CLOSE. Granted pages of its own go to the pool.
func (f *File) GemClose(handle uint32) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	o, pooled, err := f.retire(handle)
	if err != nil {
		return err
	}
	payload := hypercall.ID{ID: handle}.Append(nil)
	switch {
	case pooled:
		// Only when that is queued may somebody else have it: their mappings must come later.
		if err := f.link.post(hypercall.OpGemUnmap, payload); err != nil {
			return err
		}
		f.keep(o)
		return nil
	case o.Pages == nil:
		err := f.link.post(hypercall.OpGemClose, payload)
		return errors.Join(err, f.forget(handle))
	}
	return f.destroy(handle, o)
}

// destroy ends a closed object of granted pages, and gives the pages back when the
// backend has confirmed that the device has no use of them.
func (f *File) destroy(handle uint32, o *object) error {
	_, err := f.link.do(hypercall.OpGemClose, hypercall.ID{ID: handle}.Append(nil))
	return errors.Join(err, f.forget(handle), f.release(o))
}

// VMBind is PVDRM_VM_BIND.
func (f *File) VMBind(ops []drm.BindOp, async bool) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	if f.link.cfg.NoMulticall {
		ops = pageByPage(ops)
	}
	for len(ops) > 0 {
		n := min(len(ops), maxBatch)
		if f.link.cfg.NoMulticall {
			n = 1
		}
		var err error
		if payload := (hypercall.VMBind{Ops: ops[:n]}).Append(nil); async {
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

// pageByPage cuts operations into one for each page: what naive
// para-virtualization does, to be measured.
func pageByPage(ops []drm.BindOp) (single []drm.BindOp) {
	for _, o := range ops {
		for at := uint64(0); at < o.Range; at += pageBytes {
			p := o
			p.Addr, p.Range = o.Addr+at, min(pageBytes, o.Range-at)
			if o.Op == drm.BindMap {
				p.BOOffset = o.BOOffset + at
			}
			single = append(single, p)
		}
	}
	return single
}

// PrimeExport is DRM_IOCTL_PRIME_HANDLE_TO_FD.
func (f *File) PrimeExport(handle uint32) (fd int, err error) {
	if err := f.enter(); err != nil {
		return -1, err
	}
	defer f.leave()
	f.mu.Lock()
	o, err := f.objects.Share(handle)
	f.mu.Unlock()
	if err != nil {
		return -1, err
	}
	return f.link.carrier.Export(o.Pages)
}

// MapFD returns a descriptor of the memory of a system-memory object, for the
// program to map when that is another process than this; the caller closes it.
// The file must have been opened with Config.Separate. An object that was mapped
// so is not kept in the pool: the mapping may outlive it.
func (f *File) MapFD(handle uint32) (fd int, size uint64, err error) {
	o, err := f.object(handle)
	if err != nil {
		return -1, 0, err
	}
	if o.Pages == nil {
		return -1, 0, fmt.Errorf("object %d is in VRAM, copy it instead: %w", handle, syscall.ENXIO)
	}
	fd, err = f.PrimeExport(handle)
	return fd, o.Size, err
}

// PrimeImport is DRM_IOCTL_PRIME_FD_TO_HANDLE. The descriptor stays the caller's.
func (f *File) PrimeImport(fd int) (uint32, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	pages, err := f.link.carrier.Import(fd)
	if err != nil {
		return 0, err
	}
	o := &object{Domain: drm.DomainSystem, Size: uint64(len(pages.Mem)) &^ (pageBytes - 1), Pages: pages}
	// This file may have closed the same memory just before. The backend may not know of that yet, and would
	// take the object for one that ends with it.
	if err := f.link.carrier.Settle(); err != nil {
		return 0, errors.Join(err, f.link.carrier.Free(pages))
	}
	return f.grant(o.Imported())
}
