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

// slicedGPU gives guests with commands the GPU for a time slice each, in turn, as NVIDIA's do.
type slicedGPU struct {
	turn chan struct{}
	pass time.Duration // what it takes to turn to another guest
	last *Gate         // that had it; whose turn it is writes it
}

// hardwareSlice is a time slice of it.
const hardwareSlice = ms

func newSlicedGPU() *slicedGPU { return &slicedGPU{turn: make(chan struct{}, 1)} }

// guest launches commands of one length until a time, stops them on demand, and returns the time that
// it had the GPU. Its backend says for how long it had commands.
func (x *slicedGPU) guest(g *Gate, command, think time.Duration, until time.Time) (used time.Duration) {
	for time.Now().Before(until) {
		for left := command; left > 0 && time.Now().Before(until); {
			if granted := g.Enter(Compute, false); granted != nil {
				<-granted
			}
			began := time.Now()
			for left > 0 && !g.Preempted(Compute) && time.Now().Before(until) {
				x.turn <- struct{}{}
				if x.last != g {
					time.Sleep(x.pass)
				}
				x.last = g
				step := min(left, hardwareSlice)
				time.Sleep(step)
				<-x.turn
				left -= step
				used += step
			}
			ended := uint64(0)
			if left == 0 {
				ended = 1
			}
			g.Leave(Compute, time.Since(began), ended, left > 0 || x.pass > 0) // where that takes long it waits for the next one
		}
		time.Sleep(think)
	}
	return used
}

// turner joins as a backend whose commands the GPU serves in turn with others', and that stops them.
func (h *host) turner(name string, lost Lost) *Gate {
	g, err := Join(GateConfig{WhenLost: lost, Preemptible: true, Turns: true, dial: h.dial(Hello{Name: name, Share: sched.Share{}})})
	require.NoError(h.t, err)
	return g
}

// contestInTurn runs guests on a GPU with time slices under a policy, and returns the part of its time
// that each had. look is called every millisecond.
func contestInTurn(t *testing.T, policy string, pass, length time.Duration, look func(h *host), commands ...time.Duration) (shares []float64, inUse float64, st GPUStats) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: policy}}})
		x := newSlicedGPU()
		x.pass = pass
		until := time.Now().Add(length)
		used := make([]time.Duration, len(commands))
		var all sync.WaitGroup
		for i, command := range commands {
			all.Go(func() {
				g := h.turner(fmt.Sprint("guest", i), WaitForArbiter)
				defer g.Close()
				used[i] = x.guest(g, command, 10*us, until)
			})
		}
		for time.Now().Before(until.Add(-2 * ms)) {
			time.Sleep(ms)
			look(h)
		}
		st = h.server().Stats()[0]
		all.Wait()
		h.stop()
		sum := time.Duration(0)
		for _, u := range used {
			sum += u
		}
		for _, u := range used {
			shares = append(shares, u.Seconds()/sum.Seconds())
		}
		inUse = sum.Seconds() / length.Seconds()
	})
	return shares, inUse, st
}

// Under dfq guests have the GPU together, and get the same of it whatever the lengths of their commands;
// those that do not end are stopped for the engagements and while their guest is denied. Without a
// policy the one with short commands would get a hundredth.
func TestGuestsTakeTurnsOnTheGPU(t *testing.T) {
	const endless = time.Hour
	for _, commands := range [][]time.Duration{{100 * us, endless}, {100 * us, 20 * ms}, {100 * us, 1500 * us, 20 * ms, endless}, {endless, endless}} {
		together := 0
		shares, inUse, st := contestInTurn(t, "dfq", 0, 20*time.Second, func(h *host) {
			if len(h.server().Stats()[0].Engines[Compute].Holders) > 1 {
				together++
			}
		}, commands...)
		t.Logf("%v: %.3f", commands, shares)
		for i, s := range shares {
			require.InDelta(t, 1/float64(len(commands)), s, 0.05, "%v, guest %d", commands, i)
		}
		preempted := uint64(0)
		for _, g := range st.Guests {
			preempted += g.Engines[Compute].Preempted
		}
		require.Positive(t, preempted)
		require.Zero(t, st.Engines[Compute].Expired)
		require.Greater(t, together, 1000, "milliseconds of 20,000")
		require.Greater(t, inUse, 0.8)
	}
}

// Where it takes the GPU long to turn to another guest, those with short commands have it one after the
// other, and together from time to time, to look whether that has changed.
func TestTogetherIsNotWorthIt(t *testing.T) {
	for policy, least := range map[string]float64{"dfq": 0.7, "dfq-roundrobin": 0} {
		together := 0
		shares, inUse, st := contestInTurn(t, policy, 150*us, 20*time.Second, func(h *host) {
			if len(h.server().Stats()[0].Engines[Compute].Holders) > 1 {
				together++
			}
		}, 100*us, 66*us)
		t.Logf("%s: %.3f of the time, shares %.3f, together %d ms", policy, inUse, shares, together)
		require.Greater(t, inUse, least, policy)
		require.Positive(t, together)
		require.Zero(t, st.Engines[Compute].Expired)
		if least > 0 {
			require.Less(t, together, 5000)
			require.InDelta(t, 0.5, shares[0], 0.05)
		} else {
			require.Less(t, inUse, 0.6)
		}
	}
}

