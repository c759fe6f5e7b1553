package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	guestimage "pvdrm/guest-image"
)

// spinner is a local guest, a `pvdrm run` with a backend and `gdev spin` in it,
// that launches one kernel again and again, or idles; or a virtual machine, a
// `pvdrm up` with the same in it, or with `glscene -spin`, which draws one scene
// again and again.
type spinner struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// idle is the workload of a guest that opens a context and does nothing.
const idle = "idle"

// glWorkload begins the workloads that are a scene of OpenGL in a virtual machine:
// gl:SCENE, or gl:SCENE@WIDTHxHEIGHT for another size than glSize.
const glWorkload = "gl:"

// spinnerArgs is the command line of a guest, a virtual machine if vm is set.
func spinnerArgs(dev deviceFlags, workload []string, vm bool) []string {
	if scene, ok := strings.CutPrefix(workload[0], glWorkload); ok {
		args := append(append(machineCommand(), "--image", guestimage.Mesa), dev.args()...)
		scene, size, _ := strings.Cut(scene, "@")
		return append(args, "--gl", glOn, "--", "glscene", "-spin", "-size", cmp.Or(size, glSize), scene)
	}
	command := []string{"run"}
	if vm {
		command = machineCommand()
	}
	return append(append(append(command, dev.args()...), "--", "gdev", "spin"), workload...)
}

// machineTold is set when a guest has said which machine it boots. Others of the process boot the same.
var machineTold atomic.Bool

// machineCommand is the command for a guest that is a virtual machine, but for what follows of its device.
func machineCommand() []string {
	command := []string{"up", "--console=false", "--cpus", "1"}
	if machineTold.Swap(true) {
		command = append(command, "--quiet-boot")
	}
	return command
}

// startSpinner starts a guest.
func (f *fairFlags) startSpinner(dev deviceFlags, workload ...string) (*spinner, error) {
	return startGuest(dev.guest, spinnerArgs(dev, workload, f.vm))
}

// startGuest starts a pvdrm for a guest, with arguments.
func startGuest(name string, args []string) (*spinner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	// A session of its own: ^C is for us, and we end it. The main goroutine, which
	// starts it, never leaves its thread; see main.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a guest: %w", err)
	}
	return &spinner{name, cmd, in, bufio.NewReader(out)}, nil
}

// line reads a line of the guest. When ctx ends, so does the guest.
func (s *spinner) line(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.cmd.Process.Signal(syscall.SIGTERM) }) // it may have ended
	defer stop()
	text, err := s.stdout.ReadString('\n')
	return strings.TrimSpace(text), errors.Join(err, ctx.Err())
}

// backend finds the process of the guest's backend, a child of its `pvdrm run`.
func (s *spinner) backend() (pid int, err error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for _, child := range strings.Fields(string(text)) {
			command, err := os.ReadFile("/proc/" + child + "/cmdline")
			if words := strings.Split(string(command), "\x00"); err == nil && len(words) > 1 && words[1] == serveCommand {
				return strconv.Atoi(child)
			}
		}
	}
	return 0, errors.New("its backend was not found")
}

// spinners are guests that run together.
type spinners []*spinner

// waitReady returns when each guest has run its first kernel.
func (all spinners) waitReady(ctx context.Context) error {
	for _, s := range all {
		if line, err := s.line(ctx); err != nil || line != "ready" {
			return fmt.Errorf("%s did not begin: %q, %w", s.name, line, errors.Join(err, errSaidAbove))
		}
	}
	return nil
}

var errSaidAbove = errors.New("its errors are above")

// count is what a guest did: kernels, and the time from its first to its last.
type count struct {
	kernels int
	in      time.Duration
}

// perSecond is 0 of a guest that did nothing.
func (c count) perSecond() float64 {
	if c.in == 0 {
		return 0
	}
	return float64(c.kernels) / c.in.Seconds()
}

// begin has all guests count from now on.
func (all spinners) begin() error {
	for _, s := range all {
		if _, err := s.stdin.Write([]byte{'\n'}); err != nil {
			return fmt.Errorf("%s: %w", s.name, errors.Join(err, errSaidAbove))
		}
	}
	return nil
}

// finish has all guests stop at once, and returns what each of them did.
func (all spinners) finish(ctx context.Context) (counts []count, err error) {
	for _, s := range all {
		_ = s.stdin.Close() // which ends it
	}
	for _, s := range all {
		line, err := s.line(ctx)
		var c count
		var seconds float64
		if err == nil {
			_, err = fmt.Sscan(line, &c.kernels, &seconds)
		}
		if err != nil {
			return nil, fmt.Errorf("%s said %q at its end: %w", s.name, line, errors.Join(err, errSaidAbove))
		}
		c.in = time.Duration(seconds * float64(time.Second))
		counts = append(counts, c)
	}
	return counts, nil
}

// spinnerGrace is how long guests may take to end.
const spinnerGrace = 15 * time.Second

// end ends guests, whatever they do, and waits for them.
func (all spinners) end() error {
	for _, s := range all {
		_ = s.stdin.Close() // for the second time, maybe
	}
	var errs []error
	deadline := time.Now().Add(spinnerGrace)
	for _, s := range all {
		ended := make(chan error, 1)
		go func() { ended <- s.cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			}
		case <-time.After(time.Until(deadline)):
			_ = s.cmd.Process.Kill() // it may have ended just now
			errs = append(errs, fmt.Errorf("%s did not end and was killed: %w", s.name, <-ended))
		}
	}
	return errors.Join(errs...)
}
