package native

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pvdrm/backend/translate"
	"pvdrm/drm"
	"pvdrm/gpu"
)

// spinTime is how long Wait looks before it sleeps, as in the frontend, so that
// the two differ by what lies between them only.
const (
	spinTime  = 50 * time.Microsecond
	spinLooks = 64 // between two looks at the clock
)

// channel is a queue of batches.
type channel struct {
	dev       gpu.Channel
	submitted atomic.Uint64 // sequence number of the last batch; stored under order
	done      atomic.Uint64 // up to which all is done; stored under File.mu

	order    sync.Mutex
	waiting  []*batch // not yet given to the device; order guards it
	feeding  bool     // a goroutine feeds the device; order guards it
	poisoned bool     // a batch was invalid: later ones are canceled; order guards it

	// The first failure; File.mu guards it. Failed is 0 if there is none.
	failed uint64
	err    error
	index  int
}

// batch is one Exec.
type batch struct {
	seqno    uint64
	waits    []point
	commands []gpu.Command
	invalid  error // why it cannot run
	index    int   // the command that is invalid
}

// point is a place in the order of a channel.
type point struct {
	ch    *channel
	seqno uint64
}

func (p point) reached() bool { return p.ch.done.Load() >= p.seqno }

// ChannelAlloc implements drm.File.
func (f *File) ChannelAlloc() (uint32, error) {
	dev, err := f.ctx.NewChannel()
	if err != nil {
		return 0, errnoOf(err)
	}
	id, err := add(f, f.channels, &channel{dev: dev})
	if err != nil {
		return 0, errors.Join(err, dev.Close())
	}
	return id, nil
}

// ChannelFree implements drm.File.
func (f *File) ChannelFree(id uint32) error {
	ch, err := take(f, f.channels, id)
	if err != nil {
		return err
	}
	ch.order.Lock() // first, so that nothing is refused and done before what the device still runs
	defer ch.order.Unlock()
	err = ch.dev.Close()
	for _, b := range ch.waiting { // behind all that the device had
		f.finish(ch, b, gpu.Result{Err: gpu.ErrClosed})
	}
	ch.waiting = nil
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncobjs.ChannelFreed(id)
	f.moved.Broadcast()
	return errnoOf(err)
}

// Exec implements drm.File.
func (f *File) Exec(id uint32, stream []byte, waits []drm.Point) (uint64, error) {
	if len(stream) > drm.MaxExecBytes || len(waits) > drm.MaxWaits {
		return 0, fmt.Errorf("exec of %d bytes with %d waits: %w", len(stream), len(waits), syscall.E2BIG)
	}
	ch, err := find(f, f.channels, id)
	if err != nil {
		return 0, err
	}
	ch.order.Lock()
	defer ch.order.Unlock()
	b := &batch{seqno: ch.submitted.Load() + 1}
	b.waits, b.invalid = f.points(waits)
	if b.invalid == nil {
		b.commands, b.index, b.invalid = translate.Commands(stream,
			func(id uint32) (gpu.Function, error) { return find(f, f.functions, id) })
	}
	ch.submitted.Store(b.seqno)
	ready := len(ch.waiting) == 0 && !ch.feeding
	for _, w := range b.waits {
		ready = ready && w.reached()
	}
	if ready {
		f.submit(ch, b)
		return b.seqno, nil
	}
	ch.waiting = append(ch.waiting, b)
	if !ch.feeding {
		ch.feeding = true
		f.feeders.Go(func() { f.feed(ch) })
	}
	return b.seqno, nil
}

// points finds what a batch waits for. Only points that exist already are
// allowed: so nothing ever waits in a circle.
func (f *File) points(waits []drm.Point) (points []point, err error) {
	for _, w := range waits {
		on, err := find(f, f.channels, w.Channel)
		if err != nil {
			return nil, err
		}
		if n := on.submitted.Load(); w.Seqno > n {
			return nil, fmt.Errorf("wait for batch %d of channel %d, which has %d: %w", w.Seqno, w.Channel, n, syscall.EINVAL)
		}
		points = append(points, point{on, w.Seqno})
	}
	return points, nil
}

