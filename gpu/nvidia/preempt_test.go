package nvidia_test

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// counts submits a kernel that counts in granted memory until told to end.
func (c *fakeClient) counts() (mem []byte, done chan gpu.Result) {
	mem, at := c.granted(4096)
	return mem, c.countsAt(mem, at)
}

// countsAt does so in memory that it has.
func (c *fakeClient) countsAt(mem []byte, at uint64) (done chan gpu.Result) {
	done = c.submitCount(mem, at)
	goesOn(c.T, mem)
	return done
}

// submitCount does so without a look whether it counts: it may be stopped before one can look.
func (c *fakeClient) submitCount(mem []byte, at uint64) (done chan gpu.Result) {
	done = make(chan gpu.Result, 1)
	hostmem.SwapUint32(mem, 64, 0)
	require.NoError(c, c.ch.Submit([]gpu.Command{c.launch("count", binary.LittleEndian.AppendUint64(nil, at)...)}, func(r gpu.Result) { done <- r }))
	return done
}

func goesOn(t *testing.T, mem []byte) {
	before := hostmem.LoadUint32(mem, 0)
	require.Eventually(t, func() bool { return hostmem.LoadUint32(mem, 0) > before }, 5*time.Minute, time.Millisecond)
}

// standsStill looks for longer than a count takes.
func standsStill(t *testing.T, mem []byte) {
	before := hostmem.LoadUint32(mem, 0)
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, before, hostmem.LoadUint32(mem, 0))
}

func TestPreemptByTheKeeper(t *testing.T) { bothWays(t, preemptByTheKeeper) }

func preemptByTheKeeper(t *testing.T, polls bool) {
	c := newFakeClientOf(t, nvidia.Config{LaunchLimit: -1}, guardedFake)
	c.polls = polls
	other := &fakeClient{T: t, dev: c.dev, props: c.props}
	other.open()
	p := c.ctx.(gpu.Preempter)
	mem, done := c.counts()
	for range 5 {
		require.NoError(t, p.Preempt(context.Background()))
		standsStill(t, mem)
		require.NoError(t, other.do(other.launch("idle")).Err, "others run")
		require.NoError(t, p.Resume())
		goesOn(t, mem)
	}
	require.NoError(t, p.Preempt(context.Background()))
	late := make(chan gpu.Result, 1)
	require.NoError(t, c.ch.Submit([]gpu.Command{c.launch("idle")}, func(r gpu.Result) { late <- r }))
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, other.do(other.launch("idle")).Err)
	require.Empty(t, late)
	require.Empty(t, done)
	require.NoError(t, p.Resume())
	require.NoError(t, receive(c, done).Err)
	require.NoError(t, receive(c, late).Err)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, p.Preempt(canceled), context.Canceled)
	require.NoError(t, c.do(c.launch("idle")).Err, "it goes on")
}

// A context without work in flight begins none while it is stopped.
func TestPreemptBetweenCommands(t *testing.T) {
	c := newFakeClientOf(t, nvidia.Config{}, guardedFake)
	p := c.ctx.(gpu.Preempter)
	require.NoError(t, p.Preempt(context.Background()))
	results := make(chan gpu.Result, 10)
	for range cap(results) {
		require.NoError(t, c.ch.Submit([]gpu.Command{c.launch("idle")}, func(r gpu.Result) { results <- r }))
	}
	require.Zero(t, c.dev.Stats().Launches)
	require.NoError(t, p.Resume())
	for range cap(results) {
		require.NoError(t, receive(c, results).Err)
	}
}

// A worker of which the keeper knows nothing cannot be stopped, and works as ever.
func TestUnguardedWorkerIsNotPreempted(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	p := c.ctx.(gpu.Preempter)
	require.ErrorIs(t, p.Preempt(context.Background()), gpu.ErrUnsupported)
	require.ErrorIs(t, p.Resume(), gpu.ErrUnsupported)
	require.NoError(t, c.do(c.launch("idle")).Err)
}

