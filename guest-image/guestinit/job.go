package guestinit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/missing"
	"pvdrm/vmm/control"
)

// Exit codes of programs that did not run, as shells have them.
const (
	codeNotFound = 127
	codeNoExec   = 126
	codeSignal   = 128
)

const (
	// A process may die with output still in its pipe, and leave processes behind that hold the
	// pipe open. What is in the pipe is delivered; those processes are not waited for.
	leftoverBytes = 1 << 20 // the most that a pipe holds
	leftoverPause = 200 * time.Millisecond
)

// defaultEnv is what programs get beside what the host sends.
var defaultEnv = withAuditor([]string{"PATH=/bin:/sbin:/usr/bin:/usr/sbin", "HOME=/root", "USER=root", "TERM=linux", "LANG=C.UTF-8"}, auditor)

// auditor serves programs that have a CUDA runtime in them (frontend/cuda/rt/static). Images
// whose programs have no loader do not have it.
const auditor = "/lib/libpvdrm-static.so"

// StubsDir is the folder beside the auditor with libraries in place of NVIDIA's. An image has it where
// programs are to find them.
const StubsDir = "cuda-libs"

// withAuditor adds a library to an environment as an auditor, where it exists. It has that give programs the
// libraries of StubsDir, where there are any.
func withAuditor(env []string, path string) []string {
	if _, err := os.Stat(path); err != nil {
		return env
	}
	env = append(env, "LD_AUDIT="+path)
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), StubsDir)); err == nil {
		env = append(env, StubsEnv+"=1")
	}
	return env
}

// StubsEnv has the auditor give programs the libraries of StubsDir; it is that of package rt.
const StubsEnv = "PVDRM_CUDA_STUBS"

// errKilled ends the streams of a call that the host has killed.
var errKilled = errors.New("killed by the host")

// job is a program that runs for a call.
type job struct {
	call   uint32
	stdin  *control.Inbox
	stdout *control.Outbox
	stderr *control.Outbox
	reaper *reaper

	mu     sync.Mutex
	pid    int      // 0 before the start
	master *os.File // of the terminal, else nil
	killed bool
}

// signal passes a signal on to everything in the program's session.
func (j *job) signal(sig unix.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if sig == unix.SIGKILL {
		// Nobody may be there for the streams any more: do not wait for input or credit.
		j.killed = true
		j.stdin.Close(errKilled)
		j.stdout.Close(errKilled)
		j.stderr.Close(errKilled)
	}
	if j.pid != 0 {
		j.reaper.kill(j.pid, sig)
	}
}

func (j *job) resize(size uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.master != nil {
		setSize(j.master, uint16(size>>16), uint16(size))
	}
}

// mergeEnv returns base with the variables of extra added or replaced.
func mergeEnv(base, extra []string) []string {
	env := append([]string{}, base...)
	for _, e := range extra {
		name, _, _ := strings.Cut(e, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, e)
	}
	return env
}

// lookPath finds a program along the PATH in env.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	found := error(exec.ErrNotFound)
	for _, d := range filepath.SplitList(path) {
		p := filepath.Join(d, name)
		err := executable(p)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			found = err
		}
	}
	return "", found
}

func executable(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return unix.EISDIR
	case st.Mode()&0o111 == 0:
		return unix.EACCES
	}
	return nil
}

// notStarted says why a program could not be run.
func notStarted(name string, err error) control.Exit {
	code := int32(codeNoExec)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = codeNotFound
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return control.Exit{Code: code, Message: fmt.Sprintf("run %s: %v", name, err)}
}

