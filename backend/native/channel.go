package native

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"pvdrm/backend/file"
	"pvdrm/drm"
)

// spinTime is how long Wait looks before it sleeps, as in the frontend, so that
// the two differ by what lies between them only.
const (
	spinTime  = 50 * time.Microsecond
	spinLooks = 64 // between two looks at the clock
)

// channel is a channel and how many batches it was given.
type channel struct {
	*file.Channel
	submitted atomic.Uint64 // stored under mu
}

// progress wakes waiters when batches end.
type progress struct{ *File }

// Reached implements file.Observer. Waiters look at the channels.
func (progress) Reached(uint32, uint64, *file.Failure) {}

// Ended implements file.Observer.
func (f progress) Ended(uint32, uint64, error) {
	f.turn.Lock()
	f.ends++
	f.moved.Broadcast()
	f.turn.Unlock()
}

// Stirred implements file.Observer. A file of its own guest waits for no other.
func (progress) Stirred() {}

// channel finds a channel to wait for.
func (f *File) channel(id uint32) (*channel, error) {
	if err := f.wait(); err != nil {
		return nil, err
	}
	defer f.turn.Unlock()
	ch, ok := f.channels[id]
	if !ok {
		return nil, fmt.Errorf("no channel %d: %w", id, syscall.ENOENT)
	}
	return ch, nil
}

// ChannelAlloc implements drm.File.
func (f *File) ChannelAlloc() (uint32, error) {
	if err := f.lock(); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	id, err := f.file.NextChannel()
	if err != nil {
		return 0, err
	}
	ch, err := f.file.NewChannel(id)
	if err != nil {
		return 0, errnoOf(err)
	}
	f.turn.Lock()
	f.channels[id] = &channel{Channel: ch}
	f.turn.Unlock()
	return id, nil
}

// ChannelFree implements drm.File.
func (f *File) ChannelFree(id uint32) error {
	if err := f.lock(); err != nil {
		return err
	}
	fr, err := f.file.FreeChannel(id)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	f.turn.Lock()
	delete(f.channels, id)
	f.turn.Unlock()
	f.aside.Add(1)
	defer f.aside.Done()
	f.mu.Unlock()
	fr.Wait()
	f.mu.Lock()
	err = f.file.EndFree(fr)
	f.mu.Unlock()
	f.turn.Lock()
	defer f.turn.Unlock()
	f.syncobjs.ChannelFreed(id)
	f.moved.Broadcast()
	return errnoOf(err)
}

// Exec implements drm.File.
func (f *File) Exec(id uint32, stream []byte, waits []drm.Point) (uint64, error) {
	if len(stream) > drm.MaxExecBytes || len(waits) > drm.MaxWaits {
		return 0, fmt.Errorf("exec of %d bytes with %d waits: %w", len(stream), len(waits), syscall.E2BIG)
	}
	if err := f.lock(); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	ch, err := f.channel(id)
	if err != nil {
		return 0, err
	}
	seqno := ch.submitted.Load() + 1
	left, err := f.file.Exec(ch.Channel, seqno, waits, stream)
	ch.submitted.Store(seqno)
	if left && !f.feeding {
		f.feeding = true
		f.aside.Go(f.feed)
	}
	return seqno, err
}

// feed gives batches to the device as their points are reached, until none waits.
func (f *File) feed() {
	for {
		f.turn.Lock()
		seen := f.ends
		f.turn.Unlock()
		f.mu.Lock()
		_, left := f.file.Advance()
		f.feeding = left && !f.closed
		again := f.feeding
		f.mu.Unlock()
		if !again {
			return
		}
		f.turn.Lock()
		for f.ends == seen && !f.over {
			f.moved.Wait()
		}
		f.turn.Unlock()
	}
}

// Wait implements drm.File.
func (f *File) Wait(p drm.Point, timeout time.Duration) error {
	ch, err := f.channel(p.Channel)
	if err != nil {
		return err
	}
	if n := ch.submitted.Load(); p.Seqno > n {
		return fmt.Errorf("point %d of channel %d, which has %d: %w", p.Seqno, p.Channel, n, syscall.EINVAL)
	}
	if !f.await(ch, p.Seqno, timeout) {
		return fmt.Errorf("wait for point %d of channel %d: %w", p.Seqno, p.Channel, syscall.ETIME)
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	if err := f.async; err != nil {
		f.async = nil
		return err
	}
	failed := ch.Failure()
	if failed == nil || failed.Seqno > p.Seqno {
		return nil
	}
	failure := errnoOf(failed.Err)
	if failed.Seqno < p.Seqno && !errors.Is(failure, syscall.EIO) {
		return fmt.Errorf("batch %d of channel %d was canceled: batch %d failed with %w", p.Seqno, p.Channel, failed.Seqno, failure)
	}
	return fmt.Errorf("batch %d of channel %d failed at command %d: %w", failed.Seqno, p.Channel, failed.Index, failure)
}

// await polls for a moment, then sleeps. It reports whether the point is reached.
func (f *File) await(ch *channel, seqno uint64, timeout time.Duration) bool {
	if ch.Reached(seqno) || timeout == 0 {
		return ch.Reached(seqno)
	}
	start, spin := time.Now(), spinTime
	if timeout > 0 {
		spin = min(spin, timeout)
	}
	for ; time.Since(start) < spin; runtime.Gosched() {
		for range spinLooks {
			if ch.Reached(seqno) {
				return true
			}
		}
	}
	if timeout > 0 {
		timeout = max(timeout-time.Since(start), 0)
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	return f.sleep(func() bool { return ch.Reached(seqno) }, timeout)
}

// sleep waits until cond is true, which it checks when a channel has come further or a sync object
// changed. It reports whether it is; a negative timeout never ends. Preconditions: turn is held.
func (f *File) sleep(cond func() bool, timeout time.Duration) bool {
	start := time.Now()
	if timeout > 0 {
		t := time.AfterFunc(timeout, func() {
			f.turn.Lock()
			defer f.turn.Unlock()
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
