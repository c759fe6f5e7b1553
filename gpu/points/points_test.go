package points_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
	"pvdrm/gpu/points"
	"pvdrm/gpu/ptx/rewrite"
	"pvdrm/gpu/softgpu"
	"pvdrm/internal/hostmem"
)

// open makes a software GPU whose kernels run in pieces.
func open(t *testing.T, soft softgpu.Config, c points.Config) *points.Device {
	soft.VRAMBytes, soft.MaxChannels = 96<<20, 9
	inner, err := softgpu.New(soft)
	require.NoError(t, err)
	c.Force, c.Area = true, 16<<20
	d, err := points.New(inner, c)
	require.NoError(t, err)
	return d
}

// A device whose kernels run in pieces keeps all promises: where each piece ends at its first look, or at the
// third one, and where it ends only when others wait.
func TestConformance(t *testing.T) {
	each := rewrite.SuspendOptions{Interval: 1, Count: true}
	for name, c := range map[string]points.Config{
		"each look":  {Short: -1, Options: each, Look: 1},
		"each third": {Short: -1, Options: each, Look: 3},
		"on demand":  {Short: -1},
		"short":      {},
		"far":        {Short: -1, Far: true},
		"far, third": {Short: -1, Far: true, Options: each, Look: 3},
	} {
		t.Run(name, func(t *testing.T) {
			gputest.Run(t, func(t *testing.T) gpu.Device { return open(t, softgpu.Config{}, c) },
				"properties", "memory", "map", "copy", "fill", "timestamp", "channel", "module", "launch", "signal", "fault", "close", "preempt")
		})
	}
}

// client is a context with a channel, a kernel and granted memory.
type client struct {
	*testing.T
	ctx    gpu.Context
	ch     gpu.Channel
	launch *gpu.Launch
	host   []byte
}

// long is a kernel each thread of which adds up the rounds of a loop, and stores that: it takes a while.
const long = `.version 6.3
.target sm_70
.address_size 64
.visible .entry long(.param .u64 p, .param .u32 rounds) {
	.reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<3>;
	ld.param.u64 %d0, [p]; ld.param.u32 %r0, [rounds];
	mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
	mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d0;
	mov.u32 %r4, 0; mov.u32 %r5, %r1;
L:	mad.lo.u32 %r5, %r5, 1664525, %r4;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %q, %r4, %r0;
	@%q bra L;
	st.global.u32 [%d1], %r5;
	ret;
}
`

// want is what a thread of it stores.
func want(thread, rounds uint32) uint32 {
	x := thread
	for i := range rounds {
		x = x*1664525 + i
	}
	return x
}

func newClient(t *testing.T, d gpu.Device, rounds uint32) *client {
	c := &client{T: t}
	var err error
	c.ctx, err = d.NewContext(t.Name())
	require.NoError(t, err)
	c.ch, err = c.ctx.NewChannel()
	require.NoError(t, err)
	region, err := hostmem.New(4096)
	require.NoError(t, err)
	t.Cleanup(region.Release)
	c.host = region.Bytes()
	m, err := c.ctx.NewSystem([][]byte{c.host})
	require.NoError(t, err)
	at := d.Properties().System.Base
	require.NoError(t, c.ctx.Map(at, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
	mod, err := c.ctx.LoadModule(context.Background(), "long.ptx", []byte(long), nil)
	require.NoError(t, err)
	f, err := mod.Function("long")
	require.NoError(t, err)
	c.launch = &gpu.Launch{Func: f, Grid: [3]uint32{3, 1, 1}, Block: [3]uint32{40, 1, 1},
		Params: binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, at), rounds)}
	return c
}

// start launches the kernel.
func (c *client) start() <-chan gpu.Result {
	done := make(chan gpu.Result, 1)
	require.NoError(c, c.ch.Submit([]gpu.Command{c.launch}, func(r gpu.Result) { done <- r }))
	return done
}

// check checks what it has stored.
func (c *client) check(rounds uint32) {
	for i := range uint32(120) {
		require.Equal(c, want(i, rounds), binary.LittleEndian.Uint32(c.host[4*i:]), "thread %d", i)
	}
}

