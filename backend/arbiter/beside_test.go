package arbiter

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// begin enters the compute engine, and waits.
func begin(g *Gate, beside bool) {
	if granted := g.Enter(Compute, beside); granted != nil {
		<-granted
	}
}

// Work that may go on beside such work does, each is charged its part, and other work
// waits for all of it.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		a, b, c := h.gate("a", sched.Share{}, WaitForArbiter), h.gate("b", sched.Share{}, WaitForArbiter), h.gate("c", sched.Share{}, WaitForArbiter)
		began := time.Now()
		begin(a, true)
		time.Sleep(2 * ms)
		begin(b, true)
		require.Equal(t, 2*ms, time.Since(began), "it waits for nothing")
		require.Equal(t, []string{"a", "b"}, h.s.Stats()[0].Engines[Compute].Holders)
		require.True(t, a.Wanted(Compute))
		alone := c.Enter(Compute, false)
		require.NotNil(t, alone)
		time.Sleep(4 * ms)
		a.Leave(Compute, 6*ms, 1, false)
		synctest.Wait()
		select {
		case <-alone:
			require.Fail(t, "one is inside")
		default:
		}
		time.Sleep(ms)
		b.Leave(Compute, 5*ms, 1, false)
		<-alone
		require.LessOrEqual(t, time.Since(began), 7*ms+sched.DefaultWait)

		// And the other way round: nobody comes to work that is not like that.
		granted := a.Enter(Compute, true)
		require.NotNil(t, granted)
		time.Sleep(3 * ms)
		c.Leave(Compute, 3*ms, 1, false)
		<-granted
		require.LessOrEqual(t, time.Since(began), 10*ms+sched.DefaultWait)
		a.Leave(Compute, 0, 1, false)
		busy := map[string]time.Duration{}
		for _, g := range h.s.Stats()[0].Guests {
			busy[g.Name] = g.Engines[Compute].Busy
		}
		require.Equal(t, map[string]time.Duration{"a": 4 * ms, "b": 3 * ms, "c": 3 * ms}, busy)
		for _, g := range []*Gate{a, b, c} {
			g.Close()
		}
		h.stop()
	})
}

// A token for work of one kind is exchanged when work of the other kind comes, also when
// it is on its way, and nobody else has to do anything for that.
func TestOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		g := h.gate("a", sched.Share{}, WaitForArbiter)
		grants := func() uint64 { return h.s.Stats()[0].Engines[Compute].Grants }
		for i, beside := range []bool{true, false, true, true, false} {
			begin(g, beside)
			require.Equal(t, uint64(min(i+1, 2)), grants(), "what may do all is kept")
			g.Leave(Compute, ms, 1, false)
		}
		other := h.gate("b", sched.Share{}, WaitForArbiter)
		enter(other, Compute)
		for range 3 { // what is asked for changes
			for _, beside := range []bool{true, false} {
				require.NotNil(t, g.Enter(Compute, beside))
				synctest.Wait()
				g.Cancel(Compute)
			}
		}
		enterAs := g.Enter(Compute, true)
		other.Leave(Compute, ms, 1, false)
		<-enterAs
		require.Equal(t, []string{"a"}, h.s.Stats()[0].Engines[Compute].Holders)
		// It says that it has more, and then that is work of the other kind.
		waits := other.Enter(Compute, false)
		time.Sleep(2 * ms)
		before := grants()
		g.Leave(Compute, 2*ms, 1, true)
		again := g.Enter(Compute, false)
		<-waits
		time.Sleep(ms)
		other.Leave(Compute, ms, 1, false)
		<-again
		require.Equal(t, uint64(2), grants()-before, "it was asked for in time")
		third := h.gate("c", sched.Share{}, WaitForArbiter)
		late := third.Enter(Compute, true)
		synctest.Wait()
		require.Equal(t, []string{"a"}, h.s.Stats()[0].Engines[Compute].Holders)
		g.Leave(Compute, 0, 1, false)
		<-late
		third.Leave(Compute, 0, 1, false)
		for _, g := range []*Gate{g, other, third} {
			g.Close()
		}
		h.stop()
	})
}

// processors are shared equally by all who compute on them.
type processors struct {
	mu      sync.Mutex
	working int
}

func (p *processors) compute(d time.Duration) {
	const step = 50 * us
	p.count(1)
	defer p.count(-1)
	for d > 0 {
		time.Sleep(step)
		d -= step / time.Duration(p.count(0))
	}
}

func (p *processors) count(change int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working += change
	return p.working
}

// Shares hold for those who compute at the same time, too, with each other and with
// those who do not, in each second, and by what the processors did.
func TestSharesBeside(t *testing.T) {
	type guest struct {
		load
		alone bool // its work is not done beside that of others
	}
	for name, guests := range map[string][]guest{
		"heavy and light": {{load: load{kernel: 11 * ms, think: 40 * us}}, {load: load{kernel: 350 * us, think: 40 * us}}},
		"weights 30 and 70": {{load: load{share: sched.Share{Weight: 30}, kernel: 11 * ms, think: 40 * us}},
			{load: load{share: sched.Share{Weight: 70}, kernel: 400 * us, think: 40 * us}}},
		"weights 70 and 30": {{load: load{share: sched.Share{Weight: 70}, kernel: 11 * ms, think: 40 * us}},
			{load: load{share: sched.Share{Weight: 30}, kernel: 5 * ms, think: 40 * us}}},
		"weights, without pauses": {{load: load{share: sched.Share{Weight: 30}, kernel: 300 * us}},
			{load: load{share: sched.Share{Weight: 70}, kernel: 300 * us}}},
		"and kernels": {{load: load{kernel: 11 * ms, think: 40 * us}}, {load: load{kernel: 2 * ms, think: 40 * us}},
			{load: load{kernel: ms, think: 40 * us}, alone: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{})
			stop := make(chan struct{})
			var all sync.WaitGroup
			var p processors
			weights, done := 0.0, make([]time.Duration, len(guests))
			for i, w := range guests {
				weights += float64(max(w.share.Weight, 1))
				all.Go(func() {
					g := h.gate(string(rune('a'+i)), w.share, WaitForArbiter)
					defer g.Close()
					for {
						select {
						case <-stop:
							return
						default:
						}
						begin(g, !w.alone)
						began := time.Now()
						p.compute(w.kernel)
						done[i] += w.kernel
						g.Leave(Compute, time.Since(began), 1, w.think == 0)
						time.Sleep(w.think)
					}
				})
			}
			busy := func() (out []time.Duration) {
				for _, g := range h.s.Stats()[0].Guests {
					out = append(out, g.Engines[Compute].Busy)
				}
				return out
			}
			time.Sleep(time.Second)
			for range 5 {
				before := busy()
				time.Sleep(time.Second)
				sum, part := 0.0, make([]float64, len(guests))
				for i, b := range busy() {
					part[i] = (b - before[i]).Seconds()
					sum += part[i]
				}
				require.InDelta(t, 1, sum, 0.05, "the engine is in use all the time")
				for i, w := range guests {
					require.InDelta(t, float64(max(w.share.Weight, 1))/weights, part[i]/sum, 0.03, "%s, guest %d", name, i)
				}
			}
			close(stop)
			all.Wait()
			sum := 0.0
			for _, d := range done {
				sum += d.Seconds()
			}
			for i, w := range guests {
				off := math.Abs(float64(max(w.share.Weight, 1))/weights - done[i].Seconds()/sum)
				require.Less(t, off, 0.04, "%s, work of guest %d", name, i)
			}
			h.stop()
		})
	}
}
