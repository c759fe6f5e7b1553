package cudatest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"pvdrm/drm"
)

// File is a drm.Sharer of memory: callers believe that where the parameter ParamShares is set.

// GemShare is part of drm.Sharer.
func (f *File) GemShare(handle uint32) (key drm.Key, err error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("GemShare"), f.live()); err != nil {
		return key, err
	}
	o := f.objects[handle]
	if o == nil || o.domain != drm.DomainVRAM {
		return key, syscall.EOPNOTSUPP
	}
	if o.key == (drm.Key{}) {
		if f.g.shared == nil {
			f.g.shared = map[drm.Key]*object{}
		}
		f.g.keys++
		binary.LittleEndian.PutUint64(o.key[:], f.g.keys)
		o.key[8] = byte(f.g.Params[drm.ParamDevice]) // keys of different devices differ
		f.g.shared[o.key] = o
	}
	return o.key, nil
}

// GemOpen is part of drm.Sharer.
func (f *File) GemOpen(key drm.Key) (handle uint32, size uint64, err error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("GemOpen"), f.live()); err != nil {
		return 0, 0, err
	}
	o := f.g.shared[key]
	for _, g := range f.g.Peers {
		if o == nil {
			o = g.shared[key]
		}
	}
	if o == nil {
		return 0, 0, fmt.Errorf("a key of nothing: %w", syscall.ENOENT)
	}
	o.others++
	h := f.id()
	f.objects[h] = o
	return h, uint64(len(o.data)), nil
}

// There are no events that files share.

// EventNew is part of drm.Sharer.
func (f *File) EventNew() (uint32, drm.Key, error) { return 0, drm.Key{}, syscall.EOPNOTSUPP }

// EventOpen is part of drm.Sharer.
func (f *File) EventOpen(drm.Key) (uint32, error) { return 0, syscall.EOPNOTSUPP }

// EventClose is part of drm.Sharer.
func (f *File) EventClose(uint32) error { return syscall.EOPNOTSUPP }

// EventRecord is part of drm.Sharer.
func (f *File) EventRecord(uint32, drm.Point) error { return syscall.EOPNOTSUPP }

// EventWait is part of drm.Sharer.
func (f *File) EventWait(_, _ uint32) (uint64, error) { return 0, syscall.EOPNOTSUPP }

// EventReached is part of drm.Sharer.
func (f *File) EventReached(uint32) (bool, error) { return false, syscall.EOPNOTSUPP }
