package file

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// decodeState decodes what Snapshot returned and checks that it is one that it could have written:
// the places are different ones, numbers are in order, and batches that wait are the last.
func decodeState(b []byte) (*state, error) {
	s := &state{}
	if len(b) > MaxState {
		return nil, fmt.Errorf("a file's state of %d bytes, %d are possible: %w", len(b), MaxState, syscall.EFBIG)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("a file's state: %w: %w", syscall.EINVAL, err)
	}
	memories, modules, channels := places{}, places{}, places{}
	ok := true
	for _, o := range s.Objects {
		ok = ok && memories.take(o.Memory)
	}
	for _, m := range s.Modules {
		ok = ok && modules.take(m.Module) && m.Source <= drm.MaxSource
	}
	for _, c := range s.Channels {
		ok = ok && channels.take(c.Channel) && c.ID <= drm.MaxChannels && c.Done <= c.Submitted && c.Submitted-c.Done <= maxRestored
		for _, f := range []*failureState{c.Failure, c.Poison} {
			ok = ok && (f == nil || f.Seqno <= c.Submitted && f.Errno != 0)
		}
	}
	if !ok || !memories.dense() || !modules.dense() || !channels.dense() {
		return nil, fmt.Errorf("a file's state contradicts itself: %w", syscall.EINVAL)
	}
	return s, nil
}

// places are numbers of which each is taken once.
type places map[int]bool

func (p places) take(n int) bool {
	if n < 0 || p[n] {
		return false
	}
	p[n] = true
	return true
}

// dense reports whether the numbers are those from 0 to their count.
func (p places) dense() bool {
	for n := range p {
		if n >= len(p) {
			return false
		}
	}
	return true
}

// maxRestored bounds the batches of a channel that a state has.
const maxRestored = 1 << 16

// PagesFunc supplies the pages of a granted object that is restored.
type PagesFunc func(handle, source uint32, size uint64) (Pages, error)

// restorer builds a file.
type restorer struct {
	*File
	state     *state
	pages     PagesFunc
	made      map[int]*object // by place
	queues    map[int]*queue  // by place
	variables uint64          // bytes that modules may still reserve
	batches   []*batch        // whose ends the device reports
}

// queue is a channel whose batches are restored.
type queue struct {
	*Channel
	next uint64 // the batch that is restored next
}

// Restore builds a file from its state and from that of its context, which Snapshot wrote. It is
// stopped until Resume. Pages supplies the memory of granted objects, which the caller keeps where
// Restore fails; an error leaves nothing else behind.
func Restore(ctx context.Context, device gpu.Device, guest *Guest, label string, observer Observer, own []byte, r io.Reader, pages PagesFunc) (*File, error) {
	from, ok := device.(gpu.Restorer)
	if !ok {
		return nil, fmt.Errorf("the device restores no contexts: %w", syscall.EOPNOTSUPP)
	}
	s, err := decodeState(own)
	if err != nil {
		return nil, err
	}
	b := &restorer{File: newFile(device, guest, observer), state: s, pages: pages, made: map[int]*object{}, queues: map[int]*queue{}}
	if err := b.build(ctx, from, label, r); err != nil {
		b.abandon()
		return nil, err
	}
	for id, ch := range b.File.channels.All {
		observer.Reached(id, ch.done.Load(), ch.failure.Load())
	}
	return b.File, nil
}

func (b *restorer) build(ctx context.Context, from gpu.Restorer, label string, r io.Reader) error {
	if err := b.charge(); err != nil {
		return err
	}
	objects, err := from.Restore(ctx, label, r, gpu.Owner{System: b.system, Done: b.done, Reserve: b.reserve})
	if err != nil {
		return err
	}
	b.ctx = objects.Context
	if len(objects.Memories) != len(b.state.Objects) || len(objects.Modules) != len(b.state.Modules) || len(objects.Channels) != len(b.state.Channels) {
		return errStates
	}
	if r, ok := b.ctx.(gpu.Retainer); ok && r.Retained() > b.state.Kept {
		return errStates // charged to a module, it would be given back with it
	}
	for _, o := range b.state.Objects {
		made, mem := b.made[o.Memory], objects.Memories[o.Memory]
		if made == nil || mem.Size() != o.Size {
			return errStates
		}
		made.mem = mem
		if err := b.File.objects.Put(o.Handle, made); err != nil {
			return err
		}
	}
	for _, m := range b.state.Modules {
		if err := b.module(m, objects.Modules[m.Module]); err != nil {
			return err
		}
	}
	for _, c := range b.state.Channels {
		q := b.queues[c.Channel]
		if q.next != c.Submitted+1 {
			return errStates
		}
		q.dev = objects.Channels[c.Channel]
		if err := b.File.channels.Put(c.ID, q.Channel); err != nil {
			return err
		}
	}
	return nil
}

