package session

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"pvdrm/backend/translate"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/internal/fifo"
	"pvdrm/internal/yield"
)

// channel is a queue of batches. The pump owns it, but for what is marked.
type channel struct {
	id        uint32
	dev       gpu.Channel
	submitted uint64             // sequence number of the last batch that was accepted
	waiting   fifo.Queue[*batch] // accepted, not yet given to the device
	poisoned  bool               // a batch was invalid: later ones are canceled
	freeing   bool               // it waits for the device to be done with it, and takes nothing more

	done atomic.Uint64 // stored by callbacks; the shared record is never read back

	mu     sync.Mutex // guards failed, and orders the callbacks
	failed bool
}

// batch is one Exec. Its memory, still in the cache, serves another one when it has ended.
type batch struct {
	s        *Session
	ch       *channel
	seqno    uint64
	waits    []wait
	commands []gpu.Command
	invalid  error // why it cannot run: found before the device saw it
	index    int   // the command that is invalid
	queued   bool  // it counts as queued work of the guest

	room translate.Room   // of commands
	done func(gpu.Result) // finish
}

var batches sync.Pool

// newBatch is for a channel's next batch; free gives it back.
func (ch *channel) newBatch(s *Session, seqno uint64) *batch {
	b, _ := batches.Get().(*batch)
	if b == nil {
		b = new(batch)
		b.done = func(r gpu.Result) { b.ch.finish(b.s, b, r) }
	}
	b.s, b.ch, b.seqno = s, ch, seqno
	return b
}

func (b *batch) free() {
	clear(b.waits)
	b.s, b.ch, b.waits, b.commands, b.invalid, b.index, b.queued = nil, nil, b.waits[:0], nil, nil, 0, false
	batches.Put(b)
}

// wait is a point that a batch waits for.
type wait struct {
	ch    *channel
	seqno uint64
}

func (s *Session) channelAlloc(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeID(payload)
	if err != nil {
		return nil, err
	}
	if m.ID >= hypercall.MaxChannels {
		return nil, fmt.Errorf("channel %d, ids end at %d: %w", m.ID, hypercall.MaxChannels-1, syscall.EINVAL)
	}
	if err := s.channels.Vacant(m.ID); err != nil {
		return nil, err
	}
	if err := s.charge(Channels, 1); err != nil {
		return nil, err
	}
	dev, err := s.ctx.NewChannel()
	if err != nil {
		s.discharge(Channels, 1)
		return nil, err
	}
	s.ring.ResetChannel(m.ID)
	if p, ok := dev.(gpu.Poller); ok && yield.Ample { // else the pump naps too soon to be of help
		s.pollers = append(s.pollers, p)
	}
	return nil, s.channels.Put(m.ID, &channel{id: m.ID, dev: dev})
}

// freed is a channel that the device has closed, and who asked for it.
type freed struct {
	ch  *channel
	h   hypercall.Header
	err error
}

// channel finds a channel that is not being freed.
func (s *Session) channel(id uint32) (*channel, error) {
	ch, err := s.channels.Get(id)
	if err == nil && ch.freeing {
		return nil, fmt.Errorf("channel %d is being freed: %w", id, syscall.ENOENT)
	}
	return ch, err
}

// channelFree closes the device's channel on a goroutine of its own: what runs
// there may take as long as a launch is allowed to, and others must not wait for
// it, least of all a guest that takes grants back. The pump answers at the end,
// see channelFreed; until then the id stays taken.
func (s *Session) channelFree(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeID(payload)
	if err != nil {
		return nil, err
	}
	ch, err := s.channel(m.ID)
	if err != nil {
		return nil, err
	}
	ch.freeing = true
	s.pollers = slices.DeleteFunc(s.pollers, func(p gpu.Poller) bool { return any(p) == any(ch.dev) })
	h := s.serving
	s.freeing.Go(func() {
		err := ch.dev.Close()
		s.mu.Lock()
		s.freed = append(s.freed, freed{ch, h, err})
		s.mu.Unlock()
		s.Kick()
	})
	return nil, errLater
}

// channelsFreed ends the channels that the device is done with.
func (s *Session) channelsFreed() (worked bool, err error) {
	s.mu.Lock()
	list := s.freed
	s.freed = nil
	s.mu.Unlock()
	for _, f := range list {
		for f.ch.waiting.Len() > 0 { // behind all that the device had
			f.ch.finish(s, f.ch.waiting.Pop(), gpu.Result{Err: gpu.ErrClosed})
		}
		_, err := s.channels.Take(f.ch.id)
		s.discharge(Channels, 1)
		if err := s.complete(f.h, nil, errors.Join(f.err, err)); err != nil {
			return true, err
		}
	}
	return len(list) > 0, nil
}

