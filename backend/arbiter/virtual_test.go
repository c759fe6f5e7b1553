package arbiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// load is what a guest does in the tests of fairness.
type load struct {
	share         sched.Share
	kernel, think time.Duration
}

// contest runs guests against each other and returns what part of each window
// each has used. The first second is left out.
func contest(t *testing.T, cfg Config, window, length time.Duration, guests []load) [][]float64 {
	out := make([][]float64, len(guests))
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, cfg)
		start := time.Now().Add(time.Second)
		end := start.Add(length)
		done := make(chan struct{})
		for i, w := range guests {
			out[i] = make([]float64, length/window)
			go func() {
				defer func() { done <- struct{}{} }()
				g := h.gate(string(rune('a'+i)), w.share, WaitForArbiter)
				defer g.Close()
				for time.Now().Before(end) {
					from := run(g, Compute, w.kernel)
					for at, to := from, from.Add(w.kernel); at.Before(to); {
						k := int(at.Sub(start) / window)
						next := start.Add(time.Duration(k+1) * window)
						if at.Before(start) {
							next, k = start, -1
						}
						if to.Before(next) {
							next = to
						}
						if k >= 0 && k < len(out[i]) {
							out[i][k] += next.Sub(at).Seconds() / window.Seconds()
						}
						at = next
					}
					time.Sleep(w.think)
				}
			}()
		}
		for range guests {
			<-done
		}
		h.stop()
	})
	return out
}

func mean(u []float64) (sum float64) {
	for _, x := range u {
		sum += x / float64(len(u))
	}
	return sum
}

// The arbiter with its timers, tokens and gates shares as the policies do in
// their own simulation.
func TestFairness(t *testing.T) {
	for _, n := range []int{2, 4, 8} {
		guests := make([]load, n)
		for i := range guests {
			guests[i] = load{kernel: ms, think: 40 * us}
			if i >= n/2 {
				guests[i].kernel = 15 * ms
			}
		}
		share := 1 / float64(n)
		for policy, madd := range map[string]float64{"fifo": 2 * share / 16, "band": share, "credit": share} {
			if policy == "credit" && n == 2 {
				madd = share / 8
			}
			for i, u := range contest(t, Config{GPUs: []GPU{{Policy: policy}}}, 500*ms, 5*time.Second, guests) {
				want := madd
				if guests[i].kernel > ms {
					want = 2*share - madd
				}
				require.InDelta(t, want, mean(u), 0.02, "%s, guest %d of %d", policy, i, n)
				if policy == "band" {
					for _, x := range u {
						require.InDelta(t, want, x, 0.04, "%s, guest %d of %d", policy, i, n)
					}
				}
			}
		}
	}
}

func TestWeights(t *testing.T) {
	guests := []load{
		{share: sched.Share{Weight: 50}, kernel: ms, think: 40 * us},
		{share: sched.Share{Weight: 30}, kernel: 5 * ms, think: 40 * us},
		{share: sched.Share{Weight: 20}, kernel: 15 * ms, think: 40 * us},
	}
	for i, u := range contest(t, Config{}, time.Second, 5*time.Second, guests) {
		for _, x := range u {
			require.InDelta(t, float64(guests[i].share.Weight)/100, x, 0.025, "guest %d", i)
		}
	}
}

func TestCap(t *testing.T) {
	guests := []load{{share: sched.Share{Cap: 0.25}, kernel: ms, think: 10 * us}}
	for _, x := range contest(t, Config{}, time.Second, 5*time.Second, guests)[0] {
		require.InDelta(t, 0.25, x, 0.01)
	}
}

// Who observes hears of all that was used, when it ended.
func TestObserve(t *testing.T) {
	used, commands := map[string]time.Duration{}, map[string]uint64{}
	last := time.Time{}
	cfg := Config{Observe: func(u Use) {
		require.Equal(t, Compute, u.Engine)
		require.False(t, u.At.Add(-u.Used).Before(last), "two at once")
		last = u.At
		used[u.Guest] += u.Used
		commands[u.Guest] += u.Commands
	}}
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, cfg)
		done := make(chan struct{})
		for name, kernel := range map[string]time.Duration{"a": ms, "b": 5 * ms} {
			go func() {
				defer func() { done <- struct{}{} }()
				g := h.gate(name, sched.Share{}, WaitForArbiter)
				defer g.Close()
				for range 100 {
					run(g, Compute, kernel)
					time.Sleep(100 * us)
				}
			}()
		}
		<-done
		<-done
		h.stop()
	})
	require.Equal(t, map[string]time.Duration{"a": 100 * ms, "b": 500 * ms}, used)
	require.Equal(t, map[string]uint64{"a": 100, "b": 100}, commands)
}
