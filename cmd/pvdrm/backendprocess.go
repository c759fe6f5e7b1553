package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/local"
	"pvdrm/backend/sandbox"
)

// backendProcess is a process that serves a guest's GPU.
type backendProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended, with err set
	err  error         // nil if it ended in order
}

// carrierKind says how a guest reaches its backend.
type carrierKind struct {
	flag    string // of `pvdrm backend`
	network string // type of its socket
}

var (
	vhostUser  = carrierKind{flag: "--vhost-user", network: "unix"}
	localGuest = carrierKind{flag: "--local", network: "unixpacket"}
)

// Descriptors that startBackend passes.
const (
	listenFD = 3
	readyFD  = 4
)

// startBackend starts `pvdrm backend` with further args, and returns when it
// serves at socket. It is to be called on the main goroutine; see main. What
// keeps the backend from serving, it says itself.
func startBackend(ctx context.Context, g *global, log *zap.Logger, dev *deviceFlags, kind carrierKind, socket, stats string, more ...string) (*backendProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	l, err := local.ListenUnix(kind.network, socket)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // our copy is closed below; the socket stays
	listening, err := l.File()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("passing the socket on: %w", err), l.Close())
	}
	ready, readyEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the backend: %w", err), listening.Close(), l.Close())
	}
	command := func(own bool) *exec.Cmd {
		args := []string{"backend", kind.flag, socket, "--listen-fd", fmt.Sprint(listenFD), "--ready-fd", fmt.Sprint(readyFD),
			"--stats", stats, "--own-mounts=" + fmt.Sprint(own), "--log", g.logLevel, "--log-json=" + fmt.Sprint(g.logJSON)}
		cmd := exec.Command(self, append(append(args, more...), dev.args()...)...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		cmd.ExtraFiles = []*os.File{listening, readyEnd} // listenFD, readyFD
		// A session of its own: ^C is for us, and we stop it when its guest is gone.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	var cmd *exec.Cmd
	if dev.confined() {
		pids := true
		if dev.device == deviceCUDA {
			// NVIDIA's driver does not start where /proc is that of other process ids.
			_, denied := probeView()
			pids = denied == nil
		}
		var shared error
		if cmd, shared, err = sandbox.Start(command, pids); shared != nil {
			log.Warn("the backend has no namespaces of its own", zap.String("guest", dev.guest), zap.Error(shared))
		}
	} else {
		cmd = command(false)
		err = cmd.Start()
	}
	err = errors.Join(err, listening.Close(), readyEnd.Close(), l.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the backend: %w", err), ready.Close())
	}
	b := &backendProcess{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.err = cmd.Wait()
	}()
	return b, b.awaitReady(ctx, ready)
}

// awaitReady returns when the backend serves. If it ends before that, its exit code
// is ours: it has said why.
func (b *backendProcess) awaitReady(ctx context.Context, ready *os.File) error {
	unhook := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Now()) })
	defer unhook()
	_, err := ready.Read(make([]byte, 1))
	_ = ready.Close() // nothing more is to come
	if err == nil {
		return nil
	}
	b.stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if code := b.cmd.ProcessState.ExitCode(); code > 0 {
		return exitError{code}
	}
	return fmt.Errorf("the backend ended before it served: %w", errors.Join(b.err, err))
}

// explain returns what is behind an error of the machine: the end of its
// backend, if that failed.
func (b *backendProcess) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	select {
	case <-b.done:
		if b.err != nil {
			return fmt.Errorf("the backend ended (%w), so the machine was stopped: %w", b.err, err)
		}
	case <-time.After(time.Second): // both ends come at about the same time
	}
	return err
}

// stop ends the backend and waits for its end.
func (b *backendProcess) stop() {
	_ = b.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-b.done:
	case <-time.After(5 * time.Second):
		_ = b.cmd.Process.Kill()
		<-b.done
	}
}