// feed gives batches to the device as their points are reached, until none is left.
func (f *File) feed(ch *channel) {
	for {
		ch.order.Lock()
		if len(ch.waiting) == 0 {
			ch.feeding = false
			ch.order.Unlock()
			return
		}
		b := ch.waiting[0]
		ch.order.Unlock()
		f.mu.Lock()
		for _, w := range b.waits {
			for !w.reached() {
				f.moved.Wait()
			}
		}
		f.mu.Unlock()
		ch.order.Lock()
		if len(ch.waiting) > 0 { // it was not freed meanwhile
			ch.waiting = ch.waiting[1:]
			f.submit(ch, b)
		}
		ch.order.Unlock()
	}
}

// submit gives a batch to the device. Caller holds ch.order.
func (f *File) submit(ch *channel, b *batch) {
	if ch.poisoned && b.invalid == nil {
		b.invalid = gpu.ErrCanceled
	}
	if b.invalid != nil { // it keeps its place in the order, but does nothing
		ch.poisoned = true
		b.commands = nil
	}
	if err := ch.dev.Submit(b.commands, func(r gpu.Result) { f.finish(ch, b, r) }); err != nil {
		f.finish(ch, b, gpu.Result{Err: err})
	}
}

// finish records how a batch ended. The device calls it.
func (f *File) finish(ch *channel, b *batch, r gpu.Result) {
	err, index := r.Err, r.Index
	if err == nil && b.invalid != nil {
		err, index = b.invalid, b.index
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && ch.failed == 0 {
		ch.failed, ch.err, ch.index = b.seqno, errnoOf(err), index
	}
	// A closed context refuses what is new while it still ends what is old.
	ch.done.Store(max(b.seqno, ch.done.Load()))
	f.moved.Broadcast()
}

// Wait implements drm.File.
func (f *File) Wait(p drm.Point, timeout time.Duration) error {
	ch, err := find(f, f.channels, p.Channel)
	if err != nil {
		return err
	}
	if n := ch.submitted.Load(); p.Seqno > n {
		return fmt.Errorf("point %d of channel %d, which has %d: %w", p.Seqno, p.Channel, n, syscall.EINVAL)
	}
	if !f.await(point{ch, p.Seqno}, timeout) {
		return fmt.Errorf("wait for point %d of channel %d: %w", p.Seqno, p.Channel, syscall.ETIME)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.async; err != nil {
		f.async = nil
		return err
	}
	switch {
	case ch.failed == 0 || ch.failed > p.Seqno:
		return nil
	case ch.failed < p.Seqno && !errors.Is(ch.err, syscall.EIO):
		return fmt.Errorf("batch %d of channel %d was canceled: batch %d failed with %w", p.Seqno, p.Channel, ch.failed, ch.err)
	}
	return fmt.Errorf("batch %d of channel %d failed at command %d: %w", ch.failed, p.Channel, ch.index, ch.err)
}

// await polls for a moment, then sleeps. It reports whether the point is reached.
func (f *File) await(p point, timeout time.Duration) bool {
	if p.reached() || timeout == 0 {
		return p.reached()
	}
	start, spin := time.Now(), spinTime
	if timeout > 0 {
		spin = min(spin, timeout)
	}
	for ; time.Since(start) < spin; runtime.Gosched() {
		for range spinLooks {
			if p.reached() {
				return true
			}
		}
	}
	if timeout > 0 {
		timeout = max(timeout-time.Since(start), 0)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sleep(p.reached, timeout)
}

// sleep waits until cond is true, which is looked at when a channel has come
// further or a sync object changed. It reports whether it is; a negative timeout
// is for ever. Caller holds mu.
func (f *File) sleep(cond func() bool, timeout time.Duration) bool {
	start := time.Now()
	if timeout > 0 {
		t := time.AfterFunc(timeout, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.moved.Broadcast()
		})
		defer t.Stop()
	}
	for !cond() {
		if timeout >= 0 && time.Since(start) >= timeout {
			return false
		}
		f.moved.Wait()
	}
	return true
}