// A worker that has freed its channels cannot be stopped by them: it is killed.
func TestWorkerThatHidesChannelsIsKilled(t *testing.T) {
	c := newFakeClientOf(t, nvidia.Config{}, guardedFake)
	done := make(chan gpu.Result, 1)
	require.NoError(t, c.ch.Submit([]gpu.Command{c.launch("frees")}, func(r gpu.Result) { done <- r }))
	p := c.ctx.(gpu.Preempter)
	var err error
	for err == nil { // until the kernel runs
		if err = p.Preempt(context.Background()); err == nil {
			err = p.Resume()
		}
	}
	var lost *gpu.LostError
	require.ErrorAs(t, receive(c, done).Err, &lost)
	require.Equal(t, gpu.LostDevice, lost.Cause)
	require.Contains(t, lost.Error(), "taken off the GPU")
	require.Contains(t, lost.Error(), "status 0x21")
	require.Error(t, p.Resume())
	require.NoError(t, c.ctx.Close())
	c.open()
	require.NoError(t, c.do(c.launch("idle")).Err, "the device lives")
}

// What ends while a context is stopped ends it, and nothing waits.
func TestDeathWhileStopped(t *testing.T) {
	for name, kill := range map[string]func(t *testing.T) int{"worker": workerOf, "keeper": keeperOf} {
		t.Run(name, func(t *testing.T) {
			c := newFakeClientOf(t, nvidia.Config{LaunchLimit: -1}, guardedFake)
			_, done := c.counts()
			p := c.ctx.(gpu.Preempter)
			require.NoError(t, p.Preempt(context.Background()))
			require.NoError(t, unix.Kill(kill(t), unix.SIGKILL))
			var lost *gpu.LostError
			require.ErrorAs(t, receive(c, done).Err, &lost)
			require.Error(t, p.Resume())
			require.Error(t, p.Preempt(context.Background()))
		})
	}
}

// turnGate lets one command in at a time, and is told when the one that is in has to go.
type turnGate struct {
	wantedGate
	preempts [gpu.Engines]atomic.Bool
	revoked  [gpu.Engines]atomic.Bool

	mu       sync.Mutex
	entered  [gpu.Engines]int
	used     [gpu.Engines]time.Duration
	commands uint64
	leaves   uint64
	admitted chan struct{} // a token for each Enter after the first; nil: all are let in
}

func (g *turnGate) Preempted(e gpu.Engine) bool { return g.preempts[e].Load() }

// Revoked is part of gpu.Gate.
func (g *turnGate) Revoked(e gpu.Engine, _ time.Duration) bool { return g.revoked[e].Load() }
func (g *turnGate) Wanted(gpu.Engine) bool                     { return false }

// Enter is part of gpu.Gate.
func (g *turnGate) Enter(e gpu.Engine, _ bool) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entered[e]++
	if g.admitted == nil || e != gpu.EngineCompute || g.entered[e] == 1 {
		return nil
	}
	return g.admitted
}

// Charge is part of gpu.Gate.
func (g *turnGate) Charge(e gpu.Engine, used time.Duration, commands uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used[e] += used
	g.commands += commands
}

// Leave is part of gpu.Gate.
func (g *turnGate) Leave(e gpu.Engine, used time.Duration, commands uint64, _ bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used[e] += used
	g.commands += commands
	g.leaves++
	g.preempts[e].Store(false)
}

func (g *turnGate) entries(e gpu.Engine) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entered[e]
}

