package vmm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"pvdrm/vmm/control"
)

// Shell runs a program in the guest with a terminal of its own, joined to the host's terminal: in is
// put into raw mode meanwhile, so that ^C and the like reach the guest. Where in is not a terminal, its
// content is typed into the guest's. argv defaults to a login shell.
func (vm *VM) Shell(ctx context.Context, argv []string, in *os.File, out io.Writer) (exitCode int, err error) {
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-l"}
	}
	start := control.Start{Argv: argv, Dir: "/root", TTY: true}
	if term := os.Getenv("TERM"); term != "" {
		start.Env = []string{"TERM=" + term}
	}
	streams := control.Streams{Stdin: in, Stdout: out}
	if _, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
		restore, err := makeRaw(int(in.Fd()))
		if err != nil {
			return -1, fmt.Errorf("terminal: %w", err)
		}
		defer restore()
		start.Rows, start.Cols = terminalSize(in)
		resize, stop := watchSize(in)
		defer stop()
		streams.Resize = resize
		keys, err := newKeyboard(in)
		if err != nil {
			return -1, fmt.Errorf("terminal: %w", err)
		}
		defer keys.Close()
		streams.Stdin = keys
	}
	exit, err := vm.call(ctx, start, streams)
	return int(exit.Code), err
}

// makeRaw turns off everything that a terminal does to its input and output (termios(3), cfmakeraw).
func makeRaw(fd int) (restore func(), err error) {
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, err
	}
	// With the output drained, so that the guest's last words are not cooked.
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETSW, old) }, nil
}

func terminalSize(f *os.File) (rows, cols uint16) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return w.Row, w.Col
}

// watchSize delivers the terminal's size whenever it changes; only the newest one matters.
func watchSize(f *os.File) (sizes <-chan uint32, stop func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	c := make(chan uint32)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-changed:
			case <-quit:
				return
			}
			select {
			case c <- control.Size(terminalSize(f)):
			case <-quit:
				return
			}
		}
	})
	return c, func() {
		signal.Stop(changed)
		close(quit)
		wg.Wait()
	}
}

// keyboard reads a terminal until it is closed. A plain Read would go on after the shell has ended and
// swallow what is typed for somebody else.
type keyboard struct {
	tty  *os.File
	r, w *os.File // a pipe: closing w wakes Read
	once sync.Once
}

func newKeyboard(tty *os.File) (*keyboard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &keyboard{tty: tty, r: r, w: w}, nil
}

// Read implements io.Reader. It returns io.EOF after Close.
func (k *keyboard) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(k.tty.Fd()), Events: unix.POLLIN}, {Fd: int32(k.r.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		if fds[1].Revents != 0 {
			return 0, io.EOF
		}
		if fds[0].Revents != 0 {
			return k.tty.Read(p)
		}
	}
}

// Close wakes Read. The pipe's other end is left to the garbage collector: Read may be using it.
func (k *keyboard) Close() {
	k.once.Do(func() { k.w.Close() })
}