func (s *Session) exec(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeExec(payload)
	if err != nil {
		return nil, err
	}
	ch, err := s.channel(m.Channel)
	if err != nil {
		return nil, err
	}
	if m.Seqno != ch.submitted+1 {
		return nil, fmt.Errorf("batch %d after %d on channel %d: %w", m.Seqno, ch.submitted, ch.id, syscall.EINVAL)
	}
	// From here on the batch has a place in the channel's order: what is wrong
	// with it is told there, and not in a completion.
	b := ch.newBatch(s, m.Seqno)
	ch.submitted = m.Seqno
	s.inFlight++
	b.invalid = s.group.Take(Queued, 1)
	b.queued = b.invalid == nil
	for _, p := range m.Waits {
		if b.invalid != nil {
			break
		}
		on, err := s.channel(p.Channel)
		if err == nil && (p.Seqno > on.submitted || on == ch && p.Seqno == m.Seqno) {
			// Only points that exist already: so nothing ever waits in a circle.
			err = fmt.Errorf("wait for batch %d of channel %d, which has %d: %w", p.Seqno, p.Channel, on.submitted, syscall.EINVAL)
		}
		if err != nil {
			b.invalid = err
			break
		}
		b.waits = append(b.waits, wait{on, p.Seqno})
	}
	if b.invalid == nil {
		b.commands, b.index, b.invalid = b.room.Commands(m.Stream, s.function)
	}
	ch.waiting.Push(b)
	ch.advance(s)
	s.count.batches.Add(1)
	return nil, nil
}

// advance gives batches to the device whose points were reached, in order. It
// reports whether it gave any, and whether some are left.
func (ch *channel) advance(s *Session) (moved, left bool) {
	if ch.freeing {
		return false, false
	}
	for ch.waiting.Len() > 0 {
		b := ch.waiting.First()
		for _, w := range b.waits {
			if w.ch.done.Load() < w.seqno {
				return moved, true
			}
		}
		ch.waiting.Pop()
		moved = true
		if ch.poisoned && b.invalid == nil {
			b.invalid = gpu.ErrCanceled
		}
		if b.invalid != nil { // it keeps its place in the order, but does nothing
			ch.poisoned = true
			b.commands = nil
		}
		if err := ch.dev.Submit(b.commands, b.done); err != nil {
			ch.finish(s, b, gpu.Result{Err: err})
		}
	}
	return moved, false
}

// drop forgets the batches that the device never got.
func (ch *channel) drop(s *Session) {
	for ch.waiting.Len() > 0 {
		if ch.waiting.Pop().queued {
			s.group.Give(Queued, 1)
		}
	}
}

// finish publishes how a batch ended. It runs on a goroutine of the device, or
// on the pump for batches that never got there.
func (ch *channel) finish(s *Session, b *batch, r gpu.Result) {
	err, index := r.Err, r.Index
	if err == nil && b.invalid != nil {
		err, index = b.invalid, b.index
	}
	ch.mu.Lock()
	if err == nil && ch.failed {
		err = gpu.ErrCanceled
	}
	if err != nil && !ch.failed {
		ch.failed = true
		s.ring.SetFailed(ch.id, b.seqno, uint32(translate.Errno(err)), uint32(index))
	}
	s.ring.SetDone(ch.id, b.seqno) // first: somebody waits for it
	ch.done.Store(b.seqno)
	ch.mu.Unlock()
	if lost, is := errors.AsType[*gpu.LostError](err); is {
		s.ring.SetState(hypercall.StateLost)
		if s.lost.CompareAndSwap(false, true) { // once for a context
			s.group.lose(lost.Cause)
			s.log.Warn("GPU context lost", zap.Stringer("cause", lost.Cause), zap.String("kernel", lost.Kernel), zap.Error(lost))
		}
	}
	if b.queued {
		s.group.Give(Queued, 1)
	}
	s.finished.Add(1)
	seqno := b.seqno
	b.free()
	// Errors are told at once; other progress when the frontend wants it.
	if (err != nil || s.ring.Wanted(ch.id, seqno)) && s.ring.WakeFrontend() {
		// It has something to ask soon, for which the pump polls. That the pump is awake
		// is said before it is, and before the frontend is woken, or that would ring. The
		// kick must come after it: then the pump looks at the queue whatever it does now.
		s.in.Awake()
		s.Kick()
		s.carrier.Notify()
	} else if s.hungry.Load() {
		s.Kick()
	}
}
