package arbiter

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// comesIn enters an engine, or gives up after a moment, one time out of three.
func comesIn(t *testing.T, g *Gate, e Engine, shared bool, rng *rand.Rand) bool {
	granted := g.Enter(e, shared)
	if granted == nil {
		return true
	}
	patience := time.Hour
	if rng.IntN(3) == 0 {
		patience = time.Duration(rng.Int64N(int64(5 * ms)))
	}
	select {
	case <-granted:
		return true
	case <-time.After(patience):
		g.Cancel(e)
		require.Less(t, patience, time.Hour, "a guest waits without end")
		return false
	}
}

// chamber is what guests are inside of.
type chamber struct {
	sync.RWMutex
	many, met atomic.Int64
}

// enter reports whether a guest may be there with those who are.
func (c *chamber) enter(beside bool) bool {
	if !beside {
		return c.TryLock()
	}
	if c.many.Add(1) > 1 {
		c.met.Add(1)
	}
	return c.TryRLock()
}

// leave returns how many came to others since the last who left.
func (c *chamber) leave(beside bool) int64 {
	if beside {
		c.many.Add(-1)
		c.RUnlock()
	} else {
		c.Unlock()
	}
	return c.met.Swap(0)
}

// Guests enter, change their minds, leave, close and come back at random, while
// the policy changes: never are two inside at once, but for work that may go on beside
// such work, and nobody waits for ever.
func TestNeverTwoAtOnce(t *testing.T) {
	var together atomic.Int64 // how often somebody came to others
	seeds, visits := uint64(20), 100
	if testing.Short() { // the race detector makes it ten times as long
		seeds, visits = 4, 25
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			policies := sched.Names()
			h := newHost(t, Config{GPUs: []GPU{{Policy: policies[seed%uint64(len(policies))]}}})
			var inside [Engines]chamber
			var all sync.WaitGroup
			for i := range 5 {
				name := fmt.Sprintf("guest-%d", i)
				all.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					pause := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
					for range 3 {
						g := h.gate(name, sched.Share{Weight: 1 + rng.Uint32N(5)}, WaitForArbiter)
						var engines sync.WaitGroup
						for e := range Engines {
							seed := rng.Uint64()
							engines.Go(func() {
								rng := rand.New(rand.NewPCG(seed, uint64(e)))
								pause := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
								for range visits {
									beside := rng.IntN(3) > 0
									if !comesIn(t, g, e, beside, rng) {
										continue
									}
									require.True(t, inside[e].enter(beside), "%s, beside=%t, comes to other work on %v", name, beside, e)
									pause(3 * ms)
									together.Add(inside[e].leave(beside))
									g.Leave(e, ms, 1, rng.IntN(2) == 0)
									if rng.IntN(2) == 0 {
										pause(2 * ms)
									}
								}
							})
						}
						engines.Wait()
						g.Close()
						synctest.Wait() // until the arbiter has noticed
						pause(10 * ms)
					}
				})
			}
			done := make(chan struct{})
			go func() {
				all.Wait()
				close(done)
			}()
			for n := 0; ; n++ {
				select {
				case <-done:
					h.stop()
					return
				case <-time.After(50 * ms):
					require.NoError(t, h.s.Switch(0, policies[n%3], sched.Settings{}))
				}
			}
		})
	}
	require.Greater(t, 2*together.Load(), int64(seeds)*int64(visits))
}

// The arbiter ends and starts again and again under load: nobody is left behind.
func TestRestartsUnderLoad(t *testing.T) {
	for _, lost := range []Lost{GoAlone, WaitForArbiter} {
		for seed := range uint64(10) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Config{})
				var all sync.WaitGroup
				const commands = 2000
				for i := range 4 {
					all.Go(func() {
						rng := rand.New(rand.NewPCG(seed, uint64(i)))
						g := h.gate(fmt.Sprintf("guest-%d", i), sched.Share{}, lost)
						defer g.Close()
						for range commands {
							run(g, Engine(rng.IntN(2)), time.Duration(rng.Int64N(int64(2*ms))))
						}
					})
				}
				done := make(chan struct{})
				go func() {
					all.Wait()
					close(done)
				}()
				rng := rand.New(rand.NewPCG(seed, 99))
				for up := true; ; up = !up {
					select {
					case <-done:
						if up {
							h.stop()
						}
						return
					case <-time.After(time.Duration(rng.Int64N(int64(200 * ms)))):
					case <-time.After(time.Hour):
						require.Fail(t, "somebody waits for ever")
					}
					if up {
						h.stop()
					} else {
						h.start(Config{})
					}
				}
			})
		}
	}
}
