package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pvdrm/drm"
)

const (
	// maxStreams bounds the streams of a context, each of which is looked at for work of the
	// default stream.
	maxStreams = 1 << 14

	// ownChannels is how many channels a context takes, the default stream's included: a device
	// has few, and one EXEC must be able to wait for all the others. With more streams than
	// that, some share a channel, as they share hardware queues on a GPU.
	ownChannels = 33
)

// Stream is a CUstream: work that runs in the order in which it was queued. A
// nil *Stream means the default stream wherever one is an argument.
type Stream struct {
	c           *Context
	id          uint64
	channel     uint32
	nonBlocking bool

	gone sync.RWMutex // see the package comment

	// Guarded by Context.mu.
	last    uint64             // sequence number of what was queued last
	done    uint64             // known to be done
	seen    map[*Stream]uint64 // points of other streams that queued work waits for already
	pending map[*Stream]uint64 // points that the next work must wait for
	dead    bool
	task    []byte // the commands of a task that is being collected; nil if none is

	printing uint64 // the last work that may print and of which the text was not taken; 0 if there is none
}

// point is a place in the order of work: all that s queued up to seq. It names
// the stream and not its channel, whose id may be given to another stream.
type point struct {
	s   *Stream
	seq uint64
}

// command is one command of drm's command stream.
type command interface{ Append([]byte) []byte }

func newStream(c *Context, channel uint32, nonBlocking bool) *Stream {
	return &Stream{c: c, id: lastStream.Add(1), channel: channel, nonBlocking: nonBlocking,
		seen: map[*Stream]uint64{}, pending: map[*Stream]uint64{}}
}

// lastStream is the ID of the stream that was made last.
var lastStream atomic.Uint64

// ID is cuStreamGetId: no other stream of the process has or had the same.
func (s *Stream) ID() uint64 { return s.id }

// NewStream is cuStreamCreate. A stream takes a channel, of which a device has few. When none is
// left it shares one with other streams of the context, whose work it then runs in the order of
// queueing. It is ErrDeviceUnavailable where only the default stream has one.
func (c *Context) NewStream() (*Stream, error) { return c.createStream(false) }

// NewStreamNonBlocking is cuStreamCreate with CU_STREAM_NON_BLOCKING: the
// stream neither waits for the default stream nor makes it wait.
func (c *Context) NewStreamNonBlocking() (*Stream, error) { return c.createStream(true) }

func (c *Context) createStream(nonBlocking bool) (*Stream, error) {
	const call = "cuStreamCreate"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streams) >= maxStreams {
		return nil, errorf(call, ErrOutOfMemory, "a context has at most %d streams; destroy one first", maxStreams)
	}
	id, err := c.takeChannel()
	if err != nil {
		return nil, c.fail(call, fmt.Errorf("a channel for the stream: %w", err))
	}
	s := newStream(c, id, nonBlocking)
	c.streams = append(c.streams, s)
	return s, nil
}

// takeChannel returns a channel for a stream: one of its own, or the one with the fewest streams.
// Those of the default stream are not shared, since they wait for it.
//
// Preconditions: c.mu is held.
func (c *Context) takeChannel() (uint32, error) {
	var err error
	if len(c.users) < ownChannels {
		var id uint32
		if id, err = c.file.ChannelAlloc(); err == nil {
			c.users[id] = 1
			return id, nil
		}
		if r := resultOf(err); r != ErrDeviceUnavailable && r != ErrOutOfMemory {
			return 0, err
		}
	}
	best, found := uint32(0), false
	for id, n := range c.users {
		if id != c.def.channel && (!found || n < c.users[best] || n == c.users[best] && id < best) {
			best, found = id, true
		}
	}
	if !found {
		return 0, err
	}
	c.users[best]++
	return best, nil
}

// Synchronize is cuStreamSynchronize: it waits until the work of the stream is
// done, and the events that it waits for.
func (s *Stream) Synchronize() error { return s.await("cuStreamSynchronize", waitForever) }