// A kernel that has to leave the engine is stopped, gives it back with the time that it used, and
// goes on when it is admitted again.
func TestKernelLeavesTheEngine(t *testing.T) {
	g := &turnGate{admitted: make(chan struct{})}
	c := newFakeClientOf(t, nvidia.Config{Gate: g, LaunchLimit: -1}, guardedFake)
	mem, done := c.counts()
	for i := range 5 {
		g.preempts[gpu.EngineCompute].Store(true)
		require.Eventually(t, func() bool { return g.entries(gpu.EngineCompute) == i+2 }, 5*time.Minute, time.Millisecond)
		standsStill(t, mem)
		g.admitted <- struct{}{}
		goesOn(t, mem)
	}
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err)
	require.Equal(t, uint64(5), c.dev.Stats().Preemptions)
	require.Eventually(t, func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.commands == 1 }, 5*time.Minute, time.Millisecond)
	require.Greater(t, g.used[gpu.EngineCompute], time.Duration(0))
	times := c.dev.Stats().LaunchTimes
	require.Equal(t, uint64(1), times.Count(), "one kernel, in pieces")
}

// While a kernel is off the GPU its context begins no copies, and copies that need its channels give
// their engine back.
func TestCopiesOfAStoppedContext(t *testing.T) {
	g := &turnGate{admitted: make(chan struct{})}
	c := newFakeClientOf(t, nvidia.Config{Gate: g, LaunchLimit: -1}, guardedFake)
	va := c.vram()
	second, err := c.ctx.NewChannel()
	require.NoError(t, err)
	mem, done := c.counts()
	g.preempts[gpu.EngineCompute].Store(true)
	require.Eventually(t, func() bool { return g.entries(gpu.EngineCompute) == 2 }, 5*time.Minute, time.Millisecond)
	copied := make(chan gpu.Result, 1)
	require.NoError(t, second.Submit([]gpu.Command{&gpu.Fill{Dst: va, Size: 4, Width: 1 << 20, Height: 1}}, func(r gpu.Result) { copied <- r }))
	standsStill(t, mem)
	require.Empty(t, copied)
	g.admitted <- struct{}{}
	require.NoError(t, receive(c, copied).Err)
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err)
}

// A guest's endless kernel leaves the engine to the guest's other contexts, too.
func TestContextsOfADeviceTakeTurns(t *testing.T) {
	g := &turnGate{}
	c := newFakeClientOf(t, nvidia.Config{Gate: g, LaunchLimit: time.Hour, LimitWaiting: true}, guardedFake)
	other := &fakeClient{T: t, dev: c.dev, props: c.props}
	other.open()
	mem, done := c.counts()
	for range 3 {
		require.NoError(t, other.do(other.launch("idle")).Err)
		goesOn(t, mem)
	}
	require.NotZero(t, c.dev.Stats().Preemptions)
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err)
}

// The launch limit holds for the time that a kernel ran, in pieces or not; with LimitWaiting only
// while a call of its context waits.
func TestLimitOfPreemptedKernels(t *testing.T) {
	const limit = 300 * time.Millisecond
	g := &turnGate{}
	c := newFakeClientOf(t, nvidia.Config{Gate: g, LaunchLimit: limit}, guardedFake)
	_, done := c.counts()
	for c.ctx.Err() == nil {
		g.preempts[gpu.EngineCompute].Store(true)
		time.Sleep(10 * time.Millisecond)
	}
	var lost *gpu.LostError
	require.ErrorAs(t, receive(c, done).Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)

	c = newFakeClientOf(t, nvidia.Config{LaunchLimit: limit, LimitWaiting: true}, guardedFake)
	mem, done := c.counts()
	time.Sleep(3 * limit)
	goesOn(t, mem)
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err)
}

// A worker that uses the GPU when no command was begun is killed.
func TestWorkWithoutTheToken(t *testing.T) {
	c := newFakeClientOf(t, nvidia.Config{Gate: wantedGate{}}, guardedFake)
	honest := &fakeClient{T: t, dev: c.dev, props: c.props}
	honest.open()
	require.NoError(t, c.do(c.launch("stays")).Err)
	require.Eventually(t, func() bool { return c.ctx.Err() != nil }, 5*time.Minute, time.Millisecond)
	var lost *gpu.LostError
	require.ErrorAs(t, c.ctx.Err(), &lost)
	require.Equal(t, gpu.LostDevice, lost.Cause)
	require.Contains(t, lost.Error(), "uses the GPU on its own")
	require.NoError(t, honest.do(honest.launch("idle")).Err)
}

