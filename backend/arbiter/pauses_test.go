package arbiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// TestKernelsWithPauses checks that a guest which waits for each four of its kernels, and fills the processors, keeps its
// share beside one with one block, whose kernels may leave late.
func TestKernelsWithPauses(t *testing.T) {
	cases := 0
	for _, policy := range []string{"band", "wfq"} {
		for _, weight := range []uint32{75, 50, 25} {
			for _, think := range []time.Duration{100 * us, 500 * us, ms, 2 * ms} {
				for _, late := range []time.Duration{0, 5 * ms} {
					if cases++; testing.Short() && cases%11 != 1 { // which has each of the values once or more
						continue
					}
					synctest.Test(t, func(t *testing.T) {
						h := newHost(t, Config{GPUs: []GPU{{Policy: policy, Processors: 2}}})
						got := h.beside([]block{{share: sched.Share{Weight: weight}, processors: 2, kernel: 5 * ms, think: think, fills: true, batch: 4},
							{share: sched.Share{Weight: 100 - weight}, processors: 1, kernel: 20 * ms, think: 10 * us, batch: 4, late: late}}, 2, time.Now().Add(10*time.Second))
						part := got[0].Seconds() / (got[0] + got[1]).Seconds()
						t.Logf("%s, weight %d, pauses of %v, late by %v: %.1f %%", policy, weight, think, late, 100*part)
						require.InDelta(t, max(float64(weight)/100, 0.5), part, 0.045) // one block leaves it a processor
						h.stop()
					})
				}
			}
		}
	}
}

// TestThreeKernelsWithPauses is TestKernelsWithPauses with two guests of one block.
func TestThreeKernelsWithPauses(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{GPUs: []GPU{{Policy: policy, Processors: 2}}})
			one := block{share: sched.Share{Weight: 25}, processors: 1, kernel: 2 * ms, think: 10 * us}
			got := h.beside([]block{{share: sched.Share{Weight: 50}, processors: 2, kernel: 5 * ms, think: ms, fills: true, batch: 4}, one, one}, 2, time.Now().Add(10*time.Second))
			sum := got[0] + got[1] + got[2]
			for i, want := range []float64{0.5, 0.25, 0.25} {
				require.InDelta(t, want, got[i].Seconds()/sum.Seconds(), 0.045, "%s, guest %d", policy, i)
			}
			h.stop()
		})
	}
}
