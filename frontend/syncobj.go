package frontend

import (
	"fmt"
	"syscall"
	"time"

	"pvdrm/drm"
)

// Sync objects live in the frontend only: a batch that waits for one names the
// point that it stands for.

// SyncobjCreate is DRM_IOCTL_SYNCOBJ_CREATE.
func (f *File) SyncobjCreate(signaled bool) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncobjs.Create(signaled)
}

// SyncobjDestroy is DRM_IOCTL_SYNCOBJ_DESTROY.
func (f *File) SyncobjDestroy(handle uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncobjs.Destroy(handle)
}

// SyncobjReset is DRM_IOCTL_SYNCOBJ_RESET.
func (f *File) SyncobjReset(handles []uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncobjs.Reset(handles)
}

// SyncobjSignal is DRM_IOCTL_SYNCOBJ_SIGNAL.
func (f *File) SyncobjSignal(handles []uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncobjs.Signal(handles)
}

// ExecSync is PVDRM_EXEC with sync objects.
func (f *File) ExecSync(channel uint32, stream []byte, waits, signals []uint32) (uint64, error) {
	f.mu.Lock()
	points, err := f.syncobjs.Points(waits)
	if err == nil {
		err = f.syncobjs.Check(signals) // before the work is queued
	}
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	seqno, err := f.Exec(channel, stream, points)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return seqno, f.syncobjs.SetPoint(signals, drm.Point{Channel: channel, Seqno: seqno})
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
	look := func() (over bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		first, over, err = f.syncobjs.Look(handles, all, forSubmit, func(p drm.Point) bool { return f.link.ring.Done(p.Channel) >= p.Seqno })
		return over
	}
	if !forSubmit {
		if waitErr := f.link.wait(look, timeout); waitErr != nil {
			return 0, waitErr
		}
		return first, err
	}
	// A fence may come from another thread of this process, which stores
	// nothing that the ring would tell of: look now and then.
	const again = time.Millisecond
	for end := time.Now().Add(timeout); ; {
		waitErr := f.link.wait(look, again)
		if waitErr == nil {
			return first, err
		}
		if waitErr != errTimeout || timeout >= 0 && time.Now().After(end) {
			return 0, waitErr
		}
	}
}
