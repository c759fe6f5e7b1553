package file

import (
	"fmt"
	"math"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gem/quota"
)

// event is a place in the order of work that several files of a guest share: the point of a
// channel of one of them. All fields but the key are guarded by shares.mu.
type event struct {
	key   drm.Key
	last  wait // what was recorded last; no channel when nothing was, or it is reached
	files int  // places in tables
}

// reached reports whether what was recorded last is done, and forgets it then. Preconditions:
// shares.mu is held.
func (e *event) reached() bool {
	if e.last.ch != nil && e.last.ch.Reached(e.last.seqno) {
		e.last = wait{}
	}
	return e.last.ch == nil
}

// NewEvent makes an event and returns the key by which other files of the guest open it.
func (f *File) NewEvent(id uint32) (key drm.Key, err error) {
	if err := f.guest.Take(quota.Objects, 1); err != nil {
		return key, err
	}
	e := &event{key: newKey()}
	g := f.guest
	g.shares.mu.Lock()
	if g.shares.events == nil {
		g.shares.events = map[drm.Key]*event{}
	}
	g.shares.events[e.key] = e
	e.files = 1
	g.shares.mu.Unlock()
	if err := f.enterEvent(id, e); err != nil {
		return key, err
	}
	return e.key, nil
}

// OpenEvent makes id stand for an event of the guest.
func (f *File) OpenEvent(id uint32, key drm.Key) error {
	s := &f.guest.shares
	s.mu.Lock()
	e := s.events[key]
	if e != nil {
		e.files++
	}
	s.mu.Unlock()
	if e == nil {
		return errUnknownKey
	}
	return f.enterEvent(id, e)
}

// enterEvent charges a place in the file's table and fills it, or leaves the event.
func (f *File) enterEvent(id uint32, e *event) error {
	err := f.events.Vacant(id)
	if err == nil {
		err = f.account.Charge(quota.Objects, 1)
	}
	if err != nil {
		f.guest.leaveEvent(e)
		return err
	}
	return f.events.Put(id, e)
}

// CloseEvent gives an event up. Batches that wait for it still do.
func (f *File) CloseEvent(id uint32) error {
	e, err := f.events.Take(id)
	if err != nil {
		return err
	}
	f.account.Discharge(quota.Objects, 1)
	f.guest.leaveEvent(e)
	return nil
}

// leaveEvent ends one file's use of an event.
func (g *Guest) leaveEvent(e *event) {
	g.shares.mu.Lock()
	defer g.shares.mu.Unlock()
	if e.files--; e.files == 0 {
		delete(g.shares.events, e.key)
		g.Give(quota.Objects, 1)
	}
}

// RecordEvent makes an event stand for a point of a channel, which must exist already.
func (f *File) RecordEvent(id uint32, p drm.Point) error {
	e, err := f.events.Get(id)
	if err != nil {
		return err
	}
	ch, err := f.Channel(p.Channel)
	if err != nil {
		return err
	}
	if p.Seqno > ch.submitted {
		return fmt.Errorf("an event at batch %d of channel %d, which has %d: %w", p.Seqno, p.Channel, ch.submitted, syscall.EINVAL)
	}
	ch.recorded = true
	f.guest.shares.mu.Lock()
	defer f.guest.shares.mu.Unlock()
	e.last = wait{ch: ch, seqno: p.Seqno}
	return nil
}

// EventReached reports whether what an event stands for is done. It is if nothing was recorded.
func (f *File) EventReached(id uint32) (bool, error) {
	e, err := f.events.Get(id)
	if err != nil {
		return false, err
	}
	f.guest.shares.mu.Lock()
	defer f.guest.shares.mu.Unlock()
	return e.reached(), nil
}

// WaitEvent queues a batch without commands that waits for what the event stands for now, which
// may be a point of another file. The point exists already, as with Exec, so that no circle can
// form between files either.
func (f *File) WaitEvent(id uint32, ch *Channel, seqno uint64) (left bool, err error) {
	e, err := f.events.Get(id)
	if err != nil {
		return false, err
	}
	b, err := f.begin(ch, seqno, batchBytes+watchBytes)
	if err != nil {
		return false, err
	}
	f.guest.shares.mu.Lock()
	w := e.last
	done := e.reached()
	f.guest.shares.mu.Unlock()
	if b.invalid == nil && !done {
		b.waits = append(b.waits, w)
		if w.ch.watch(w.seqno, f.observer) {
			b.watched = w.ch
		}
	}
	ch.waiting.Push(b)
	_, left = f.advance(ch)
	return left, nil
}

// watchBytes bounds what a wait for another file takes, there and here.
const watchBytes = 160

// watcher is a file with a batch that waits for a point of a channel of another file.
type watcher struct {
	seqno    uint64
	observer Observer
}

// watch has an observer told when a point is reached, unless it is: it returns false then.
func (ch *Channel) watch(seqno uint64, o Observer) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.Reached(seqno) {
		return false
	}
	ch.watchers = append(ch.watchers, watcher{seqno, o})
	return true
}

// unwatch ends one watch of the batch, which will not be waited for any more.
func (b *batch) unwatch() {
	ch := b.watched
	if ch == nil {
		return
	}
	b.watched = nil
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for i, w := range ch.watchers {
		if w.observer == b.f.observer && w.seqno == b.waits[0].seqno {
			last := len(ch.watchers) - 1
			ch.watchers[i], ch.watchers[last] = ch.watchers[last], watcher{}
			ch.watchers = ch.watchers[:last]
			return
		}
	}
}

// arrived takes the watchers whose points are reached. Preconditions: ch.mu is held.
func (ch *Channel) arrived() (list []watcher) {
	kept := ch.watchers[:0]
	for _, w := range ch.watchers {
		if ch.Reached(w.seqno) {
			list = append(list, w)
		} else {
			kept = append(kept, w)
		}
	}
	clear(ch.watchers[len(kept):])
	ch.watchers = kept
	return list
}

func tell(watchers []watcher) {
	for _, w := range watchers {
		w.observer.Stirred()
	}
}

// end makes all points of a channel count as reached, since its file ends: what waits for them
// elsewhere goes on. Events no longer stand for them.
func (ch *Channel) end(g *Guest) {
	ch.mu.Lock()
	ch.done.Store(math.MaxUint64)
	list := ch.arrived()
	ch.mu.Unlock()
	tell(list)
	ch.forget(g)
}

// forget drops what events of the guest keep of a channel that is gone.
func (ch *Channel) forget(g *Guest) {
	if !ch.recorded {
		return
	}
	g.shares.mu.Lock()
	defer g.shares.mu.Unlock()
	for _, e := range g.shares.events {
		if e.last.ch == ch {
			e.last = wait{}
		}
	}
}
