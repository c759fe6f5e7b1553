package tests

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
	"pvdrm/drm"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// clockedGate notes when the command began that has used the compute engine last.
type clockedGate struct {
	*arbiter.Gate
	start time.Time // of the benchmark
	began atomic.Int64
}

// Leave is part of gpu.Gate.
func (g *clockedGate) Turn(gpu.Engine) bool { return false }

// Revoked is part of gpu.Gate.
func (g *clockedGate) Revoked(gpu.Engine, time.Duration) bool { return false }

func (g *clockedGate) Charge(gpu.Engine, time.Duration, uint64) {}

func (g *clockedGate) Leave(e gpu.Engine, used time.Duration, commands uint64, more bool) {
	if e == gpu.EngineCompute {
		g.began.Store(int64(time.Since(g.start) - used))
	}
	g.Gate.Leave(e, used, commands, more)
}

// BenchmarkAbort is the time from the limit of an endless kernel until the kernel
// of another guest, which waits for the GPU at the arbiter, has run and that guest
// knows it: detecting, stopping all multiprocessors, the way of the token, the
// launch and the completion. ms/abort is the mean, ms/worst the longest.
func BenchmarkAbort(b *testing.B) {
	const limit = 50 * time.Millisecond
	dir := b.TempDir()
	socket := filepath.Join(dir, "a")
	server, err := arbiter.NewServer(arbiter.Config{})
	require.NoError(b, err)
	l, err := arbiter.Listen(socket, 0o600)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-served)
	})
	start := time.Now()
	guest := func(name string) (*host, *clockedGate) {
		gate, err := arbiter.Join(arbiter.GateConfig{Connect: arbiter.Taking{Socket: socket, Hello: arbiter.Hello{Name: name}}.Connect})
		require.NoError(b, err)
		b.Cleanup(gate.Close)
		clocked := &clockedGate{Gate: gate, start: start}
		device, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20, LaunchLimit: limit, Gate: clocked})
		require.NoError(b, err)
		return startHostOn(b, device), clocked
	}
	hostile, gate := guest("hostile")
	victim, _ := guest("victim")
	q := newProgram(b, victim.open(b))
	var total, worst time.Duration
	for b.Loop() {
		p := newProgram(b, hostile.open(b))
		forever, _, err := p.ModuleFunction(p.module, "forever")
		require.NoError(b, err)
		launched := hostile.device.Stats().Launches
		_, err = p.Exec(p.channel, drm.LaunchCmd{Function: forever, Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{256, 1, 1}}.Append(nil), nil)
		require.NoError(b, err)
		for hostile.device.Stats().Launches == launched {
			time.Sleep(time.Millisecond)
		}
		require.NoError(b, q.run(q.launch(q.addr, 1)))
		late := time.Since(start) - time.Duration(gate.began.Load()) - limit
		require.Positive(b, late, "the kernel of the other guest did not wait")
		total += late
		worst = max(worst, late)
		require.ErrorIs(b, p.Wait(drm.Point{Channel: p.channel, Seqno: 1}, -1), syscall.EIO)
		require.NoError(b, p.Close())
	}
	b.ReportMetric(float64(total.Nanoseconds())/1e6/float64(b.N), "ms/abort")
	b.ReportMetric(float64(worst.Nanoseconds())/1e6, "ms/worst")
}
