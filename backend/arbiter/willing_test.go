package arbiter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/gpu"
)

// spans are the times for which a program had the engine.
type spans []struct{ from, to time.Time }

// within returns how much of a window they cover.
func (s spans) within(from, to time.Time) (sum time.Duration) {
	for _, x := range s {
		a, b := x.from, x.to
		if a.Before(from) {
			a = from
		}
		if b.After(to) {
			b = to
		}
		sum += max(b.Sub(a), 0)
	}
	return sum
}

// eater is a willing program whose kernel looks at its signal every quarter of a slice.
func eater(g *Gate, slice time.Duration, seed uint64, until time.Time) (had spans) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for time.Now().Before(until) {
		if granted := g.Enter(Compute, false); granted != nil {
			<-granted
		}
		begun := time.Now()
		time.Sleep(time.Duration(rng.Int64N(int64(slice / 4)))) // until the first look
		for !g.Revoked(Compute, time.Since(begun)) && time.Now().Before(until) {
			time.Sleep(slice / 4)
		}
		had = append(had, struct{ from, to time.Time }{begun, time.Now()})
		g.Leave(Compute, time.Since(begun), 1, true)
	}
	return had
}

// Over windows of 200 ms guests get the engine by weight: on average within two points, and in the worst
// window within one slice and twice the time after which a kernel looks.
func TestEatersShareByWeight(t *testing.T) {
	const slice, window = 10 * ms, 200 * ms
	for name, weights := range map[string][]uint32{"2": {1, 1}, "4": {1, 1, 1, 1}, "8": {1, 1, 1, 1, 1, 1, 1, 1}, "66/33": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Config{GPUs: []GPU{{Policy: "wfq", Settings: sched.Settings{Slice: slice, Preempt: slice}}}})
				begin := time.Now()
				end, all := begin.Add(21*time.Second), sync.WaitGroup{}
				had, sum := make([]spans, len(weights)), uint32(0)
				var gates []*Gate
				for i, w := range weights {
					g := h.preemptible(fmt.Sprint(i), sched.Share{Weight: w})
					gates, sum = append(gates, g), sum+w
					all.Go(func() { had[i] = eater(g, slice, uint64(i), end) })
				}
				all.Wait()
				for i, w := range weights {
					fair, mean, worst := float64(w)/float64(sum), 0.0, 0.0
					const windows = 100
					for n := range windows {
						from := begin.Add(time.Second + time.Duration(n)*window)
						part := float64(had[i].within(from, from.Add(window))) / float64(window)
						mean += part / windows
						worst = max(worst, math.Abs(part-fair))
					}
					t.Logf("guest %d: %.1f %%, mean %.2f %%, worst window %.1f points", i, 100*fair, 100*mean, 100*worst)
					require.InDelta(t, fair, mean, 0.02)
					require.LessOrEqual(t, worst, float64(slice+2*slice/4)/float64(window), "a slice, and what its guest and the one before took to look")
				}
				for _, g := range gates {
					g.Close()
				}
				h.stop()
			})
		})
	}
}

// server is a program that serves a request of a millisecond every five, 20 % of the engine, one launch for
// all that have come. Between launches it waits for the network, and holds nothing.
func server(g *Gate, until time.Time) (served int) {
	begin, due := time.Now(), 0
	for time.Now().Before(until) {
		due = int(time.Since(begin)/(5*ms)) - served
		if due == 0 {
			time.Sleep(5*ms - time.Since(begin)%(5*ms))
			continue
		}
		if granted := g.Enter(Compute, false); granted != nil {
			<-granted
		}
		begun := time.Now()
		for range int(time.Since(begin)/(5*ms)) - served {
			time.Sleep(ms)
			served++
			if g.Revoked(Compute, time.Since(begun)) {
				break
			}
		}
		g.Leave(Compute, time.Since(begun), 1, false)
	}
	return served
}

