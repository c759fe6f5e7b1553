package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"pvdrm/drm"
	"pvdrm/internal/yield"
)

// libraries is what a context has for calls of the host's libraries: a stream for those that are
// of none, and pinned memory for what comes back.
type libraries struct {
	mu     sync.Mutex
	stream *Stream
	late   block // an error of a call that was not waited for
	spare  block // for the results of one call
}

// LibraryCall is a call of a library of the host: bytes that the host's worker understands
// (internal/cudalibs).
type LibraryCall struct {
	Name     string // for messages
	Function uint32
	Args     []byte
	Stream   *Stream // nil: none; the call stands outside of the order of all streams
	After    []Point // that it follows, too
}

// Point is a place in the order of work.
type Point struct{ at point }

// Zero reports whether it is none.
func (p Point) Zero() bool { return p.at.s == nil }

// On reports whether the point is one of a stream.
func (p Point) On(s *Stream) bool { return p.at.s == s }

// Sizes in bytes. A late error lies at the start of results of its own.
const (
	lateBytes  = 24
	spareBytes = 16 << 10

	// libraryLooks is how long a call that is waited for looks for its results before it sleeps.
	libraryLooks = 200 * time.Microsecond
	libraryNap   = time.Millisecond
)

// OnDevice reports whether an address is one that memory of the GPU, or granted memory, can have: it lies in
// their windows, or in a variable of a module that the program knows, which the driver places where it likes.
func (c *Context) OnDevice(addr uint64) bool {
	for _, p := range []drm.Param{drm.ParamVRAMBase, drm.ParamSystemBase} {
		if base, size := c.dev.params[p], c.dev.params[p+1]; addr >= base && addr-base < size {
			return true
		}
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	_, ok := c.memory.byAddr.find(addr, 1)
	return ok
}

// Libraries has a bit for each library of the host that contexts of the device can call.
func (dev *Device) Libraries() uint64 { return dev.params[drm.ParamLibraries] }

// QueueLibrary queues a call of a library, without waiting for it. An error that the library returns is left for
// LateLibraryError.
func (c *Context) QueueLibrary(l LibraryCall) (Point, error) {
	if err := c.enter(l.Name); err != nil {
		return Point{}, err
	}
	defer c.life.RUnlock()
	late, err := c.lateBlock(l.Name)
	if err != nil {
		return Point{}, err
	}
	cmd := drm.CallCmd{Function: l.Function, Args: l.Args, Results: late.addr, ResultBytes: lateBytes}
	if len(l.Args) <= drm.MaxInlineCall {
		p, err := c.callLibrary(&l, cmd)
		return Point{p}, err
	}
	b, err := c.pinnedFor(l.Name, uint64(len(l.Args)))
	if err != nil {
		return Point{}, err
	}
	copy(b.mem, l.Args)
	cmd.Args, cmd.ArgsAddr, cmd.ArgsBytes = nil, b.addr, uint32(len(l.Args))
	p, err := c.callLibrary(&l, cmd)
	if err == nil {
		err = c.wait(l.Name, p, waitForever) // the memory is of the call
	}
	return Point{p}, c.freePinned(l.Name, b, err)
}

// LibraryAnswer is a call that was queued and whose results are to come.
type LibraryAnswer struct {
	c    *Context
	name string
	at   point
	mem  block
	n    uint64
}

// Point is the place of the call in the order of work.
func (a *LibraryAnswer) Point() Point { return Point{a.at} }

// Await waits until the library has returned, which may be before the work that it has queued is done.
func (a *LibraryAnswer) Await() ([]byte, error) {
	c := a.c
	if err := c.enter(a.name); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	if err := c.awaitResults(a.name, a.at, a.mem.mem); err != nil {
		return nil, err
	}
	results := append([]byte{}, a.mem.mem[:a.n]...)
	return results, c.giveSpare(a.name, a.mem)
}

// AskLibrary queues a call with results of n bytes. Await must follow.
func (c *Context) AskLibrary(l LibraryCall, n uint64) (*LibraryAnswer, error) {
	if err := c.enter(l.Name); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	if l.Stream != nil && l.Stream.collects() {
		return nil, errorf(l.Name, ErrNotPermitted, "a call with results in a graph")
	}
	room := pad8(n)
	large := len(l.Args) > drm.MaxInlineCall
	total := room
	if large {
		total += uint64(len(l.Args))
	}
	if total > drm.MaxCall {
		return nil, errorf(l.Name, ErrInvalidValue, "a call with %d bytes", total)
	}
	b, err := c.takeSpare(l.Name, total)
	if err != nil {
		return nil, err
	}
	clear(b.mem[:min(room, lateBytes)])
	cmd := drm.CallCmd{Function: l.Function, Args: l.Args, Results: b.addr, ResultBytes: uint32(room)}
	if large {
		copy(b.mem[room:], l.Args)
		cmd.Args, cmd.ArgsAddr, cmd.ArgsBytes = nil, b.addr+room, uint32(len(l.Args))
	}
	p, err := c.callLibrary(&l, cmd)
	if err != nil {
		return nil, errors.Join(err, c.giveSpare(l.Name, b)) // it was not queued
	}
	return &LibraryAnswer{c: c, name: l.Name, at: p, mem: b, n: n}, nil
}

// collects reports whether the stream only collects work.
func (s *Stream) collects() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.task != nil
}

