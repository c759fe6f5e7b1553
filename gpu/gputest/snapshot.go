package gputest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/gpu"
)

var snapshotTests = []test{
	{"support", func(r *rig) {
		// A device that cannot do it says that, and what it was asked about lives.
		c := r.client()
		s, ok := c.Context.(gpu.Snapshotter)
		if !ok {
			return
		}
		_, err := s.Snapshot(context.Background(), &bytes.Buffer{})
		if err != nil {
			require.ErrorIs(r, err, gpu.ErrUnsupported)
			require.NoError(r, c.Err())
			return
		}
		require.NoError(r, s.Resume())
		c.alive()
	}},
	{"queued work goes on elsewhere", goesOnElsewhere},
	{"a kernel goes on elsewhere", cutBatch},
	{"state of a restored context", restoredState},
	{"random work", randomWork},
	{"snapshot of a preempted kernel", snapshotPreempted},
	{"a snapshot is canceled", func(r *rig) {
		c := r.client()
		s := c.snapshotter()
		const size = 16 << 20
		far, out := c.device(size), c.system(4)
		var all []gpu.Command // a batch of commands that take their time
		for range 100 {
			all = append(all, &gpu.Fill{Dst: far.va, Pattern: 5, Size: 4, Width: size, Height: 1})
		}
		first := c.submit(c.ch, all...)
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		for err := error(nil); err == nil; { // until it finds a fill that runs
			if _, err = s.Snapshot(canceled, &bytes.Buffer{}); err == nil {
				require.NoError(r, s.Resume())
				require.Empty(r, first)
			} else {
				require.ErrorIs(r, err, context.Canceled)
			}
		}
		second := c.submit(c.ch, set(out.va, 2))
		require.NoError(r, (<-first).Err)
		require.NoError(r, (<-second).Err, "it goes on")
	}},
	{"close while stopped", func(r *rig) {
		c := r.client()
		s := c.snapshotter()
		require.NoError(r, s.Preempt(context.Background()))
		out := c.system(4)
		queued := c.submit(c.ch, set(out.va, 1))
		require.NoError(r, c.ch.Close())
		require.ErrorIs(r, (<-queued).Err, gpu.ErrClosed)
		var err error
		c.ch, err = c.NewChannel()
		require.NoError(r, err)
		queued = c.submit(c.ch, set(out.va, 1))
		require.NoError(r, c.Close())
		require.ErrorIs(r, (<-queued).Err, gpu.ErrClosed)
		require.Zero(r, word(out, 0))
		require.ErrorIs(r, s.Resume(), gpu.ErrClosed)
		require.ErrorIs(r, s.Preempt(context.Background()), gpu.ErrClosed)
	}},
	{"lost context", func(r *rig) {
		c := r.client()
		s := c.snapshotter()
		r.lost(c.try(c.kernel("trapped")).Err, gpu.LostTrap)
		_, err := s.Snapshot(context.Background(), &bytes.Buffer{})
		r.lost(err, gpu.LostTrap)
	}},
	{"states that cannot be restored", refusedStates},
}

// snapshotter returns the client's context as one that can be written down; the test is
// skipped if it cannot.
func (c *client) snapshotter() gpu.Snapshotter {
	c.Helper()
	s, ok := c.Context.(gpu.Snapshotter)
	if !ok {
		c.Skip("the device has no snapshots")
	}
	_, err := s.Snapshot(context.Background(), io.Discard)
	if errors.Is(err, gpu.ErrUnsupported) {
		c.Skip("the device has no snapshots")
	}
	require.NoError(c, err)
	require.NoError(c, s.Resume())
	return s
}

// ended is a batch of a restored context that has ended.
type ended struct {
	channel int
	batch   uint64
	result  gpu.Result
}

// heir is a context that was restored on a device of its own.
type heir struct {
	*gpu.Objects
	host  [][]byte   // of system memories
	ended chan ended // in order for each channel
}

// restore builds a context again, on another device. The pages of its system memories are
// copies of those given, in the same order.
func (r *rig) restore(state []byte, system ...[]byte) *heir {
	r.Helper()
	other := newRig(r.T, r.open)
	h := &heir{ended: make(chan ended, 1000)}
	owner := gpu.Owner{
		System: func(_ int, size uint64) ([][]byte, error) {
			pages := other.pages(size)
			copy(pages, system[len(h.host)])
			h.host = append(h.host, pages)
			return [][]byte{pages}, nil
		},
		Done: func(channel int, batch uint64) func(gpu.Result) {
			return func(res gpu.Result) { h.ended <- ended{channel: channel, batch: batch, result: res} }
		},
	}
	var err error
	h.Objects, err = other.dev.(gpu.Restorer).Restore(context.Background(), "heir", bytes.NewReader(state), owner)
	require.NoError(r, err)
	require.Len(r, h.host, len(system))
	return h
}

