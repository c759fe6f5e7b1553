package gem

import (
	"fmt"
	"syscall"

	"pvdrm/drm"
)

// Syncobjs are the DRM sync objects of a file. Each is empty, signalled by hand,
// or stands for a point of a channel; which points are reached its owner knows.
// It is not safe for concurrent use.
type Syncobjs struct{ table *Table[*syncobj] }

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

// NewSyncobjs makes a table for at most limit sync objects.
func NewSyncobjs(limit int) *Syncobjs {
	return &Syncobjs{NewTable[*syncobj]("sync object", limit)}
}

// Create makes a sync object; ENOSPC when there are too many.
func (s *Syncobjs) Create(signaled bool) (uint32, error) {
	o := &syncobj{}
	if signaled {
		o.state = syncSignaled
	}
	return s.table.Add(o)
}

// Destroy frees a sync object; ENOENT.
func (s *Syncobjs) Destroy(handle uint32) error {
	_, err := s.table.Take(handle)
	return err
}

// Check is ENOENT unless all sync objects are there.
func (s *Syncobjs) Check(handles []uint32) error {
	for _, h := range handles {
		if _, err := s.table.Get(h); err != nil {
			return err
		}
	}
	return nil
}

// set gives all sync objects a new state, or none if one is not there.
func (s *Syncobjs) set(handles []uint32, to syncobj) error {
	if err := s.Check(handles); err != nil {
		return err
	}
	for _, h := range handles {
		*s.table.entries[h] = to
	}
	return nil
}

// Reset empties sync objects: all, or none and ENOENT.
func (s *Syncobjs) Reset(handles []uint32) error { return s.set(handles, syncobj{}) }

// Signal signals sync objects by hand: all, or none and ENOENT.
func (s *Syncobjs) Signal(handles []uint32) error {
	return s.set(handles, syncobj{state: syncSignaled})
}

// SetPoint makes sync objects stand for a point: all, or none and ENOENT.
func (s *Syncobjs) SetPoint(handles []uint32, p drm.Point) error {
	return s.set(handles, syncobj{state: syncPoint, point: p})
}

// Points are those that sync objects stand for, to be waited for; EINVAL if one
// is empty. Those that were signalled by hand have none.
func (s *Syncobjs) Points(handles []uint32) (points []drm.Point, err error) {
	for _, h := range handles {
		o, err := s.table.Get(h)
		switch {
		case err != nil:
			return nil, err
		case o.state == syncEmpty:
			return nil, noFence(h)
		case o.state == syncPoint:
			points = append(points, o.point)
		}
	}
	return points, nil
}

func noFence(handle uint32) error {
	return fmt.Errorf("sync object %d has no fence: %w", handle, syscall.EINVAL)
}

// ChannelFreed signals all sync objects with a point of a channel that is gone:
// all its work is over. Its number may soon be another channel's.
func (s *Syncobjs) ChannelFreed(channel uint32) {
	for _, o := range s.table.All {
		if o.state == syncPoint && o.point.Channel == channel {
			*o = syncobj{state: syncSignaled}
		}
	}
}

// Look is a look of SYNCOBJ_WAIT: it reports whether the wait is over, because all
// of the sync objects are signalled, or one of them where all is not asked for;
// or because of an error. First is the index of one that is. An empty one is
// EINVAL, unless the wait is for what will be submitted, too.
func (s *Syncobjs) Look(handles []uint32, all, forSubmit bool, reached func(drm.Point) bool) (first int, over bool, err error) {
	count := 0
	for i, h := range handles {
		o, err := s.table.Get(h)
		if err == nil && o.state == syncEmpty && !forSubmit {
			err = noFence(h)
		}
		if err != nil {
			return 0, true, err
		}
		if o.state == syncSignaled || o.state == syncPoint && reached(o.point) {
			if count++; count == 1 {
				first = i
			}
		}
	}
	return first, count == len(handles) || !all && count > 0, nil
}
