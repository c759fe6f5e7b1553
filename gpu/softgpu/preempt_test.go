package softgpu

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
)

// fussyGate takes the engine back at every so many questions. If it tires, they become more: blocks
// that wait for each other must all get to run before one of them has asked too often.
type fussyGate struct {
	*testGate
	every, asked atomic.Int64
	commands     atomic.Uint64 // kernels that ended
	pieces       atomic.Int64  // uses of the compute engine
	tires        bool
}

func newFussyGate(every int64) *fussyGate {
	g := &fussyGate{testGate: newTestGate()}
	g.every.Store(every)
	return g
}

func (g *fussyGate) Turn(gpu.Engine) bool                   { return false }
func (g *fussyGate) Revoked(gpu.Engine, time.Duration) bool { return false }

func (g *fussyGate) Preempted(gpu.Engine) bool {
	every := g.every.Load()
	if g.tires {
		every += g.pieces.Load() * g.pieces.Load() / 100
	}
	return g.asked.Add(1)%every == 0
}

func (g *fussyGate) Charge(gpu.Engine, time.Duration, uint64) {}

func (g *fussyGate) Leave(e gpu.Engine, used time.Duration, commands uint64, more bool) {
	if e == gpu.EngineCompute {
		g.commands.Add(commands)
		g.pieces.Add(1)
	}
	g.testGate.Leave(e, used, commands, more)
}

// TestPreemptedConforms checks that a device keeps all promises while its commands are
// preempted again and again.
func TestPreemptedConforms(t *testing.T) {
	for _, every := range []int64{3} {
		gputest.Run(t, func(t *testing.T) gpu.Device {
			g := newFussyGate(every)
			g.tires = true
			d, err := New(Config{VRAMBytes: 64 << 20, MaxChannels: 8, Gate: g})
			require.NoError(t, err)
			return d
		}, "launch", "copy", "fill", "channel")
	}
}

// stirs is a kernel that loops, diverges, calls, meets barriers and uses .shared and .local
// memory: what each thread computes depends on all that it did before. Every thread adds to its
// word, so that a block or a loop that ran twice shows.
const stirs = `.version 6.0
.target sm_50
.address_size 64
.func (.reg .b32 y) mix(.reg .b32 x, .reg .b32 k) {
	mad.lo.u32 y, x, 1664525, k;
	ret;
}
.visible .entry stir(.param .u64 out, .param .u32 rounds) {
	.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>;
	.shared .align 4 .b8 s[256];
	.local .align 4 .b8 l[16];
	ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [rounds];
	mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
	mad.lo.u32 %r4, %r3, 64, %r2;
	mul.wide.u32 %rd2, %r4, 4; add.u64 %rd2, %rd2, %rd1;
	mov.u64 %rd3, s; mul.wide.u32 %rd4, %r2, 4; add.u64 %rd4, %rd4, %rd3;
	mov.u64 %rd5, l;
	mov.u32 %r5, %r4; mov.u32 %r6, 0;
L:	st.shared.u32 [%rd4], %r5;
	bar.sync 0;
	xor.b32 %r7, %r2, 1; shl.b32 %r7, %r7, 2; cvt.u64.u32 %rd3, %r7;
	mov.u64 %rd2, s; add.u64 %rd3, %rd3, %rd2;
	ld.shared.u32 %r8, [%rd3];
	and.b32 %r9, %r8, 7;
M:	call.uni (%r5), mix, (%r5, %r8);
	st.local.u32 [%rd5], %r5; ld.local.u32 %r5, [%rd5];
	setp.eq.u32 %p2, %r9, 0;
	sub.u32 %r9, %r9, 1;
	@!%p2 bra M;
	bar.sync 0;
	add.u32 %r6, %r6, 1;
	setp.lt.u32 %p1, %r6, %r1;
	@%p1 bra L;
	mul.wide.u32 %rd2, %r4, 4; add.u64 %rd2, %rd2, %rd1;
	ld.global.u32 %r7, [%rd2]; add.u32 %r7, %r7, %r5; st.global.u32 [%rd2], %r7;
	ret;
}
`

