package nvidia_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
	"pvdrm/internal/yield"
)

// benchSource has a kernel that does nothing, one that counts clock ticks, and one
// that never ends.
const benchSource = `.version 6.0
.target sm_50
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry endless() {
again:
	bra again;
}
.visible .entry ticks(.param .u64 n)
{
	.reg .u64 %a<4>;
	.reg .pred %p<1>;
	ld.param.u64 %a0, [n];
	mov.u64 %a1, %clock64;
again:
	mov.u64 %a2, %clock64;
	sub.u64 %a3, %a2, %a1;
	setp.lt.u64 %p0, %a3, %a0;
	@%p0 bra again;
	ret;
}
`

// bench is a context with a channel on the first NVIDIA GPU.
type bench struct {
	*testing.B
	dev  gpu.Device
	ctx  gpu.Context
	ch   gpu.Channel
	mod  gpu.Module
	done chan gpu.Result
}

func newBench(b *testing.B) *bench { return newBenchOf(b, nvidia.Config{}) }

func newBenchOf(b *testing.B, config nvidia.Config) *bench {
	if _, err := nvidia.Probe(); err != nil {
		b.Skipf("needs an NVIDIA GPU: %v", err)
	}
	config.Keeper = keeperCommand(chosenWorker())
	dev, err := nvidia.New(config)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, dev.Close()) })
	x := &bench{B: b, dev: dev}
	x.client()
	return x
}

// client makes the context again.
func (b *bench) client() {
	var err error
	b.ctx, err = b.dev.NewContext("bench")
	require.NoError(b, err)
	b.ch, err = b.ctx.NewChannel()
	require.NoError(b, err)
	b.mod, err = b.ctx.LoadModule(context.Background(), "bench.ptx", []byte(benchSource), nil)
	require.NoError(b, err)
	b.done = make(chan gpu.Result, 1)
}

func (b *bench) launch(name string, params []byte) *gpu.Launch {
	f, err := b.mod.Function(name)
	require.NoError(b, err)
	return &gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: params}
}

// do runs a batch. It waits as a backend's session does, without sleeping.
func (b *bench) do(cmds ...gpu.Command) {
	_ = b.ch.Submit(cmds, func(r gpu.Result) { b.done <- r })
	for len(b.done) == 0 {
		yield.Processor()
	}
	r := <-b.done
	require.NoError(b, r.Err)
}

// BenchmarkLaunch launches an empty kernel and waits for its end; after a pause of
// a millisecond, too, when everybody sleeps; and in batches of a hundred.
func BenchmarkLaunch(b *testing.B) {
	x := newBench(b)
	one := x.launch("nothing", nil)
	b.Run("sync", func(b *testing.B) {
		for b.Loop() {
			x.do(one)
		}
	})
	b.Run("rested", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			time.Sleep(time.Millisecond)
			b.StartTimer()
			x.do(one)
		}
	})
	b.Run("batch", func(b *testing.B) {
		cmds := make([]gpu.Command, 100)
		for i := range cmds {
			cmds[i] = one
		}
		for b.Loop() {
			x.do(cmds...)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(cmds)), "ns/launch")
	})
}

// BenchmarkCopy copies 64 MiB between granted pages, in runs of 64 KiB out of
// order, and VRAM.
func BenchmarkCopy(b *testing.B) {
	const size = 64 << 20
	x := newBench(b)
	region, err := hostmem.New(size)
	require.NoError(b, err)
	b.Cleanup(region.Release)
	var runs [][]byte
	for at := 0; at < size; at += 64 << 10 {
		runs = append([][]byte{region.Bytes()[at:][:64<<10]}, runs...)
	}
	p := x.dev.Properties()
	sys, err := x.ctx.NewSystem(runs)
	require.NoError(b, err)
	vram, err := x.ctx.NewVRAM(size)
	require.NoError(b, err)
	const rw = gpu.ProtRead | gpu.ProtWrite
	b.Run("map system", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, x.ctx.Map(p.System.Base, sys, 0, size, rw))
			require.NoError(b, x.ctx.Unmap(p.System.Base, size))
		}
	})
	b.Run("map VRAM", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, x.ctx.Map(p.VRAM.Base, vram, 0, size, rw))
			require.NoError(b, x.ctx.Unmap(p.VRAM.Base, size))
		}
	})
	b.Run("new VRAM", func(b *testing.B) {
		for b.Loop() {
			m, err := x.ctx.NewVRAM(size)
			require.NoError(b, err)
			require.NoError(b, m.Close())
		}
	})
	require.NoError(b, x.ctx.Map(p.System.Base, sys, 0, size, rw))
	require.NoError(b, x.ctx.Map(p.VRAM.Base, vram, 0, size, rw))
	for _, d := range []struct {
		name     string
		dst, src uint64
	}{{name: "to VRAM", dst: p.VRAM.Base, src: p.System.Base}, {name: "from VRAM", dst: p.System.Base, src: p.VRAM.Base}} {
		b.Run(d.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				x.do(&gpu.Copy{Dst: d.dst, Src: d.src, Width: size, Height: 1})
			}
		})
	}
}

// BenchmarkAbort ends a context with an endless kernel, and measures how long it
// takes until another context's kernel has run, and until the first is closed.
func BenchmarkAbort(b *testing.B) {
	x := newBench(b)
	victim := &bench{B: b, dev: x.dev}
	ticks := x.launch("ticks", binary.LittleEndian.AppendUint64(nil, 1000))
	x.do(ticks)
	var closed time.Duration
	for b.Loop() {
		b.StopTimer()
		victim.client()
		endless := victim.launch("endless", nil)
		endless.Grid[0], endless.Block[0] = 1000, 1024
		_ = victim.ch.Submit([]gpu.Command{endless}, func(r gpu.Result) { victim.done <- r })
		time.Sleep(20 * time.Millisecond)
		ended := make(chan time.Time)
		b.StartTimer()
		begin := time.Now()
		go func() {
			_ = victim.ctx.Close()
			ended <- time.Now()
		}()
		<-victim.done
		x.do(ticks)
		b.StopTimer()
		closed += (<-ended).Sub(begin)
		b.StartTimer()
	}
	b.ReportMetric(float64(closed.Nanoseconds())/float64(b.N), "ns/close")
}

// BenchmarkReplay has a task of 50 ms taken off the GPU after 5 ms, three times,
// and reports how long each took until it ran again.
func BenchmarkReplay(b *testing.B) {
	x := newBenchOf(b, nvidia.Config{Gate: wantedGate{}, RevokeAfter: 5 * time.Millisecond})
	ticks := x.launch("ticks", binary.LittleEndian.AppendUint64(nil, 90_000_000))
	x.do(&gpu.Task{}, ticks)
	b.ResetTimer()
	replays := x.dev.Stats().Replays
	require.NotZero(b, replays)
	begin := time.Now()
	for b.Loop() {
		x.do(&gpu.Task{}, ticks)
	}
	took, again := time.Since(begin), x.dev.Stats().Replays-replays
	b.ReportMetric(float64(again)/float64(b.N), "replays/op")
	b.ReportMetric(float64(took.Nanoseconds())/float64(max(again, 1)), "ns/replay")
}
