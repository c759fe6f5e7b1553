package nvidia

import (
	gocontext "context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// context is a worker process and its resources. It implements gpu.Context.
type context struct {
	dev    *device
	label  string
	worker *process // changed with mu, gen and lifeMu held; read with any of them
	space  space
	life   gocontext.Context // done when the context ends
	die    gocontext.CancelFunc
	over   chan struct{} // closed when worker's end was decided; changed like worker

	gen    sync.RWMutex // read-locked by a channel that has work, write-locked to rebuild the context
	built  int          // how often the context was rebuilt; under gen
	mixed  atomic.Bool  // some work was not a task
	losses atomic.Int32 // how often the context was rebuilt since a batch completed

	torn atomic.Pointer[string] // what was lost with the worker, of work that is no task
	off  bool                   // what the worker ran was taken off the GPU, and may begin again; under lifeMu

	passing atomic.Pointer[string] // what of the context would be lost with the worker; nil for nothing

	mu       sync.Mutex // one call, and one request to the worker, at a time
	retired  []*process // workers that others have replaced, which are ending
	closed   bool
	lastID   uint64
	memories map[*memory]struct{}
	modules  map[*module]struct{}
	channels [maxChannels]*channel
	orphans  map[*channel]struct{} // channels that are closed, of which the stream waits for a word

	halt    halt
	waiting [gpu.Engines]atomic.Int32 // channels that wait for an engine
	users   [gpu.Engines]usage        // of the engines
	calls   atomic.Int64              // when the call began that the worker answers, since processStart; 0 if it answers none
	called  atomic.Uint64             // such calls, in all
	why     atomic.Pointer[string]    // for what the worker was killed, if not for the end of the context

	graphs graphs

	calleesMu sync.Mutex
	callees   map[uint32]*callee // library functions that were called

	laneMu  sync.Mutex // one writer of the lane at a time
	running []*channel // those that have a command in the lane or on the GPU, oldest first; under laneMu

	lifeMu  sync.Mutex
	err     atomic.Pointer[error] // nil while alive; a *gpu.LostError stays when the context is closed; set under lifeMu
	revoked bool                  // over is closed

	closing sync.Once
}

func newContext(d *device, label string, p *process) *context {
	c := &context{dev: d, label: label, worker: p, over: make(chan struct{}),
		memories: map[*memory]struct{}{}, modules: map[*module]struct{}{}, orphans: map[*channel]struct{}{}}
	c.life, c.die = gocontext.WithCancel(gocontext.Background())
	go c.watch(p)
	return c
}

// Err implements gpu.Context.
func (c *context) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// end ends the context, its worker and all that the worker runs. It returns true at the
// first call; later calls have no effect.
func (c *context) end(err error) bool {
	c.lifeMu.Lock()
	defer c.lifeMu.Unlock()
	if !c.err.CompareAndSwap(nil, &err) {
		return false
	}
	if _, lost := errors.AsType[*gpu.LostError](err); lost {
		c.dev.faults.Add(1)
	}
	c.die()
	if c.dev.config.Replays {
		c.worker.stop.forget()
	}
	c.stopWorker()
	return true
}

// lose ends the context after a fault.
func (c *context) lose(fault *gpu.LostError) { c.end(fault) }

// Busy implements gpu.Meter.
func (c *context) Busy() (compute, copies time.Duration) {
	return c.users[gpu.EngineCompute].time(), c.users[gpu.EngineCopy].time()
}

// Occupied implements gpu.Occupier.
func (c *context) Occupied() uint64 {
	c.lifeMu.Lock()
	p := c.worker
	c.lifeMu.Unlock()
	return c.dev.keeper.ledger.of(p)
}

// wrap names the context in an error.
func (c *context) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("context %q: %s: %w", c.label, doing, err)
}

