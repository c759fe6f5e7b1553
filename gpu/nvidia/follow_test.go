package nvidia_test

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// followed is a client with two more channels, granted memory, and what batches that were submitted end with.
type followed struct {
	*fakeClient
	others [2]gpu.Channel
	mem    []byte
	va     uint64
	vram   uint64
	counts map[gpu.Channel]uint64 // batches
}

func newFollowed(t *testing.T, config nvidia.Config) *followed {
	c := &followed{fakeClient: newFakeClient(t, config), counts: map[gpu.Channel]uint64{}}
	c.vram = c.fakeClient.vram()
	c.mem, c.va = c.granted(16384)
	for i := range c.others {
		c.others[i] = c.another()
	}
	return c
}

func (c *followed) another() gpu.Channel {
	ch, err := c.ctx.NewChannel()
	require.NoError(c, err)
	return ch
}

// blocks is a launch that runs until let lets it, in a part of the granted memory.
func (c *followed) blocks(i int) *gpu.Launch {
	return c.launch("count", words(c.va+uint64(4096*i))...)
}

func (c *followed) let(i int) { hostmem.SwapUint32(c.mem, 4096*i+64, 1) }

// running waits until a launch of blocks runs.
func (c *followed) running(i int) {
	require.Eventually(c, func() bool { return hostmem.LoadUint32(c.mem, 4096*i) > 0 }, 5*time.Minute, time.Millisecond)
}

// submit submits a batch, behind the last ones of other channels.
func (c *followed) submit(ch gpu.Channel, cmds []gpu.Command, behind ...gpu.Channel) chan gpu.Result {
	done := make(chan gpu.Result, 1)
	end := func(r gpu.Result) { done <- r }
	c.counts[ch]++
	if len(behind) == 0 {
		require.NoError(c, ch.Submit(cmds, end))
		return done
	}
	var points []gpu.Point
	for _, x := range behind {
		points = append(points, gpu.Point{Channel: x, Batch: c.counts[x]})
	}
	for begin := time.Now(); ; runtime.Gosched() {
		took, err := ch.(gpu.Follower).SubmitBehind(points, cmds, end)
		require.NoError(c, err)
		if took {
			return done
		}
		require.Less(c, time.Since(begin), 5*time.Minute, "the channel does not take the batch")
	}
}

// known runs kernels once, so that how long they take is known, and others may begin behind them.
func (c *followed) known() {
	require.NoError(c, receive(c.fakeClient, c.submit(c.ch, []gpu.Command{c.store(c.vram, 0)})).Err)
}

func (c *followed) value() uint32 {
	r := c.submit(c.another(), []gpu.Command{&gpu.Copy{Dst: c.va + 12288, Src: c.vram, Width: 4, Height: 1}})
	require.NoError(c, receive(c.fakeClient, r).Err)
	return binary.LittleEndian.Uint32(c.mem[12288:])
}

// followCase is a batch of another channel, and one that waits for it.
type followCase struct {
	name string
	run  func(c *followed) (first, second chan gpu.Result)
	errs [2]error
	lost bool
	want uint32
}

var followCases = []followCase{
	{name: "ended", want: 7, run: func(c *followed) (first, second chan gpu.Result) {
		first = c.submit(c.ch, []gpu.Command{c.blocks(0)})
		second = c.submit(c.others[0], []gpu.Command{c.store(c.vram, 7)}, c.ch)
		c.running(0)
		require.EqualValues(c, 3, c.dev.Stats().Launches, "both have begun for the backend")
		require.Zero(c, c.value(), "one waits")
		require.Empty(c, second)
		c.let(0)
		return first, second
	}},
	{name: "refused behind one that runs", errs: [2]error{gpu.ErrInvalid, nil}, want: 8, run: func(c *followed) (first, second chan gpu.Result) {
		bad := c.store(c.vram, 2)
		bad.Block[0] = 1023
		c.submit(c.ch, []gpu.Command{&gpu.Copy{Dst: c.vram + 64, Src: c.vram, Width: 4, Height: 1}})
		first = c.submit(c.ch, []gpu.Command{c.store(c.vram, 3), bad})
		second = c.submit(c.others[0], []gpu.Command{c.store(c.vram, 8)}, c.ch)
		return first, second
	}},
	{name: "a fault", lost: true, run: func(c *followed) (first, second chan gpu.Result) {
		c.submit(c.others[1], []gpu.Command{c.blocks(0)})
		first = c.submit(c.ch, []gpu.Command{c.launch("trapped")}, c.others[1])
		second = c.submit(c.others[0], []gpu.Command{c.store(c.vram, 9)}, c.ch)
		c.let(0)
		return first, second
	}},
	{name: "endless", lost: true, run: func(c *followed) (first, second chan gpu.Result) {
		first = c.submit(c.ch, []gpu.Command{c.launch("spin")})
		return first, c.submit(c.others[0], []gpu.Command{c.store(c.vram, 9)}, c.ch)
	}},
}

