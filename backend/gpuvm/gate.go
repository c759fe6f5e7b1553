package gpuvm

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// How a queue waits until a channel is idle: it looks at the channel's state, first at once and then
// with pauses. slice is for how long a channel runs on while others want the engines.
const (
	stateLooks = 200
	firstPause = 10 * time.Microsecond
	lastPause  = 200 * time.Microsecond
	slice      = 10 * time.Millisecond
)

// queue is the part of a VM's control block in which submissions wait for the VM's gate. A goroutine
// of its own enters the gate for a channel with work, lists the channel in the card's run list, and
// leaves when the channel is idle again: the time between is charged. A channel that is not listed
// fetches nothing. While others want the engines, what a channel submits while it runs waits again, and so
// does what was not begun within a slice.
type queue struct {
	vm    *VM
	gate  gpu.Gate
	wake  chan struct{} // there may be something to do
	stop  chan struct{}
	ended chan struct{}

	mu      sync.Mutex // before Aggregator.mu
	runs    []bool     // in the guest's run list
	waiting []int      // channels that were rung, in that order
	listed  int        // the channel that is in the card's run list; -1 for none
}

// Schedule has all that the VM submits wait for a gate, which serves no one else until Close has
// returned. It is to be called before the first access.
func (vm *VM) Schedule(g gpu.Gate) {
	q := &queue{vm: vm, gate: g, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		runs: make([]bool, len(vm.channels)), listed: -1}
	vm.mu.Lock()
	vm.queue = q
	vm.mu.Unlock()
	go q.dispatch()
}

// schedule notes the guest's run list.
func (vm *VM) schedule(runs []bool) {
	vm.runs = runs
	q := vm.queue
	if q == nil {
		vm.agg.schedule(vm.numbers, runs)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runs = runs
	q.list(q.listed)
	q.look()
}

// part has what a channel submits now wait, if it runs and others want the engines: a guest that never
// stops submitting would keep them.
func (q *queue) part(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.listed == i && q.gate.Wanted(gpu.EngineCompute) {
		q.list(-1)
	}
}

// rung notes that a channel has a submission.
func (q *queue) rung(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(q.waiting, i) {
		q.waiting = append(q.waiting, i)
	}
	q.look()
}

// forget drops what a channel has submitted.
func (q *queue) forget(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(n int) bool { return n == i })
}

// look has the goroutine look. Preconditions: mu is held.
func (q *queue) look() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// list makes one channel of the VM known to the card as one that runs, or with -1 none.
// Preconditions: mu is held.
func (q *queue) list(i int) {
	q.listed = i
	runs := make([]bool, len(q.runs))
	if i >= 0 {
		runs[i] = q.runs[i]
	}
	q.vm.agg.schedule(q.vm.numbers, runs)
}

// take takes the first channel that waits and is in the guest's run list; -1 if there is none.
// List has it listed.
func (q *queue) take(list bool) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.waiting, func(i int) bool { return q.runs[i] })
	if at < 0 {
		return -1
	}
	i := q.waiting[at]
	if list {
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.list(i)
	}
	return i
}

// dispatch is the goroutine.
func (q *queue) dispatch() {
	defer close(q.ended)
	for {
		if q.take(false) < 0 {
			select {
			case <-q.wake:
				continue
			case <-q.stop:
				return
			}
		}
		if admitted := q.gate.Enter(gpu.EngineCompute, false); admitted != nil {
			select {
			case <-admitted:
			case <-q.stop:
				q.gate.Cancel(gpu.EngineCompute)
				return
			}
		}
		began := time.Now()
		commands := uint64(0)
		if i := q.take(true); i >= 0 { // else it was ended meanwhile
			q.run(i, began)
			commands = 1
		}
		q.gate.Leave(gpu.EngineCompute, time.Since(began), commands, q.take(false) >= 0)
	}
}

// run returns when a listed channel is idle, and lists none then.
func (q *queue) run(i int, began time.Time) {
	again := q.idle(i, func() bool { return time.Since(began) >= slice && q.gate.Wanted(gpu.EngineCompute) })
	q.mu.Lock()
	q.list(-1)
	if again && !slices.Contains(q.waiting, i) {
		q.waiting = append(q.waiting, i)
	}
	q.mu.Unlock()
	q.idle(i, func() bool { return false }) // what it had begun when it was taken from the list
}

// idle waits until a channel is idle, or enough says that it is not to be waited for.
func (q *queue) idle(i int, enough func() bool) (busy bool) {
	pause := firstPause
	for looks := 0; q.vm.busy(i); looks++ {
		if enough() {
			return true
		}
		if looks < stateLooks {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, lastPause)
	}
	return false
}

// busy reports whether a channel runs something.
func (vm *VM) busy(i int) bool {
	number := vm.agg.number(vm, i)
	return number >= 0 && vm.agg.card.Read(hw.BAR0, hw.RegState+hw.ChannelBytes*uint64(number))&hw.StateBusy != 0
}

// end ends the goroutine. Preconditions: no channel of the VM is bound.
func (q *queue) end() {
	close(q.stop)
	<-q.ended
}
