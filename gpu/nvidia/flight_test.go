package nvidia_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// stores are launches that store v to v+n-1, each a word further.
func (c *fakeClient) store(va uint64, v uint32) *gpu.Launch {
	return c.launch("store", binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, va), v)...)
}

// Commands that are begun before those ahead of them have ended still end in
// order, whatever they are, in batches of any size.
func TestManyInFlightEndInOrder(t *testing.T) { bothWays(t, manyInFlightEndInOrder) }

func manyInFlightEndInOrder(t *testing.T, polls bool) {
	c := newFakeClient(t, nvidia.Config{})
	c.polls = polls
	va := c.vram()
	const batches = 500
	results := make(chan int, batches)
	for i := range batches {
		var cmds []gpu.Command
		for j := range i % 4 {
			switch j {
			case 0:
				cmds = append(cmds, c.store(va, uint32(i)))
			case 1:
				cmds = append(cmds, c.store(va+4, uint32(i)), &gpu.Copy{Src: va, Dst: va + 8, Width: 0, Height: 1})
			case 2:
				cmds = append(cmds, &gpu.Copy{Src: va, Dst: va + 8, Width: 8, Height: 1}, c.store(va, 7))
			}
		}
		require.NoError(t, c.ch.Submit(cmds, func(r gpu.Result) {
			if r.Err == nil {
				results <- i
			}
		}))
	}
	for i := range batches {
		require.Equal(t, i, receive(c, results))
	}
	st := c.dev.Stats()
	require.Zero(t, st.Channels-1)
	require.Equal(t, uint64(8*batches/4), st.CopyBytes)
}

// What follows a command that the driver refuses is canceled, though it was begun.
func TestRefusalAmongManyInFlight(t *testing.T) { bothWays(t, refusalAmongManyInFlight) }

func refusalAmongManyInFlight(t *testing.T, polls bool) {
	c := newFakeClient(t, nvidia.Config{})
	c.polls = polls
	va := c.vram()
	require.NoError(t, c.do(c.store(va, 1)).Err)
	results := make(chan gpu.Result, 100)
	submit := func(cmds ...gpu.Command) {
		require.NoError(t, c.ch.Submit(cmds, func(r gpu.Result) { results <- r }))
	}
	bad := c.store(va, 2)
	bad.Block[0] = 1023 // too many for the fake
	for range 10 {
		submit(c.store(va, 3), c.store(va, 4))
	}
	submit(c.store(va, 5), bad, c.store(va, 6))
	for range 10 {
		submit(c.store(va, 7))
	}
	submit()
	for i := range 22 {
		r := receive(c, results)
		switch {
		case i < 10:
			require.NoError(t, r.Err)
		case i == 10:
			require.ErrorIs(t, r.Err, gpu.ErrInvalid)
			require.Equal(t, 1, r.Index)
		default:
			require.ErrorIs(t, r.Err, gpu.ErrCanceled)
			require.Zero(t, r.Index)
		}
	}
	require.NoError(t, c.ctx.Err())
}

// Closing a channel drops what was not begun, and loses no batch.
func TestCloseWithManyInFlight(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	va := c.vram()
	const batches = 300
	ended := make(chan error, batches)
	for i := range batches {
		require.NoError(t, c.ch.Submit([]gpu.Command{c.store(va, uint32(i)), c.store(va, uint32(i))}, func(r gpu.Result) { ended <- r.Err }))
	}
	require.NoError(t, c.ch.Close())
	dropped := false
	for range batches {
		err := <-ended
		if dropped = dropped || err != nil; dropped {
			require.ErrorIs(t, err, gpu.ErrClosed)
		}
	}
	require.NoError(t, c.ctx.Err())
}

// A context that is closed while Submit begins its first command ends that one.
func TestCloseContextAsItBegins(t *testing.T) { bothWays(t, closeContextAsItBegins) }

func closeContextAsItBegins(t *testing.T, polls bool) {
	c := newFakeClient(t, nvidia.Config{})
	c.polls = polls
	for i := range 10 {
		r := make(chan gpu.Result, 1)
		require.NoError(t, c.ch.Submit([]gpu.Command{c.launch("spin")}, func(got gpu.Result) { r <- got }))
		time.Sleep(time.Duration(i%3) * 50 * time.Microsecond)
		require.NoError(t, c.ctx.Close())
		require.ErrorIs(t, receive(c, r).Err, gpu.ErrClosed)
		c.open()
	}
}

// One launch after the other, while the channel's goroutine naps: who polls begins and ends
// all of them, whether batches have commands or not.
func TestPollerServesItself(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	c.polls = true
	va := c.vram()
	for i := range 2000 {
		require.NoError(t, c.do(c.store(va, uint32(i))).Err)
		if i%3 == 0 {
			require.NoError(t, c.do().Err)
		}
		if i%100 == 0 {
			time.Sleep(time.Duration(i) * time.Microsecond) // the goroutine sleeps, too
		}
	}
	mem, sys := c.granted(4096)
	require.NoError(t, c.do(&gpu.Copy{Dst: sys, Src: va, Width: 4, Height: 1}).Err)
	require.EqualValues(t, 1999, binary.LittleEndian.Uint32(mem))
	require.NoError(t, c.ch.Close())
	c.ch.(gpu.Poller).Poll() // does nothing
}

// countingGate admits at once and adds up what it is told.
type countingGate struct {
	wantedGate
	leaves, commands [gpu.Engines]atomic.Uint64
}

func (g *countingGate) Wanted(gpu.Engine) bool { return false }

// Charge is part of gpu.Gate.
func (g *countingGate) Charge(e gpu.Engine, _ time.Duration, commands uint64) {
	g.commands[e].Add(commands)
}

// Leave is part of gpu.Gate.
func (g *countingGate) Leave(e gpu.Engine, _ time.Duration, commands uint64, _ bool) {
	g.leaves[e].Add(1)
	g.commands[e].Add(commands)
}

// A turn at the gate counts each of its commands, and those that did nothing not at all.
func TestCommandsOfAFlight(t *testing.T) {
	gate := &countingGate{}
	c := newFakeClient(t, nvidia.Config{Gate: gate})
	va := c.vram()
	require.NoError(t, c.do(c.store(va, 0)).Err) // now its time is known
	const batches, launches = 20, 10
	ended := make(chan error, batches)
	for range batches {
		var cmds []gpu.Command
		for range launches {
			cmds = append(cmds, c.store(va, 1))
		}
		cmds = append(cmds, &gpu.Copy{Src: va, Dst: va + 8, Width: 0, Height: 1})
		require.NoError(t, c.ch.Submit(cmds, func(r gpu.Result) { ended <- r.Err }))
	}
	for range batches {
		require.NoError(t, receive(c, ended))
	}
	require.NoError(t, c.do(&gpu.Copy{Src: va, Dst: va + 8, Width: 8, Height: 1}).Err)
	require.NoError(t, c.ch.Close())
	require.Equal(t, uint64(batches*launches+1), gate.commands[gpu.EngineCompute].Load())
	require.Equal(t, uint64(1), gate.commands[gpu.EngineCopy].Load())
	require.Less(t, gate.leaves[gpu.EngineCompute].Load(), uint64(batches*launches), "several share a turn")
}