// resume makes the heir go on.
func (h *heir) resume(r *rig) {
	require.NoError(r, h.Context.(gpu.Preempter).Resume())
}

// written takes a snapshot.
func (c *client) written() ([]byte, *gpu.Objects) {
	c.Helper()
	var state bytes.Buffer
	objects, err := c.Context.(gpu.Snapshotter).Snapshot(context.Background(), &state)
	require.NoError(c, err)
	require.Equal(c, c.Context, objects.Context)
	return state.Bytes(), objects
}

// goesOnElsewhere stops a context with work in three channels, and lets it and its heir go on.
func goesOnElsewhere(r *rig) {
	c := r.client()
	s := c.snapshotter()
	failed, err := c.NewChannel()
	require.NoError(r, err)
	idle, err := c.NewChannel()
	require.NoError(r, err)
	far, near := c.device(1<<20), c.system(8192)
	c.write(far.va+300000, []byte("in VRAM"))
	counter := c.kernel("variables", near.va)
	addr, _, err := c.mod.Global("counter")
	require.NoError(r, err)
	c.do(set(addr, 41), c.kernel("increment", addr))
	require.ErrorIs(r, (<-c.submit(failed, set(near.va+1, 0))).Err, gpu.ErrInvalid)
	gone, err := c.LoadModule(context.Background(), "gone.ptx", kernels, nil)
	require.NoError(r, err)
	missing := c.kernel("store", near.va, uint32(0))
	missing.Func, err = gone.Function("store")
	require.NoError(r, err)
	require.NoError(r, gone.Close())

	require.NoError(r, s.Preempt(context.Background()))
	results := []<-chan gpu.Result{
		c.submit(c.ch, counter, c.kernel("increment", near.va), c.kernel("increment", addr)),
		c.submit(c.ch),
		c.submit(c.ch, &gpu.Task{}, &gpu.Copy{Dst: near.va + 4096, Src: far.va + 300000, Width: 8, Height: 1}, &gpu.Timestamp{VA: near.va + 2048}),
		c.submit(c.ch, set(far.va, 7), missing),
		c.submit(c.ch, set(far.va, 8)),
		c.submit(failed, set(near.va+8, 9)),
	}
	pages := [][]byte{slices.Clone(near.host), slices.Clone(c.stage.host)}
	state, objects := c.written()
	require.Equal(r, []gpu.Memory{far.Memory, near.Memory, c.stage.Memory}, objects.Memories)
	require.Equal(r, []gpu.Module{c.mod}, objects.Modules)
	require.Equal(r, []gpu.Channel{c.ch, failed, idle}, objects.Channels)

	h := r.restore(state, pages...)
	require.Empty(r, h.ended, "it is stopped")
	h.resume(r)
	require.NoError(r, s.Resume())
	var mine []gpu.Result
	for _, ch := range results {
		mine = append(mine, <-ch)
	}
	theirs := make([][]gpu.Result, len(h.Channels))
	next := []uint64{2, 1, 0} // the numbers of the first batches: those before have ended
	for range results {
		e := <-h.ended
		require.Equal(r, next[e.channel], e.batch)
		next[e.channel]++
		theirs[e.channel] = append(theirs[e.channel], e.result)
	}
	for i, got := range append(theirs[0], theirs[1]...) {
		require.Equal(r, mine[i].Index, got.Index, "batch %d", i)
		require.Equal(r, mine[i].Err == nil, got.Err == nil, "batch %d: %v", i, got.Err)
		for _, kind := range []error{gpu.ErrInvalid, gpu.ErrCanceled} {
			require.Equal(r, errors.Is(mine[i].Err, kind), errors.Is(got.Err, kind), "batch %d: %v", i, got.Err)
		}
	}
	require.ErrorIs(r, mine[3].Err, gpu.ErrInvalid)
	require.ErrorIs(r, mine[5].Err, gpu.ErrCanceled)
	require.Equal(r, uint32(43), binary.LittleEndian.Uint32(h.host[0]), "the variable, plus one")
	require.Equal(r, []byte("in VRAM\x00"), h.host[0][4096:4104])
	clear(near.host[2048:2056]) // the clocks differ
	clear(h.host[0][2048:2056])
	require.Equal(r, near.host, h.host[0])
	again, size, err := h.Modules[0].Global("counter")
	require.NoError(r, err)
	require.Equal(r, []uint64{addr, 4}, []uint64{again, size})
	require.NoError(r, h.Channels[2].Submit([]gpu.Command{&gpu.Copy{Dst: near.va, Src: again, Width: 4, Height: 1}}, func(res gpu.Result) {
		h.ended <- ended{result: res}
	}))
	require.NoError(r, (<-h.ended).result.Err, "new work")
	require.Equal(r, uint32(43), binary.LittleEndian.Uint32(h.host[0]))
}