// Long kernels of two contexts take turns by their own doing: the device stops none of them.
func TestContextsTakeTurns(t *testing.T) {
	for name, far := range map[string]bool{"near": false, "far": true} {
		t.Run(name, func(t *testing.T) {
			const rounds = 4_000_000 // of a loop that takes both some slices, on a busy machine too
			d := open(t, softgpu.Config{}, points.Config{Short: -1, Far: far})
			a, b := newClient(t, d, rounds), newClient(t, d, rounds)
			x, y := a.start(), b.start()
			require.NoError(t, (<-x).Err)
			require.NoError(t, (<-y).Err)
			a.check(rounds)
			b.check(rounds)
			twins, wholes, pieces := d.Counts()
			require.Equal(t, []uint64{2, 0}, []uint64{twins, wholes})
			require.True(t, far || pieces > 0, "where the signal has to be copied the device may be faster, and stop the kernel")
			st := d.Stats() // a device that is busy stops a kernel that comes late to its look
			require.GreaterOrEqual(t, st.Preemptions, pieces)
			require.Equal(t, uint64(2), st.Launches)
			require.NoError(t, d.Close())
		})
	}
}

// Kernels whose threads meet run in pieces as others do.
func TestMeets(t *testing.T) {
	const meets = `.visible .entry meets(.param .u64 p, .param .u32 rounds) {
	.reg .pred %q; .reg .b32 %r<4>; .shared .align 4 .u32 s;
	ld.param.u32 %r0, [rounds]; mov.u32 %r1, 0;
L:	st.shared.u32 [s], %r1; bar.sync 0; ld.shared.u32 %r2, [s]; bar.sync 0; add.u32 %r1, %r2, 1; setp.lt.u32 %q, %r1, %r0; @%q bra L;
	ret;
}
`
	d := open(t, softgpu.Config{}, points.Config{Short: -1})
	c := newClient(t, d, 10)
	mod, err := c.ctx.LoadModule(context.Background(), "both.ptx", []byte(long+meets), nil)
	require.NoError(t, err)
	for _, name := range []string{"long", "meets"} {
		c.launch.Func, err = mod.Function(name)
		require.NoError(t, err)
		require.NoError(t, (<-c.start()).Err)
	}
	twins, _, _ := d.Counts()
	require.EqualValues(t, 2, twins)
	require.NoError(t, d.Close())
}

// A kernel that turns out to be short runs as it is from then on, until it takes longer again.
func TestShortKernels(t *testing.T) {
	d := open(t, softgpu.Config{}, points.Config{Short: 200 * time.Millisecond})
	c := newClient(t, d, 10)
	for range 5 {
		require.NoError(t, (<-c.start()).Err)
		c.check(10)
	}
	twins, wholes, _ := d.Counts()
	require.Equal(t, []uint64{1, 4}, []uint64{twins, wholes})
	require.NoError(t, d.Close())
	d = open(t, softgpu.Config{}, points.Config{Short: time.Nanosecond})
	c = newClient(t, d, 100_000)
	for range 5 {
		require.NoError(t, (<-c.start()).Err)
	}
	twins, _, _ = d.Counts()
	require.Equal(t, uint64(5), twins)
	require.NoError(t, d.Close())
}

