package frontend

import (
	"fmt"
	"syscall"
	"time"

	"pvdrm/drm"
)

// syncobj is a DRM sync object: empty, signalled by hand, or a point of a
// channel. File.mu guards it. They live in the frontend only: a batch that
// waits for one names the point.
type syncobj struct {
	state syncState
	point drm.Point
}

type syncState int

const (
	syncEmpty syncState = iota
	syncSignaled
	syncPoint
)

// SyncobjCreate is DRM_IOCTL_SYNCOBJ_CREATE.
func (f *File) SyncobjCreate(signaled bool) (uint32, error) {
	s := &syncobj{}
	if signaled {
		s.state = syncSignaled
	}
	return add(f, f.syncobjs, s)
}

// SyncobjDestroy is DRM_IOCTL_SYNCOBJ_DESTROY.
func (f *File) SyncobjDestroy(handle uint32) error {
	_, err := take(f, f.syncobjs, handle)
	return err
}

// syncobjSet gives all handles a new state, or none if one is unknown.
func (f *File) syncobjSet(handles []uint32, to syncobj) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := make([]*syncobj, len(handles))
	for i, h := range handles {
		s, err := f.syncobjs.Get(h)
		if err != nil {
			return err
		}
		found[i] = s
	}
	for _, s := range found {
		*s = to
	}
	return nil
}

// SyncobjReset is DRM_IOCTL_SYNCOBJ_RESET.
func (f *File) SyncobjReset(handles []uint32) error {
	return f.syncobjSet(handles, syncobj{state: syncEmpty})
}

// SyncobjSignal is DRM_IOCTL_SYNCOBJ_SIGNAL.
func (f *File) SyncobjSignal(handles []uint32) error {
	return f.syncobjSet(handles, syncobj{state: syncSignaled})
}

// syncobjPoints translates sync objects into the points a batch waits for.
func (f *File) syncobjPoints(handles []uint32) ([]drm.Point, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var points []drm.Point
	for _, h := range handles {
		s, err := f.syncobjs.Get(h)
		if err != nil {
			return nil, err
		}
		switch s.state {
		case syncEmpty:
			return nil, fmt.Errorf("sync object %d has no fence: %w", h, syscall.EINVAL)
		case syncPoint:
			points = append(points, s.point)
		}
	}
	return points, nil
}

func (f *File) syncobjsExist(handles []uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range handles {
		if _, err := f.syncobjs.Get(h); err != nil {
			return err
		}
	}
	return nil
}

// signalFreed signals all sync objects with a point of a channel that is gone:
// all its work is over. Its record may be another channel's soon.
func (f *File) signalFreed(channel uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.syncobjs.All {
		if s.state == syncPoint && s.point.Channel == channel {
			*s = syncobj{state: syncSignaled}
		}
	}
}

// SyncobjWait is DRM_IOCTL_SYNCOBJ_WAIT with a relative timeout, negative for
// ever. It returns the index of the first that is signalled.
func (f *File) SyncobjWait(handles []uint32, all, forSubmit bool, timeout time.Duration) (first int, err error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	if len(handles) == 0 {
		return 0, fmt.Errorf("wait for no sync object: %w", syscall.EINVAL)
	}
	if err := f.link.flush(); err != nil {
		return 0, err
	}
	look := func() (done bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		count := 0
		first = -1
		for i, h := range handles {
			s, bad := f.syncobjs.Get(h)
			if bad != nil {
				err = bad
				return true
			}
			if s.state == syncEmpty && !forSubmit {
				err = fmt.Errorf("sync object %d has no fence: %w", h, syscall.EINVAL)
				return true
			}
			if s.state == syncSignaled || s.state == syncPoint && f.link.ring.Done(s.point.Channel) >= s.point.Seqno {
				if count++; first < 0 {
					first = i
				}
			}
		}
		return count == len(handles) || !all && count > 0
	}
	if !forSubmit {
		if waitErr := f.link.wait(look, timeout); waitErr != nil {
			return 0, waitErr
		}
		return max(first, 0), err
	}
	// A fence may come from another thread of this process, which stores
	// nothing that the ring would tell of: look now and then.
	const again = time.Millisecond
	for end := time.Now().Add(timeout); ; {
		waitErr := f.link.wait(look, again)
		if waitErr == nil {
			return max(first, 0), err
		}
		if waitErr != errTimeout || timeout >= 0 && time.Now().After(end) {
			return 0, waitErr
		}
	}
}