var errStates = fmt.Errorf("the states of a file and of its context do not belong together: %w", syscall.EINVAL)

// charge charges what the state says that the file has, but for granted pages, which system does.
func (b *restorer) charge() error {
	if err := b.account.Charge(quota.Contexts, 1); err != nil {
		return err
	}
	for _, o := range b.state.Objects {
		if o.System {
			continue
		}
		b.made[o.Memory] = &object{}
		if err := b.File.charge(b.made[o.Memory], o.Size); err != nil {
			return err
		}
	}
	if err := b.account.Charge(quota.VRAM, b.state.Kept); err != nil {
		return err
	}
	b.kept, b.variables = b.state.Kept, b.state.Kept
	for _, m := range b.state.Modules {
		if err := b.account.ChargeEach(moduleCharges(m, gpu.ModuleMemory(m.Source))); err != nil {
			return err
		}
		if b.variables+m.Variables < b.variables {
			return errStates
		}
		b.variables += m.Variables
	}
	for _, c := range b.state.Channels {
		if err := b.account.Charge(quota.Channels, 1); err != nil {
			return err
		}
		ch := &Channel{id: c.ID, submitted: c.Submitted, restored: true, poison: c.Poison.failure()}
		ch.done.Store(c.Done)
		ch.failure.Store(c.Failure.failure())
		b.queues[c.Channel] = &queue{Channel: ch, next: c.Done + 1}
	}
	return nil
}

func moduleCharges(m moduleState, memory uint64) quota.Amounts {
	return quota.Amounts{quota.Modules: 1, quota.ModuleText: m.Source, quota.ModuleMemory: memory, quota.VRAM: m.Variables}
}

// system supplies the pages of a granted object.
func (b *restorer) system(place int, size uint64) ([][]byte, error) {
	for _, o := range b.state.Objects {
		if o.Memory != place || !o.System || o.Size != size {
			continue
		}
		pages, err := b.pages(o.Handle, o.Source, size)
		if err != nil {
			return nil, err
		}
		made := &object{pages: pages}
		if err := b.File.charge(made, size); err != nil {
			return nil, err
		}
		b.made[place] = made
		return pages.Runs, nil
	}
	return nil, errStates
}

// reserve lets modules have their variables, and the context its heap, which are charged.
func (b *restorer) reserve(n uint64) error {
	if n > b.variables {
		return errStates
	}
	b.variables -= n
	return nil
}

// done makes the batch of a channel that was the n-th submitted to the device.
func (b *restorer) done(place int, n uint64) func(gpu.Result) {
	q := b.queues[place]
	if q == nil || n+1 != q.next {
		return func(gpu.Result) {} // q.next shows that it is missing
	}
	made := newBatch(b.File, q.Channel, q.next)
	made.bytes = batchBytes
	if p := q.poison; p != nil && p.Seqno == q.next {
		made.invalid, made.index = p.Err, p.Index
	} else if p != nil && p.Seqno < q.next {
		made.invalid = gpu.ErrCanceled
	}
	b.flight.take(made)
	if err := made.takeQueued(); err != nil && made.invalid == nil {
		made.invalid = err
	}
	q.next++
	b.batches = append(b.batches, made)
	return made.done
}

// module enters a module and its functions.
func (b *restorer) module(m moduleState, mod gpu.Module) error {
	need, keeps := gpu.ModuleMemory(m.Source), mod.HostBytes()
	if keeps < need {
		b.account.Discharge(quota.ModuleMemory, need-keeps)
	}
	made := &module{Module: mod, charged: moduleCharges(m, min(keeps, need))}
	if err := b.modules.Put(m.ID, made); err != nil {
		return err
	}
	for id, name := range m.Functions {
		if _, err := b.Function(m.ID, id, name); err != nil {
			return err
		}
	}
	return nil
}

// abandon gives back what a file has that could not be built. Its pages are the caller's.
func (b *restorer) abandon() {
	if b.ctx != nil {
		_ = b.ctx.Close() // the first error counts; it ends the batches
	} else {
		for _, made := range b.batches {
			made.giveQueued()
		}
	}
	for _, o := range b.made {
		if p := o.pages.Payer; p != nil {
			p.Refund(o.pages.Bytes())
		}
	}
	b.account.Close()
}
