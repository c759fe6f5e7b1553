package arbiter

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// served runs a server whose clients wait for each answer, and think for a while, beside eaters. It returns the answers a
// second, and the part of the time for which the eaters had the engine.
func served(t *testing.T, eaters int) (rate, eaten float64) {
	const (
		slice, request, think = 10 * ms, 3 * ms, 30 * ms
		clients               = 2
		length                = 20 * time.Second
	)
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: "wfq", Settings: sched.Settings{Slice: slice, Preempt: slice}}}})
		g := h.preemptible("server", sched.Share{Weight: 60})
		gates, until := []*Gate{g}, time.Now().Add(length)
		requests, answers, all := make(chan chan struct{}, clients), atomic.Int64{}, sync.WaitGroup{}
		for i := range clients {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 7 * ms)
				for time.Now().Before(until) {
					answer := make(chan struct{})
					requests <- answer
					<-answer
					answers.Add(1)
					time.Sleep(think)
				}
			})
		}
		go func() {
			for answer := range requests {
				if granted := g.Enter(Compute, false); granted != nil {
					<-granted
				}
				time.Sleep(request)
				g.Leave(Compute, request, 1, false)
				close(answer)
			}
		}()
		had := make([]spans, eaters)
		for i := range eaters {
			e := h.preemptible(fmt.Sprint(i), sched.Share{Weight: 80})
			gates = append(gates, e)
			all.Go(func() { had[i] = eater(e, slice, uint64(i), until) })
		}
		all.Wait()
		close(requests)
		for _, s := range had {
			eaten += s.within(until.Add(-length), until).Seconds() / length.Seconds()
		}
		for _, x := range gates {
			x.Close()
		}
		h.stop()
		rate = float64(answers.Load()) / length.Seconds()
	})
	return rate, eaten
}

// A server whose clients wait for each answer loses little when three eaters come, which get the rest: it waits until the one
// that has the engine has looked at its signal, not for a slice.
func TestServerWithClientsThatWait(t *testing.T) {
	alone, _ := served(t, 0)
	beside, eaten := served(t, 3)
	t.Logf("alone %.1f a second, beside three %.1f (%.3f), which have %.3f", alone, beside, beside/alone, eaten)
	require.Greater(t, beside/alone, 0.9)
	require.Greater(t, eaten+beside*0.003, 0.99, "the engine works all the time")
}

// Another guest's kernel begins within a slice and 3 ms beside eaters, in 99 of 100 cases.
func TestStartBesideEaters(t *testing.T) {
	const slice = 10 * ms
	for eaters := 1; eaters <= 7; eaters += 3 {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{GPUs: []GPU{{Policy: "wfq", Settings: sched.Settings{Slice: slice, Preempt: slice}}}})
			until, all := time.Now().Add(20*time.Second), sync.WaitGroup{}
			gates := []*Gate{h.preemptible("other", sched.Share{})}
			for i := range eaters {
				e := h.preemptible(fmt.Sprint(i), sched.Share{})
				gates = append(gates, e)
				all.Go(func() { eater(e, slice, uint64(i), until) })
			}
			var waits []time.Duration
			for time.Now().Before(until.Add(-time.Second)) {
				time.Sleep(37 * ms)
				asked := time.Now()
				waits = append(waits, run(gates[0], Compute, 100*us).Sub(asked))
			}
			all.Wait()
			slices.Sort(waits)
			t.Logf("%d eaters: median %v, p99 %v", eaters, waits[len(waits)/2], waits[len(waits)*99/100])
			require.LessOrEqual(t, waits[len(waits)*99/100], slice+3*ms)
			for _, g := range gates {
				g.Close()
			}
			h.stop()
		})
	}
}