// do makes a request to the worker. If the driver refuses it, do returns an error of
// package gpu; an error that ends the worker ends the context. c.mu is held.
func (c *context) do(q *request, fds []int, r *reply) error {
	if err := c.Err(); err != nil {
		return err
	}
	if r == nil {
		r = &reply{}
	}
	if c.isOff() { // what the worker has to do may need the GPU, which it will not get again
		c.takeOver()
		if err := c.Err(); err != nil {
			return err
		}
	}
	c.called.Add(1)
	c.calls.Store(max(int64(time.Since(processStart)), 1))
	defer c.calls.Store(0)
	err := c.worker.do(q, fds, r)
	refused, ok := errors.AsType[*driverError](err)
	if err != nil && !ok && c.rebuild(err.Error()) {
		if q.undoes() {
			return nil // the new worker never had it
		}
		err = c.worker.do(q, fds, r)
		refused, ok = errors.AsType[*driverError](err)
	}
	switch {
	case err == nil:
		return nil
	case !ok:
		c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: err.Error()})
		return c.Err()
	case refused.Code.sticky():
		c.lose(c.fault(refused.Code))
		return c.Err()
	}
	return refusal(err)
}

// refusal translates a driver's refusal to an error of package gpu; nil if err is none.
func refusal(err error) error {
	refused, ok := errors.AsType[*driverError](err)
	switch {
	case ok && refused.Code == resultOutOfMemory:
		return fmt.Errorf("%w: %w", gpu.ErrNoMemory, err)
	case ok && refused.Code == resultTooLarge:
		return fmt.Errorf("%w: %w", gpu.ErrTooLarge, err)
	case ok && refused.Code == resultInvalidValue:
		return fmt.Errorf("%w: %w", gpu.ErrInvalid, err)
	}
	return err
}

// fault translates a result of the driver to a fault. It has no address or thread: the
// driver reports the kind only.
func (c *context) fault(code result) *gpu.LostError {
	f := &gpu.LostError{Detail: (&driverError{Call: "CUDA", Code: code, Name: codeNames[code]}).Error()}
	switch code {
	case resultIllegalAddress, resultAddressSpace:
		f.Cause = gpu.LostAddress
	case resultMisaligned:
		f.Cause = gpu.LostAlign
	case resultInstruction, resultPC:
		f.Cause = gpu.LostInstruction
	case resultAssert, resultLaunchFailed: // a trap returns the latter
		f.Cause = gpu.LostTrap
	case resultLaunchTimeout:
		f.Cause = gpu.LostTimeout
	case resultStack:
		f.Cause = gpu.LostStack
	default:
		f.Cause = gpu.LostDevice
	}
	f.Kernel = c.suspect()
	return f
}

// codeNames has the names of results that end a context.
var codeNames = map[result]string{
	resultIllegalAddress: "illegal address", resultLaunchTimeout: "launch timeout", resultAssert: "assert",
	resultStack: "hardware stack error", resultInstruction: "illegal instruction", resultMisaligned: "misaligned address",
	resultAddressSpace: "invalid address space", resultPC: "invalid program counter", resultLaunchFailed: "launch failed",
	resultContained: "contained memory error", resultUnknown: "unknown error", resultECC: "uncorrectable memory error",
	resultNVLink: "uncorrectable NVLink error", resultContextDestroyd: "context destroyed",
}

// suspect returns the oldest kernel that has not completed.
func (c *context) suspect() string {
	c.laneMu.Lock()
	defer c.laneMu.Unlock()
	for _, ch := range c.running {
		if ch.kernel != "" && !reached(c.worker.lane.fence(ch.slot), ch.number) {
			return ch.kernel
		}
	}
	return ""
}

// id allocates a number for an object of the worker. c.mu is held.
func (c *context) id() uint64 {
	c.lastID++
	return c.lastID
}

// Close implements gpu.Context.
func (c *context) Close() error {
	c.closing.Do(func() {
		c.end(gpu.ErrClosed)
		c.mu.Lock()
		c.closed = true
		open := c.channels
		c.mu.Unlock()
		for _, ch := range open {
			if ch != nil {
				ch.Close()
			}
		}
		<-c.worker.Gone() // the GPU no longer accesses its memory
		c.mu.Lock()
		defer c.mu.Unlock()
		c.awaitRetired()
		for ch := range c.orphans {
			c.vacate(ch)
		}
		for m := range c.modules {
			m.closed.Store(true)
		}
		for m := range c.memories {
			m.forget()
		}
		clear(c.modules)
		c.gen.Lock() // so no goroutine is in Poll
		c.worker.discard()
		c.gen.Unlock()
		c.dev.forget(c)
	})
	return nil
}
