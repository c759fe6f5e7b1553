package frontend

import (
	"fmt"

	"pvdrm/drm"
	"pvdrm/hypercall"
)

var _ drm.Sharer = (*File)(nil)

// GemShare is part of drm.Sharer.
func (f *File) GemShare(handle uint32) (drm.Key, error) {
	if err := f.enter(); err != nil {
		return drm.Key{}, err
	}
	defer f.leave()
	if _, err := f.object(handle); err != nil {
		return drm.Key{}, err
	}
	return f.key(hypercall.OpGemShare, handle)
}

// key makes a request whose answer is a key.
func (f *File) key(op hypercall.Op, id uint32) (drm.Key, error) {
	b, err := f.link.do(op, hypercall.ID{ID: id}.Append(nil))
	if err != nil {
		return drm.Key{}, err
	}
	k, err := hypercall.DecodeKey(b)
	return k.Key, err
}

// GemOpen is part of drm.Sharer.
func (f *File) GemOpen(key drm.Key) (handle uint32, size uint64, err error) {
	if err := f.enter(); err != nil {
		return 0, 0, err
	}
	defer f.leave()
	o := &object{Domain: drm.DomainVRAM}
	f.mu.Lock()
	handle, err = f.objects.Add(o)
	f.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	b, err := f.link.do(hypercall.OpGemOpen, hypercall.Open{ID: handle, Key: key}.Append(nil))
	if err != nil {
		_ = f.forget(handle) // it is ours; err is what to report
		return 0, 0, err
	}
	m, err := hypercall.DecodeOpened(b)
	if err != nil {
		return 0, 0, err
	}
	f.mu.Lock()
	o.Size = m.Size
	f.mu.Unlock()
	return handle, m.Size, nil
}

// EventNew is part of drm.Sharer.
func (f *File) EventNew() (event uint32, key drm.Key, err error) {
	event, err = f.newEvent(func(id uint32) error {
		key, err = f.key(hypercall.OpEventNew, id)
		return err
	})
	return event, key, err
}

// EventOpen is part of drm.Sharer.
func (f *File) EventOpen(key drm.Key) (event uint32, err error) {
	return f.newEvent(func(id uint32) error {
		_, err := f.link.do(hypercall.OpEventOpen, hypercall.Open{ID: id, Key: key}.Append(nil))
		return err
	})
}

// newEvent takes an id and tells the backend.
func (f *File) newEvent(tell func(id uint32) error) (uint32, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	id, err := add(f, f.events, struct{}{})
	if err != nil {
		return 0, err
	}
	if err := tell(id); err != nil {
		_, _ = take(f, f.events, id) // it is ours; err is what to report
		return 0, err
	}
	return id, nil
}

// EventClose is part of drm.Sharer.
func (f *File) EventClose(event uint32) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	if _, err := get(f, f.events, event); err != nil {
		return err
	}
	if err := f.link.post(hypercall.OpEventClose, hypercall.ID{ID: event}.Append(nil)); err != nil {
		return err
	}
	_, err := take(f, f.events, event) // only now: who gets the id next is behind this in the queue
	return err
}

// EventRecord is part of drm.Sharer.
func (f *File) EventRecord(event uint32, p drm.Point) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	if _, err := get(f, f.events, event); err != nil {
		return err
	}
	m := hypercall.EventPoint{Event: event, Channel: p.Channel, Seqno: p.Seqno}
	_, err := f.link.do(hypercall.OpEventRecord, m.Append(nil))
	return err
}

// EventWait is part of drm.Sharer.
func (f *File) EventWait(event, channel uint32) (uint64, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	if _, err := get(f, f.events, event); err != nil {
		return 0, err
	}
	ch, err := get(f, f.channels, channel)
	if err != nil {
		return 0, err
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	m := hypercall.EventPoint{Event: event, Channel: channel, Seqno: ch.submitted + 1}
	// Answered, so that it stands for what the event stood for during this call.
	if _, err := f.link.do(hypercall.OpEventWait, m.Append(nil)); err != nil {
		return 0, fmt.Errorf("wait for event %d: %w", event, err)
	}
	ch.submitted = m.Seqno
	return m.Seqno, nil
}

// EventReached is part of drm.Sharer.
func (f *File) EventReached(event uint32) (bool, error) {
	if err := f.enter(); err != nil {
		return false, err
	}
	defer f.leave()
	if _, err := get(f, f.events, event); err != nil {
		return false, err
	}
	b, err := f.link.do(hypercall.OpEventReached, hypercall.ID{ID: event}.Append(nil))
	if err != nil {
		return false, err
	}
	m, err := hypercall.DecodeReached(b)
	return m.Reached != 0, err
}
