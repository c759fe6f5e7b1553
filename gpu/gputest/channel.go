package gputest

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// word returns a 32-bit word of a system buffer that the device no longer writes.
func word(b buffer, off int) uint32 { return binary.LittleEndian.Uint32(b.host[off:]) }

// set is a command that writes a 32-bit word.
func set(va uint64, v uint32) *gpu.Fill {
	return &gpu.Fill{Dst: va, Pattern: v, Size: 4, Width: 4, Height: 1}
}

var channelTests = []test{
	{"limit", func(r *rig) {
		a := r.client()
		limit := r.props.MaxChannels
		all := []gpu.Channel{a.ch}
		contexts := []gpu.Context{a.Context}
		for len(all) < limit {
			// The limit is that of the device, over several contexts.
			if len(all) == limit/2 {
				c, err := r.dev.NewContext("second")
				require.NoError(r, err)
				contexts = append(contexts, c)
			}
			ch, err := contexts[len(contexts)-1].NewChannel()
			require.NoError(r, err, "channel %d of %d", len(all)+1, limit)
			all = append(all, ch)
		}
		require.Equal(r, limit, r.dev.Stats().Channels)
		for _, c := range contexts {
			_, err := c.NewChannel()
			require.ErrorIs(r, err, gpu.ErrBusy)
		}
		a.alive()
		require.NoError(r, all[limit-1].Close())
		require.Equal(r, limit-1, r.dev.Stats().Channels)
		again, err := a.NewChannel()
		require.NoError(r, err)
		require.NoError(r, (<-a.submit(again)).Err)
		require.NoError(r, contexts[len(contexts)-1].Close())
		require.Less(r, r.dev.Stats().Channels, limit)
	}},
	{"task", func(r *rig) {
		c := r.client()
		b := c.system(4096)
		c.do(&gpu.Task{}, set(b.va, 7))
		require.Equal(r, uint32(7), word(b, 0))
		c.do(&gpu.Task{})
		res := c.try(set(b.va, 8), &gpu.Task{}, set(b.va, 9))
		require.ErrorIs(r, res.Err, gpu.ErrInvalid, "not the first command")
		require.Equal(r, 1, res.Index)
		require.Equal(r, uint32(8), word(b, 0))
	}},
	{"order", func(r *rig) {
		// Results come in the order of submission, each once, after the work.
		const batches = 500
		c := r.client()
		b := c.system(4096)
		inc := c.kernel("increment", b.va)
		var mu sync.Mutex
		var got []int
		var wg sync.WaitGroup
		wg.Add(batches)
		for i := range batches {
			cmds := []gpu.Command{inc, &gpu.Copy{Dst: b.va + 8, Src: b.va, Width: 4, Height: 1}}
			switch i % 5 {
			case 1:
				cmds = nil
			case 2:
				cmds = append(cmds, inc, inc)
			}
			require.NoError(r, c.ch.Submit(cmds, func(res gpu.Result) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, i)
				if res.Err != nil {
					got = append(got, -1)
				}
				wg.Done()
			}))
		}
		wg.Wait()
		require.NoError(r, c.ch.Close())
		require.Len(r, got, batches)
		for i, n := range got {
			require.Equal(r, i, n)
		}
		require.Equal(r, uint32(batches*6/5), word(b, 0))
		require.Equal(r, uint32(batches*6/5), word(b, 8))
	}},
	{"a failed command ends its batch and cancels later ones", func(r *rig) {
		c := r.client()
		second, err := c.NewChannel()
		require.NoError(r, err)
		b := c.system(4096)
		c.do(set(b.va, 1))
		failed := c.submit(c.ch, set(b.va+4, 2), set(b.va+8, 3), set(b.va+1, 4), set(b.va+12, 5))
		queued := c.submit(c.ch, set(b.va+16, 6))
		res := <-failed
		require.ErrorIs(r, res.Err, gpu.ErrInvalid)
		require.NotErrorIs(r, res.Err, gpu.ErrCanceled)
		require.Equal(r, 2, res.Index)
		for _, res := range []gpu.Result{<-queued, <-c.submit(c.ch, set(b.va+20, 7)), <-c.submit(c.ch)} {
			require.ErrorIs(r, res.Err, gpu.ErrCanceled)
			require.Zero(r, res.Index)
		}
		require.NoError(r, c.Err(), "the context lives")
		require.NoError(r, (<-c.submit(second, set(b.va+24, 8))).Err, "its other channels do, too")
		require.NoError(r, c.ch.Close())
		for i, want := range []uint32{1, 2, 3, 0, 0, 0, 8} {
			require.Equal(r, want, word(b, 4*i), "word %d", i)
		}
		c.ch = second
		c.alive()
	}},
	{"empty batch", func(r *rig) {
		c := r.client()
		require.Equal(r, gpu.Result{}, c.do())
	}},
	{"no done function", func(r *rig) {
		c := r.client()
		require.ErrorIs(r, c.ch.Submit(nil, nil), gpu.ErrInvalid)
		c.alive()
	}},
	{"side by side", func(r *rig) {
		// While a kernel waits, copies of the same context and of another run.
		c, other := r.client(), r.client()
		second, err := c.NewChannel()
		require.NoError(r, err)
		gate, out := c.system(4), c.system(4)
		first := c.running(c.ch, "await", gate.va, out.va)
		b := other.device(4096)
		other.write(b.va, []byte("xyz"))
		require.Equal(r, []byte("xyz"), other.read(b.va, 3))
		require.NoError(r, (<-c.submit(second, set(gate.va, 77))).Err)
		res := <-first
		require.NoError(r, res.Err)
		require.Equal(r, uint32(77), word(out, 0))
	}},
	{"close drops what is queued", func(r *rig) {
		c := r.client()
		second, err := c.NewChannel()
		require.NoError(r, err)
		gate, out := c.system(4), c.system(4)
		first := c.running(c.ch, "await", gate.va, out.va)
		var queued []<-chan gpu.Result
		for range 10 {
			queued = append(queued, c.submit(c.ch, set(out.va, 1)))
		}
		closed := make(chan error)
		go func() { closed <- c.ch.Close() }()
		queued = append(queued, c.untilClosing(set(out.va, 1))...)
		require.NoError(r, (<-c.submit(second, set(gate.va, 33))).Err)
		require.NoError(r, <-closed)
		require.NoError(r, (<-first).Err, "what ran came to its end")
		for _, q := range queued {
			require.ErrorIs(r, (<-q).Err, gpu.ErrClosed)
		}
		require.Equal(r, uint32(33), word(out, 0))
		require.ErrorIs(r, c.ch.Submit(nil, func(gpu.Result) {}), gpu.ErrClosed)
		require.NoError(r, c.ch.Close(), "twice")
		require.NoError(r, c.Err())
	}},
	{"close in the middle of a batch", func(r *rig) {
		c := r.client()
		second, err := c.NewChannel()
		require.NoError(r, err)
		ready, gate, out := c.system(4), c.system(4), c.system(8)
		first := c.submit(c.ch, c.kernel("await", ready.va, gate.va, out.va), set(out.va+4, 1))
		c.waitWord(ready, 0)
		closed := make(chan error)
		go func() { closed <- c.ch.Close() }()
		c.untilClosing()
		require.NoError(r, (<-c.submit(second, set(gate.va, 1))).Err)
		require.NoError(r, <-closed)
		res := <-first
		require.ErrorIs(r, res.Err, gpu.ErrClosed)
		require.Equal(r, 1, res.Index)
		require.Equal(r, []uint32{1, 0}, []uint32{word(out, 0), word(out, 4)})
	}},
	{"many clients", func(r *rig) {
		// Contexts come, work and go from several goroutines at once.
		const clients, rounds = 4, 10
		var wg sync.WaitGroup
		var done atomic.Int32
		for i := range min(clients, r.props.MaxChannels/2) {
			wg.Add(1)
			host := r.pages(1 << 16)
			go func() {
				defer wg.Done()
				for round := range rounds {
					if oneRound(r, host, uint32(i*rounds+round)) {
						done.Add(1)
					}
				}
			}()
		}
		wg.Wait()
		require.Equal(r, int32(min(clients, r.props.MaxChannels/2)*rounds), done.Load())
		require.Zero(r, r.dev.Stats().Channels)
	}},
}

