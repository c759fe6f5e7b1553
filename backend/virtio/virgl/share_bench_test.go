package virgl_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/gpu"
)

// sharer is somebody who uses the GPU as much as the arbiter allows.
type sharer struct {
	name   string
	weight uint32
	cap    float64       // of the engine's time; 0: none
	clears int           // of a large target in each submission; 0: kernels instead
	kernel time.Duration // length of a kernel
}

// BenchmarkShares has guests use one GPU at once, under BAND, and tells by how many
// points the one that was treated worst missed its share of the time, in the worst
// second. A kernel here takes its time by sleeping.
func BenchmarkShares(b *testing.B) {
	const light, heavy = 1, 50
	for _, c := range []struct {
		name    string
		sharers []sharer
	}{
		{"HeavyAndLight", []sharer{{name: "heavy", weight: 1, clears: heavy}, {name: "light", weight: 1, clears: light}}},
		{"Weights70And30", []sharer{{name: "heavy", weight: 30, clears: heavy}, {name: "light", weight: 70, clears: light}}},
		{"GLAndKernels", []sharer{{name: "gl", weight: 1, clears: heavy}, {name: "kernels", weight: 1, kernel: time.Millisecond}}},
		{"CappedGLAndKernels", []sharer{{name: "gl", weight: 1, cap: 0.3, clears: light}, {name: "kernels", weight: 1, kernel: time.Millisecond}}},
	} {
		b.Run(c.name, func(b *testing.B) { shares(b, c.sharers) })
	}
}

func shares(b *testing.B, sharers []sharer) {
	needLibrary(b)
	path := filepath.Join(b.TempDir(), "s")
	s, err := arbiter.NewServer(arbiter.Config{GPUs: []arbiter.GPU{{Policy: "band"}}})
	require.NoError(b, err)
	l, err := arbiter.Listen(path, 0o600)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, l) }()
	stop := make(chan struct{})
	var ended []chan struct{}
	var gates []*arbiter.Gate
	renderers := make([]*virgl.Renderer, len(sharers))
	for i, x := range sharers {
		g, err := arbiter.Join(arbiter.GateConfig{Connect: arbiter.Taking{Socket: path, Hello: arbiter.Hello{Name: x.name, Share: sched.Share{Weight: x.weight, Cap: x.cap}}}.Connect})
		require.NoError(b, err)
		gates = append(gates, g)
		done := make(chan struct{})
		ended = append(ended, done)
		if x.clears == 0 {
			go func() {
				defer close(done)
				kernels(g, x.kernel, stop)
			}()
			continue
		}
		r, err := virgl.New(virgl.Config{Keeper: command(roleKeeper + ":" + roleWorker), Gate: g, Beside: true})
		require.NoError(b, err)
		renderers[i] = r
		stream := large(b, r, x.clears)
		go func() {
			defer close(done)
			draw(r, stream, stop)
			require.NoError(b, r.Close())
		}()
	}
	busy := func() map[string]time.Duration {
		m := map[string]time.Duration{}
		for _, g := range s.Stats()[0].Guests {
			m[g.Name] = g.Engines[arbiter.Compute].Busy
		}
		return m
	}
	time.Sleep(time.Second) // all of them are at it
	first := busy()
	before, worst := first, 0.0
	start := time.Now()
	b.ResetTimer()
	for range b.N {
		from := time.Now()
		time.Sleep(time.Second)
		after := busy()
		worst = max(worst, missed(sharers, before, after, time.Since(from)))
		before = after
	}
	took := time.Since(start)
	b.StopTimer()
	total := used(first, before)
	for i, x := range sharers {
		if r := renderers[i]; r != nil {
			st := r.Stats()
			b.ReportMetric(1e3*st.Busy.Seconds()/float64(st.Submits), x.name+"_ms")
		}
		b.ReportMetric(100*(before[x.name]-first[x.name]).Seconds()/total.Seconds(), x.name+"_%")
	}
	b.ReportMetric(100*worst, "off_points")
	b.ReportMetric(100*total.Seconds()/took.Seconds(), "busy_%")
	close(stop)
	for i, done := range ended {
		<-done
		gates[i].Close()
	}
	cancel()
	require.NoError(b, <-served)
}

// used is the time that all guests used from before to after.
func used(before, after map[string]time.Duration) (sum time.Duration) {
	for name := range after {
		sum += after[name] - before[name]
	}
	return sum
}

// missed is how far off its share a guest was at most, as a part of the time that
// was used. Who has a cap is off by what it used beyond it, and the others share the rest.
func missed(sharers []sharer, before, after map[string]time.Duration, took time.Duration) (worst float64) {
	total, weights := used(before, after).Seconds(), 0.0
	rest := 1.0
	for _, x := range sharers {
		if x.cap == 0 {
			weights += float64(x.weight)
		} else {
			rest -= (after[x.name] - before[x.name]).Seconds() / total
		}
	}
	for _, x := range sharers {
		got := (after[x.name] - before[x.name]).Seconds()
		off := got/took.Seconds() - x.cap
		if x.cap == 0 {
			off = math.Abs(got/total - rest*float64(x.weight)/weights)
		}
		worst = max(worst, off)
	}
	return worst
}

// kernels uses the engine for a time, again and again.
func kernels(g gpu.Gate, length time.Duration, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if open := g.Enter(gpu.EngineCompute, false); open != nil {
			<-open
		}
		begin := time.Now()
		time.Sleep(length)
		g.Leave(gpu.EngineCompute, time.Since(begin), 1, true)
	}
}

// large makes a context with two large targets, and returns what clears one after
// the other that often.
func large(b *testing.B, r *virgl.Renderer, clears int) []byte {
	const size = 1024 // pixels
	ended := make(chan error, 1)
	done := func(err error) { ended <- err }
	a := target
	a.Width, a.Height = size, size
	surfaces := &virgltest.Stream{}
	surfaces.Surface(1, 1, virgltest.FormatBGRA)
	surfaces.Surface(2, 2, virgltest.FormatBGRA)
	for _, f := range []func(){
		func() { r.CreateContext(1, "bench", done) },
		func() { r.CreateResource(1, a, done) },
		func() { r.CreateResource(2, a, done) },
		func() { r.AttachResource(1, 1, done) },
		func() { r.AttachResource(1, 2, done) },
		func() { r.Submit(1, surfaces.Bytes(), true, done) },
	} {
		f()
		require.NoError(b, <-ended)
	}
	s := &virgltest.Stream{}
	for i := range clears {
		s.Framebuffer(uint32(1 + i%2)) // what was drawn to the other is not left out
		s.Clear(float32(i)/float32(clears), 0, 1, 1)
	}
	return s.Bytes()
}

// draw submits a stream again and again, a few at a time.
func draw(r *virgl.Renderer, stream []byte, stop <-chan struct{}) {
	const atOnce = 4
	room := make(chan struct{}, atOnce)
	for {
		select {
		case room <- struct{}{}:
			r.Submit(1, stream, true, func(error) { <-room })
		case <-stop:
			for range atOnce {
				room <- struct{}{} // all of them have ended
			}
			return
		}
	}
}
