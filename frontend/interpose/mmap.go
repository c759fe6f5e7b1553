package interpose

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// mmap serves a map of a DRM file. Its pages are those of another file, the
// grant that the object lies in, which a supervisor cannot say in an answer. So
// the caller gets a descriptor of that file and is made to map it itself.
func (s *supervisor) mmap(c *caller) (int64, error) {
	args := c.call.args
	length, offset := args[1], args[5]
	handle, at, ok := drm.MapHandle(offset)
	if !ok {
		return 0, errNotOurs
	}
	f, err := s.files.enter(c, int(int32(args[4])))
	if f == nil || err != nil {
		return 0, notOurs(err)
	}
	defer f.calls.RUnlock()
	s.relieve()
	driver, err := s.files.driver(f)
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	if f.recorder != nil {
		_, _ = f.recorder.As(c.tid).GemMap(handle) // it fails where MapFD does
	}
	own, size, err := driver.MapFD(handle)
	if errors.Is(err, syscall.ENOENT) {
		err = fmt.Errorf("%w: %w", syscall.EINVAL, err) // what mmap says of an offset with nothing there
	}
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	defer func() { _ = unix.Close(own) }() // the mapping keeps the memory
	// As in the DRM core, an object is mapped from its start.
	if length > size || at != 0 {
		return 0, fmt.Errorf("mmap of %d bytes at %d of object %d, which has %d: %w", length, at, handle, size, syscall.EINVAL)
	}
	return 0, s.mapThere(c, args, own)
}

// errAnswered is for a call that has been answered already.
var errAnswered = errors.New("answered")

// mapThere makes the caller of mmap do it again on the file of our descriptor
// own. It answers the call: the caller stops on its way out of it.
func (s *supervisor) mapThere(c *caller, args [6]uint64, own int) error {
	// The thread that traces is the one that may wait and write registers.
	runtime.LockOSThread()
	s.children.mu.Lock()
	defer s.children.mu.Unlock()
	t := tracee{tid: c.tid, children: s.children}
	if err := t.seize(); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("mmap: %w", err)
	}
	fd, err := c.listener.giveFD(c.call.id, own, true, false)
	if answered := c.listener.answer(&response{id: c.call.id, error: -int32(errnoOf(err))}); err == nil {
		err = answered
	}
	if err == nil {
		err = t.stopped()
	}
	if err == nil {
		args[4], args[5] = uint64(fd), 0
		err = t.redo(unix.SYS_MMAP, args, fd)
	}
	if err == nil {
		err = t.detach()
	}
	if err != nil {
		// Whatever state the caller is in, the end of this thread, which stays
		// locked to this goroutine, lets go of it.
		if !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.ENOENT) { // it was killed
			s.report(fmt.Errorf("[%d] mmap: %w", c.tid, err))
		}
		return errAnswered
	}
	runtime.UnlockOSThread()
	return errAnswered
}
