package guestinit

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper starts processes and collects every child of this one: those it started, whose status it
// passes on, and the orphans that PID 1 inherits. One place must do both, because a status can be
// collected only once.
type reaper struct {
	mu       sync.Mutex // held over fork, so that a child is known before it can be collected
	children map[int]chan<- unix.WaitStatus
}

// newReaper starts collecting. There is one for a process.
func newReaper() *reaper {
	r := &reaper{children: map[int]chan<- unix.WaitStatus{}}
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	go func() {
		for range died {
			r.collect()
		}
	}()
	return r
}

// collect takes every status that is ready: one SIGCHLD may stand for many.
func (r *reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := r.children[pid]; c != nil {
			delete(r.children, pid)
			c <- status
		}
	}
}

// start runs a program. Its status arrives on the channel.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (pid int, status <-chan unix.WaitStatus, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err = syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	c := make(chan unix.WaitStatus, 1)
	r.children[pid] = c
	return pid, c, nil
}

// kill signals the session that the process leads, unless it has been collected: its number could be
// another's by then.
func (r *reaper) kill(pid int, sig unix.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, alive := r.children[pid]; alive {
		_ = unix.Kill(-pid, sig)
	}
}
