package vmm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// outputGrace is how long the last output may take after QEMU's end: only an audience that does
	// not read makes it take any time at all.
	outputGrace = 2 * time.Second
)

// process is a running QEMU.
type process struct {
	cmd    *exec.Cmd
	stderr *console // QEMU's own messages
	done   chan struct{}
	err    error // of the end; valid after done
}

// spawn starts QEMU with its serial line on out and files as descriptors 3 and up, which it takes over.
//
// QEMU dies with this process, however that ends: the kernel kills it when the thread that started it
// is gone (PR_SET_PDEATHSIG). So that thread is locked to a goroutine which lives as long as QEMU.
// QEMU is in a process group of its own: a ^C in the terminal is for pvdrm, which shuts the guest down.
func spawn(path string, args []string, out io.Writer, files ...*os.File) (*process, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	p := &process{stderr: &console{}, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.ExtraFiles = files
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	// Pipes of our own: with exec's, Wait would wait for the copies too, for ever if out blocks.
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = outW, errW

	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := p.cmd.Start()
		outW.Close()
		errW.Close()
		started <- err
		if err != nil {
			outR.Close()
			errR.Close()
			return
		}
		var copies sync.WaitGroup
		copies.Go(func() { _, _ = io.Copy(out, outR) })
		copies.Go(func() { _, _ = io.Copy(p.stderr, errR) })
		p.err = p.cmd.Wait()
		copied := make(chan struct{})
		go func() { copies.Wait(); close(copied) }()
		select {
		case <-copied:
		case <-time.After(outputGrace):
		}
		outR.Close()
		errR.Close()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	return p, nil
}

// kill ends QEMU at once. It may be called at any time.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// messages returns what QEMU itself had to say.
func (p *process) messages() string {
	return strings.TrimSpace(lastLines(p.stderr.text(), 10))
}

// end describes how QEMU ended, nil for exit code 0. Preconditions: done is closed.
func (p *process) end() error {
	if p.err == nil {
		return nil
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return fmt.Errorf("QEMU ended with %v", exit)
	}
	return fmt.Errorf("QEMU: %w", p.err)
}

// socketpair returns our end of a connection and QEMU's.
func socketpair(name string) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name)
	conn, err := net.FileConn(ours) // a copy
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}