// While no other guest and no other context is there, kernels stay as they are, but for those that took long or may.
func TestAlone(t *testing.T) {
	var others atomic.Bool
	alone := func() bool { return !others.Load() }
	d := open(t, softgpu.Config{}, points.Config{Short: -1, Alone: alone, Lone: time.Hour})
	c := newClient(t, d, 10)
	run := func(twins, wholes uint64, when string) {
		require.NoError(t, (<-c.start()).Err)
		c.check(10)
		x, y, _ := d.Counts()
		require.Equal(t, []uint64{twins, wholes}, []uint64{x, y}, when)
	}
	run(1, 0, "nothing is known of it")
	run(1, 1, "alone")
	others.Store(true)
	run(2, 1, "a guest has come")
	others.Store(false)
	run(2, 2, "and gone")
	other, err := d.NewContext("other")
	require.NoError(t, err)
	run(2, 3, "another context, which has no channel")
	_, err = other.NewChannel()
	require.NoError(t, err)
	run(3, 3, "and has one")
	require.NoError(t, other.Close())
	run(3, 4, "which has gone")
	require.NoError(t, d.Close())

	d = open(t, softgpu.Config{}, points.Config{Short: -1, Alone: alone, Lone: time.Nanosecond})
	c = newClient(t, d, 10)
	run(1, 0, "nothing is known of it")
	run(2, 0, "it takes long")
	require.NoError(t, d.Close())

	once := `.version 6.3
.target sm_70
.address_size 64
.visible .entry once(.param .u64 p, .param .u32 rounds) { .reg .b32 %r; .shared .u32 s; mov.u32 %r, 0;
` + strings.Repeat("add.u32 %r, %r, 1;\n", 9000) + `st.shared.u32 [s], %r; bar.sync 0; ret; }
.visible .entry brief(.param .u64 p, .param .u32 rounds) { .shared .u32 s; st.shared.u32 [s], 1; bar.sync 0; ret; }
`
	d = open(t, softgpu.Config{}, points.Config{Short: -1, Alone: alone, Lone: time.Hour})
	c = newClient(t, d, 10)
	mod, err := c.ctx.LoadModule(context.Background(), "once.ptx", []byte(once), nil)
	require.NoError(t, err)
	c.launch.Func, err = mod.Function("once")
	require.NoError(t, err)
	require.NoError(t, (<-c.start()).Err)
	twins, wholes, _ := d.Counts()
	require.Equal(t, []uint64{0, 1}, []uint64{twins, wholes}, "without loops it ends soon")
	c.launch.Func, err = mod.Function("brief")
	require.NoError(t, err)
	others.Store(true)
	require.NoError(t, (<-c.start()).Err)
	twins, wholes, _ = d.Counts()
	require.Equal(t, []uint64{0, 1}, []uint64{twins, wholes}, "it ends before a look is due: it has no twin")
	require.NoError(t, d.Close())
}

// Where no other guest can come, kernels of which nothing is known stay as they are, too, until the program has another
// context.
func TestSole(t *testing.T) {
	d := open(t, softgpu.Config{}, points.Config{Short: -1, Sole: true, Lone: time.Nanosecond})
	c := newClient(t, d, 10)
	for range 2 {
		require.NoError(t, (<-c.start()).Err)
		c.check(10)
	}
	other, err := d.NewContext("other")
	require.NoError(t, err)
	_, err = other.NewChannel()
	require.NoError(t, err)
	require.NoError(t, (<-c.start()).Err)
	require.NoError(t, other.Close())
	require.NoError(t, (<-c.start()).Err)
	twins, wholes, _ := d.Counts()
	require.Equal(t, []uint64{1, 3}, []uint64{twins, wholes})
	require.NoError(t, d.Close())
}

// slow is a device whose contexts take a while to end.
type slow struct {
	gpu.Device
	ends chan struct{}
}

type slowContext struct {
	gpu.Context
	ends <-chan struct{}
}

func (d *slow) NewContext(label string) (gpu.Context, error) {
	c, err := d.Device.NewContext(label)
	return &slowContext{c, d.ends}, err
}

func (c *slowContext) Close() error {
	<-c.ends
	return c.Context.Close()
}

