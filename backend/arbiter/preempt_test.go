package arbiter

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// preemptible joins as a backend that stops commands on demand.
func (h *host) preemptible(name string, share sched.Share) *Gate {
	g, err := Join(GateConfig{WhenLost: WaitForArbiter, Preemptible: true, dial: h.dial(Hello{Name: name, Share: share})})
	require.NoError(h.t, err)
	return g
}

// look is how often a device looks whether its command has to stop.
const look = 50 * us

// runs is a command that stops on demand and goes on later. It returns the pieces in which it ran,
// or false if it did not end before a time.
func runs(g *Gate, e Engine, d time.Duration, until time.Time) (pieces int, ended bool) {
	for left := d; ; {
		if granted := g.Enter(e, false); granted != nil {
			<-granted
		}
		pieces++
		used := time.Duration(0)
		for used < left && !g.Preempted(e) && time.Now().Before(until) {
			step := min(look, left-used)
			time.Sleep(step)
			used += step
		}
		left -= used
		switch {
		case left == 0:
			g.Leave(e, used, 1, false)
			return pieces, true
		case !time.Now().Before(until):
			g.Leave(e, used, 0, false)
			return pieces, false
		}
		g.Leave(e, used, 0, true)
	}
}

// statsOf returns the counts of a guest at the compute engine.
func (h *host) statsOf(name string) GuestEngineStats {
	for _, g := range h.server().Stats()[0].Guests {
		if g.Name == name {
			return g.Engines[Compute]
		}
	}
	return GuestEngineStats{}
}

// TestPreemption checks that an endless command gives way to short ones and goes on, for as long as
// both like, that its use is charged once, and that a guest alone is left in peace.
func TestPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		long, short := h.preemptible("long", sched.Share{}), h.gate("short", sched.Share{}, WaitForArbiter)
		end := time.Now().Add(30 * time.Second)
		var all sync.WaitGroup
		pieces := 0
		all.Go(func() { pieces, _ = runs(long, Compute, time.Hour, end) })
		time.Sleep(5 * time.Second)
		require.Zero(t, h.statsOf("long").Preempted, "it is alone")
		commands, longest := 0, time.Duration(0)
		for time.Now().Before(end.Add(-time.Second)) {
			asked := time.Now()
			longest = max(longest, run(short, Compute, 100*us).Sub(asked))
			commands++
			time.Sleep(5 * ms)
		}
		require.Less(t, longest, 4*ms)
		st := h.statsOf("long")
		require.InDelta(t, commands, st.Preempted, float64(commands)/10)
		all.Wait()
		st = h.statsOf("long")
		require.Equal(t, st.Preempted+1, uint64(pieces))
		require.InDelta(t, 30*time.Second-time.Duration(commands)*100*us, st.Busy, float64(200*ms))
		require.Zero(t, st.Commands, "it has not ended")
		require.Zero(t, st.Implausible)
		require.Zero(t, h.server().Stats()[0].Engines[Compute].Expired)
		long.Close()
		short.Close()
		h.stop()
	})
}

// TestEndlessByWeight checks that endless commands of several guests share an engine by weight, and
// that no limit of the arbiter ends them.
func TestEndlessByWeight(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{GPUs: []GPU{{Policy: policy}}})
			end := time.Now().Add(time.Minute)
			var all sync.WaitGroup
			weights := []uint32{6, 3, 1}
			for i, w := range weights {
				g := h.preemptible(fmt.Sprint("guest-", i), sched.Share{Weight: w})
				all.Go(func() {
					defer g.Close()
					runs(g, Compute, time.Hour, end)
				})
			}
			time.Sleep(59 * time.Second)
			for i, w := range weights {
				require.InDelta(t, float64(w)/10, h.statsOf(fmt.Sprint("guest-", i)).Busy.Seconds()/59, 0.02, "%s, guest %d", policy, i)
			}
			all.Wait()
			h.stop()
		})
	}
}

// TestPreemptionIsAskedFor checks that only a backend which says that it looks is asked, and none
// under a policy that does not preempt.
func TestPreemptionIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		set    sched.Settings
		old    bool
	}{
		"older backend":  {policy: "band", old: true},
		"fifo":           {policy: "fifo"},
		"gdev-band":      {policy: "gdev-band"},
		"whole commands": {policy: "band", set: sched.Settings{Preempt: sched.NoWait}},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{GPUs: []GPU{{Policy: c.policy, Settings: c.set}}})
			var long *Gate
			if c.old {
				long = h.gate("long", sched.Share{}, WaitForArbiter)
			} else {
				long = h.preemptible("long", sched.Share{})
			}
			enter(long, Compute)
			short := h.gate("short", sched.Share{}, WaitForArbiter)
			granted := short.Enter(Compute, false)
			require.NotNil(t, granted)
			for range 100 {
				time.Sleep(20 * ms)
				require.False(t, long.Preempted(Compute), name)
			}
			require.True(t, long.Wanted(Compute))
			require.Zero(t, h.statsOf("long").Preempted)
			long.Leave(Compute, 2*time.Second, 1, false)
			<-granted
			short.Leave(Compute, 0, 1, false)
			long.Close()
			short.Close()
			h.stop()
		})
	}
}

