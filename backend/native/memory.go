package native

import (
	"errors"
	"fmt"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gpu"
)

const pageBytes = 4096

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
	o, err := f.newObject((size+page-1)&^(page-1), d)
	if err != nil {
		return 0, fmt.Errorf("object of %d bytes: %w", size, errnoOf(err))
	}
	h, err := add(f, f.objects, o)
	if err != nil {
		return 0, errors.Join(err, o.mem.Close(), o.unmap())
	}
	return h, nil
}

func (f *File) newObject(size uint64, d drm.Domain) (o *object, err error) {
	o = &object{size: size}
	if d == drm.DomainVRAM {
		o.mem, err = f.ctx.NewVRAM(size)
		return o, err
	}
	if err := o.allocate(f.device.Properties().FilePages); err != nil {
		return nil, err
	}
	if o.mem, err = f.ctx.NewSystem([][]byte{o.pages}); err != nil {
		return nil, errors.Join(err, o.unmap())
	}
	return o, nil
}

// GemMap implements drm.File.
func (f *File) GemMap(handle uint32) ([]byte, error) {
	o, err := find(f, f.objects, handle)
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
	o, err := find(f, f.objects, handle)
	if err != nil {
		return 0, err
	}
	return o.size, nil
}

// GemClose implements drm.File.
func (f *File) GemClose(handle uint32) error {
	o, err := take(f, f.objects, handle)
	if err != nil {
		return err
	}
	return errors.Join(errnoOf(o.mem.Close()), o.unmap())
}

// VMBind implements drm.File. It is never queued, but when async, what went
// wrong is told by the next Wait, as where it is.
func (f *File) VMBind(ops []drm.BindOp, async bool) error {
	for i, op := range ops {
		err := f.bind(op)
		if err == nil {
			continue
		}
		err = fmt.Errorf("operation %d: %w", i, errnoOf(err))
		if !async {
			return err
		}
		f.mu.Lock()
		if f.async == nil {
			f.async = fmt.Errorf("earlier VM_BIND, %w", err)
		}
		f.mu.Unlock()
		return nil
	}
	return nil
}

func (f *File) bind(op drm.BindOp) error {
	switch op.Op {
	case drm.BindMap:
		if op.Flags&^drm.BindReadOnly != 0 {
			return fmt.Errorf("flags 0x%x: %w", op.Flags, syscall.EINVAL)
		}
		o, err := find(f, f.objects, op.Handle)
		if err != nil {
			return err
		}
		prot := gpu.ProtRead | gpu.ProtWrite
		if op.Flags&drm.BindReadOnly != 0 {
			prot = gpu.ProtRead
		}
		return f.ctx.Map(op.Addr, o.mem, op.BOOffset, op.Range, prot)
	case drm.BindUnmap:
		if op.Flags != 0 || op.Handle != 0 || op.BOOffset != 0 {
			return fmt.Errorf("unmap with an object or flags: %w", syscall.EINVAL)
		}
		return f.ctx.Unmap(op.Addr, op.Range)
	}
	return fmt.Errorf("bind operation %d: %w", op.Op, syscall.EINVAL)
}
