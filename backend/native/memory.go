package native

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/backend/file"
	"pvdrm/drm"
	"pvdrm/internal/hostmem"
)

const pageBytes = 4096

// object is a GEM object.
type object struct {
	domain drm.Domain
	size   uint64          // bytes
	pages  []byte          // mapped into the program; nil in VRAM
	region *hostmem.Region // that the pages are, where they are a file's; else nil
	shared bool            // the file may be exported

	unmapped error // of unmap, when the object is closed
}

// allocate makes the pages, as a file's where that is asked for.
func (o *object) allocate(file bool) (err error) {
	if file {
		if o.region, err = hostmem.New(o.size); err == nil {
			o.pages = o.region.Bytes()
		}
		return err
	}
	o.pages, err = unix.Mmap(-1, 0, int(o.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	return nil
}

func (o *object) unmap() error {
	switch {
	case o.region != nil:
		o.region.Release()
	case o.pages != nil:
		if err := unix.Munmap(o.pages); err != nil {
			return fmt.Errorf("munmap: %w", err)
		}
	}
	return nil
}

// GemNew implements drm.File. Objects always read as zero.
func (f *File) GemNew(size uint64, d drm.Domain, flags drm.GemFlags) (uint32, error) {
	page := f.params[drm.ParamVRAMPage-1]
	switch d {
	case drm.DomainVRAM:
	case drm.DomainSystem:
		page = max(f.params[drm.ParamSystemPage-1], pageBytes)
	default:
		return 0, fmt.Errorf("domain %d: %w", d, syscall.EINVAL)
	}
	if size == 0 || size > 1<<46 || flags&^(drm.GemNoShare|drm.GemDirty) != 0 {
		return 0, fmt.Errorf("object of %d bytes, flags 0x%x: %w", size, flags, syscall.EINVAL)
	}
	o := &object{domain: d, size: (size + page - 1) &^ (page - 1)}
	var err error
	if d == drm.DomainSystem {
		o.shared = flags&drm.GemNoShare == 0
		err = o.allocate(o.shared || f.device.Properties().FilePages)
	}
	if err != nil {
		return 0, fmt.Errorf("object of %d bytes: %w", size, errnoOf(err))
	}
	return f.enter(o)
}

// enter gives an object with its pages to the device and makes a handle of it, or
// gives the pages back.
func (f *File) enter(o *object) (h uint32, err error) {
	if err := f.lock(); err != nil {
		return 0, errors.Join(err, o.unmap())
	}
	defer f.mu.Unlock()
	h, err = f.file.NextObject()
	if err != nil {
		return 0, errors.Join(err, o.unmap())
	}
	if o.domain == drm.DomainVRAM {
		err = f.file.NewVRAM(h, o.size)
	} else {
		err = f.file.NewSystem(h, file.Pages{Runs: [][]byte{o.pages}, Release: func() { o.unmapped = o.unmap() }})
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("object of %d bytes: %w", o.size, errnoOf(err)), o.unmap())
	}
	f.objects[h] = o
	return h, nil
}

// object finds an object.
func (f *File) object(handle uint32) (*object, error) {
	if err := f.lock(); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	o, ok := f.objects[handle]
	if !ok {
		return nil, fmt.Errorf("no GEM object %d: %w", handle, syscall.ENOENT)
	}
	return o, nil
}

// GemMap implements drm.File.
func (f *File) GemMap(handle uint32) ([]byte, error) {
	o, err := f.object(handle)
	if err != nil {
		return nil, err
	}
	if o.pages == nil {
		return nil, fmt.Errorf("object %d is in VRAM, copy it instead: %w", handle, syscall.ENXIO)
	}
	return o.pages, nil
}

// GemSize implements drm.File.
func (f *File) GemSize(handle uint32) (uint64, error) {
	o, err := f.object(handle)
	if err != nil {
		return 0, err
	}
	return o.size, nil
}

// GemInfo implements drm.Driver.
func (f *File) GemInfo(handle uint32) (drm.GemInfo, error) {
	o, err := f.object(handle)
	if err != nil {
		return drm.GemInfo{}, err
	}
	return drm.NewGemInfo(handle, o.domain, o.size, o.pages != nil), nil
}

// PrimeExport implements drm.Driver.
func (f *File) PrimeExport(handle uint32) (fd int, err error) {
	o, err := f.object(handle)
	if err != nil {
		return -1, err
	}
	if !o.shared {
		return -1, fmt.Errorf("object %d is in VRAM or was made not to be shared: %w", handle, syscall.EOPNOTSUPP)
	}
	return unix.FcntlInt(uintptr(o.region.FD()), unix.F_DUPFD_CLOEXEC, 0)
}

// PrimeImport implements drm.Driver.
func (f *File) PrimeImport(fd int) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	size := uint64(max(st.Size, 0)) &^ (pageBytes - 1)
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	region, err := hostmem.Map(own, 0, size)
	if err != nil {
		return 0, fmt.Errorf("descriptor %d is of no object: %w: %w", fd, syscall.EINVAL, err)
	}
	return f.enter(&object{domain: drm.DomainSystem, size: size, region: region, pages: region.Bytes(), shared: true})
}

// GemClose implements drm.File.
func (f *File) GemClose(handle uint32) error {
	if err := f.lock(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	o := f.objects[handle]
	if err := f.file.CloseObject(handle); o == nil || err != nil {
		return errnoOf(err)
	}
	delete(f.objects, handle)
	return o.unmapped
}

// VMBind implements drm.File. It is never queued, but when async, the next Wait returns its error,
// as where it is queued.
func (f *File) VMBind(ops []drm.BindOp, async bool) error {
	if err := f.lock(); err != nil {
		return err
	}
	_, err := f.file.Bind(ops)
	f.mu.Unlock()
	if err = errnoOf(err); err == nil || !async {
		return err
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	if f.async == nil {
		f.async = fmt.Errorf("earlier VM_BIND, %w", err)
	}
	return nil
}
