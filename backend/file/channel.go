package file

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/internal/fifo"
)

// Channel is a queue of batches. It belongs to the file's owner, but for what is marked.
type Channel struct {
	id        uint32
	dev       gpu.Channel
	submitted uint64             // sequence number of the last batch that was accepted
	waiting   fifo.Queue[*batch] // accepted, not yet given to the device
	poison    *Failure           // the first batch that was invalid: later ones are canceled
	freeing   bool               // it waits for the device to be done with it, and takes nothing more
	restored  bool               // the device counts its batches otherwise
	recorded  bool               // events stand or stood for points of it

	done    atomic.Uint64           // up to which all is done; stored under mu
	failure atomic.Pointer[Failure] // the first; stored under mu

	mu       sync.Mutex // orders the ends of batches
	watchers []watcher  // files that wait for points; guarded by mu
}

// Failure describes the first batch of a channel that failed.
type Failure struct {
	Seqno uint64
	Err   error
	Index int // the command that failed
}

// Submitted returns the sequence number of the last batch that was accepted.
func (ch *Channel) Submitted() uint64 { return ch.submitted }

// Reached reports whether all batches up to seqno are done. It may be called from any goroutine.
func (ch *Channel) Reached(seqno uint64) bool { return ch.done.Load() >= seqno }

// Failure returns the first failure, or nil. It may be called from any goroutine.
func (ch *Channel) Failure() *Failure { return ch.failure.Load() }

// Poller returns the device's channel if its user may help it.
func (ch *Channel) Poller() (gpu.Poller, bool) {
	p, ok := ch.dev.(gpu.Poller)
	return p, ok
}

// NextChannel returns an id that no channel has.
func (f *File) NextChannel() (uint32, error) { return f.channels.Next() }

// Channels returns how many channels there are.
func (f *File) Channels() int { return f.channels.Len() }

// NewChannel opens a channel.
func (f *File) NewChannel(id uint32) (*Channel, error) {
	if id > drm.MaxChannels {
		return nil, fmt.Errorf("channel %d, ids end at %d: %w", id, drm.MaxChannels, syscall.EINVAL)
	}
	if err := f.channels.Vacant(id); err != nil {
		return nil, err
	}
	if err := f.account.Charge(quota.Channels, 1); err != nil {
		return nil, err
	}
	dev, err := f.ctx.NewChannel()
	if err != nil {
		f.account.Discharge(quota.Channels, 1)
		return nil, err
	}
	ch := &Channel{id: id, dev: dev}
	return ch, f.channels.Put(id, ch)
}

// Channel finds a channel that is not being freed.
func (f *File) Channel(id uint32) (*Channel, error) {
	ch, err := f.channels.Get(id)
	if err == nil && ch.freeing {
		return nil, fmt.Errorf("channel %d is being freed: %w", id, syscall.ENOENT)
	}
	return ch, err
}

// Freeing is a channel that the device closes.
type Freeing struct {
	Channel *Channel
	err     error
}

// FreeChannel begins to free a channel, which takes nothing more. Its id stays taken until
// EndFree.
func (f *File) FreeChannel(id uint32) (*Freeing, error) {
	ch, err := f.Channel(id)
	if err != nil {
		return nil, err
	}
	ch.freeing = true
	return &Freeing{Channel: ch}, nil
}

// Wait waits until the device has closed the channel: as long as what runs there may run. It
// is for a goroutine of its own.
func (fr *Freeing) Wait() { fr.err = fr.Channel.dev.Close() }

// EndFree frees a channel that the device has closed.
func (f *File) EndFree(fr *Freeing) error {
	ch := fr.Channel
	for ch.waiting.Len() > 0 { // behind all that the device had
		b := ch.waiting.Pop()
		b.unwatch()
		f.finish(b, gpu.Result{Err: gpu.ErrClosed})
	}
	ch.forget(f.guest)
	_, err := f.channels.Take(ch.id)
	f.account.Discharge(quota.Channels, 1)
	if fr.err != nil {
		return fr.err
	}
	return err
}

