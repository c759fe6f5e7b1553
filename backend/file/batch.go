package file

import (
	"sync"
	"sync/atomic"

	"pvdrm/backend/translate"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// batch is one Exec. Its memory, still in the cache, serves another one when it has ended.
type batch struct {
	f        *File
	ch       *Channel
	seqno    uint64
	waits    []wait
	commands []gpu.Command
	invalid  error // why it cannot run: found before the device saw it
	index    int   // the command that is invalid
	queued   bool  // it counts as queued work of the guest
	bytes    int   // of memory that it takes, at most

	watched *Channel // of another file, which it waits for; may be nil

	room translate.Room   // of commands
	done func(gpu.Result) // File.finish
}

// wait is a point that a batch waits for.
type wait struct {
	ch    *Channel
	seqno uint64
}

var batches sync.Pool

// newBatch returns a channel's next batch; free gives it back.
func newBatch(f *File, ch *Channel, seqno uint64) *batch {
	b, _ := batches.Get().(*batch)
	if b == nil {
		b = new(batch)
		b.done = func(r gpu.Result) { b.f.finish(b, r) }
	}
	b.f, b.ch, b.seqno = f, ch, seqno
	return b
}

func (b *batch) free() {
	clear(b.waits)
	b.f, b.ch, b.waits, b.commands, b.invalid, b.index, b.queued, b.bytes, b.watched = nil, nil, b.waits[:0], nil, nil, 0, false, 0, nil
	batches.Put(b)
}

// A batch takes batchBytes of memory, waitBytes for each point, and batchFactor for each byte of
// its stream: a command that is small there becomes a structure and a place in a list.
const (
	batchBytes  = 576
	waitBytes   = 48
	batchFactor = 4
)

// takeQueued counts a batch as queued work of the guest.
func (b *batch) takeQueued() error {
	set := &b.f.guest.Set
	if err := set.Take(quota.Queued, 1); err != nil {
		return err
	}
	if err := set.Take(quota.QueuedBytes, uint64(b.bytes)); err != nil {
		set.Give(quota.Queued, 1)
		return err
	}
	b.queued = true
	return nil
}

// giveQueued takes it off the count.
func (b *batch) giveQueued() {
	if b.queued {
		set := &b.f.guest.Set
		set.Give(quota.Queued, 1)
		set.Give(quota.QueuedBytes, uint64(b.bytes))
		b.queued = false
	}
}

// Bounds of the batches of a file that were accepted and are not done. An owner that can let
// its caller wait accepts no more of them, see Full.
const (
	maxInFlight = 1024
	maxWaiting  = 1 << 20 // bytes of the backend's memory that they take
)

// flight counts the batches that were accepted and are not done.
type flight struct {
	batches int // that the owner knows to be in flight
	bytes   int // that they take
	// ended counts batches that have ended since the owner last looked, in units of oneBatch,
	// and their bytes.
	ended atomic.Uint64
}

const oneBatch = 1 << 40 // in flight.ended: more than the bytes of all batches in flight

func (l *flight) take(b *batch) {
	l.batches++
	l.bytes += b.bytes
}

func (l *flight) give(b *batch) { l.ended.Add(oneBatch + uint64(b.bytes)) }

// now returns the batches in flight and their bytes.
func (l *flight) now() (batches, bytes int) {
	ended := l.ended.Load()
	return l.batches - int(ended/oneBatch), l.bytes - int(ended%oneBatch)
}

// collect takes ended batches off the counts.
func (l *flight) collect() {
	if l.ended.Load() > 0 {
		ended := l.ended.Swap(0)
		l.batches -= int(ended / oneBatch)
		l.bytes -= int(ended % oneBatch)
	}
}

// Full reports whether so much is in flight that no more is to be accepted.
func (f *File) Full() bool {
	f.flight.collect()
	batches, bytes := f.flight.now()
	return batches >= maxInFlight || bytes >= maxWaiting
}

// InFlight returns how many batches were accepted and are not done.
func (f *File) InFlight() int {
	batches, _ := f.flight.now()
	return batches
}
