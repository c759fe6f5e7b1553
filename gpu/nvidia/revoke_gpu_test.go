package nvidia_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// beatSource fills the GPU, and counts in granted memory without volatile accesses, so that it may begin
// again. The first word of VRAM is what it counts from.
const beatSource = `.version 6.0
.target sm_50
.address_size 64
.visible .entry beat(.param .u64 p, .param .u64 v)
{
	.reg .u64 %a<2>;
	.reg .u32 %n, %s, %t, %b;
	.reg .pred %q;
	ld.param.u64 %a0, [p];
	ld.param.u64 %a1, [v];
	ld.global.u32 %n, [%a1];
	mov.u32 %t, %tid.x;
	mov.u32 %b, %ctaid.x;
	or.b32 %t, %t, %b;
	setp.ne.u32 %q, %t, 0;
again:
	add.u32 %n, %n, 1;
	@!%q st.global.u32 [%a0], %n;
	membar.gl;
	bra again;
}
.visible .entry idle() { ret; }
`

// TestReplayTimes revokes a kernel that fills the first NVIDIA GPU, and logs how long another device waits
// for its next kernel then, and how long it takes until the revoked kernel runs again.
func TestReplayTimes(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	for _, mib := range []uint64{64, 1024} {
		t.Run(fmt.Sprintf("%d MiB", mib), func(t *testing.T) { replayTimes(t, mib) })
	}
}

func replayTimes(t *testing.T, mib uint64) {
	dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker), Replays: true, Spares: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	k := newCounting(t, dev)
	p := dev.Properties()
	m, err := k.ctx.NewVRAM(mib << 20)
	require.NoError(t, err)
	require.NoError(t, k.ctx.Map(p.VRAM.Base, m, 0, m.Size(), gpu.ProtRead|gpu.ProtWrite))
	mod, err := k.ctx.LoadModule(context.Background(), "beat.ptx", []byte(beatSource), nil)
	require.NoError(t, err)
	f, err := mod.Function("beat")
	require.NoError(t, err)
	const from = 1_000_000_000
	require.NoError(t, k.ch.Submit([]gpu.Command{&gpu.Fill{Dst: p.VRAM.Base, Pattern: from, Size: 4, Width: 4, Height: 1},
		&gpu.Launch{Func: f, Grid: [3]uint32{uint32(2 * p.Multiprocs), 1, 1}, Block: [3]uint32{1024, 1, 1},
			Params: binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, p.System.Base), p.VRAM.Base)}},
		func(r gpu.Result) { k.done <- r }))
	require.Eventually(t, func() bool { return k.count() != 0 }, time.Minute, time.Millisecond)

	n := newNeighbour(t)
	const rounds = 12 // each waits until a worker has started
	var off, nexts, again []time.Duration
	for i := range rounds {
		at := n.mark()
		err := k.ctx.(gpu.Revoker).Revoke(context.Background())
		if i == 0 && err != nil {
			require.ErrorIs(t, err, gpu.ErrUnsupported)
			t.Skipf("this driver: %v", err)
		}
		require.NoError(t, err)
		off = append(off, time.Since(at))
		hostmem.SwapUint32(k.mem, 0, 0)
		require.NoError(t, k.ctx.(gpu.Preempter).Resume())
		for k.count() == 0 {
		}
		again = append(again, time.Since(at))
		require.GreaterOrEqual(t, k.count(), uint32(from), "VRAM is what it was")
		require.Less(t, k.count(), uint32(from+100_000_000), "it began again")
		require.Eventually(t, func() bool { return n.next.Load() != 0 }, time.Minute, time.Millisecond)
		nexts = append(nexts, time.Duration(n.next.Load()))
		for nvidia.Waiting(dev) < 2 { // else this measures how long workers take to start
			time.Sleep(time.Millisecond)
		}
	}
	n.end()
	for _, x := range []struct {
		what string
		took []time.Duration
	}{{what: "another's next kernel", took: nexts}, {what: "another worker has taken over", took: off}, {what: "it runs again", took: again}} {
		slices.Sort(x.took)
		t.Logf("%s: p50 %v p99 %v", x.what, x.took[rounds/2], x.took[rounds-1])
	}
	require.NoError(t, k.ctx.Close())
}

// neighbour is another device that launches short kernels all the time.
type neighbour struct {
	begun        time.Time
	marked, next atomic.Int64 // nanoseconds: since begun; from there until the first kernel begun later has ended
	stop, ended  chan struct{}
}

func newNeighbour(t *testing.T) *neighbour {
	dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	k := newCounting(t, dev)
	mod, err := k.ctx.LoadModule(context.Background(), "beat.ptx", []byte(beatSource), nil)
	require.NoError(t, err)
	idle, err := mod.Function("idle")
	require.NoError(t, err)
	n := &neighbour{begun: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	launch := []gpu.Command{&gpu.Launch{Func: idle, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}}
	go func() {
		defer close(n.ended)
		for {
			select {
			case <-n.stop:
				return
			default:
			}
			at := int64(time.Since(n.begun))
			done := make(chan struct{})
			if k.ch.Submit(launch, func(gpu.Result) { close(done) }) != nil {
				return
			}
			<-done
			if m := n.marked.Load(); m != 0 && at >= m {
				n.next.CompareAndSwap(0, int64(time.Since(n.begun))-m)
			}
		}
	}()
	return n
}

// mark begins to measure.
func (n *neighbour) mark() time.Time {
	at := time.Now()
	n.marked.Store(int64(at.Sub(n.begun)))
	n.next.Store(0)
	return at
}

func (n *neighbour) end() {
	close(n.stop)
	<-n.ended
}

// TestRevokeConforms runs groups of the suite on the first NVIDIA GPU with VRAM that outlives workers.
func TestRevokeConforms(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	gputest.Run(t, func(t *testing.T) gpu.Device {
		d, err := nvidia.New(nvidia.Config{VRAMBytes: 16 << 30, LaunchLimit: 3 * time.Second, Replays: true, Spares: 1, Keeper: keeperCommand(chosenWorker())})
		require.NoError(t, err)
		return d
	}, "revoke", "preempt", "memory", "map")
}