func pad8(n uint64) uint64 { return (n + 7) &^ 7 }

// awaitResults waits until the library has returned, which comes before the work that it has queued is
// done.
func (c *Context) awaitResults(call string, p point, mem []byte) error {
	for begin := time.Now(); time.Since(begin) < libraryLooks; {
		if resultsThere(mem) {
			return nil
		}
		yield.Processor()
	}
	for !resultsThere(mem) {
		switch err := c.wait(call, p, libraryNap); {
		case err == nil && !resultsThere(mem):
			return errorf(call, ErrUnknown, "the host has answered nothing")
		case err != nil && resultOf(err) != ErrNotReady:
			return err
		}
	}
	return nil
}

// callLibrary queues a call.
func (c *Context) callLibrary(l *LibraryCall, cmd drm.CallCmd) (point, error) {
	if c.dev.Libraries() == 0 {
		return point{}, errorf(l.Name, ErrNotSupported, "the device calls none of NVIDIA's libraries; they need --device cuda, and --cuda-libs where the host has them in a place of their own")
	}
	s := l.Stream
	if s == nil {
		var err error
		if s, err = c.libraryStream(l.Name); err != nil {
			return point{}, err
		}
	}
	if _, err := c.pick(l.Name, s); err != nil {
		return point{}, err
	}
	if cmd.ArgsAddr != 0 && s.collects() {
		return point{}, errorf(l.Name, ErrNotSupported, "%d bytes of arguments in a graph; at most %d are possible", cmd.ArgsBytes, drm.MaxInlineCall)
	}
	c.mu.Lock()
	for _, after := range l.After {
		if o := after.at.s; o != nil && o.c == c && o != s && !o.dead && o.done < after.at.seq {
			s.pending[o] = max(s.pending[o], after.at.seq)
		}
	}
	c.mu.Unlock()
	return submit(c, l.Name, s, cmd)
}

// libraryStream is the stream of calls that have none.
func (c *Context) libraryStream(call string) (*Stream, error) {
	c.libs.mu.Lock()
	defer c.libs.mu.Unlock()
	if c.libs.stream != nil {
		return c.libs.stream, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.takeChannel()
	if err != nil {
		return nil, c.fail(call, fmt.Errorf("a channel for calls of libraries: %w", err))
	}
	s := newStream(c, id, true)
	c.streams = append(c.streams, s)
	c.libs.stream = s
	return s, nil
}

// lateBlock is where the error of a call goes that is not waited for.
func (c *Context) lateBlock(call string) (block, error) {
	c.libs.mu.Lock()
	defer c.libs.mu.Unlock()
	if c.libs.late.mem == nil {
		b, err := c.pinnedFor(call, lateBytes)
		if err != nil {
			return b, err
		}
		clear(b.mem)
		c.libs.late = b
	}
	return c.libs.late, nil
}

// LateLibraryError takes the error that a call returned which was not waited for: its head of results, as
// package cudalibs has it. It returns nil if there is none.
func (c *Context) LateLibraryError() []byte {
	c.libs.mu.Lock()
	defer c.libs.mu.Unlock()
	if mem := c.libs.late.mem; mem != nil && resultsThere(mem) {
		head := append([]byte{}, mem[:lateBytes]...)
		forgetResults(mem)
		return head
	}
	return nil
}

// libraryFailure takes the error of a call of a library which no later call of it has returned. Calls that
// wait for work return it: a program that computes on would use what the library has not written.
func (c *Context) libraryFailure(call string) error {
	head := c.LateLibraryError()
	if head == nil {
		return nil
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(head[at:]) } // cudalibs.Head
	return errorf(call, ErrUnknown, "a call of one of NVIDIA's libraries (function %d of PVDRM's table) returned %d after the program had gone on", number(12), number(8))
}

// settled ends a call that has waited for work.
func (c *Context) settled(call string) error {
	if err := c.libraryFailure(call); err != nil {
		return err
	}
	return c.releasePools(call)
}

// takeSpare returns memory for the results of a call.
func (c *Context) takeSpare(call string, n uint64) (block, error) {
	c.libs.mu.Lock()
	b := c.libs.spare
	if n <= spareBytes && b.mem != nil {
		c.libs.spare = block{}
		c.libs.mu.Unlock()
		return b, nil
	}
	c.libs.mu.Unlock()
	return c.pinnedFor(call, max(n, spareBytes))
}

// giveSpare keeps memory for the next call, or frees it.
func (c *Context) giveSpare(call string, b block) error {
	c.libs.mu.Lock()
	if c.libs.spare.mem == nil && len(b.mem) == spareBytes {
		c.libs.spare = b
		c.libs.mu.Unlock()
		return nil
	}
	c.libs.mu.Unlock()
	return c.freePinned(call, b, nil)
}

func (c *Context) pinnedFor(call string, n uint64) (block, error) {
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.system.alloc(n)
	if err != nil {
		return b, c.fail(call, fmt.Errorf("%d bytes of pinned memory for a call: %w", n, err))
	}
	return b, nil
}

// freePinned frees memory of a call that has failed with err, if it is not nil, or has ended. After an
// error the host may still write to it, so it stays.
func (c *Context) freePinned(call string, b block, err error) error {
	if err != nil {
		return err
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if err := c.memory.system.free(b); err != nil {
		return c.fail(call, err)
	}
	return nil
}
