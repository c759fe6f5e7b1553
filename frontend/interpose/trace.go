package interpose

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// tracee is a thread of the programs that we make do a call of our choice: we
// stop it as a debugger does, change its registers, and let it go again. All
// methods run on one thread, which holds children.mu.
type tracee struct {
	tid      int
	children *children
}

const (
	syscallBytes = 2                   // of the syscall instruction
	noRestart    = math.MaxUint64      // as original rax: the stop was not in a call
	syscallStop  = unix.SIGTRAP | 0x80 // with PTRACE_O_TRACESYSGOOD
	eventStop    = 128                 // PTRACE_EVENT_STOP
)

// seize asks the thread to stop when it next leaves the kernel.
func (t tracee) seize() error {
	if err := unix.PtraceSeize(t.tid); err != nil {
		return fmt.Errorf("the program cannot be stopped to map an object (does a debugger trace it?): %w", err)
	}
	if err := unix.PtraceInterrupt(t.tid); err != nil {
		return fmt.Errorf("stopping the program: %w", err)
	}
	return nil
}

// stopped waits until the thread has stopped.
func (t tracee) stopped() error {
	if err := t.await(func(ws unix.WaitStatus) bool { return int(ws)>>16 == eventStop }); err != nil {
		return err
	}
	return unix.PtraceSetOptions(t.tid, unix.PTRACE_O_TRACESYSGOOD)
}

// await waits for a stop; other stops are passed over.
func (t tracee) await(wanted func(unix.WaitStatus) bool) error {
	for {
		var ws unix.WaitStatus
		if _, err := unix.Wait4(t.tid, &ws, unix.WALL|unix.WNOTHREAD, nil); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return fmt.Errorf("waiting for a stopped program: %w", err)
		}
		if !ws.Stopped() {
			t.children.ended(t.tid, ws)
			return fmt.Errorf("the program has ended: %w", syscall.ESRCH)
		}
		if wanted(ws) {
			return nil
		}
		if err := unix.PtraceSyscall(t.tid, 0); err != nil {
			return fmt.Errorf("passing over a stop: %w", err)
		}
	}
}

// redo does a system call in place of the one that the thread has left, and
// closes fd there. The thread sees the result as that of its own call.
func (t tracee) redo(nr uint64, args [6]uint64, fd int) error {
	mask, err := setSignalMask(t.tid, math.MaxUint64) // no handler may run between the calls
	if err != nil {
		return fmt.Errorf("blocking signals: %w", err)
	}
	var saved unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.tid, &saved); err != nil {
		return fmt.Errorf("reading registers: %w", err)
	}
	result, err := t.call(saved, nr, args)
	if err == nil {
		_, err = t.call(saved, unix.SYS_CLOSE, [6]uint64{uint64(fd)})
	}
	if err != nil {
		return err
	}
	saved.Rax, saved.Orig_rax = result, noRestart
	if err := unix.PtraceSetRegs(t.tid, &saved); err != nil {
		return fmt.Errorf("writing registers: %w", err)
	}
	if _, err := setSignalMask(t.tid, mask); err != nil {
		return fmt.Errorf("unblocking signals: %w", err)
	}
	return nil
}

// call runs the syscall instruction that the thread has left once more, with
// other registers. It returns what the call returned.
func (t tracee) call(r unix.PtraceRegs, nr uint64, args [6]uint64) (uint64, error) {
	r.Rax, r.Orig_rax, r.Rip = nr, noRestart, r.Rip-syscallBytes
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = args[0], args[1], args[2], args[3], args[4], args[5]
	if err := unix.PtraceSetRegs(t.tid, &r); err != nil {
		return 0, fmt.Errorf("writing registers: %w", err)
	}
	for range 2 { // its entry, its exit
		if err := unix.PtraceSyscall(t.tid, 0); err != nil {
			return 0, fmt.Errorf("running a call: %w", err)
		}
		if err := t.await(func(ws unix.WaitStatus) bool { return ws.StopSignal() == syscallStop }); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(t.tid, &r); err != nil {
		return 0, fmt.Errorf("reading registers: %w", err)
	}
	return r.Rax, nil
}

// detach lets the thread go on.
func (t tracee) detach() error {
	if err := unix.PtraceDetach(t.tid); err != nil {
		return fmt.Errorf("letting the program go on: %w", err)
	}
	return nil
}
