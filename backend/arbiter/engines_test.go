package arbiter

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// both runs guests that use one engine after the other, and returns how often each did.
func both(t *testing.T, policy string, guests int) (done []int) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: policy}}})
		done = make([]int, guests)
		until, all := time.Now().Add(5*time.Second), sync.WaitGroup{}
		for i := range guests {
			all.Go(func() {
				g := h.preemptible(fmt.Sprint(i), sched.Share{})
				defer g.Close()
				if i > 0 { // it has the copy engine when it comes to need the other
					time.Sleep(5 * ms)
					for range 10 {
						run(g, Copy, 500*us)
					}
				} else {
					for range 50 {
						run(g, Compute, 200*us)
					}
				}
				for time.Now().Before(until) {
					run(g, Compute, 200*us)
					run(g, Copy, 20*us)
					done[i]++
				}
			})
		}
		all.Wait()
		h.stop()
	})
	return done
}

// Guests that compute and copy in turn do not hold each other up: that one has the engine for which another waits, and the
// other way round.
func TestEnginesInTurn(t *testing.T) {
	guests := []int{2, 3}
	if testing.Short() {
		guests = guests[:1]
	}
	for _, policy := range []string{"band", "wfq", "credit", "fifo", "timeslice", "dtimeslice"} {
		alone := both(t, policy, 1)[0]
		for _, n := range guests {
			sum, done := 0, both(t, policy, n)
			for _, d := range done {
				sum += d
			}
			t.Logf("%s: one %d, %d guests %v: %.3f", policy, alone, n, done, float64(sum)/float64(alone))
			require.Greater(t, float64(sum)/float64(alone), 0.95, "%s, %d guests", policy, n)
		}
	}
}
