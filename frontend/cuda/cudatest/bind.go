package cudatest

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"pvdrm/drm"
)

// The page tables of File.

func (f *File) VMBind(ops []drm.BindOp, async bool) error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("VMBind"), f.live()); err != nil {
		return err
	}
	for _, op := range ops {
		if err := f.bind(op); err != nil {
			f.g.violation("VMBind %+v: %v", op, err)
			return err
		}
	}
	return nil
}

func (f *File) bind(op drm.BindOp) error {
	if op.Op == drm.BindUnmap {
		return f.unbind(op)
	}
	o := f.objects[op.Handle]
	if op.Op != drm.BindMap || o == nil || op.BOOffset != 0 || op.Range > uint64(len(o.data)) {
		return syscall.EINVAL
	}
	first := drm.ParamVRAMBase
	if o.domain == drm.DomainSystem {
		first = drm.ParamSystemBase
	}
	base, size, page := f.g.Params[first], f.g.Params[first+1], f.g.Params[first+2]
	if op.Addr < base || op.Range > size || op.Addr-base > size-op.Range || op.Addr%page != 0 || op.Range%page != 0 {
		return fmt.Errorf("outside the window: %w", syscall.EINVAL)
	}
	for _, m := range f.maps {
		if op.Addr < m.addr+uint64(len(m.data)) && m.addr < op.Addr+op.Range {
			return syscall.EEXIST
		}
	}
	f.maps = append(f.maps, mapping{addr: op.Addr, data: o.data[:op.Range], obj: op.Handle, readOnly: op.Flags == drm.BindReadOnly})
	return nil
}

// unbind takes one mapping away, which must be all that there is in the range.
func (f *File) unbind(op drm.BindOp) error {
	i := slices.IndexFunc(f.maps, func(m mapping) bool { return m.addr == op.Addr && uint64(len(m.data)) == op.Range })
	if i < 0 || f.maps[i].obj == 0 || op.Handle != 0 || op.Flags != 0 {
		return syscall.ENOENT
	}
	f.used(f.maps[i], "is unmapped")
	f.maps = slices.Delete(f.maps, i, i+1)
	return nil
}

// ReadOnly reports whether a mapping is read-only.
func (f *File) ReadOnly() bool {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	return slices.ContainsFunc(f.maps, func(m mapping) bool { return m.readOnly })
}

// used is a violation when queued work uses a mapping.
func (f *File) used(m mapping, what string) {
	for _, ch := range f.channels {
		for _, j := range ch.queue {
			if u := (users{lo: m.addr, hi: m.addr + uint64(len(m.data))}); f.Lost == nil && u.in(j.stream) {
				f.g.violation("object %d %s while queued work uses it", m.obj, what)
			}
		}
	}
}
