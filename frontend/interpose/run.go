package interpose

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm/trace"
	"pvdrm/frontend"
)

// Config is what Run runs.
type Config struct {
	Path string   // of the program
	Args []string // with its name
	Env  []string

	Node *Node
	// Open opens a file of the driver, for each that the programs open. It must be
	// made with frontend.NewSeparate and the function that it is given.
	Open func(waits func()) (*frontend.File, error)
	// Trace is where the calls are recorded; nil for nowhere. The caller flushes it.
	Trace *trace.Writer
	// Follow makes the threads that serve calls follow the thread that makes them
	// from processor to processor, if there are several. In an emulated guest that halves the time of a
	// call; on a host it gains nothing.
	Follow bool
	// Report is told of calls that failed; several goroutines may call it.
	Report func(error)
	// Signals are handed on to the program; nil for none.
	Signals <-chan os.Signal
}

// signalBase is what is added to the number of the signal that ended a program,
// as shells do.
const signalBase = 128

// Available reports why programs cannot be supervised on this machine, or nil.
func Available() error {
	if err := probe(); err != nil {
		return err
	}
	// Comparing files comes with CONFIG_KCMP, which every kernel with DRM has. Here
	// nothing is watched, which is ENOENT.
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	defer func() { _ = unix.Close(epoll) }() // it has nothing to flush
	if _, err := isFile(self, epoll, self, epoll, epoll); !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("comparing files of processes (kcmp, CONFIG_KCMP): %w", err)
	}
	return nil
}

// Run runs a program and serves its calls, and those of all that it starts,
// until the last of them has ended. It returns the program's exit code.
//
// The process must have no children of its own, since Run reaps them all, and
// end when it has returned: the files that the last program left are closed so.
func Run(cfg Config) (code int, err error) {
	if err := Available(); err != nil {
		return 0, fmt.Errorf("programs cannot be supervised here: %w", err)
	}
	// Programs that outlive their parents stay ours, to be reaped and to be allowed to look into.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopting orphans: %w", err)
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)

	// As long as a processor of Go's is idle, Go leaves those of goroutines in system
	// calls alone. Otherwise its monitor takes one away and hands it back in almost
	// every call, which in an emulated guest costs more than the call.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 4))

	s := &supervisor{node: cfg.Node, report: cfg.Report, children: &children{}, relief: make(chan struct{}, maxStandby)}
	s.files = files{node: cfg.Node, open: cfg.Open, waits: s.relieve, trace: cfg.Trace, report: cfg.Report, guess: map[place]*openFile{}}
	done := make(chan struct{})
	defer close(done)
	if cfg.Follow && runtime.NumCPU() > 1 {
		s.nest = &nest{}
	}
	if err := s.start(cfg, done); err != nil {
		return 0, err
	}
	s.relieve()
	for {
		select {
		case <-died:
			if !s.children.reap() {
				s.files.end()
				return s.children.code, nil
			}
		case sig := <-cfg.Signals:
			s.children.signal(sig)
		}
	}
}

// start starts the program under the filter, from a thread that is under it too
// and ends with done: it is not used for anything else, and the kernel ends the
// program when it ends.
func (s *supervisor) start(cfg Config, done <-chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		var wakesHere bool
		var err error
		s.listener, wakesHere, err = install(filter(cfg.Node.opens))
		s.quiet = quietly(wakesHere)
		if err == nil {
			s.children.main, err = syscall.ForkExec(cfg.Path, cfg.Args, &syscall.ProcAttr{Env: cfg.Env, Files: []uintptr{0, 1, 2},
				Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}})
		}
		if err != nil {
			err = fmt.Errorf("starting %s: %w", cfg.Path, err)
		}
		started <- err
		<-done
	}()
	return <-started
}

// children are the processes of the program.
type children struct {
	main int // its process

	// mu is held while a thread is traced: its stops would be seen as ends by who
	// waits for any child.
	mu   sync.Mutex
	gone bool // main has ended
	code int  // its exit code
}

// reap takes note of all children that have ended, and reports whether there
// are others.
func (c *children) reap() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		default:
			c.ended(pid, ws)
		}
	}
}

// ended takes note of a process that has ended. Caller holds mu.
func (c *children) ended(pid int, ws unix.WaitStatus) {
	if pid != c.main || c.gone {
		return
	}
	c.gone = true
	c.code = ws.ExitStatus()
	if ws.Signaled() {
		c.code = signalBase + int(ws.Signal())
	}
}

// signal hands a signal on to the program.
func (c *children) signal(sig os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if no, ok := sig.(syscall.Signal); ok && !c.gone {
		_ = unix.Kill(c.main, no) // it may just have ended; it is not reaped yet
	}
}