// run runs the program and returns once it has ended and all of its output is sent.
func (j *job) run(s control.Start) (exit control.Exit) {
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	env := mergeEnv(defaultEnv, s.Env)
	lacking, err := missing.Listen("")
	if err == nil { // else programs run without
		env = append(env, missing.Env+"="+lacking.Address())
	}
	defer func() {
		r := lacking.Close()
		exit.Missing, exit.More = r.Lines, uint32(r.More)
	}()
	path, err := lookPath(s.Argv[0], dir, env)
	if err != nil {
		return notStarted(s.Argv[0], err)
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: s.TTY}}
	p, err := openPlumbing(s)
	if err != nil {
		return notStarted(s.Argv[0], err)
	}
	defer p.close()
	for _, f := range p.theirs {
		attr.Files = append(attr.Files, f.Fd())
	}

	j.mu.Lock()
	if j.killed {
		j.mu.Unlock()
		return control.Exit{Code: codeSignal + int32(unix.SIGKILL), Signal: uint32(unix.SIGKILL)}
	}
	pid, status, err := j.reaper.start(path, s.Argv, attr)
	if err == nil {
		j.pid = pid
		if s.TTY {
			j.master = p.in
		}
	}
	j.mu.Unlock()
	p.closeTheirs()
	if err != nil {
		return notStarted(s.Argv[0], err)
	}

	var out sync.WaitGroup
	over := make(chan struct{})
	out.Go(func() { send(j.stdout, p.out, over) })
	if p.err != nil {
		out.Go(func() { send(j.stderr, p.err, over) })
	}
	go j.feed(p.in, s.TTY)

	ws := <-status
	// The session's other processes must not outlive their leader: the guest serves one user, whose
	// program has ended. The number is still the group's or nobody's: Linux hands numbers out in a
	// circle, and this one was in use a moment ago.
	_ = unix.Kill(-pid, unix.SIGKILL)
	close(over)
	out.Wait()
	j.mu.Lock()
	j.master = nil
	j.mu.Unlock()
	if ws.Signaled() {
		return control.Exit{Code: codeSignal + int32(ws.Signal()), Signal: uint32(ws.Signal())}
	}
	return control.Exit{Code: int32(ws.ExitStatus())}
}

// plumbing is the files between init and a program.
type plumbing struct {
	in, out, err *os.File // ours; err is nil and out is in with a terminal
	theirs       []*os.File
}

func openPlumbing(s control.Start) (*plumbing, error) {
	p := &plumbing{}
	if s.TTY {
		master, slave, err := openPTY(s.Rows, s.Cols)
		if err != nil {
			return nil, err
		}
		p.in, p.out, p.theirs = master, master, []*os.File{slave, slave, slave}
		return p, nil
	}
	for i, ours := range []**os.File{&p.in, &p.out, &p.err} {
		o, t, err := pipe(i == 0)
		if err != nil {
			p.close()
			return nil, err
		}
		*ours, p.theirs = o, append(p.theirs, t)
	}
	return p, nil
}

func (p *plumbing) closeTheirs() {
	for _, f := range p.theirs {
		f.Close() // a second Close of a terminal's file is an error that means nothing
	}
	p.theirs = nil
}

func (p *plumbing) close() {
	p.closeTheirs()
	for _, f := range []*os.File{p.in, p.out, p.err} {
		if f != nil {
			f.Close()
		}
	}
}

// send sends what f says until its end. Once over is closed, the rest ends with the first pause.
func send(to *control.Outbox, f *os.File, over <-chan struct{}) {
	sent := make(chan struct{})
	defer close(sent)
	go func() {
		select {
		case <-over:
			_ = f.SetReadDeadline(time.Now().Add(leftoverPause))
		case <-sent:
		}
	}()
	buf := make([]byte, control.MaxData)
	broken := false
	for left := leftoverBytes; left > 0; {
		n, err := f.Read(buf)
		select {
		case <-over:
			left -= n
			_ = f.SetReadDeadline(time.Now().Add(leftoverPause))
		default:
		}
		if n > 0 && !broken {
			// A program whose output nobody takes runs on, as with a terminal that was closed.
			_, werr := to.Write(buf[:n])
			broken = werr != nil
		}
		if err != nil {
			break
		}
	}
	_ = to.End()
}

// feed writes the call's input to the program.
func (j *job) feed(to *os.File, tty bool) {
	buf := make([]byte, control.MaxData)
	gone := false
	for {
		n, err := j.stdin.Read(buf)
		if n > 0 && !gone {
			// Input that the program does not want is dropped, so that the host can go on.
			_, werr := to.Write(buf[:n])
			gone = werr != nil
		}
		if err != nil {
			break
		}
	}
	if tty {
		_, _ = to.Write([]byte{4}) // what a person would type at the end of input
		return
	}
	to.Close()
}