// stirred runs the kernel with a gate, while another context runs kernels between its pieces,
// and returns what both have written.
func stirred(t *testing.T, g *fussyGate, sms int) (out, others []byte) {
	const blocks, rounds = 6, 20
	const size = 4 * 64 * blocks
	d := testDevice(t, Config{VRAMBytes: 32 << 20, SMs: sms, Gate: g})
	prepare := func() (*context, *channel, *gpu.Launch, []byte) {
		c, ch := testContext(t, d)
		host := hostPages(t, 4096)
		m, err := c.NewSystem([][]byte{host})
		require.NoError(t, err)
		require.NoError(t, c.Map(systemBase, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
		l := launchOf(t, c, stirs, "stir")
		l.Params = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, systemBase), rounds)
		l.Grid, l.Block = [3]uint32{blocks, 1, 1}, [3]uint32{64, 1, 1}
		return c, ch, l, host
	}
	_, ch, l, host := prepare()
	_, ch2, l2, host2 := prepare()
	l2.Grid[0] = 1
	first, stop := submit(t, ch, l, l), make(chan struct{})
	between := 0
	for open := true; open; {
		select {
		case r := <-first:
			require.NoError(t, r.Err)
			open = false
			close(stop)
		default:
		}
		if between < 20 {
			require.NoError(t, (<-submit(t, ch2, l2)).Err)
			between++
		}
	}
	for ; between < 20; between++ {
		require.NoError(t, (<-submit(t, ch2, l2)).Err)
	}
	require.Equal(t, uint64(2+between), g.commands.Load(), "each kernel counts once")
	return append([]byte(nil), host[:size]...), append([]byte(nil), host2[:size]...)
}

// TestPreemptedEvery checks that kernels which are preempted at every n-th point give the same
// bytes as without, while kernels of another context run between their pieces.
func TestPreemptedEvery(t *testing.T) {
	want, wantOthers := stirred(t, newFussyGate(1<<40), 2)
	more := int64(0) // pieces than kernels: how many a gate preempts depends on when it is asked
	for _, every := range []int64{1, 2, 7, 50} {
		for _, sms := range []int{1, 3} {
			g := newFussyGate(every)
			got, others := stirred(t, g, sms)
			require.Equal(t, want, got, "every %d", every)
			require.Equal(t, wantOthers, others, "every %d", every)
			more += g.pieces.Load() - 22
		}
	}
	require.Positive(t, more, "some were preempted")
}

// TestContextsShare checks that contexts of one device share its engine however long their
// kernels are, and that kernels which run for ever are not aborted then.
func TestContextsShare(t *testing.T) {
	const limit = 500 * time.Millisecond // a kernel may get no processor for a part of it
	d := testDevice(t, Config{VRAMBytes: 16 << 20, LaunchLimit: limit, LimitWaiting: true})
	c, ch := testContext(t, d)
	spins := submit(t, ch, launchOf(t, c, endless, "spin"))
	other, waiting := testContext(t, d)
	l := launchOf(t, other, empty, "empty")
	for began := time.Now(); time.Since(began) < 3*limit || d.Stats().Preemptions <= 3; {
		require.NoError(t, (<-submit(t, waiting, l)).Err)
		require.Less(t, time.Since(began), 5*time.Minute, "it is not preempted")
	}
	require.Empty(t, spins)
	st := d.Stats()
	require.Less(t, st.LaunchTime, st.ComputeBusy, "a kernel counts when it has ended")
	require.NoError(t, c.Close())
	require.ErrorIs(t, (<-spins).Err, gpu.ErrClosed)
}

// TestLimitOfPieces checks that a limit for kernels counts all pieces of a kernel, and no time
// between.
func TestLimitOfPieces(t *testing.T) {
	g := newFussyGate(10)
	d := testDevice(t, Config{VRAMBytes: 16 << 20, LaunchLimit: 100 * time.Millisecond, Gate: g})
	c, ch := testContext(t, d)
	var lost *gpu.LostError
	require.ErrorAs(t, (<-submit(t, ch, launchOf(t, c, endless, "spin"))).Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
	require.Greater(t, g.pieces.Load(), int64(1))
	require.GreaterOrEqual(t, d.Stats().ComputeBusy, 100*time.Millisecond)
	require.Equal(t, uint64(1), d.Stats().Launches)
}

// TestCopyYields checks that a copy which is preempted goes on where it stopped.
func TestCopyYields(t *testing.T) {
	g := newFussyGate(3)
	d := testDevice(t, Config{VRAMBytes: 32 << 20, Gate: g})
	c, ch := testContext(t, d)
	const size = 8 << 20
	m, err := c.NewVRAM(size)
	require.NoError(t, err)
	require.NoError(t, c.Map(vramBase, m, 0, size, gpu.ProtRead|gpu.ProtWrite))
	require.NoError(t, (<-submit(t, ch, &gpu.Fill{Dst: vramBase, Pattern: 0x01020304, Size: 4, Width: size, Height: 1})).Err)
	require.Greater(t, d.Stats().Preemptions, uint64(1))
	require.Equal(t, uint64(size), d.Stats().CopyBytes)
	at := m.(*memory).extents[0].addr
	for _, off := range []uint64{0, size/2 + 4, size - 4} {
		require.Equal(t, []byte{4, 3, 2, 1}, d.vram.Bytes(at+off, 4))
	}
}
