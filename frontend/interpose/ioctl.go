package interpose

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

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
		err = drm.Ioctl(driver, req, arg, c)
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
	if err := drm.Ioctl(driver, drm.IoctlPrimeHandleToFD, arg, c); err != nil {
		return err
	}
	own := int(int32(binary.LittleEndian.Uint32(arg[fdAt:])))
	defer func() { _ = unix.Close(own) }() // the program has its own
	fd, err := c.listener.giveFD(c.call.id, own, flags&unix.O_CLOEXEC != 0, false)
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
	return drm.Ioctl(driver, drm.IoctlPrimeFDToHandle, arg, c)
}