// cutBatch takes a snapshot while a kernel in the middle of a batch runs.
func cutBatch(r *rig) {
	c := r.client()
	c.snapshotter()
	gate, out := c.system(4), c.system(16)
	ready := c.system(4)
	batch := c.submit(c.ch, set(out.va, 1), c.kernel("await", ready.va, gate.va, out.va+4), set(out.va+8, 3), set(out.va+13, 4))
	c.waitWord(ready, 0)
	state, _ := c.written()
	require.Equal(r, []uint32{1, 0, 0, 0}, []uint32{word(out, 0), word(out, 4), word(out, 8), word(out, 12)})
	h := r.restore(state, gate.host, out.host, ready.host)
	require.NoError(r, c.Close())
	res := <-batch
	require.ErrorIs(r, res.Err, gpu.ErrClosed)
	require.Equal(r, 1, res.Index)
	binary.LittleEndian.PutUint32(h.host[2], 0) // set by a kernel that begins, not by one that goes on
	h.resume(r)
	storeWord(h.host[0], 0, 2)
	e := <-h.ended
	require.Zero(r, binary.LittleEndian.Uint32(h.host[2]))
	require.ErrorIs(r, e.result.Err, gpu.ErrInvalid)
	require.Equal(r, 3, e.result.Index, "of the whole batch")
	require.Zero(r, e.batch)
	require.Equal(r, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}, h.host[1][:16])
}

// restoredState checks that what is written of a restored context is what it was restored from.
func restoredState(r *rig) {
	c := r.client()
	s := c.snapshotter()
	far := c.device(1 << 20)
	near := c.system(1 << 16)
	require.NoError(r, c.Unmap(near.va+4096, 8192))
	page := r.props.VRAM.Page
	require.NoError(r, c.Map(c.vram, far.Memory, 0, page, gpu.ProtRead))
	c.write(far.va+5, []byte("text"))
	c.function("store")
	require.NoError(r, s.Preempt(context.Background()))
	c.submit(c.ch, c.kernel("store", far.va, uint32(3)), &gpu.Copy{Dst: near.va, Src: far.va, Width: 4, Height: 1})
	state, objects := c.written()
	pages := [][]byte{near.host, c.stage.host}
	h := r.restore(state, pages...)
	var again bytes.Buffer
	theirs, err := h.Context.(gpu.Snapshotter).Snapshot(context.Background(), &again)
	require.NoError(r, err)
	require.True(r, bytes.Equal(state, again.Bytes()))
	require.Equal(r, *h.Objects, *theirs)
	require.Len(r, theirs.Memories, len(objects.Memories))
	h.resume(r)
	require.NoError(r, (<-h.ended).result.Err)
	require.Equal(r, uint32(3), binary.LittleEndian.Uint32(h.host[0]))
	require.NoError(r, h.Channels[0].Submit([]gpu.Command{set(c.vram, 1)}, func(res gpu.Result) { h.ended <- ended{result: res} }))
	r.lost((<-h.ended).result.Err, gpu.LostAddress)
}

// randomWork compares a context that was stopped somewhere with its heir.
func randomWork(r *rig) {
	r.client().snapshotter()
	rapid.Check(r.T, func(t *rapid.T) {
		sub := &rig{T: r.T, dev: r.dev, props: r.props, open: r.open}
		defer func() {
			for _, region := range sub.host {
				region.Release()
			}
		}()
		c := sub.client()
		defer c.Close()
		far, near := c.device(4*randomWords), c.system(4*randomWords)
		commands := func() []gpu.Command { return c.random(t, far.va, near.va) }
		for range rapid.IntRange(0, 10).Draw(t, "before") {
			c.submit(c.ch, commands()...)
		}
		s := c.snapshotter()
		if rapid.Bool().Draw(t, "preempt") {
			must(t, s.Preempt(context.Background()))
			for range rapid.IntRange(0, 10).Draw(t, "queued") {
				c.submit(c.ch, commands()...)
			}
		}
		state, _ := c.written()
		dev := r.open(r.T)
		defer dev.Close()
		pages := sub.pages(uint64(len(near.host)))
		copy(pages, near.host)
		var left sync.WaitGroup
		var failed atomic.Pointer[gpu.Result]
		o, err := dev.(gpu.Restorer).Restore(context.Background(), "heir", bytes.NewReader(state), gpu.Owner{
			System: func(int, uint64) ([][]byte, error) { return [][]byte{pages}, nil },
			Done: func(int, uint64) func(gpu.Result) {
				left.Add(1)
				return func(res gpu.Result) {
					if res.Err != nil {
						failed.Store(&res)
					}
					left.Done()
				}
			},
		})
		must(t, err)
		must(t, s.Resume())
		must(t, o.Context.(gpu.Preempter).Resume())
		fetch := []gpu.Command{&gpu.Copy{Dst: near.va, Src: far.va, Width: 4 * randomWords, Height: 1}}
		for range 2 { // the system memory, then that in VRAM
			left.Add(1)
			must(t, o.Channels[0].Submit(nil, func(gpu.Result) { left.Done() }))
			left.Wait()
			<-c.submit(c.ch)
			if res := failed.Load(); res != nil {
				t.Fatalf("a batch of the heir: %+v", res)
			}
			if !bytes.Equal(near.host, pages) {
				t.Fatalf("%s\ndiffers from that of the heir\n%s", dump(near.host[:4*randomWords]), dump(pages[:4*randomWords]))
			}
			<-c.submit(c.ch, fetch...)
			left.Add(1)
			must(t, o.Channels[0].Submit(fetch, func(gpu.Result) { left.Done() }))
		}
		left.Wait()
	})
}

