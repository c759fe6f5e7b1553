// Package inject has a thread of another process make system calls that its
// program never meant to make. An attacker who has taken the process over can do
// the same, so what the calls return is what the attacker gets: the process has
// its real confinement, descriptors and memory.
//
// It works by ptrace, which needs CAP_SYS_PTRACE for a confined process. The
// kernel knows a tracer by its thread, so one goroutine, locked to its thread,
// does all that concerns one Thread. A Thread is used by one goroutine at a time.
package inject

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Thread is the main thread of another process, stopped.
type Thread struct {
	pid     int
	work    chan func()
	saved   unix.PtraceRegs
	syscall uint64        // address of a syscall instruction of the process
	signals []unix.Signal // that arrived meanwhile, for Resume

	scratch uint64 // memory of ours in the process
	used    uint64
}

// scratchBytes is the memory that a Thread maps in its process.
const scratchBytes = 1 << 20

// Stop stops the main thread of a process. The other threads go on. The caller
// ends with Resume.
func Stop(pid int) (*Thread, error) {
	t := &Thread{pid: pid, work: make(chan func())}
	go func() {
		runtime.LockOSThread() // not unlocked: the kernel detaches what a thread that ends has traced
		for do := range t.work {
			do()
		}
	}()
	if err := t.on(t.stop); err != nil {
		close(t.work)
		return nil, fmt.Errorf("stopping process %d: %w", pid, err)
	}
	at, errno, err := t.Call(unix.SYS_MMAP, 0, scratchBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0), 0)
	if err == nil && errno != 0 {
		err = errno
	}
	if err != nil {
		return nil, fmt.Errorf("memory in process %d: %w", pid, errors.Join(err, t.Resume()))
	}
	t.scratch = uint64(at)
	return t, nil
}

// on has the tracing thread do something, and waits for it.
func (t *Thread) on(do func() error) error {
	result := make(chan error)
	t.work <- func() { result <- do() }
	return <-result
}

func (t *Thread) stop() error {
	// Not PtraceAttach, which sends a signal that the process may notice.
	if err := unix.PtraceSeize(t.pid); err != nil {
		return os.NewSyscallError("PTRACE_SEIZE", err)
	}
	if err := unix.PtraceInterrupt(t.pid); err != nil {
		return os.NewSyscallError("PTRACE_INTERRUPT", err)
	}
	if _, err := t.wait(patience); err != nil {
		return err
	}
	if err := unix.PtraceGetRegs(t.pid, &t.saved); err != nil {
		return os.NewSyscallError("PTRACE_GETREGS", err)
	}
	var err error
	t.syscall, err = t.findInstruction()
	return err
}

// patience is how long a system call may take before it is interrupted.
const patience = 2 * time.Second

// errTimeout means that the thread has not stopped in time.
var errTimeout = errors.New("the thread does not stop")

// wait waits until the thread stops.
func (t *Thread) wait(limit time.Duration) (ws unix.WaitStatus, err error) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		pid, err := unix.Wait4(t.pid, &ws, unix.WALL|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return ws, os.NewSyscallError("wait4", err)
		case pid == 0:
		case ws.Exited() || ws.Signaled():
			return ws, &EndedError{ws}
		default:
			return ws, nil
		}
	}
	return ws, errTimeout
}

// EndedError means that the process has ended.
type EndedError struct{ Status unix.WaitStatus }

func (e *EndedError) Error() string {
	if e.Status.Signaled() {
		return fmt.Sprintf("the process was ended by %v", e.Status.Signal())
	}
	return fmt.Sprintf("the process has exited with %d", e.Status.ExitStatus())
}

var syscallInstruction = []byte{0x0f, 0x05}

// findInstruction finds a syscall instruction in the vDSO, which every process has.
func (t *Thread) findInstruction() (uint64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", t.pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		from, rest, _ := strings.Cut(line, "-")
		to, _, _ := strings.Cut(rest, " ")
		start, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return 0, err
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil {
			return 0, err
		}
		text := make([]byte, end-start)
		if _, err := unix.PtracePeekText(t.pid, uintptr(start), text); err != nil {
			return 0, os.NewSyscallError("PTRACE_PEEKTEXT", err)
		}
		if at := bytes.Index(text, syscallInstruction); at >= 0 {
			return start + uint64(at), nil
		}
	}
	return 0, errors.New("no syscall instruction in the vDSO")
}

// Call has the thread make a system call. A call that does not return in time is
// interrupted and returns EINTR. An error means that the call could not be made;
// it is an *EndedError if the process has ended.
func (t *Thread) Call(nr uintptr, args ...uintptr) (result uintptr, errno unix.Errno, err error) {
	err = t.on(func() error {
		regs := t.saved
		regs.Rip = t.syscall
		result, errno, err = t.step(regs, nr, args)
		return err
	})
	return result, errno, err
}

// FaultError means that the instruction that makes the call faulted, as on a machine whose
// kernel has no such calls. The process was not told of it.
type FaultError struct{ Signal unix.Signal }

func (e *FaultError) Error() string { return fmt.Sprintf("the call ends with %v", e.Signal) }

// noCall in Orig_rax says that the thread is in no system call, so that the kernel
// does not restart the one that Stop interrupted.
const noCall = ^uint64(0)

