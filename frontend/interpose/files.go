package interpose

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm/trace"
	"pvdrm/frontend"
)

// maxFiles bounds how many DRM files the programs have open at a time: each
// takes some descriptors and a thread of ours.
const maxFiles = 512

// openFile is a DRM file: an open file description of the node somewhere in the
// programs, and the file of the driver that serves it.
type openFile struct {
	self    int // our process, whose
	epoll   int // instance knows the description as its descriptor
	watched int
	lock    int64 // the byte of the node that the description has locked

	calls  sync.RWMutex  // held for reading by those that are being served
	closed chan struct{} // closed when the last descriptor is
	gone   bool          // no call is added; files.mu guards it

	once     sync.Once // opens the driver's file, for the first call
	file     *frontend.File
	recorder *trace.Recorder // of file; nil where nothing is recorded
	err      error
}

// files are the DRM files that the programs have open.
type files struct {
	node   *Node
	open   func(waits func()) (*frontend.File, error)
	waits  func()        // called before anybody waits
	trace  *trace.Writer // nil where nothing is recorded
	report func(error)

	mu       sync.Mutex
	all      []*openFile
	locks    [maxFiles]bool // bytes of the node in use
	guess    map[place]*openFile
	last     place // where a call was made last, if that was on lastFile, which is not nil
	lastFile *openFile
}

// place is a descriptor of a thread. What is open there may have changed since
// it was looked at.
type place struct{ tid, fd int }

// maxGuesses bounds the memory for where files were seen.
const maxGuesses = 4096

// end ends what is recorded of the files that are open still.
func (s *files) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		f.once.Do(func() {}) // nobody opens it now
		if f.recorder != nil {
			f.recorder.End()
		}
	}
}

// find finds the file at a place of the caller, where lastFile is not; what is
// unknown but open on the node is taken in. Caller holds mu.
func (s *files) find(c *caller, at place) (*openFile, error) {
	f := s.guess[at]
	if f != nil {
		is, err := f.isAt(at)
		if err != nil {
			return nil, err
		}
		if is {
			s.last, s.lastFile = at, f
			return f, nil
		}
	}
	for _, f := range s.all {
		if f.gone {
			continue
		}
		is, err := f.isAt(at)
		if err != nil {
			return nil, err
		}
		if is {
			if len(s.guess) >= maxGuesses {
				clear(s.guess)
			}
			s.guess[at] = f
			return f, nil
		}
	}
	return s.add(c, at.fd)
}

// add takes the file at fd of the caller in if it is open on the node. Caller
// holds mu.
func (s *files) add(c *caller, fd int) (*openFile, error) {
	own, err := c.file(fd)
	if err != nil {
		return nil, err
	}
	// Closed at once: it would keep the file open. What stays tells of it without doing so.
	defer func() { _ = unix.Close(own) }()
	flags, err := unix.FcntlInt(uintptr(own), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_PATH != 0 || !s.node.is(own) {
		return nil, err
	}
	lock := slices.Index(s.locks[:], false)
	if lock < 0 {
		return nil, fmt.Errorf("the programs have %d DRM files open: %w", maxFiles, syscall.EMFILE)
	}
	f := &openFile{lock: s.node.locks + int64(lock), self: self, watched: own, closed: make(chan struct{})}
	if err := lockByte(own, unix.F_OFD_SETLK, lockFor(flags), f.lock); err != nil {
		return nil, fmt.Errorf("marking a file of the program: %w", err)
	}
	if f.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("watching a file of the program: %w", err)
	}
	if err := unix.EpollCtl(f.epoll, unix.EPOLL_CTL_ADD, own, &unix.EpollEvent{}); err != nil {
		_ = unix.Close(f.epoll) // err is what to report
		return nil, fmt.Errorf("watching a file of the program: %w", err)
	}
	s.locks[lock] = true
	s.all = append(s.all, f)
	go s.watch(f)
	return f, nil
}

// watch waits until the last descriptor of a file is gone, and closes it. Until
// then the description holds a lock on a byte of the node.
func (s *files) watch(f *openFile) {
	keeper := s.node.keeper
	err := lockByte(keeper, unix.F_OFD_SETLKW, unix.F_WRLCK, f.lock)
	if err != nil {
		s.report(fmt.Errorf("waiting for a file of the program to be closed: %w", err))
		return // it stays until we end
	}
	close(f.closed)
	s.mu.Lock()
	f.gone = true
	clear(s.guess)
	s.lastFile = nil
	s.mu.Unlock()
	f.calls.Lock() // for good
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, func(o *openFile) bool { return o == f })
	if f.recorder != nil {
		f.recorder.End()
	}
	s.mu.Unlock()
	if f.file != nil {
		if err := f.file.Close(); err != nil {
			s.report(fmt.Errorf("closing a DRM file: %w", err))
		}
	}
	_ = unix.Close(f.epoll) // it has nothing to flush
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := lockByte(keeper, unix.F_OFD_SETLK, unix.F_UNLCK, f.lock); err == nil {
		s.locks[f.lock-s.node.locks] = false
	}
}

// lockFor is the kind of lock that a file of those flags can have.
func lockFor(flags int) int16 {
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return unix.F_RDLCK
	}
	return unix.F_WRLCK
}

// lockByte changes the lock that the description of fd has on a byte.
func lockByte(fd, cmd int, kind int16, at int64) error {
	for {
		err := unix.FcntlFlock(uintptr(fd), cmd, &unix.Flock_t{Type: kind, Start: at, Len: 1})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
