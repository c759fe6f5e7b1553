package interpose

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/drm/trace"
	"pvdrm/frontend"
)

// This file and serve_unsafe.go have the way of a call that is answered at once. In
// an emulated guest each page of code and data that is touched for the first time
// since the switch from the program costs some tenths of a microsecond, so what every
// call runs lies together here, and what it needs of ours is in one struct, caller.
// What happens now and then is elsewhere.

// serve receives calls and serves them until no task is left that could make one.
// As a rule one goroutine does so for all: a call takes one switch to its thread
// and one back. Before it waits for something else than a call it has itself
// relieved; who has been stands by.
func (s *supervisor) serve() {
	// So a call takes no scheduling of goroutines. The thread ends with the
	// goroutine, and with it what it is bound to.
	runtime.LockOSThread()
	c := &caller{listener: s.listener, turns: &s.turns, bird: newBird(s.nest)}
	yielded := time.Now()
	for calls := 1; ; calls++ {
		if calls%clockCalls == 0 && time.Since(yielded) > slice {
			runtime.Gosched()
			yielded = time.Now()
		}
		c.call = notification{}
		err := c.listener.receiveCall(&c.call, s.quiet)
		if err != nil {
			err = c.listener.receiveAgain(&c.call, err)
		}
		c.turn = s.turns.Add(1) // nobody receives now
		if err != nil {
			if !errors.Is(err, errEnded) {
				s.report(err)
			}
			return
		}
		if c.bird.nest != nil {
			c.bird.follow(c.call.tid)
		}
		c.tid = int(c.call.tid)
		answered := s.serveCall(c)
		// Before the answer: the caller may make its next call before this thread runs again.
		relieved := !s.turns.CompareAndSwap(c.turn, c.turn+1)
		if !answered {
			if err := c.send(); err != nil {
				s.report(err)
			}
		}
		if relieved && !s.standBy() {
			return
		}
	}
}

// send answers a call. That its caller was killed meanwhile is no error.
func (c *caller) send() error {
	if c.bird.at != noCPU {
		return c.bird.wake(c.call.tid, func() error { return c.listener.answer(&c.answer) })
	}
	return c.listener.answer(&c.answer)
}

// serveCall serves one call. It leaves the answer in c, unless it reports that it
// has given that itself.
func (s *supervisor) serveCall(c *caller) (answered bool) {
	n := &c.call
	c.answer = response{id: n.id}
	if n.nr != unix.SYS_IOCTL {
		val, err := s.other(c)
		c.answer.val = val
		return err != nil && s.failed(c, err)
	}
	err := s.ioctl(c, int(int32(n.args[0])), drm.Request(n.args[1]), n.args[2])
	return err != nil && s.failed(c, err)
}

// ioctl serves an ioctl of type 'd'.
func (s *supervisor) ioctl(c *caller, fd int, req drm.Request, addr uint64) error {
	f, err := s.files.enter(c, fd)
	if f == nil || err != nil {
		return notOurs(err)
	}
	defer f.calls.RUnlock()
	driver, err := s.files.driver(f)
	if err != nil {
		return fmt.Errorf("%s: %w", req, err)
	}
	if waitsLong(req) {
		s.relieve()
	}
	if f.recorder == nil {
		return serve(c, f, driver, req, addr, nil)
	}
	return f.recorder.Call(c.tid, req, func(driver drm.Driver, a *trace.Argument) error {
		return serve(c, f, driver, req, addr, a)
	})
}

// driver is the driver's file that serves f; the first call opens it.
func (s *files) driver(f *openFile) (*frontend.File, error) {
	f.once.Do(func() {
		s.waits()
		if f.file, f.err = s.open(s.waits); f.err == nil && s.trace != nil {
			f.recorder = trace.Record(f.file, s.trace)
		}
	})
	return f.file, f.err
}

// enter finds the DRM file at fd of the caller and counts a call on it, which
// the user ends by calls.RUnlock. It returns nil for whatever else is there.
func (s *files) enter(c *caller, fd int) (*openFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{c.tid, fd}
	f := s.lastFile
	var err error
	if f == nil || s.last != at {
		f, err = s.find(c, at)
	} else if is, failed := f.isAt(at); !is || failed != nil {
		if f, err = nil, failed; err == nil {
			f, err = s.find(c, at)
		}
	}
	if f != nil {
		f.calls.RLock() // nobody waits for it yet: it is not gone
	}
	return f, err
}