// TestPreemptionClaimed checks a backend that says that it looks, and never stops: it is waited for
// like any other, and is asked once.
func TestPreemptionClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		r := h.rogue("rogue")
		require.NoError(t, r.link.send(message{op: opRequest, value: flagPreempt}))
		_, ok := r.grant()
		require.True(t, ok)
		require.True(t, r.page.begin(Compute, work{}))
		time.Sleep(time.Hour)
		commands, wait := victim(h, 20*time.Second)
		require.Equal(t, DefaultAnswerLimit, wait)
		require.Equal(t, 5000, commands)
		require.True(t, r.m.gone)
		require.Equal(t, uint64(1), r.m.seats[Compute].preempted)
		h.stop()
	})
}

// TestPreemptionPays checks backends that stop when they are asked and say that they used nothing,
// or take a long time to stop: they pay for the time for which they had the engine.
func TestPreemptionPays(t *testing.T) {
	for _, slow := range []time.Duration{0, 300 * us, 10 * ms} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{})
			stop := make(chan struct{})
			var liar sync.WaitGroup
			liar.Go(func() {
				g := h.preemptible("liar", sched.Share{})
				defer g.Close()
				for {
					select {
					case <-stop:
						return
					default:
					}
					enter(g, Compute)
					for n := 0; n < 1000 && !g.Preempted(Compute); n++ {
						time.Sleep(look)
					}
					time.Sleep(slow)
					g.Leave(Compute, 0, 0, true)
				}
			})
			commands, _ := victim(h, 10*time.Second)
			require.Greater(t, commands, 4400, "%v", slow)
			close(stop)
			liar.Wait()
			h.stop()
		})
	}
}

// TestPreemptionWaitsForCommand checks that a token with which nothing was begun yet is not marked:
// a command that had to stop at once would never make progress.
func TestPreemptionWaitsForCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		r := h.rogue("slow")
		holder := h.gate("holder", sched.Share{}, WaitForArbiter)
		enter(holder, Compute)
		require.NoError(t, r.link.send(message{op: opRequest, value: flagPreempt}))
		synctest.Wait()
		granted := make(chan uint64, 1)
		go func() {
			n, _ := r.grant()
			granted <- n
		}()
		holder.Leave(Compute, ms, 1, true)
		waits := holder.Enter(Compute, false)
		require.NotNil(t, waits)
		n := <-granted
		time.Sleep(10 * ms) // it wakes up late
		require.Zero(t, r.page.load(Compute)&bitPreempt)
		require.True(t, r.page.begin(Compute, work{}))
		time.Sleep(3 * ms)
		require.NotZero(t, r.page.load(Compute)&bitPreempt)
		r.page.store(Compute, 0)
		require.NoError(t, r.link.send(message{op: opYield, grant: n}))
		<-waits
		holder.Leave(Compute, 0, 1, false)
		r.link.close()
		holder.Close()
		synctest.Wait()
		h.stop()
	})
}

// TestNeverTwoPreempted checks with guests whose commands stop on demand, or not, at random, that
// never two are inside at once and that each gets in at last, while the policy changes.
func TestNeverTwoPreempted(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{})
			var inside sync.Mutex
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					g := h.preemptible(fmt.Sprint("guest-", i), sched.Share{Weight: 1 + rng.Uint32N(5)})
					defer g.Close()
					for range 30 {
						left := time.Duration(rng.Int64N(int64(20 * ms)))
						obeys := rng.IntN(4) > 0
						for left > 0 {
							if granted := g.Enter(Compute, false); granted != nil {
								select {
								case <-granted:
								case <-time.After(time.Hour):
									require.Fail(t, "a guest waits without end")
								}
							}
							require.True(t, inside.TryLock(), "two at once")
							used := time.Duration(0)
							for used < left && !(obeys && g.Preempted(Compute)) {
								time.Sleep(look)
								used += look
							}
							left -= used
							inside.Unlock()
							g.Leave(Compute, used, 1, left > 0)
						}
						time.Sleep(time.Duration(rng.Int64N(int64(2 * ms))))
					}
				})
			}
			done := make(chan struct{})
			go func() {
				all.Wait()
				close(done)
			}()
			policies := sched.Names()
			for n := 0; ; n++ {
				select {
				case <-done:
					h.stop()
					return
				case <-time.After(100 * ms):
					require.NoError(t, h.server().Switch(0, policies[n%len(policies)], sched.Settings{}))
				}
			}
		})
	}
}