// randomWords is the size of each memory of randomWork.
const randomWords = 64

// random draws the commands of a batch that work on words of two memories.
func (c *client) random(t *rapid.T, memories ...uint64) (list []gpu.Command) {
	at := func(label string) uint64 {
		return rapid.SampledFrom(memories).Draw(t, "memory") + 4*rapid.Uint64Range(0, randomWords-1).Draw(t, label)
	}
	for range rapid.IntRange(0, 4).Draw(t, "commands") {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			list = append(list, set(at("dst"), rapid.Uint32().Draw(t, "value")))
		case 1:
			list = append(list, &gpu.Copy{Dst: at("dst"), Src: at("src"), Width: 4, Height: 1})
		case 2:
			list = append(list, c.kernel("increment", at("dst")))
		}
	}
	return list
}

func dump(b []byte) string { return fmt.Sprintf("%x", b) }

// refusedStates restores what must fail, after which nothing is left.
func refusedStates(r *rig) {
	c := r.client()
	s := c.snapshotter()
	far := c.device(1 << 20)
	c.write(far.va, []byte("text"))
	c.function("store")
	require.NoError(r, s.Preempt(context.Background()))
	c.submit(c.ch, c.kernel("store", far.va, uint32(3)))
	state, _ := c.written()
	other := newRig(r.T, r.open)
	before := other.dev.Stats()
	owner := gpu.Owner{
		System: func(_ int, size uint64) ([][]byte, error) { return [][]byte{other.pages(size)}, nil },
		Done:   func(int, uint64) func(gpu.Result) { return func(gpu.Result) {} },
	}
	refused := func(ctx context.Context, state []byte, owner gpu.Owner) error {
		r.Helper()
		_, err := other.dev.(gpu.Restorer).Restore(ctx, "refused", bytes.NewReader(state), owner)
		require.Error(r, err)
		after := other.dev.Stats()
		require.Equal(r, before.VRAMUsed, after.VRAMUsed)
		require.Equal(r, before.Channels, after.Channels)
		return err
	}
	background := context.Background()
	for n := 0; n < len(state); n += 1 + len(state)/50 {
		require.ErrorIs(r, refused(background, state[:n], owner), gpu.ErrInvalid)
	}
	require.ErrorIs(r, refused(background, state, gpu.Owner{Done: owner.Done}), gpu.ErrInvalid, "no pages")
	require.ErrorIs(r, refused(background, state, gpu.Owner{System: owner.System}), gpu.ErrInvalid, "no done functions")
	odd := owner
	odd.System = func(_ int, size uint64) ([][]byte, error) { return [][]byte{other.pages(2 * size)}, nil }
	require.ErrorIs(r, refused(background, state, odd), gpu.ErrInvalid, "pages of another size")
	full := errors.New("no more")
	stingy := owner
	stingy.Reserve = func(uint64) error { return full }
	require.ErrorIs(r, refused(background, state, stingy), full)
	canceled, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(r, refused(canceled, state, owner), context.Canceled)
	hog := other.client()
	for size := r.props.VRAMBytes; size >= r.props.VRAM.Page; {
		if _, err := hog.NewVRAM(roundUp(size, r.props.VRAM)); err != nil {
			size /= 2
		}
	}
	before = other.dev.Stats()
	require.ErrorIs(r, refused(background, state, owner), gpu.ErrNoMemory)
	require.NoError(r, hog.Close())
	o, err := other.dev.(gpu.Restorer).Restore(background, "fits", bytes.NewReader(state), owner)
	require.NoError(r, err)
	require.NoError(r, o.Context.Close())
}