// Under other policies they have it one after the other, also after a change of the policy.
func TestTurnsUnderOtherPolicies(t *testing.T) {
	policies := []string{"band", "dfq", "dtimeslice", "dfq", "wfq"}
	most := make([]int, len(policies))
	now := 0
	_, _, st := contestInTurn(t, policies[0], 0, 5*time.Second, func(h *host) {
		at := int(time.Duration(now) * ms / time.Second)
		if now++; now%1000 == 0 && at+1 < len(policies) {
			require.NoError(t, h.server().Switch(0, policies[at+1], sched.Settings{}))
			return
		}
		if now%1000 > 100 { // those who had it together give it back
			most[at] = max(most[at], len(h.server().Stats()[0].Engines[Compute].Holders))
		}
	}, 100*us, 3*ms)
	require.Equal(t, []int{1, 2, 1, 2, 1}, most)
	require.Zero(t, st.Engines[Compute].Expired)
}

// dies is guest, of a backend that is killed at a time, whatever it does then: it has the engine, has to
// leave it, or waits.
func (x *slicedGPU) dies(g *Gate, command time.Duration, at time.Time) {
	defer g.Close()
	for {
		if granted := g.Enter(Compute, false); granted != nil {
			select {
			case <-granted:
			case <-time.After(time.Until(at)):
				return
			}
		}
		began := time.Now()
		for left := command; left > 0 && !g.Preempted(Compute); left -= hardwareSlice {
			if !time.Now().Before(at) {
				return
			}
			x.turn <- struct{}{}
			time.Sleep(min(left, hardwareSlice))
			<-x.turn
		}
		g.Leave(Compute, time.Since(began), 1, true)
	}
}

// Backends and arbiters that are killed at any time of a cycle hold no other up: those that live go on, and
// get the same of the GPU.
func TestDeathsUnderDFQ(t *testing.T) {
	const seeds = 5
	for seed := range uint64(seeds) {
		for _, lost := range []Lost{GoAlone, WaitForArbiter} {
			synctest.Test(t, func(t *testing.T) { deathsUnderDFQ(t, lost, rand.New(rand.NewPCG(seed, 5))) })
		}
	}
}

func deathsUnderDFQ(t *testing.T, lost Lost, rng *rand.Rand) {
	h := newHost(t, Config{GPUs: []GPU{{Policy: "dfq"}}})
	x := newSlicedGPU()
	const length = 10 * time.Second
	until := time.Now().Add(length)
	var used [2]time.Duration
	var all sync.WaitGroup
	for i, command := range []time.Duration{100 * us, time.Hour} {
		all.Go(func() {
			g := h.turner(fmt.Sprint("lives", i), lost)
			defer g.Close()
			used[i] = x.guest(g, command, 10*us, until)
		})
	}
	for n := 0; time.Now().Before(until.Add(-time.Second)); n++ {
		if n%30 == 29 {
			h.stop()
			time.Sleep(time.Duration(rng.Int64N(int64(50 * ms))))
			h.start(Config{GPUs: []GPU{{Policy: "dfq"}}})
			time.Sleep(DefaultMaxBackoff) // both join
			continue
		}
		life := time.Duration(rng.Int64N(int64(80 * ms))) // here, since the generator is this goroutine's
		all.Go(func() {
			command := []time.Duration{50 * us, 3 * ms, 30 * ms, time.Hour}[n%4]
			x.dies(h.turner(fmt.Sprint("dies", n), lost), command, time.Now().Add(life))
		})
		time.Sleep(time.Duration(rng.Int64N(int64(100 * ms))))
	}
	all.Wait()
	require.Greater(t, used[0]+used[1], length/3)
	least := (used[0] + used[1]) / 4
	if lost == GoAlone {
		least = (used[0] + used[1]) / 20 // without an arbiter the GPU divides its time
	}
	require.Greater(t, used[0], least)
	require.Greater(t, used[1], least)
	for _, e := range h.server().Stats()[0].Engines {
		require.Zero(t, e.Expired)
	}
	h.stop()
}

// Work that may only be on the GPU together under such a policy does not begin with a token for other
// work that may.
func TestWordForTurns(t *testing.T) {
	for _, c := range []struct {
		word          uint32
		turns, begins bool
	}{
		{word: bitHeld | bitBeside, turns: true},
		{word: bitHeld | bitBeside | bitTurns, turns: true, begins: true},
		{word: bitHeld | bitBeside | bitTurns},
		{word: bitHeld, turns: true, begins: true},
	} {
		p := privatePage()
		p.turns = c.turns
		p.store(Compute, c.word)
		require.Equal(t, c.begins, p.begin(Compute, work{}), c.word)
	}
}