// isAt reports whether the file is open at a place.
func (f *openFile) isAt(p place) (bool, error) {
	is, err := isFile(p.tid, p.fd, f.self, f.epoll, f.watched)
	// ENOENT: the description was released. EBADF: nothing is open there.
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBADF) {
		return false, fmt.Errorf("comparing a file of the program: %w", err)
	}
	return is && err == nil, nil
}

// serve serves an ioctl as the DRM core does: the argument is copied in and out as
// far as both the request and the driver's own say so. What it was is left in a,
// if that is not nil.
func serve(c *caller, f *openFile, driver drm.Driver, req drm.Request, addr uint64, a *trace.Argument) error {
	e, ok := drm.Lookup(req)
	if !ok {
		return fmt.Errorf("%s: %w", req, syscall.ENOTTY)
	}
	if req.Size() > drm.MaxArgument {
		return fmt.Errorf("%s: argument of %d bytes: %w", e.Name, req.Size(), syscall.EINVAL)
	}
	arg, read := c.argument[:max(req.Size(), e.Request.Size())], 0
	if req.Reads() && e.Request.Reads() {
		if err := c.Read(addr, arg[:req.Size()]); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		read = req.Size()
	}
	clear(arg[read:])
	if a != nil {
		a.In = slices.Clone(arg)
	}
	failed := dispatch(c, f, driver, e.Request, arg)
	if a != nil {
		a.Out = slices.Clone(arg)
	}
	if req.Writes() && e.Request.Writes() {
		if err := c.Write(addr, arg[:req.Size()]); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return failed
}

// dispatch serves an ioctl whose argument is a copy. What has descriptors in its
// argument, or waits, needs more than the driver does.
func dispatch(c *caller, f *openFile, driver drm.Driver, req drm.Request, arg []byte) error {
	switch req {
	case drm.IoctlPrimeHandleToFD:
		return exportObject(c, driver, arg)
	case drm.IoctlPrimeFDToHandle:
		return importObject(c, driver, arg)
	}
	if w, ok := waitOf(req); ok {
		return w.serve(c, f, driver, req, arg)
	}
	return drm.Ioctl(driver, req, arg, c)
}

// waitsLong reports whether an ioctl may wait for the carrier. Those that wait for the
// ring only say so themselves, once that takes long.
func waitsLong(req drm.Request) bool {
	switch req {
	case drm.IoctlGemNew, drm.IoctlGemClose, drm.IoctlPrimeHandleToFD, drm.IoctlPrimeFDToHandle, drm.IoctlModuleLoad:
		return true
	}
	return false
}

// Read is part of drm.UserMemory.
func (c *caller) Read(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := c.transfer(readMemory, addr, b)
	if !c.waits() {
		return errGone // and what was read may be another's
	}
	if err != nil || n != len(b) {
		return notMoved(len(b), addr, err)
	}
	return nil
}

// Write is part of drm.UserMemory.
func (c *caller) Write(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	// It was there when its argument was read. If nobody has taken over since, nothing
	// was waited for, and in so short a time no thread id goes once round.
	if (c.turns.Load() != c.turn || !c.seen) && !c.waits() {
		return errGone
	}
	n, err := c.transfer(writeMemory, addr, b)
	if err != nil || n != len(b) {
		return notMoved(len(b), addr, err)
	}
	return nil
}

// quickBytes is up to how much memory is copied without telling Go's scheduler:
// some microseconds.
const quickBytes = 64 << 10

// transfer copies between b and the memory of the program at addr.
func (c *caller) transfer(t transfer, addr uint64, b []byte) (int, error) {
	c.local[0] = unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	c.remote[0] = unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
	if len(b) <= quickBytes {
		return transferQuickly(c, t)
	}
	if t == readMemory {
		return unix.ProcessVMReadv(c.tid, c.local[:], c.remote[:], 0)
	}
	return unix.ProcessVMWritev(c.tid, c.local[:], c.remote[:], 0)
}