// Exec queues a command stream as batch seqno of a channel: the next, or it is EINVAL. What is
// wrong with the batch otherwise is reported in its place in the channel's order, to the
// Observer. The waits must be points that exist already, so that no circle can form. The stream
// may be reused when Exec returns. It reports whether batches of the channel wait for points:
// Advance gives them to the device.
func (f *File) Exec(ch *Channel, seqno uint64, waits []drm.Point, stream []byte) (left bool, err error) {
	b, err := f.begin(ch, seqno, batchBytes+waitBytes*len(waits)+batchFactor*len(stream))
	if err != nil {
		return false, err
	}
	for _, p := range waits {
		if b.invalid != nil {
			break
		}
		b.invalid = f.addWait(b, p)
	}
	if b.invalid == nil {
		b.commands, b.index, b.invalid = b.room.Commands(stream, f.function)
	}
	ch.waiting.Push(b)
	_, left = f.advance(ch)
	return left, nil
}

// begin takes the next batch of a channel, which needs so many bytes.
func (f *File) begin(ch *Channel, seqno uint64, bytes int) (*batch, error) {
	if last := ch.submitted; seqno != last+1 {
		return nil, fmt.Errorf("batch %d after %d on channel %d: %w", seqno, last, ch.id, syscall.EINVAL)
	}
	b := newBatch(f, ch, seqno)
	ch.submitted = seqno
	b.bytes = bytes
	f.flight.take(b)
	b.invalid = b.takeQueued()
	return b, nil
}

// addWait makes a batch wait for a point.
func (f *File) addWait(b *batch, p drm.Point) error {
	on, err := f.Channel(p.Channel)
	if err != nil {
		return err
	}
	if last := on.submitted; p.Seqno > last || on == b.ch && p.Seqno == b.seqno {
		return fmt.Errorf("wait for batch %d of channel %d, which has %d: %w", p.Seqno, p.Channel, last, syscall.EINVAL)
	}
	b.waits = append(b.waits, wait{ch: on, seqno: p.Seqno})
	return nil
}

// Advance gives batches to the device whose points were reached, in the order of each channel.
// It reports whether it gave any, and whether some still wait.
func (f *File) Advance() (moved, left bool) {
	for _, ch := range f.channels.All {
		m, l := f.advance(ch)
		moved, left = moved || m, left || l
	}
	return moved, left
}

func (f *File) advance(ch *Channel) (moved, left bool) {
	if ch.freeing {
		return false, false
	}
	for ch.waiting.Len() > 0 {
		b := ch.waiting.First()
		if !b.ready() {
			if !b.follow() {
				return moved, true
			}
			ch.waiting.Pop()
			moved = true
			continue
		}
		ch.waiting.Pop()
		moved = true
		if ch.poison != nil && b.invalid == nil {
			b.invalid = gpu.ErrCanceled
		}
		if b.invalid != nil { // it keeps its place in the order, but does nothing
			b.commands = nil
			if ch.poison == nil {
				ch.poison = &Failure{Seqno: b.seqno, Err: b.invalid, Index: b.index}
			}
		}
		if err := ch.dev.Submit(b.commands, b.done); err != nil {
			f.finish(b, gpu.Result{Err: err})
		}
	}
	return moved, false
}

// drop forgets the batches that the device never got.
func (ch *Channel) drop(f *File) {
	for ch.waiting.Len() > 0 {
		b := ch.waiting.Pop()
		b.unwatch()
		b.giveQueued()
	}
}

// finish publishes how a batch ended. It runs on a goroutine of the device, or on the owner's
// for batches that never got there.
func (f *File) finish(b *batch, r gpu.Result) {
	ch, err, index := b.ch, r.Err, r.Index
	if err == nil && b.invalid != nil {
		err, index = b.invalid, b.index
	}
	ch.mu.Lock()
	first := ch.failure.Load() == nil
	if err == nil && !first {
		err = gpu.ErrCanceled
	}
	var failed *Failure
	if err != nil && first {
		failed = &Failure{Seqno: b.seqno, Err: err, Index: index}
		ch.failure.Store(failed)
	}
	// A closed context refuses what is new while it still ends what is old.
	done := max(b.seqno, ch.done.Load())
	f.observer.Reached(ch.id, done, failed) // first: somebody waits for it
	ch.done.Store(done)
	var stirred []watcher
	if len(ch.watchers) > 0 {
		stirred = ch.arrived()
	}
	ch.mu.Unlock()
	tell(stirred)
	b.giveQueued()
	f.flight.give(b)
	id, seqno := ch.id, b.seqno
	b.free()
	f.observer.Ended(id, seqno, err)
}
