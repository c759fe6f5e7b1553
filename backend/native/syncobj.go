package native

import (
	"fmt"
	"syscall"
	"time"

	"pvdrm/drm"
)

// withSyncobjs does something with the sync objects of an open file.
func (f *File) withSyncobjs(do func() error) error {
	if err := f.wait(); err != nil {
		return err
	}
	defer f.turn.Unlock()
	err := do()
	f.moved.Broadcast()
	return err
}

// SyncobjCreate implements drm.Driver.
func (f *File) SyncobjCreate(signaled bool) (handle uint32, err error) {
	err = f.withSyncobjs(func() error {
		handle, err = f.syncobjs.Create(signaled)
		return err
	})
	return handle, err
}

// SyncobjDestroy implements drm.Driver.
func (f *File) SyncobjDestroy(handle uint32) error {
	return f.withSyncobjs(func() error { return f.syncobjs.Destroy(handle) })
}

// SyncobjReset implements drm.Driver.
func (f *File) SyncobjReset(handles []uint32) error {
	return f.withSyncobjs(func() error { return f.syncobjs.Reset(handles) })
}

// SyncobjSignal implements drm.Driver.
func (f *File) SyncobjSignal(handles []uint32) error {
	return f.withSyncobjs(func() error { return f.syncobjs.Signal(handles) })
}

// ExecSync implements drm.Driver.
func (f *File) ExecSync(channel uint32, stream []byte, waits, signals []uint32) (uint64, error) {
	var points []drm.Point
	err := f.withSyncobjs(func() (err error) {
		if points, err = f.syncobjs.Points(waits); err != nil {
			return err
		}
		return f.syncobjs.Check(signals) // before the work is queued
	})
	if err != nil {
		return 0, err
	}
	seqno, err := f.Exec(channel, stream, points)
	if err != nil {
		return 0, err
	}
	return seqno, f.withSyncobjs(func() error { return f.syncobjs.SetPoint(signals, drm.Point{Channel: channel, Seqno: seqno}) })
}

// SyncobjWait implements drm.Driver.
func (f *File) SyncobjWait(handles []uint32, all, forSubmit bool, timeout time.Duration) (first int, err error) {
	if len(handles) == 0 {
		return 0, fmt.Errorf("wait for no sync object: %w", syscall.EINVAL)
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	// A point of a channel that is being freed is reached when that is over.
	reached := func(p drm.Point) bool {
		ch, ok := f.channels[p.Channel]
		return ok && ch.Reached(p.Seqno)
	}
	look := func() (over bool) {
		if f.over {
			err = errClosed
			return true
		}
		first, over, err = f.syncobjs.Look(handles, all, forSubmit, reached)
		return over
	}
	if !f.sleep(look, timeout) {
		return 0, fmt.Errorf("wait for %d sync objects: %w", len(handles), syscall.ETIME)
	}
	return first, err
}

// CPUPrep implements drm.Driver.
func (f *File) CPUPrep(handle uint32, timeout time.Duration) error {
	if _, err := f.object(handle); err != nil {
		return err
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	points := map[*channel]uint64{}
	for _, ch := range f.channels {
		points[ch] = ch.submitted.Load()
	}
	done := func() bool {
		for ch, seqno := range points {
			if !ch.Reached(seqno) {
				return false
			}
		}
		return true
	}
	if !f.sleep(done, timeout) {
		return fmt.Errorf("wait for all that was submitted: %w", syscall.ETIME)
	}
	return nil
}
