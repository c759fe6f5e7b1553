package interpose

import (
	"bytes"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// nest brings the threads that serve calls to the processor of the thread that
// makes them. Each call is two switches between the two. Where they take turns on
// one processor, neither is woken on another that sleeps, which takes an
// interrupt between processors: in an emulated guest half of the whole call.
//
// Linux would rather wake either on an idle processor. So a serving thread is bound
// to the processor, and the caller is too for the moment in which it is woken,
// unless the processor shares no cache with another: Linux looks for an idle one
// only among those that do (select_idle_sibling). That is done only while one thread
// makes all calls: several would be crowded onto one processor.
type nest struct {
	tid   atomic.Uint32 // who made the last call
	calls atomic.Uint32 // that it made in a row
	cpu   atomic.Int32  // where it was last seen; noCPU when that is not known
}

const (
	noCPU = -1
	// settled is how many calls in a row make a thread the only one, and how often
	// it is looked for again.
	settled = 32
	again   = 1024
)

// came notes a call.
func (n *nest) came(tid uint32) {
	if n.tid.Swap(tid) != tid {
		n.calls.Store(0)
		n.cpu.Store(noCPU)
		return
	}
	if c := n.calls.Add(1); c == settled || c%again == 0 {
		n.cpu.Store(cpuOf(int(tid)))
	}
}

// bird is a thread that serves calls; its goroutine is locked to it.
type bird struct {
	nest *nest
	all  unix.CPUSet // where it may run
	at   int32       // where it is bound to; noCPU if it is not
	lone bool        // there the caller need not be bound to be woken
}

// newBird is for the calling thread. Without a nest it stays wherever it is.
func newBird(n *nest) bird {
	b := bird{nest: n, at: noCPU}
	if n != nil && unix.SchedGetaffinity(0, &b.all) != nil {
		b.nest = nil // it is faster, not more
	}
	return b
}

// follow goes where the caller of the call that was received is. The bird has a nest.
func (b *bird) follow(tid uint32) {
	b.nest.came(tid)
	cpu := b.nest.cpu.Load()
	if cpu == b.at {
		return
	}
	b.at = noCPU
	if cpu == noCPU || !b.all.IsSet(int(cpu)) {
		_ = unix.SchedSetaffinity(0, &b.all)
		return
	}
	here := only(cpu)
	if unix.SchedSetaffinity(0, &here) == nil {
		b.at, b.lone = cpu, lone(cpu)
	}
}

// wake calls do, which wakes the caller, so that it wakes up on this processor.
func (b *bird) wake(tid uint32, do func() error) error {
	if b.at == noCPU || b.lone {
		return do()
	}
	var mask unix.CPUSet
	if unix.SchedGetaffinity(int(tid), &mask) != nil || !mask.IsSet(int(b.at)) {
		return do()
	}
	here := only(b.at)
	if mask == here || unix.SchedSetaffinity(int(tid), &here) != nil {
		return do()
	}
	err := do()
	_ = unix.SchedSetaffinity(int(tid), &mask) // it may have ended meanwhile
	return err
}

// lone reports whether a processor is the only one of its package, and so shares no
// cache with another.
func lone(cpu int32) bool {
	name := strconv.Itoa(int(cpu))
	list, err := os.ReadFile("/sys/devices/system/cpu/cpu" + name + "/topology/package_cpus_list")
	return err == nil && string(bytes.TrimSpace(list)) == name
}

func only(cpu int32) (set unix.CPUSet) {
	set.Set(int(cpu))
	return set
}

// cpuField is the number of the field in /proc/TID/stat that has the processor on
// which the thread last ran, counted from the one behind its name (proc(5)).
const cpuField = 39 - 3

// cpuOf is where a thread last ran; noCPU if nobody knows.
func cpuOf(tid int) int32 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/stat")
	if err != nil {
		return noCPU
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= cpuField {
		return noCPU
	}
	cpu, err := strconv.ParseInt(string(fields[cpuField]), 10, 32)
	if err != nil {
		return noCPU
	}
	return int32(cpu)
}
