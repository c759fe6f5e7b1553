package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"pvdrm/drm"
)

// stampBytes is the size of a time that the device writes.
const stampBytes = 8

// Event is a CUevent: a place in the order of a stream's work, and the time at
// which the device came to it.
type Event struct {
	c *Context

	mu        sync.Mutex
	slot      block // where the device writes the time
	last      point // what was recorded last; no stream when nothing was
	destroyed bool

	shared *sharing // with other processes; nil: with none
}

// NewEvent is cuEventCreate.
func (c *Context) NewEvent() (*Event, error) {
	const call = "cuEventCreate"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	slot, err := c.newSlot(call)
	if err != nil {
		return nil, err
	}
	return &Event{c: c, slot: slot}, nil
}

// newSlot finds room for a time, and frees what events gave up on the way.
func (c *Context) newSlot(call string) (block, error) {
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.retired) > 0 {
		r := m.retired[0]
		if err := c.wait(call, r.until, 0); errors.Is(err, ErrNotReady) {
			break
		} else if err != nil {
			return block{}, err
		}
		m.retired = m.retired[1:]
		if err := m.system.free(r.block); err != nil {
			return block{}, c.fail(call, err)
		}
	}
	b, err := m.system.alloc(stampBytes)
	if err != nil {
		return block{}, c.fail(call, fmt.Errorf("room for the time of an event: %w", err))
	}
	return b, nil
}

// giveUpSlot frees the slot of e when the device no longer writes to it.
//
// Preconditions: e.mu is held.
func (e *Event) giveUpSlot() {
	m := &e.c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	until := e.last
	if until.s == nil {
		until = point{e.c.def, 0} // nothing was recorded: free at the next look
	}
	m.retired = append(m.retired, retired{until, e.slot})
}

// Record is cuEventRecord: the event stands for what was queued on the stream
// so far, and no longer for what it was recorded for before.
func (e *Event) Record(s *Stream) error {
	const call = "cuEventRecord"
	c := e.c
	s, err := c.enterFor(call, s)
	if err != nil {
		return err
	}
	defer c.life.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.destroyed {
		return errorf(call, ErrInvalidHandle, "the event is destroyed")
	}
	// An earlier record of another stream may write its time after this one.
	if e.last.s != nil && e.last.s != s {
		slot, err := c.newSlot(call)
		if err != nil {
			return err
		}
		e.giveUpSlot()
		e.slot, e.last = slot, point{}
	}
	p, err := submit(c, call, s, drm.TimestampCmd{Addr: e.slot.addr})
	if err != nil {
		return err
	}
	e.last = p
	if e.shared != nil {
		if err := e.shared.by.EventRecord(e.shared.id, drm.Point{Channel: s.channel, Seqno: p.seq}); err != nil {
			return c.fail(call, err)
		}
	}
	return nil
}

// Synchronize is cuEventSynchronize: it waits until what was recorded is done.
// It returns at once when nothing was recorded.
func (e *Event) Synchronize() error { return e.await("cuEventSynchronize", waitForever) }

// Recorded returns a function that waits for what the event stands for now, whatever is recorded later.
func (e *Event) Recorded() (wait func() error, err error) {
	const call = "cuStreamWaitEvent"
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.destroyed {
		return nil, errorf(call, ErrInvalidHandle, "the event is destroyed")
	}
	p := e.last
	return func() error {
		if err := e.c.enter(call); err != nil {
			return err
		}
		defer e.c.life.RUnlock()
		return e.awaitPoint(call, p, waitForever)
	}, nil
}

// Query is cuEventQuery: nil when what was recorded is done or nothing was
// recorded, ErrNotReady otherwise.
func (e *Event) Query() error { return e.await("cuEventQuery", 0) }

func (e *Event) await(call string, timeout time.Duration) error {
	if err := e.c.enter(call); err != nil {
		return err
	}
	defer e.c.life.RUnlock()
	e.mu.Lock()
	p, destroyed := e.last, e.destroyed
	e.mu.Unlock()
	if destroyed {
		return errorf(call, ErrInvalidHandle, "the event is destroyed")
	}
	return e.awaitPoint(call, p, timeout)
}

// awaitPoint waits for p, which was recorded last. Preconditions: the caller has entered the context.
func (e *Event) awaitPoint(call string, p point, timeout time.Duration) error {
	if e.shared != nil {
		return e.awaitShared(call, p, timeout)
	}
	if p.s == nil {
		return nil
	}
	if err := e.c.wait(call, p, timeout); err != nil || timeout == 0 {
		return err
	}
	return e.c.settled(call)
}

// Elapsed is cuEventElapsedTime: the time on the device from since to e. It is
// ErrInvalidHandle when one of them was not recorded, ErrNotReady when one is
// not done yet.
func (e *Event) Elapsed(since *Event) (time.Duration, error) {
	const call = "cuEventElapsedTime"
	if err := e.c.enter(call); err != nil {
		return 0, err
	}
	defer e.c.life.RUnlock()
	if since == nil || since.c != e.c {
		return 0, errorf(call, ErrInvalidHandle, "the events belong to different contexts")
	}
	from, err := since.stamp(call)
	if err != nil {
		return 0, err
	}
	to, err := e.stamp(call)
	if err != nil {
		return 0, err
	}
	return time.Duration(to - from), nil
}

// stamp reads the time of an event in nanoseconds of the device's clock.
func (e *Event) stamp(call string) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.destroyed || e.last.s == nil {
		return 0, errorf(call, ErrInvalidHandle, "the event was not recorded, or is destroyed")
	}
	if err := e.c.wait(call, e.last, 0); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(e.slot.mem)), nil
}

// Destroy is cuEventDestroy. Work that was told to wait for the event still does.
func (e *Event) Destroy() error {
	const call = "cuEventDestroy"
	if err := e.c.enter(call); err != nil {
		return err
	}
	defer e.c.life.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.destroyed {
		return errorf(call, ErrInvalidHandle, "the event is destroyed already")
	}
	e.destroyed = true
	e.giveUpSlot()
	if err := e.closeShared(); err != nil {
		return e.c.fail(call, err)
	}
	return nil
}
