package interpose

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/drm/trace"
	"pvdrm/frontend"
)

// ioctl serves an ioctl of type 'd'.
func (s *supervisor) ioctl(c *caller, fd int, req drm.Request, addr uint64) error {
	f, err := s.files.enter(c, fd)
	if errors.Is(err, syscall.EBADF) || err == nil && f == nil {
		return errNotOurs
	}
	if err != nil {
		return err
	}
	defer f.calls.Done()
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
	arg := c.argument[:max(req.Size(), e.Request.Size())]
	clear(arg)
	if req.Reads() && e.Request.Reads() {
		if err := c.Read(addr, arg[:req.Size()]); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
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
	return frontend.Ioctl(driver, req, arg, c)
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

// wait describes an ioctl that waits: where its argument has the time, in ns.
type wait struct {
	at       int  // offset of an int64
	absolute bool // of CLOCK_MONOTONIC; else from now on, negative for ever
}

// waitOf finds the description of an ioctl that waits.
func waitOf(req drm.Request) (w wait, ok bool) {
	switch req {
	case drm.IoctlWait:
		return wait{at: 16}, true
	case drm.IoctlGemCPUPrep:
		return wait{at: 8}, true
	case drm.IoctlSyncobjWait:
		return wait{at: 8, absolute: true}, true
	}
	return wait{}, false
}

// waitPart bounds how long a wait goes on for a caller that was killed.
const waitPart = 2 * time.Second

// serve waits in parts, and looks between them whether anybody is still there.
func (w wait) serve(c *caller, f *openFile, driver drm.Driver, req drm.Request, arg []byte) error {
	asked := int64(binary.LittleEndian.Uint64(arg[w.at:]))
	defer binary.LittleEndian.PutUint64(arg[w.at:], uint64(asked))
	now, err := monotonic()
	end := asked
	switch {
	case w.absolute:
	case asked < 0 || asked > math.MaxInt64-now:
		end = math.MaxInt64
	default:
		end = now + asked
	}
	for err == nil {
		until := min(end, now+int64(waitPart))
		left := until
		if !w.absolute {
			left = max(until-now, 0)
		}
		binary.LittleEndian.PutUint64(arg[w.at:], uint64(left))
		err = frontend.Ioctl(driver, req, arg, c)
		if !errors.Is(err, syscall.ETIME) || until == end {
			return err
		}
		select {
		case <-f.closed:
			return errGone
		default:
		}
		if !c.waits() {
			return errGone
		}
		now, err = monotonic()
	}
	return err
}

// monotonic is the time of CLOCK_MONOTONIC in ns.
func monotonic() (int64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("clock: %w", err)
	}
	return now.Nano(), nil
}

// fdAt is where struct drm_prime_handle has its descriptor, flagsAt its flags.
const (
	flagsAt = 4
	fdAt    = 8
)

// exportObject is PRIME_HANDLE_TO_FD: the descriptor that the driver makes
// becomes one of the program.
func exportObject(c *caller, driver drm.Driver, arg []byte) error {
	flags := binary.LittleEndian.Uint32(arg[flagsAt:])
	if err := frontend.Ioctl(driver, drm.IoctlPrimeHandleToFD, arg, c); err != nil {
		return err
	}
	own := int(int32(binary.LittleEndian.Uint32(arg[fdAt:])))
	defer func() { _ = unix.Close(own) }() // the program has its own
	fd, err := c.listener.giveFD(c.id, own, flags&unix.O_CLOEXEC != 0, false)
	binary.LittleEndian.PutUint32(arg[fdAt:], uint32(int32(fd)))
	return err
}

// importObject is PRIME_FD_TO_HANDLE with a descriptor of the program.
func importObject(c *caller, driver drm.Driver, arg []byte) error {
	fd := binary.LittleEndian.Uint32(arg[fdAt:])
	defer binary.LittleEndian.PutUint32(arg[fdAt:], fd)
	own, err := c.file(int(int32(fd)))
	if err != nil {
		return fmt.Errorf("descriptor %d: %w", int32(fd), err)
	}
	defer func() { _ = unix.Close(own) }() // the driver has mapped what it is of
	binary.LittleEndian.PutUint32(arg[fdAt:], uint32(own))
	return frontend.Ioctl(driver, drm.IoctlPrimeFDToHandle, arg, c)
}
