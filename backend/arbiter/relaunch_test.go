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

// relaunched has eaters share the engine that are away for a while between two launches, and returns the
// part of the first one.
func relaunched(t *testing.T, settings sched.Settings, away time.Duration, weights ...uint32) float64 {
	slice, end := settings.Slice, time.Now().Add(20*time.Second)
	h := newHost(t, Config{GPUs: []GPU{{Policy: "wfq", Settings: settings}}})
	used, all := make([]time.Duration, len(weights)), sync.WaitGroup{}
	var gates []*Gate
	for i, w := range weights {
		g := h.preemptible(fmt.Sprint(i), sched.Share{Weight: w})
		gates = append(gates, g)
		all.Go(func() {
			for time.Now().Before(end) {
				if granted := g.Enter(Compute, false); granted != nil {
					<-granted
				}
				begun := time.Now()
				time.Sleep(time.Duration(begun.UnixNano() * 7919 % int64(slice/4))) // until the first look
				for !g.Revoked(Compute, time.Since(begun)) && time.Now().Before(end) {
					time.Sleep(slice / 4)
				}
				used[i] += time.Since(begun)
				g.Leave(Compute, time.Since(begun), 1, false)
				time.Sleep(away)
			}
		})
	}
	all.Wait()
	sum := time.Duration(0)
	for i, g := range gates {
		sum += used[i]
		g.Close()
	}
	h.stop()
	return float64(used[0]) / float64(sum)
}

// A program that is entitled to two thirds gets them, also where it takes longer than Settings.Wait to launch its kernel
// again: it stays for as many slices as it is behind the others.
func TestEatersThatLaunchAgain(t *testing.T) {
	const slice = 10 * ms
	for _, weights := range [][]uint32{{2, 1}, {6, 1, 1, 1}, {14, 1, 1, 1, 1, 1, 1, 1}} {
		for _, x := range []struct {
			wait, away time.Duration
		}{
			{wait: 0, away: 300 * time.Microsecond}, {wait: slice / 4, away: 2 * ms}, {wait: 0, away: ms}, {wait: 0, away: 4 * ms}, {wait: 0, away: 9 * ms},
		} {
			synctest.Test(t, func(t *testing.T) {
				part := relaunched(t, sched.Settings{Slice: slice, Preempt: slice, Wait: x.wait}, x.away, weights...)
				t.Logf("%v, wait %v, away for %v: %.1f %%", weights, x.wait, x.away, 100*part)
				require.InDelta(t, 2.0/3, part, 0.02)
			})
		}
	}
}
