package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/internal/bench"
)

// spins has kernels for tests of preemption: one that never ends, and one that does nothing.
const spins = `.version 6.0
.target sm_50
.address_size 64
.visible .entry spin() {
	.reg .b32 %r<3>; .reg .pred %p;
L:	add.u32 %r1, %r1, 1; mad.lo.u32 %r2, %r1, %r1, %r2;
	setp.ne.u32 %p, %r2, 0xffffffff;
	@%p bra L;
	bra L;
}
.visible .entry empty() { ret; }
`

// sharing is software GPUs that share an engine at an arbiter, over its socket.
type sharing struct {
	testing.TB
	server *arbiter.Server
	socket string
}

func share(t testing.TB, policy arbiter.GPU) *sharing {
	s, err := arbiter.NewServer(arbiter.Config{GPUs: []arbiter.GPU{policy}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "s")
	l, err := arbiter.Listen(path, 0o600)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return &sharing{TB: t, server: s, socket: path}
}

// guest returns a guest that launches a kernel of spins. launch returns when the kernel has ended.
func (s *sharing) guest(name string, weight uint32, kernel string, blocks uint32) (launch func() gpu.Result, d gpu.Device) {
	gate, err := arbiter.Join(arbiter.GateConfig{Preemptible: true,
		Connect: arbiter.Taking{Socket: s.socket, Hello: arbiter.Hello{Name: name, Share: sched.Share{Weight: weight}}}.Connect})
	require.NoError(s, err)
	s.Cleanup(gate.Close)
	d, err = softgpu.New(softgpu.Config{VRAMBytes: 16 << 20, SMs: 2, LaunchLimit: time.Second, LimitWaiting: true, Gate: gate})
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, d.Close()) })
	c, err := d.NewContext(name)
	require.NoError(s, err)
	m, err := c.LoadModule(s.Context(), "spins.ptx", []byte(spins), nil)
	require.NoError(s, err)
	f, err := m.Function(kernel)
	require.NoError(s, err)
	ch, err := c.NewChannel()
	require.NoError(s, err)
	cmds := []gpu.Command{&gpu.Launch{Func: f, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{64, 1, 1}}}
	results := make(chan gpu.Result, 1)
	return func() gpu.Result {
		if err := ch.Submit(cmds, func(r gpu.Result) { results <- r }); err != nil {
			return gpu.Result{Err: err}
		}
		return <-results
	}, d
}

// counts returns what the arbiter has counted of a guest's kernels.
func (s *sharing) counts(name string) arbiter.GuestEngineStats {
	for _, g := range s.server.Stats()[0].Guests {
		if g.Name == name {
			return g.Engines[arbiter.Compute]
		}
	}
	return arbiter.GuestEngineStats{}
}

// TestEndlessKernelsShare checks that guests with endless kernels share the engine by weight, that
// short kernels of a third run meanwhile, and that no kernel is aborted.
func TestEndlessKernelsShare(t *testing.T) {
	s := share(t, arbiter.GPU{})
	ended := make(chan gpu.Result, 2)
	var devices []gpu.Device
	for _, g := range []struct {
		name   string
		weight uint32
	}{{name: "heavy", weight: 3}, {name: "light", weight: 1}} {
		launch, d := s.guest(g.name, g.weight, "spin", 8)
		devices = append(devices, d)
		go func() { ended <- launch() }()
	}
	launch, _ := s.guest("short", 4, "empty", 1)
	for s.counts("light").Busy == 0 || s.counts("heavy").Busy == 0 {
		time.Sleep(time.Millisecond)
	}
	heavy, light := s.counts("heavy").Busy, s.counts("light").Busy
	// How many kernels and turns there are in a second is the host's matter, so the test goes on until
	// there were enough.
	for kernels := 0; kernels < 20 || s.counts("heavy").Preempted < 20 || s.counts("light").Busy-light < time.Second; kernels++ {
		require.NoError(t, launch().Err)
		time.Sleep(10 * time.Millisecond)
	}
	heavy, light = s.counts("heavy").Busy-heavy, s.counts("light").Busy-light
	require.InDelta(t, 0.75, heavy.Seconds()/(heavy+light).Seconds(), 0.1)
	require.Zero(t, s.server.Stats()[0].Engines[arbiter.Compute].Expired)
	require.Empty(t, ended)
	for _, d := range devices {
		require.Zero(t, d.Stats().Faults)
		require.Zero(t, d.Stats().LaunchTime, "it has not ended")
		require.NoError(t, d.Close())
		require.ErrorIs(t, (<-ended).Err, gpu.ErrClosed)
	}
}