// A context that is being closed waits for nothing, so its successor is alone.
func TestAloneBesideOneThatEnds(t *testing.T) {
	inner, err := softgpu.New(softgpu.Config{VRAMBytes: 96 << 20, MaxChannels: 9})
	require.NoError(t, err)
	dev := &slow{inner, make(chan struct{})}
	d, err := points.New(dev, points.Config{Force: true, Area: 16 << 20, Short: -1, Sole: true})
	require.NoError(t, err)
	ended := make(chan error)
	first := newClient(t, d, 10)
	go func() { ended <- first.ctx.Close() }()
	require.Eventually(t, func() bool { return errors.Is(first.ch.Submit(nil, func(gpu.Result) {}), gpu.ErrClosed) }, time.Minute, time.Millisecond)
	c := newClient(t, d, 10)
	require.Eventually(t, func() bool {
		before, _, _ := d.Counts()
		require.NoError(t, (<-c.start()).Err)
		after, _, _ := d.Counts()
		return before == after
	}, time.Minute, time.Millisecond, "the kernel runs as it is")
	close(dev.ends)
	require.NoError(t, <-ended)
	require.NoError(t, d.Close())
}

// What does not fit into the area, has parameters of a wrong size or a twin's name runs as it is, or not at all.
func TestLeftAsTheyAre(t *testing.T) {
	d := open(t, softgpu.Config{}, points.Config{Short: -1})
	c := newClient(t, d, 10)
	whole := func(change func(l *gpu.Launch)) error {
		l := *c.launch
		change(&l)
		_, before, _ := d.Counts()
		done := make(chan gpu.Result, 1)
		ch, err := c.ctx.NewChannel()
		require.NoError(t, err)
		require.NoError(t, ch.Submit([]gpu.Command{&l}, func(r gpu.Result) { done <- r }))
		res := <-done
		require.NoError(t, ch.Close())
		_, after, _ := d.Counts()
		require.Equal(t, before+1, after)
		return res.Err
	}
	require.ErrorIs(t, whole(func(l *gpu.Launch) { l.Params = append(l.Params, make([]byte, 4)...) }), gpu.ErrInvalid)
	require.ErrorIs(t, whole(func(l *gpu.Launch) { l.Grid[1] = 0 }), gpu.ErrInvalid)
	require.ErrorIs(t, whole(func(l *gpu.Launch) { l.Block = [3]uint32{1 << 31, 1 << 31, 4} }), gpu.ErrInvalid)
	require.ErrorIs(t, whole(func(l *gpu.Launch) { l.Grid = [3]uint32{1 << 31, 1 << 31, 1 << 31} }), gpu.ErrInvalid)
	require.ErrorIs(t, whole(func(l *gpu.Launch) { l.Signal = 4 }), gpu.ErrInvalid)
	require.NoError(t, whole(func(l *gpu.Launch) { l.Cooperative, l.Grid[0] = true, 1 }))
	p := d.Properties()
	m, err := c.ctx.NewVRAM(p.VRAM.Page)
	require.NoError(t, err)
	require.ErrorIs(t, c.ctx.Map(p.VRAM.Base+p.VRAM.Size, m, 0, p.VRAM.Page, gpu.ProtRead), gpu.ErrInvalid)
	require.ErrorIs(t, c.ctx.Unmap(p.VRAM.Base+p.VRAM.Size, p.VRAM.Page), gpu.ErrInvalid)
	require.ErrorIs(t, c.ctx.Unmap(p.System.Base+p.System.Size, 4096), gpu.ErrInvalid)
	require.NoError(t, d.Close())
}

// A guest whose quota has no room for the area goes on without; one whose quota has pays for it once.
func TestAreaIsReserved(t *testing.T) {
	d := open(t, softgpu.Config{}, points.Config{Short: -1})
	c := newClient(t, d, 10)
	ctx, err := d.NewContext("another")
	require.NoError(t, err)
	var asked []uint64
	load := func(err error) gpu.Module {
		m, bad := ctx.LoadModule(context.Background(), "long.ptx", []byte(long), func(n uint64) error {
			asked = append(asked, n)
			return err
		})
		require.NoError(t, bad)
		return m
	}
	load(gpu.ErrNoMemory)
	m := load(nil)
	require.Equal(t, uint64(16<<20), m.(gpu.Retainer).Retained())
	require.Zero(t, load(nil).(gpu.Retainer).Retained())
	require.Equal(t, []uint64{16 << 20, 16 << 20}, asked)
	require.Equal(t, uint64(16<<20), ctx.(gpu.Retainer).Retained())
	require.NoError(t, (<-c.start()).Err)
	require.NoError(t, d.Close())
}