// untilClosing submits batches of cmds to the client's channel until it is
// being closed.
func (c *client) untilClosing(cmds ...gpu.Command) (queued []<-chan gpu.Result) {
	for {
		results := make(chan gpu.Result, 1)
		if c.ch.Submit(cmds, func(r gpu.Result) { results <- r }) != nil {
			return queued
		}
		queued = append(queued, results)
		pause()
	}
}

// oneRound makes a context, copies a pattern through VRAM and back to host by
// way of a kernel, and closes all. It reports whether that worked; it may be
// called from any goroutine.
func oneRound(r *rig, host []byte, seed uint32) (ok bool) {
	c, err := r.dev.NewContext("round")
	if err != nil {
		return false
	}
	defer func() { ok = c.Close() == nil && ok }()
	sys, err := c.NewSystem([][]byte{host})
	if err != nil {
		return false
	}
	size := roundUp(uint64(len(host)), r.props.VRAM)
	vram, err := c.NewVRAM(size)
	if err != nil {
		return false
	}
	v, s := r.props.VRAM.Base, r.props.System.Base
	if c.Map(v, vram, 0, size, readWrite) != nil || c.Map(s, sys, 0, uint64(len(host)), readWrite) != nil {
		return false
	}
	mod, err := c.LoadModule(context.Background(), "kernels.ptx", kernels, nil)
	if err != nil {
		return false
	}
	f, err := mod.Function("store")
	if err != nil {
		return false
	}
	ch, err := c.NewChannel()
	if err != nil {
		return false
	}
	attrs := f.Attributes()
	params := make([]byte, attrs.ParamBytes)
	binary.LittleEndian.PutUint64(params[attrs.Params[0].Offset:], v)
	binary.LittleEndian.PutUint32(params[attrs.Params[1].Offset:], seed)
	results := make(chan gpu.Result, 1)
	if ch.Submit([]gpu.Command{
		&gpu.Launch{Func: f, Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{256, 1, 1}, Params: params},
		&gpu.Copy{Dst: s, Src: v, Width: uint64(len(host)), Height: 1},
	}, func(res gpu.Result) { results <- res }) != nil || (<-results).Err != nil {
		return false
	}
	for i := 0; i < len(host); i += 4 {
		if binary.LittleEndian.Uint32(host[i:]) != seed+uint32(i/4) {
			return false
		}
	}
	return true
}