// Query is cuStreamQuery: nil when all work of the stream is done, ErrNotReady otherwise.
func (s *Stream) Query() error { return s.await("cuStreamQuery", 0) }

func (s *Stream) await(call string, timeout time.Duration) error {
	if err := s.c.enter(call); err != nil {
		return err
	}
	defer s.c.life.RUnlock()
	points, err := s.outstanding(call)
	if err != nil {
		return err
	}
	if err := s.c.waitAll(call, points, timeout); err != nil || timeout == 0 {
		return err
	}
	return s.c.settled(call)
}

// WaitEvent is cuStreamWaitEvent: work that is queued on the stream from now on
// waits for what the event recorded last. An event that was never recorded is
// not waited for.
func (s *Stream) WaitEvent(e *Event) error {
	const call = "cuStreamWaitEvent"
	if err := s.c.enter(call); err != nil {
		return err
	}
	defer s.c.life.RUnlock()
	if e == nil || e.c != s.c {
		return errorf(call, ErrInvalidHandle, "the event does not belong to the context of the stream")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.destroyed {
		return errorf(call, ErrInvalidHandle, "the event is destroyed")
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.dead {
		return errorf(call, ErrInvalidHandle, "the stream is destroyed")
	}
	if e.shared != nil {
		return e.followedBy(call, s)
	}
	if p := e.last; p.s != nil && p.s != s {
		s.pending[p.s] = max(s.pending[p.s], p.seq)
	}
	return nil
}

// Destroy is cuStreamDestroy. Unlike CUDA it waits for the work of the stream,
// because a channel that is given back drops what it has queued.
func (s *Stream) Destroy() error {
	const call = "cuStreamDestroy"
	c := s.c
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if s == c.def {
		return errorf(call, ErrInvalidHandle, "the default stream cannot be destroyed")
	}
	c.mu.Lock()
	if s.dead {
		c.mu.Unlock()
		return errorf(call, ErrInvalidHandle, "the stream is destroyed already")
	}
	s.dead = true // nothing is queued from now on
	last := point{s, s.last}
	c.mu.Unlock()
	if err := c.wait(call, last, waitForever); err != nil {
		c.mu.Lock()
		s.dead = false
		c.mu.Unlock()
		return err
	}
	c.takeText(last)
	// All of the stream is done, so those who still wait for one of its points are about to
	// return. After that only other streams use the channel's id, if any.
	s.gone.Lock()
	defer s.gone.Unlock()
	c.mu.Lock()
	kept := c.streams[:0]
	for _, o := range c.streams {
		delete(o.seen, s)
		delete(o.pending, s)
		if o != s {
			kept = append(kept, o)
		}
	}
	clear(c.streams[len(kept):])
	c.streams = kept
	c.users[s.channel]--
	shared := c.users[s.channel] > 0
	if !shared {
		delete(c.users, s.channel)
	}
	c.mu.Unlock()
	if shared {
		return nil
	}
	if err := c.file.ChannelFree(s.channel); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// outstanding lists the points that must be reached before the stream is idle.
func (s *Stream) outstanding(call string) ([]point, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.dead {
		return nil, errorf(call, ErrInvalidHandle, "the stream is destroyed")
	}
	points := []point{{s, s.last}}
	for o, seq := range s.pending {
		points = append(points, point{o, seq})
	}
	return points, nil
}

// pick returns the stream that an argument means.
func (c *Context) pick(call string, s *Stream) (*Stream, error) {
	if s == nil {
		return c.def, nil
	}
	if s.c != c {
		return nil, errorf(call, ErrInvalidHandle, "the stream belongs to another context")
	}
	return s, nil
}

// enterFor is enter for a call with a stream, which it picks.
func (c *Context) enterFor(call string, s *Stream) (*Stream, error) {
	if err := c.enter(call); err != nil {
		return nil, err
	}
	s, err := c.pick(call, s)
	if err != nil {
		c.life.RUnlock()
	}
	return s, err
}

// submit queues a command on a stream.
func submit[C command](c *Context, call string, s *Stream, cmd C) (point, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.dead {
		return point{}, errorf(call, ErrInvalidHandle, "the stream is destroyed")
	}
	if s.task != nil {
		s.task = cmd.Append(s.task)
		return point{s, s.last + 1}, nil
	}
	c.scratch = cmd.Append(c.scratch[:0])
	return c.exec(call, s, c.scratch)
}

// exec queues a command stream on a stream.
//
// Preconditions: c.mu is held.
func (c *Context) exec(call string, s *Stream, stream []byte) (point, error) {
	c.collectWaits(s)
	seq, err := c.file.Exec(s.channel, stream, c.waits)
	if err != nil {
		return point{}, c.fail(call, err)
	}
	s.last = seq
	for _, p := range c.waited {
		s.seen[p.s] = p.seq
	}
	clear(s.pending)
	return point{s, seq}, nil
}

// collectWaits fills c.waits (and c.waited, the same as points) with what the
// next work of s must wait for: the events it was told to, and by the legacy
// rule the default stream or, for that one, all the others. What is done, waited
// for by earlier work of s, or before it in its channel, is left out.
//
// Preconditions: c.mu is held.
func (c *Context) collectWaits(s *Stream) {
	c.waits, c.waited = c.waits[:0], c.waited[:0]
	for _, o := range c.streams {
		if o.channel == s.channel {
			continue
		}
		seq := s.pending[o]
		if (s == c.def || o == c.def) && !s.nonBlocking && !o.nonBlocking {
			seq = max(seq, o.last)
		}
		if seq > o.done && seq > s.seen[o] {
			c.waitFor(drm.Point{Channel: o.channel, Seqno: seq})
			c.waited = append(c.waited, point{o, seq})
		}
	}
}

// waitFor adds a point to c.waits, which has one for each channel at most.
func (c *Context) waitFor(p drm.Point) {
	for i := range c.waits {
		if w := &c.waits[i]; w.Channel == p.Channel {
			w.Seqno = max(w.Seqno, p.Seqno)
			return
		}
	}
	c.waits = append(c.waits, p)
}

// waitForever is a timeout of drm.File.Wait.
const waitForever time.Duration = -1

// wait waits for one point. With a timeout of 0 it asks: ErrNotReady.
func (c *Context) wait(call string, p point, timeout time.Duration) error {
	s := p.s
	s.gone.RLock()
	defer s.gone.RUnlock()
	c.mu.Lock()
	done, collecting := s.done >= p.seq, s.task != nil && p.seq > s.last
	c.mu.Unlock()
	switch {
	case done:
		return nil
	case collecting:
		return errorf(call, ErrNotPermitted, "the stream collects a task, and nothing can wait for what is not queued yet")
	}
	if err := c.file.Wait(drm.Point{Channel: s.channel, Seqno: p.seq}, timeout); err != nil {
		if errors.Is(err, syscall.ETIME) {
			return &Error{call, ErrNotReady, err}
		}
		return c.fail(call, err)
	}
	c.mu.Lock()
	s.done = max(s.done, p.seq)
	c.mu.Unlock()
	return nil
}

func (c *Context) waitAll(call string, points []point, timeout time.Duration) error {
	for _, p := range points {
		if err := c.wait(call, p, timeout); err != nil {
			return err
		}
	}
	if timeout != 0 { // it is no question only
		c.takeText(points...)
	}
	return nil
}

// waitIdle waits for all that was queued before the call.
func (c *Context) waitIdle(call string) error {
	c.mu.Lock()
	points := make([]point, 0, len(c.streams))
	for _, s := range c.streams {
		points = append(points, point{s, s.last})
	}
	c.mu.Unlock()
	return c.waitAll(call, points, waitForever)
}
