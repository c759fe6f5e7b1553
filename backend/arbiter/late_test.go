package arbiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// TestStopsLateBesideKernelsThatFill checks that a guest whose kernels have one block, and that stops late when it has had
// its time, as on a busy host, pays for that: both have their shares beside kernels that fill the processors.
func TestStopsLateBesideKernelsThatFill(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		for _, late := range []time.Duration{0, 20 * ms, 100 * ms, 300 * ms} {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Config{GPUs: []GPU{{Policy: policy, Processors: 2}}})
				end := time.Now().Add(10 * time.Second)
				var busy [2]time.Duration
				go func() {
					g := h.preemptible("small", sched.Share{Weight: 25})
					defer g.Close()
					for time.Now().Before(end) {
						if granted := g.EnterPart(Compute, 1, 1); granted != nil {
							<-granted
						}
						began := time.Now()
						for !g.Preempted(Compute) && time.Now().Before(end) {
							time.Sleep(look)
						}
						time.Sleep(late)
						g.Leave(Compute, time.Since(began), 1, true)
					}
				}()
				go h.beside([]block{{share: sched.Share{Weight: 75}, processors: 2, kernel: time.Hour, fills: true}}, 2, end)
				time.Sleep(time.Until(end) - ms)
				for i, g := range h.s.Stats()[0].Guests {
					busy[i] = g.Engines[Compute].Busy
				}
				time.Sleep(time.Second)
				part := busy[0].Seconds() / (busy[0] + busy[1]).Seconds()
				require.InDelta(t, 0.75, part, 0.03, "%s, %v late", policy, late)
				h.stop()
			})
		}
	}
}
