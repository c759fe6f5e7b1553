package frontend

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

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

// object is a GEM object.
type object struct {
	domain drm.Domain
	size   uint64
	pages  *carrier.Pages // the grant it lies in; nil in VRAM
	offset uint64         // in pages, bytes
	inSlab bool           // the grant is the file's slab, and not its own
	shared bool           // exported or imported; File.mu guards it
	closed bool           // kept in the table for the pool, or until the backend is told; File.mu guards it
	pooled time.Time      // since when the pool can give it out again; zero if it cannot; File.mu guards it
}

// mem is the memory of an object in granted pages.
func (o *object) mem() []byte { return o.pages.Mem[o.offset:][:o.size:o.size] }

// object finds an open object.
func (f *File) object(handle uint32) (*object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objectLocked(handle)
}

func (f *File) objectLocked(handle uint32) (*object, error) {
	o, err := f.objects.Get(handle)
	if err == nil && o.closed {
		return nil, fmt.Errorf("GEM object %d is closed: %w", handle, syscall.ENOENT)
	}
	return o, err
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
	o := &object{domain: d, size: (size + page - 1) &^ (page - 1)}
	if d == drm.DomainVRAM {
		return f.announce(o, hypercall.OpGemNew, func(h uint32) []byte {
			return hypercall.GemNew{Handle: h, Size: o.size}.Append(nil)
		})
	}
	if flags&drm.GemNoShare != 0 && f.fromSlab(o) {
		if flags&drm.GemDirty == 0 {
			clear(o.mem())
		}
		return f.grant(o)
	}
	if handle, old, ok := f.fromPool(o.size); ok {
		if flags&drm.GemDirty == 0 {
			clear(old.mem())
		}
		return handle, nil
	}
	o.pages, err = f.link.carrier.Alloc(o.size)
	if err != nil && f.drain(0) { // what lies in the pool may be what is missing
		o.pages, err = f.link.carrier.Alloc(o.size)
	}
	if err != nil {
		return 0, err
	}
	return f.grant(o)
}

// grant makes a GEM object of granted pages, or gives them back.
func (f *File) grant(o *object) (uint32, error) {
	h, err := f.announce(o, hypercall.OpGemGrant, func(h uint32) []byte {
		return hypercall.GemGrant{Handle: h, Resource: o.pages.ID, Offset: o.offset, Size: o.size}.Append(nil)
	})
	if err != nil {
		_ = f.release(o) // err is what to report
	}
	return h, err
}

// release gives back the pages of an object that the backend no longer has.
func (f *File) release(o *object) error {
	if !o.inSlab {
		return f.link.carrier.Free(o.pages)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.slab.Free(o.offset)
	return err
}

// announce gives o a handle and tells the backend.
func (f *File) announce(o *object, op hypercall.Op, payload func(handle uint32) []byte) (uint32, error) {
	h, err := add(f, f.objects, o)
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
		_, _ = take(f, f.objects, h) // it is ours; err is what to report
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
	if o.pages == nil {
		return nil, fmt.Errorf("object %d is in VRAM, copy it instead: %w", handle, syscall.ENXIO)
	}
	return o.mem(), nil
}

// GemMapAt is part of drm.Placer.
func (f *File) GemMapAt(handle uint32, addr, size uint64) ([]byte, error) {
	o, err := f.object(handle)
	if err != nil {
		return nil, err
	}
	if o.pages == nil || o.inSlab || size == 0 || size > o.size {
		return nil, fmt.Errorf("%d bytes of object %d, which is in VRAM, smaller, or was made not to be shared: %w", size, handle, syscall.EINVAL)
	}
	return f.link.carrier.MapAt(o.pages, addr, size)
}

// GemUnmapAt is part of drm.Placer.
func (f *File) GemUnmapAt(mem []byte) error { return os.NewSyscallError("munmap", carrier.Unmap(mem)) }

// GemSize is the size of an object, in bytes.
func (f *File) GemSize(handle uint32) (uint64, error) {
	o, err := f.object(handle)
	if err != nil {
		return 0, err
	}
	return o.size, nil
}

// GemInfo tells size, domain and offset for mmap of an object.
func (f *File) GemInfo(handle uint32) (drm.GemInfo, error) {
	o, err := f.object(handle)
	if err != nil {
		return drm.GemInfo{}, err
	}
	info := drm.GemInfo{Handle: handle, Domain: o.domain, Size: o.size}
	if o.pages != nil {
		info.MapOffset = drm.MapOffset(handle)
	}
	return info, nil
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
	case o.pages == nil:
		err := f.link.post(hypercall.OpGemClose, payload)
		_, gone := take(f, f.objects, handle)
		return errors.Join(err, gone)
	}
	return f.destroy(handle, o)
}

// destroy ends a closed object of granted pages, and gives the pages back when the
// backend has confirmed that the device has no use of them.
func (f *File) destroy(handle uint32, o *object) error {
	_, err := f.link.do(hypercall.OpGemClose, hypercall.ID{ID: handle}.Append(nil))
	_, gone := take(f, f.objects, handle)
	return errors.Join(err, gone, f.release(o))
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
	o, err := f.objectLocked(handle)
	if err == nil && (o.pages == nil || o.inSlab) {
		err = fmt.Errorf("object %d is in VRAM or was made not to be shared: %w", handle, syscall.EOPNOTSUPP)
	}
	if err == nil {
		o.shared = true // never to be used for another object again
	}
	f.mu.Unlock()
	if err != nil {
		return -1, err
	}
	return f.link.carrier.Export(o.pages)
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
	if o.pages == nil {
		return -1, 0, fmt.Errorf("object %d is in VRAM, copy it instead: %w", handle, syscall.ENXIO)
	}
	fd, err = f.PrimeExport(handle)
	return fd, o.size, err
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
	return f.grant(&object{domain: drm.DomainSystem, size: uint64(len(pages.Mem)) &^ (pageBytes - 1), pages: pages, shared: true})
}
