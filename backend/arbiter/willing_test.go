package arbiter

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/gpu"
)

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