// Contexts are stopped at any moment of what they do: while they copy, load modules, make channels, fault,
// lose their worker and close. All that was submitted ends, and the device goes on.
func TestPreemptAtAnyTime(t *testing.T) {
	for name, last := range map[string]func(c *fakeClient){
		"close": func(*fakeClient) {},
		"fault": func(c *fakeClient) { _ = c.ch.Submit([]gpu.Command{c.launch("trapped")}, func(gpu.Result) {}) },
		"death": func(c *fakeClient) { _ = c.ch.Submit([]gpu.Command{c.launch("dies")}, func(gpu.Result) {}) },
	} {
		for gated, gate := range map[string]gpu.Gate{"alone": nil, "gated": &turnGate{}} {
			t.Run(name+", "+gated, func(t *testing.T) { preemptAtAnyTime(t, gate, last) })
		}
	}
}

func preemptAtAnyTime(t *testing.T, gate gpu.Gate, last func(*fakeClient)) {
	c := newFakeClientOf(t, nvidia.Config{Gate: gate, LaunchLimit: -1}, guardedFake)
	va := c.vram()
	p := c.ctx.(gpu.Preempter)
	ends := make(chan struct{})
	var stops sync.WaitGroup
	stops.Go(func() {
		for {
			select {
			case <-ends:
				return
			default:
			}
			if g, ok := gate.(*turnGate); ok {
				g.preempts[gpu.EngineCompute].Store(true)
			}
			_ = p.Preempt(context.Background()) // fails when the context has ended
			_ = p.Resume()
		}
	})
	const batches = 40
	results := make(chan gpu.Result, batches)
	for i := range batches {
		if i%10 == 0 {
			m, err := c.ctx.LoadModule(context.Background(), "more.ptx", []byte(fakeSource), nil)
			require.NoError(t, err)
			require.NoError(t, m.Close())
			more, err := c.ctx.NewChannel()
			require.NoError(t, err)
			ended := make(chan gpu.Result, 1)
			require.NoError(t, more.Submit([]gpu.Command{c.launch("idle")}, func(r gpu.Result) { ended <- r }))
			require.NoError(t, receive(c, ended).Err)
			require.NoError(t, more.Close())
		}
		require.NoError(t, c.ch.Submit([]gpu.Command{c.store(va, uint32(i)), &gpu.Fill{Dst: va + 4096, Size: 4, Width: 4096, Height: 1}, c.launch("idle")},
			func(r gpu.Result) { results <- r }))
	}
	for range batches {
		require.NoError(t, receive(c, results).Err)
	}
	last(c)
	require.NoError(t, c.ctx.Close())
	close(ends)
	stops.Wait()
	c.open()
	require.NoError(t, c.do(c.launch("idle")).Err, "the device lives")
}

// A context that survives its worker is stopped with the next one, too, until it is to go on.
func TestReplayOfAStoppedContext(t *testing.T) {
	c := newFakeClientOf(t, nvidia.Config{}, guardedFake)
	mem, system := c.granted(3 * 4096)
	vram := c.vram()
	p := c.ctx.(gpu.Preempter)
	require.NoError(t, p.Preempt(context.Background()))
	done := make(chan gpu.Result, 1)
	mem[0] = 1 // the kernel finds that it has died before
	mem[4096] = 42
	require.NoError(t, c.ch.Submit(c.once(system, vram, false), func(r gpu.Result) { done <- r }))
	require.NoError(t, unix.Kill(workerOf(t), unix.SIGKILL))
	require.Eventually(t, func() bool { return c.dev.Stats().Replays == 1 }, 5*time.Minute, time.Millisecond)
	require.NoError(t, p.Preempt(context.Background()), "it lives, and is stopped already")
	require.Empty(t, done)
	require.NoError(t, p.Resume())
	require.NoError(t, receive(c, done).Err)
	require.EqualValues(t, 42, mem[8192])
}
