// Package yield gives up the processor in loops that wait for memory to change.
package yield

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Ample reports whether there are processors for all that poll while a request is on
// its way: threads of a program, of its backend and of the device's own processes.
// Then whoever expects an answer within microseconds does better not to give way.
var Ample = runtime.NumCPU() >= 8

// Processor lets other goroutines run, and then other threads of the machine: the
// one that is waited for may be in another process and have no processor to run
// on. It costs well under a microsecond where nobody else wants to run.
func Processor() {
	runtime.Gosched()
	Thread()
}

// Thread lets other threads of the machine run, and not other goroutines. It is
// for goroutines that are bound to a thread, as those that C calls: Gosched costs
// such a one two switches of threads.
func Thread() {
	// Does not block, and has no error that means anything.
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// Nap blocks the thread for a moment: as long as it says and some microseconds more.
// time.Sleep takes a millisecond in a process that does nothing else, since the
// runtime then waits at its poller, which counts in milliseconds.
func Nap(d time.Duration) {
	// Linux lets a thread sleep for 50 µs more, to wake several at once, unless told
	// otherwise. Each time, since the goroutine may be on another thread now; where it
	// is forbidden naps are longer.
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, 1, 0)
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // woken early is no harm
}