// step sets the registers for a call and executes the instruction at Rip.
func (t *Thread) step(regs unix.PtraceRegs, nr uintptr, args []uintptr) (uintptr, unix.Errno, error) {
	var a [6]uint64
	for i, arg := range args {
		a[i] = uint64(arg)
	}
	regs.Rax, regs.Orig_rax = uint64(nr), noCall
	regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9 = a[0], a[1], a[2], a[3], a[4], a[5]
	from := regs.Rip
	if err := unix.PtraceSetRegs(t.pid, &regs); err != nil {
		return 0, 0, t.failed("PTRACE_SETREGS", err)
	}
	for {
		if err := unix.PtraceSingleStep(t.pid); err != nil {
			return 0, 0, t.failed("PTRACE_SINGLESTEP", err)
		}
		ws, err := t.wait(patience)
		if errors.Is(err, errTimeout) {
			if err = unix.PtraceInterrupt(t.pid); err == nil {
				_, err = t.wait(patience)
			}
			return 0, unix.EINTR, err
		}
		if err != nil {
			return 0, 0, err
		}
		if err := unix.PtraceGetRegs(t.pid, &regs); err != nil {
			return 0, 0, t.failed("PTRACE_GETREGS", err)
		}
		sig := ws.StopSignal()
		if regs.Rip == from && (sig == unix.SIGSEGV || sig == unix.SIGILL || sig == unix.SIGBUS) {
			return 0, 0, &FaultError{sig} // the instruction would fault for ever
		}
		if sig != unix.SIGTRAP {
			t.signals = append(t.signals, sig)
		}
		if regs.Rip != from {
			break
		}
	}
	const maxErrno = 4095
	if n := -int64(regs.Rax); n > 0 && n <= maxErrno {
		return 0, unix.Errno(n), nil
	}
	return uintptr(regs.Rax), 0, nil
}

// failed is the error of a request of ptrace: an *EndedError if the process has ended, which
// somebody may have killed.
func (t *Thread) failed(request string, err error) error {
	var ended *EndedError
	if errors.Is(err, unix.ESRCH) {
		if _, gone := t.wait(patience); errors.As(gone, &ended) {
			return ended
		}
	}
	return os.NewSyscallError(request, err)
}

// Int80 has the thread make a call by the instruction of 32-bit programs. It writes
// that over the program's code: the process is of no use afterwards, unless the error is
// a *FaultError.
func (t *Thread) Int80(nr uintptr) error {
	return t.on(func() error {
		regs := t.saved
		regs.Rip = t.syscall
		if _, err := unix.PtracePokeText(t.pid, uintptr(t.syscall), []byte{0xcd, 0x80}); err != nil {
			return os.NewSyscallError("PTRACE_POKETEXT", err)
		}
		_, _, err := t.step(regs, nr, nil)
		if fault := (*FaultError)(nil); errors.As(err, &fault) {
			_, failed := unix.PtracePokeText(t.pid, uintptr(t.syscall), syscallInstruction)
			err = errors.Join(err, os.NewSyscallError("PTRACE_POKETEXT", failed))
		}
		return err
	})
}

// Put copies bytes into the process and returns their address there.
func (t *Thread) Put(b []byte) (addr uintptr, err error) {
	size := (uint64(len(b)) + 15) &^ 15
	if size > scratchBytes {
		return 0, fmt.Errorf("%d bytes are too many", len(b))
	}
	if t.used+size > scratchBytes {
		t.used = 0 // the oldest are used no more
	}
	addr = uintptr(t.scratch + t.used)
	t.used += size
	err = t.on(func() error {
		_, err := unix.PtracePokeData(t.pid, addr, b)
		return os.NewSyscallError("PTRACE_POKEDATA", err)
	})
	return addr, err
}

// Get copies bytes out of the process.
func (t *Thread) Get(addr uintptr, size int) ([]byte, error) {
	b := make([]byte, size)
	err := t.on(func() error {
		_, err := unix.PtracePeekData(t.pid, addr, b)
		return os.NewSyscallError("PTRACE_PEEKDATA", err)
	})
	return b, err
}

// ours are signals that calls of ours cause, and that would end the process.
var ours = []unix.Signal{unix.SIGXFSZ, unix.SIGPIPE, unix.SIGSEGV, unix.SIGBUS}

// Resume lets the process go on as if it had never been stopped.
func (t *Thread) Resume() error {
	defer close(t.work)
	if t.scratch != 0 {
		if _, errno, err := t.Call(unix.SYS_MUNMAP, uintptr(t.scratch), scratchBytes); err != nil || errno != 0 {
			return fmt.Errorf("munmap: %w", errors.Join(errno, err))
		}
	}
	return t.on(func() error {
		err := os.NewSyscallError("PTRACE_SETREGS", unix.PtraceSetRegs(t.pid, &t.saved))
		err = errors.Join(err, os.NewSyscallError("PTRACE_DETACH", unix.PtraceDetach(t.pid)))
		for _, sig := range t.signals {
			if slices.Contains(ours, sig) {
				continue
			}
			err = errors.Join(err, os.NewSyscallError("tgkill", unix.Tgkill(t.pid, t.pid, sig)))
		}
		return err
	})
}