var followMore = []followCase{
	{name: "a graph", want: 11, run: func(c *followed) (first, second chan gpu.Result) {
		cmds := []gpu.Command{c.store(c.vram, 8), c.store(c.vram, 9), c.store(c.vram, 10), c.store(c.vram, 11)}
		for range 4 {
			first = c.submit(c.ch, []gpu.Command{c.store(c.vram, 7)})
			second = c.submit(c.others[0], cmds, c.ch)
			require.NoError(c, receive(c.fakeClient, second).Err)
			second <- gpu.Result{}
		}
		return first, second
	}},
	{name: "two points", want: 12, run: func(c *followed) (first, second chan gpu.Result) {
		c.submit(c.others[1], []gpu.Command{c.blocks(1)})
		first = c.submit(c.ch, []gpu.Command{c.blocks(0)})
		second = c.submit(c.others[0], []gpu.Command{c.store(c.vram, 12)}, c.ch, c.others[1])
		c.let(0)
		require.NoError(c, receive(c.fakeClient, first).Err)
		first <- gpu.Result{}
		require.Zero(c, c.value(), "the other still runs")
		c.let(1)
		return first, second
	}},
	{name: "a slot gets another channel", want: 13, run: func(c *followed) (first, second chan gpu.Result) {
		c.submit(c.others[0], []gpu.Command{c.blocks(0)})
		other := c.another()
		for range 5 { // more than the next channel of the slot has
			require.NoError(c, receive(c.fakeClient, c.submit(other, []gpu.Command{c.store(c.vram, 0)})).Err)
		}
		c.submit(other, []gpu.Command{c.blocks(1)})
		first = c.submit(c.ch, []gpu.Command{&gpu.Copy{Dst: c.vram + 64, Src: c.vram, Width: 4, Height: 1}}, other)
		second = c.submit(c.others[1], []gpu.Command{c.store(c.vram, 13)}, c.others[0], other)
		c.let(1)
		require.NoError(c, other.Close())
		again := c.another() // in the slot of the other
		require.NoError(c, receive(c.fakeClient, c.submit(again, []gpu.Command{&gpu.Fill{Dst: c.vram + 128, Size: 4, Width: 4, Height: 1}})).Err)
		require.Empty(c, second)
		c.let(0)
		return first, second
	}},
}

// The GPU begins what waits for another channel when that has ended, in whatever way.
func TestFollow(t *testing.T) {
	for _, test := range append(followCases, followMore...) {
		t.Run(test.name, func(t *testing.T) {
			config := nvidia.Config{}
			if test.name == "endless" {
				config.LaunchLimit = 3 * time.Second
			}
			c := newFollowed(t, config)
			c.known()
			first, second := test.run(c)
			for i, r := range []gpu.Result{receive(c.fakeClient, first), receive(c.fakeClient, second)} {
				switch {
				case test.lost:
					var lost *gpu.LostError
					require.ErrorAs(t, r.Err, &lost, "batch %d", i)
				default:
					require.ErrorIs(t, r.Err, test.errs[i], "batch %d", i)
				}
			}
			if !test.lost {
				require.Equal(t, test.want, c.value())
			}
		})
	}
}