// BenchmarkEmptyBesideEndless measures how long an empty kernel takes beside an endless one of
// another guest, and what the endless one loses.
func BenchmarkEmptyBesideEndless(b *testing.B) {
	s := share(b, arbiter.GPU{})
	long, d := s.guest("long", 1, "spin", 8)
	ended := make(chan gpu.Result, 1)
	go func() { ended <- long() }()
	launch, _ := s.guest("short", 1, "empty", 1)
	for s.counts("long").Busy == 0 && d.Stats().ComputeBusy == 0 {
		time.Sleep(time.Millisecond)
	}
	var times []time.Duration
	for b.Loop() {
		time.Sleep(7 * time.Millisecond)
		began := time.Now()
		if r := launch(); r.Err != nil {
			b.Fatal(r.Err)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	for _, p := range []struct {
		name string
		part float64
	}{{name: "p50-µs", part: 0.5}, {name: "p99-µs", part: 0.99}, {name: "max-µs", part: 1}} {
		at := min(int(p.part*float64(len(times))), len(times)-1)
		b.ReportMetric(float64(times[at].Microseconds()), p.name)
	}
	b.ReportMetric(float64(s.counts("long").Preempted)/float64(len(times)), "preemptions/op")
	require.NoError(b, d.Close())
	<-ended
}

// TestBenchPreempt checks that an endless kernel leaves the GPU for each short kernel of another
// guest, and goes on after it.
func TestBenchPreempt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "preempt.json")
	code, out := start(t, "bench", "preempt", "--count", "10", "--policies", "band,wfq", "--json", file).wait(t)
	require.Zero(t, code, out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got []string
	for line := range bytes.Lines(b) {
		var row bench.PreemptRow
		require.NoError(t, json.Unmarshal(line, &row))
		require.Equal(t, 10, row.Count+row.Lost, out)
		require.Less(t, row.Lost, 5, "the clocks of guests differ only if the host's was set meanwhile: %s", out)
		require.Positive(t, row.P50)
		require.Equal(t, "softgpu", row.Device)
		got = append(got, row.Policy+" "+row.Preempt)
	}
	require.Equal(t, []string{"band alone", "band off", "band on", "wfq alone", "wfq off", "wfq on"}, got)
}

// TestBenchDivision checks that long kernels are cut under division and BAND, with right results, and
// that the benchmark reports on each policy.
func TestBenchDivision(t *testing.T) {
	file := filepath.Join(t.TempDir(), "division.json")
	code, out := start(t, "bench", "division", "--experiments", "sobel-2560,binomial-5m", "--guests", "2", "--runs", "1",
		"--policies", "fifo,division,band+divide", "--json", file).wait(t)
	require.Zero(t, code, out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got []string
	for line := range bytes.Lines(b) {
		var row bench.DivisionRow
		require.NoError(t, json.Unmarshal(line, &row))
		require.GreaterOrEqual(t, row.MaxMin, 1.0)
		require.Equal(t, 2, row.Guests)
		got = append(got, row.Experiment+" "+row.Policy)
	}
	require.Len(t, got, 6)
	require.Equal(t, "sobel-2560 division", got[1])
}