// With an explicit limit a kernel in pieces ends, though each piece is shorter.
func TestLimitOfAllPieces(t *testing.T) {
	const limit = 300 * time.Millisecond
	d := open(t, softgpu.Config{LaunchLimit: limit}, points.Config{Short: -1, Limit: limit})
	c := newClient(t, d, 1<<32-1)
	var lost *gpu.LostError
	require.ErrorAs(t, (<-c.start()).Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
	require.Equal(t, "long", lost.Kernel)
	require.NoError(t, d.Close())
}

// offers is a context of a device that offers all there is: it keeps what it was asked.
type offers struct {
	gpu.Context
	gpu.Meter
	gpu.Sharer
	asked gpu.Function
	place int
}

func (o *offers) AdoptPeer(place int, _, _ uint64) (gpu.Memory, error) {
	o.place = place
	return nil, gpu.ErrUnsupported
}

func (o *offers) Ask(_ gpu.Question, f gpu.Function, values []uint64) ([]uint64, error) {
	o.asked = f
	return values, nil
}

// offering is a device with such contexts, or with contexts that are a gpu.Context alone.
type offering struct {
	gpu.Device
	bare bool
	last *offers
}

func (d *offering) Properties() gpu.Properties {
	p := d.Device.Properties()
	p.Peers, p.SharesMapped = 2, true
	return p
}

func (d *offering) NewContext(label string) (gpu.Context, error) {
	c, err := d.Device.NewContext(label)
	if err != nil || d.bare {
		return struct{ gpu.Context }{c}, err
	}
	d.last = &offers{Context: c, Meter: c.(gpu.Meter), Sharer: c.(gpu.Sharer)}
	return d.last, nil
}

// A wrapped context offers what its device's context does, and no more: the use by context, shared memory, that of
// other devices, and answers about the kernels that the program knows.
func TestOffers(t *testing.T) {
	for name, bare := range map[string]bool{"all": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			soft, err := softgpu.New(softgpu.Config{VRAMBytes: 96 << 20})
			require.NoError(t, err)
			inner := &offering{Device: soft, bare: bare}
			d, err := points.New(inner, points.Config{Force: true, Short: -1, Area: 16 << 20})
			require.NoError(t, err)
			require.EqualValues(t, 2, d.Properties().Peers)
			require.True(t, d.Properties().SharesMapped)
			c := newClient(t, d, 100_000)
			require.NoError(t, (<-c.start()).Err)
			require.Equal(t, uint64(16<<20), c.ctx.(gpu.Retainer).Retained())
			asker, is := c.ctx.(gpu.Asker)
			require.Equal(t, !bare, is)
			peers, is := c.ctx.(gpu.PeerSharer)
			require.Equal(t, !bare, is)
			meter, is := c.ctx.(gpu.Meter)
			require.Equal(t, !bare, is)
			shares, is := c.ctx.(gpu.Sharer)
			require.Equal(t, !bare, is)
			if !bare {
				busy, _ := meter.Busy()
				require.Positive(t, busy)
				require.Equal(t, d.Stats().ComputeBusy, busy)
				_, err = peers.AdoptPeer(1, 7, 4096)
				require.ErrorIs(t, err, gpu.ErrUnsupported)
				require.Equal(t, 1, inner.last.place)
				answer, err := asker.Ask(gpu.AskClusters, c.launch.Func, []uint64{3})
				require.NoError(t, err)
				require.Equal(t, []uint64{3}, answer)
				require.Equal(t, "long", inner.last.asked.Attributes().Name)
				require.NotEqual(t, c.launch.Func, inner.last.asked, "the device knows its own functions only")
				m, err := c.ctx.NewVRAM(d.Properties().VRAM.Page)
				require.NoError(t, err)
				s, err := shares.Share(m)
				require.NoError(t, err)
				again, err := shares.Adopt(s)
				require.NoError(t, err)
				require.Equal(t, m.Size(), again.Size())
				s.Close()
			}
			require.NoError(t, d.Close())
		})
	}
}