// What the GPU cannot wait for, or be made to wait, is left to the caller.
func TestFollowRefuses(t *testing.T) {
	c := newFollowed(t, nvidia.Config{})
	store := []gpu.Command{c.store(c.vram, 1)}
	other, err := c.dev.NewContext("other")
	require.NoError(t, err)
	strange, err := other.NewChannel()
	require.NoError(t, err)
	require.NoError(t, receive(c.fakeClient, c.submit(strange, nil)).Err)
	waits := []gpu.Command{&gpu.Word{VA: c.va + 8192, Size: 4, Value: 1, Op: gpu.WaitGreaterEqual}}
	word := c.submit(c.others[1], waits)
	require.NoError(t, receive(c.fakeClient, c.submit(c.ch, store)).Err)
	for name, test := range map[string]struct {
		point gpu.Point
		cmds  []gpu.Command
	}{
		"not submitted yet":       {point: gpu.Point{Channel: c.ch, Batch: 2}, cmds: store},
		"far from that":           {point: gpu.Point{Channel: c.ch, Batch: 1 << 63}, cmds: store},
		"its own":                 {point: gpu.Point{Channel: c.others[0], Batch: 1}, cmds: store},
		"of another context":      {point: gpu.Point{Channel: strange, Batch: 1}, cmds: store},
		"no channel":              {point: gpu.Point{Batch: 1}, cmds: store},
		"one that waits for ever": {point: gpu.Point{Channel: c.others[1], Batch: 1}, cmds: store},
		"nothing to run":          {point: gpu.Point{Channel: c.ch, Batch: 1}},
		"a task":                  {point: gpu.Point{Channel: c.ch, Batch: 1}, cmds: []gpu.Command{&gpu.Task{}, store[0]}},
		"a word first":            {point: gpu.Point{Channel: c.ch, Batch: 1}, cmds: waits},
	} {
		took, err := c.others[0].(gpu.Follower).SubmitBehind([]gpu.Point{test.point}, test.cmds, nil)
		require.NoError(t, err, name)
		require.False(t, took, name)
	}
	hostmem.SwapUint32(c.mem, 8192, 1)
	require.NoError(t, receive(c.fakeClient, word).Err)
	require.NoError(t, c.others[0].Close())
	_, err = c.others[0].(gpu.Follower).SubmitBehind([]gpu.Point{{Channel: c.ch, Batch: 1}}, store, func(gpu.Result) {})
	require.ErrorIs(t, err, gpu.ErrClosed)
	for name, config := range map[string]nvidia.Config{"off": {NoFollowing: true}, "replays": {Replays: true}} {
		require.False(t, newFakeClient(t, config).ch.(gpu.Follower).Follows(), name)
	}
}

// Channels that wait for each other in turns run in order.
func TestFollowInTurns(t *testing.T) { bothWays(t, followInTurns) }

func followInTurns(t *testing.T, polls bool) {
	c := newFollowed(t, nvidia.Config{})
	c.polls = polls
	c.known()
	channels := []gpu.Channel{c.ch, c.others[0], c.others[1]}
	const hops = 900
	var ends []chan gpu.Result
	for i := range hops {
		cmds := []gpu.Command{c.store(c.vram, uint32(i)), &gpu.Copy{Dst: c.va + 4*uint64(i), Src: c.vram, Width: 4, Height: 1}}
		var behind []gpu.Channel
		if i > 0 {
			behind = append(behind, channels[(i-1)%3])
		}
		if i > 1 && i%7 == 0 {
			behind = append(behind, channels[(i-2)%3])
		}
		ends = append(ends, c.submit(channels[i%3], cmds, behind...))
	}
	for i, end := range ends {
		require.NoError(t, receive(c.fakeClient, end).Err, "hop %d", i)
	}
	for i := range hops {
		require.EqualValues(t, i, binary.LittleEndian.Uint32(c.mem[4*i:]), "hop %d", i)
	}
}

// A channel that closes while the GPU waits for another one ends with it.
func TestFollowAndClose(t *testing.T) {
	c := newFollowed(t, nvidia.Config{})
	c.known()
	c.submit(c.ch, []gpu.Command{c.blocks(0)})
	second := c.submit(c.others[0], []gpu.Command{c.store(c.vram, 5)}, c.ch)
	closed := make(chan error, 1)
	go func() { closed <- c.others[0].Close() }()
	c.running(0)
	c.let(0)
	require.NoError(t, <-closed)
	<-second // with an error if it had not begun
	require.NoError(t, c.ctx.Err())
	third := c.submit(c.ch, []gpu.Command{c.blocks(1)})
	fourth := c.submit(c.others[1], []gpu.Command{c.store(c.vram, 6)}, c.ch)
	require.NoError(t, c.ctx.Close())
	require.ErrorIs(t, receive(c.fakeClient, third).Err, gpu.ErrClosed)
	require.ErrorIs(t, receive(c.fakeClient, fourth).Err, gpu.ErrClosed)
}
