package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/schedtest"
)

// cell is what one policy does in one cell of the comparison of BAND with its
// published forms: the shares, and the worst windows of any guest, in points.
type cell struct {
	low, high, worst500, worst100, busy float64
	idle                                time.Duration
}

func compare(t *testing.T, policy string, guests []schedtest.Guest) cell {
	t.Helper()
	report := simulate(t, policy, guests)
	c := cell{low: 1, idle: report.LongestIdle, busy: report.Busy.Seconds()}
	share := 1 / float64(len(guests))
	for _, r := range report.Guests {
		mean, worst := measured(r, 500*ms, share)
		_, short := measured(r, 100*ms, share)
		c.low, c.high = min(c.low, mean), max(c.high, mean)
		c.worst500, c.worst100 = max(c.worst500, worst), max(c.worst100, short)
	}
	t.Logf("%-10s shares %4.1f to %4.1f %%, worst of 500 ms %4.1f, of 100 ms %4.1f points, idle %v",
		policy, 100*c.low, 100*c.high, 100*c.worst500, 100*c.worst100, c.idle)
	return c
}

// BAND here is as fair as both published forms in every cell of the thesis's
// Figures 4.11 and 4.12, but for a point, and gets 99 % of their work done: a fairer share for
// short commands means more gaps between them.
func TestBandAgainstPublished(t *testing.T) {
	for _, madd := range []time.Duration{300 * us, ms} {
		for _, n := range []int{2, 4, 8} {
			t.Run(fmt.Sprintf("%v/%d", madd, n), func(t *testing.T) {
				guests := half(n, madd, 40*us)
				share := 1 / float64(n)
				ours := compare(t, "band", guests)
				require.InDelta(t, share, ours.low, 0.08*share)
				for _, policy := range []string{"gdev-band", "gpuvm-band"} {
					theirs := compare(t, policy, guests)
					require.LessOrEqual(t, ours.worst500, theirs.worst500+0.01, policy)
					require.LessOrEqual(t, ours.worst100, theirs.worst100+0.01, policy)
					require.GreaterOrEqual(t, ours.busy, 0.99*theirs.busy, policy)
					require.LessOrEqual(t, theirs.idle, sched.DefaultWait, policy)
					if policy == "gpuvm-band" { // Gdev's misses shares by more
						require.InDelta(t, share, theirs.low, 0.15*share)
						require.InDelta(t, share, theirs.high, 0.15*share)
					}
				}
				// GPUvm's own comparison: CREDIT fails for two guests.
				credit := compare(t, "credit", guests)
				require.Equal(t, n == 2, credit.low < share/2)
			})
		}
	}
}

// A guest that has had too much goes to the end of the published policies' lists.
func TestPublishedToTail(t *testing.T) {
	for _, policy := range []string{"gdev-band", "gpuvm-band"} {
		t.Run(policy, func(t *testing.T) {
			s := newScheduler(t, policy, sched.Settings{Wait: sched.NoWait}, sched.Share{}, sched.Share{}, sched.Share{})
			for id := range sched.ID(3) {
				require.NoError(t, s.Arrive(id+1, 0))
			}
			now := time.Duration(0)
			for _, id := range []sched.ID{1, 2, 3} {
				now = serve(t, s, id, now, 100*ms, 100*ms, true)
			}
		})
	}
}
