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

// gosched is how many turns there are between two in which goroutines run.
const gosched = 16

// Turn gives way for the n-th time in a row: to other threads of the machine, and now and then to other
// goroutines. Gosched wakes a thread for a processor of the runtime that is idle, which finds nothing to
// do and sleeps again: were that all the time, a loop that waits for microseconds would cost a wake-up and two switches
// of threads in each round, and a dozen such loops would keep the runtime's queue so busy that no one looked
// at its poller.
func Turn(n int) {
	if n%gosched == 0 {
		runtime.Gosched()
	} else {
		Thread()
	}
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