// A server that needs a fifth of the engine keeps what it serves when three eaters come, which get the rest.
func TestServerBesideEaters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slice = 10 * ms
		h := newHost(t, Config{GPUs: []GPU{{Policy: "wfq", Settings: sched.Settings{Slice: slice, Preempt: slice}}}})
		serving := h.preemptible("server", sched.Share{})
		gates := []*Gate{serving}
		alone := server(serving, time.Now().Add(10*time.Second))
		end, all := time.Now().Add(20*time.Second), sync.WaitGroup{}
		had, served := make([]spans, 3), 0
		all.Go(func() { served = server(serving, end) })
		begin := time.Now()
		for i := range had {
			g := h.preemptible(fmt.Sprint(i), sched.Share{})
			gates = append(gates, g)
			all.Go(func() { had[i] = eater(g, slice, uint64(i), end) })
		}
		all.Wait()
		t.Logf("served %d alone in 10 s, %d beside three in 20 s", alone, served)
		require.GreaterOrEqual(t, float64(served), 0.97*2*float64(alone))
		for i := range had {
			require.InDelta(t, 0.8/3, float64(had[i].within(begin, end))/float64(20*time.Second), 0.02)
		}
		for _, g := range gates {
			g.Close()
		}
		h.stop()
	})
}

// willing is a program that gives the engine away when it is told to, within a time, and asks for it
// again at once. It returns the time for which it had the engine.
func willing(g *Gate, within time.Duration, until time.Time) (used time.Duration) {
	for time.Now().Before(until) {
		if granted := g.Enter(Compute, false); granted != nil {
			<-granted
		}
		begun := time.Now()
		for !g.Revoked(Compute, time.Since(begun)) && time.Now().Before(until) {
			time.Sleep(gpu.SignalPeriod)
		}
		time.Sleep(within)
		used += time.Since(begun)
		g.Leave(Compute, time.Since(begun), 1, true)
	}
	return used
}

// A program alone is never told to end. Programs that obey share by weight, and each keeps the
// engine for its slice.
func TestWillingPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slice = 10 * ms
		h := newHost(t, Config{GPUs: []GPU{{Policy: "wfq", Settings: sched.Settings{Slice: slice, Preempt: sched.NoWait}}}})
		gates := []*Gate{h.preemptible("a", sched.Share{Weight: 2}), h.preemptible("b", sched.Share{}), h.preemptible("c", sched.Share{})}
		require.False(t, gates[0].Revoked(Compute, time.Hour), "it has not entered")
		end := time.Now().Add(30 * time.Second)
		var all sync.WaitGroup
		var used [3]time.Duration
		all.Go(func() { used[0] = willing(gates[0], ms, end) })
		time.Sleep(10 * time.Second)
		require.Equal(t, uint64(1), h.statsOf("a").Runs, "it is alone")
		for i := 1; i < 3; i++ {
			all.Go(func() { used[i] = willing(gates[i], ms, end) })
		}
		all.Wait()
		for i, name := range []string{"a", "b", "c"} {
			part := 20 * time.Second / 4
			if i == 0 {
				part = 10*time.Second + 2*part
			}
			require.InDelta(t, part, used[i], float64(part)/100, name)
			st := h.statsOf(name)
			require.Zero(t, st.Preempted)
			if i > 0 {
				require.InDelta(t, used[i]/time.Duration(st.Runs), slice+ms, float64(slice)/10, name)
			}
		}
		for _, g := range gates {
			g.Close()
		}
		h.stop()
	})
}

// Where a policy gives one command, it is told to end once it has run for long enough.
func TestWillingCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: "fifo"}}})
		a, b := h.gate("a", sched.Share{}, WaitForArbiter), h.gate("b", sched.Share{}, WaitForArbiter)
		end := time.Now().Add(time.Second)
		var all sync.WaitGroup
		var used [2]time.Duration
		for i, g := range []*Gate{a, b} {
			all.Go(func() { used[i] = willing(g, ms, end) })
		}
		all.Wait()
		for i, name := range []string{"a", "b"} {
			require.InDelta(t, 500*ms, used[i], float64(30*ms))
			require.InDelta(t, 45, h.statsOf(name).Runs, 4)
		}
		a.Close()
		b.Close()
		h.stop()
	})
}
