package arbiter

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// block is a guest whose kernels use some of the processors, stop on demand and go on later.
type block struct {
	share      sched.Share
	processors int           // of parts; all of them at most
	kernel     time.Duration // work: the time of a kernel on its processors
	think      time.Duration
	fills      bool          // it can run on fewer processors, and takes longer then
	batch      int           // kernels that it queues before it waits for them; 0 is 1
	late       time.Duration // it takes so long to stop
}

func (b block) least() int {
	if b.fills {
		return 1
	}
	return b.processors
}

// beside runs guests on so many processors until a time, and returns for how long each had processors, times their
// number. The work of those that run together takes no longer than alone.
func (h *host) beside(blocks []block, of int, end time.Time) []time.Duration {
	var all sync.WaitGroup
	out := make([]time.Duration, len(blocks))
	var mu sync.Mutex
	used := 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		used += n
		require.LessOrEqual(h.t, used, of, "more work than processors")
	}
	for i, b := range blocks {
		g := h.preemptible(fmt.Sprint("guest-", i), b.share)
		all.Go(func() {
			defer g.Close()
			for left, queued := b.kernel, max(b.batch, 1); time.Now().Before(end); {
				if granted := g.EnterPart(Compute, b.processors, b.least()); granted != nil {
					<-granted
				}
				n := b.processors
				if part := g.Part(Compute); part > 0 {
					n = min(n, part)
				}
				count(n)
				took, part := time.Duration(0), time.Duration(b.processors/n) // at most so many times as long
				for took < left*part && !g.Preempted(Compute) && time.Now().Before(end) {
					step := min(look, left*part-took)
					time.Sleep(step)
					took += step
				}
				if took < left*part && b.late > 0 {
					over := min(b.late, left*part-took)
					time.Sleep(over)
					took += over
				}
				count(-n)
				out[i] += took * time.Duration(n)
				if left -= took / part; left > 0 {
					g.Leave(Compute, took, 0, time.Now().Before(end))
					continue
				}
				queued--
				g.Leave(Compute, took, 1, queued > 0)
				if left = b.kernel; queued == 0 {
					queued = max(b.batch, 1)
					time.Sleep(b.think)
				}
			}
		})
	}
	all.Wait()
	return out
}

// TestKernelsSideBySide checks that kernels which leave processors idle run together: each guest gets all that it
// asks for, whatever the weights.
func TestKernelsSideBySide(t *testing.T) {
	for _, policy := range []string{"band", "wfq", "priority", "elastic"} {
		for name, blocks := range map[string][]block{
			"endless":   {{processors: 1, kernel: time.Hour}, {processors: 1, kernel: time.Hour}},
			"by weight": {{share: sched.Share{Weight: 90}, processors: 1, kernel: 20 * ms}, {share: sched.Share{Weight: 10}, processors: 1, kernel: 20 * ms}},
			"short":     {{processors: 1, kernel: 200 * us}, {processors: 1, kernel: time.Hour}},
		} {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Config{GPUs: []GPU{{Policy: policy, Processors: 2}}})
				for i, got := range h.beside(blocks, 2, time.Now().Add(2*time.Second)) {
					require.InDelta(t, 2, got.Seconds(), 0.02, "%s, %s, guest %d", policy, name, i)
				}
				h.stop()
			})
		}
	}
}

// TestKernelsOfAllProcessors checks that guests whose kernels need all processors, or more together than there
// are, share by weight.
func TestKernelsOfAllProcessors(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		for name, c := range map[string]struct {
			blocks []block
			want   []float64 // of the time of all processors
		}{
			"two that need all": {blocks: []block{{share: sched.Share{Weight: 70}, processors: 2, kernel: 10 * ms}, {share: sched.Share{Weight: 30}, processors: 2, kernel: ms}},
				want: []float64{0.7, 0.3}},
			// The first has a processor for half of the time: it pays for the other one, which no other guest can use.
			"one block against all": {blocks: []block{{processors: 1, kernel: time.Hour}, {processors: 2, kernel: 10 * ms}},
				want: []float64{0.25, 0.5}},
			"one block against all by weight": {blocks: []block{{share: sched.Share{Weight: 20}, processors: 1, kernel: time.Hour}, {share: sched.Share{Weight: 80}, processors: 2, kernel: 10 * ms}},
				want: []float64{0.1, 0.8}},
			"short ones of one block beside ones that fill": {blocks: []block{{share: sched.Share{Weight: 75}, processors: 2, kernel: 5 * ms, think: 10 * us, fills: true},
				{share: sched.Share{Weight: 25}, processors: 1, kernel: 2 * ms, think: 10 * us}}, want: []float64{0.75, 0.25}},
			"the same with equal weights": {blocks: []block{{processors: 2, kernel: 5 * ms, think: 10 * us, fills: true}, {processors: 1, kernel: 2 * ms, think: 10 * us}},
				want: []float64{0.5, 0.5}},
			"three on two": {blocks: []block{{processors: 1, kernel: time.Hour}, {processors: 1, kernel: 3 * ms}, {processors: 1, kernel: 5 * ms}},
				want: []float64{1. / 3, 1. / 3, 1. / 3}},
		} {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Config{GPUs: []GPU{{Policy: policy, Processors: 2}}})
				for i, got := range h.beside(c.blocks, 2, time.Now().Add(10*time.Second)) {
					require.InDelta(t, c.want[i], got.Seconds()/20, 0.03, "%s, %s, guest %d", policy, name, i)
				}
				require.Zero(t, h.s.Stats()[0].Engines[Compute].Expired)
				h.stop()
			})
		}
	}
}

// TestIdleProcessorsAreFree checks that a guest owes nothing for processors that no other guest wanted: afterwards both
// have their shares at once.
func TestIdleProcessorsAreFree(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{GPUs: []GPU{{Policy: policy, Processors: 2}}})
			h.beside([]block{{processors: 1, kernel: time.Hour}, {processors: 1, kernel: 200 * us, think: 800 * us}}, 2, time.Now().Add(5*time.Second))
			for i, got := range h.beside([]block{{processors: 2, kernel: 5 * ms}, {processors: 2, kernel: 5 * ms}}, 2, time.Now().Add(time.Second)) {
				require.InDelta(t, 1, got.Seconds(), 0.05, "%s, guest %d", policy, i)
			}
			h.stop()
		})
	}
}

// TestCapOfABlock checks that a cap is a part of all processors.
func TestCapOfABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Processors: 2}}})
		got := h.beside([]block{{share: sched.Share{Cap: 0.25}, processors: 1, kernel: time.Hour}, {processors: 1, kernel: time.Hour}}, 2, time.Now().Add(10*time.Second))
		require.InDelta(t, 0.25, got[0].Seconds()/20, 0.02)
		require.InDelta(t, 0.5, got[1].Seconds()/20, 0.01)
		require.Zero(t, h.s.Stats()[0].Engines[Compute].Expired)
		h.stop()
	})
}

// TestTokenForParts checks that a token for some processors is kept from command to command, and exchanged when more are
// needed; what may do all is kept.
func TestTokenForParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Processors: 8}}})
		g := h.gate("a", sched.Share{}, WaitForArbiter)
		grants := func() uint64 { return h.s.Stats()[0].Engines[Compute].Grants }
		enter := func(n int) {
			if granted := g.EnterPart(Compute, n, n); granted != nil {
				<-granted
			}
			g.Leave(Compute, 0, 1, false)
		}
		for i, c := range []struct {
			part   int
			grants uint64
		}{{part: 2, grants: 1}, {part: 2, grants: 1}, {part: 1, grants: 1}, {part: 3, grants: 2}, {part: 3, grants: 2}, {part: 8, grants: 3}, {part: 1, grants: 3}, {part: 1 << 20, grants: 3}} {
			enter(c.part)
			require.Equal(t, c.grants, grants(), "use %d", i)
		}
		other := h.gate("b", sched.Share{}, WaitForArbiter)
		granted := other.EnterPart(Compute, 5, 5)
		require.NotNil(t, granted)
		<-granted
		enter(3)
		require.Equal(t, []string{"a", "b"}, sorted(h.s.Stats()[0].Engines[Compute].Holders))
		require.True(t, other.Alone(Compute), "no guest waits")
		all := g.Enter(Compute, false)
		require.NotNil(t, all)
		synctest.Wait()
		require.False(t, other.Alone(Compute))
		other.Leave(Compute, 0, 1, false)
		<-all
		g.Leave(Compute, 0, 1, false)
		g.Close()
		other.Close()
		h.stop()
	})
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// TestRogueBesideOthers checks what a backend gains that says that it needs one processor, and keeps it: nothing of
// those who need all of them, who get the engine as if it had said nothing, and it is disconnected.
func TestRogueBesideOthers(t *testing.T) {
	for _, part := range []uint32{0, 1, 7, 8, maxPart} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{GPUs: []GPU{{Processors: 8}}})
			r := h.rogue("rogue")
			require.NoError(t, r.link.send(message{op: opRequest, value: flagPart | flagPreempt | part<<partShift}))
			_, ok := r.grant()
			require.True(t, ok)
			require.True(t, r.page.begin(Compute, work{part: int(part)}))
			beside := h.beside([]block{{processors: 1, kernel: ms}}, 8, time.Now().Add(time.Second))
			if part == 1 || part == 7 {
				require.InDelta(t, 1, beside[0].Seconds(), 0.01, "it has its processor")
			} else {
				require.Zero(t, beside[0])
			}
			_, wait := victim(h, 20*time.Second)
			require.LessOrEqual(t, wait, DefaultAnswerLimit)
			_, ok = r.grant()
			require.False(t, ok, "it is disconnected")
			h.stop()
		})
	}
}

// TestLiesBesideOthers checks that a backend which says that it used nothing pays for what it kept from a guest that
// needs all processors.
func TestLiesBesideOthers(t *testing.T) {
	for _, says := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{GPUs: []GPU{{Processors: 8}}})
			end := time.Now().Add(10 * time.Second)
			var all sync.WaitGroup
			for _, name := range []string{"liar", "accomplice"} {
				g := h.preemptible(name, sched.Share{})
				all.Go(func() {
					defer g.Close()
					for time.Now().Before(end) {
						if granted := g.EnterPart(Compute, 1, 1); granted != nil {
							<-granted
						}
						for range 100 {
							if time.Sleep(100 * us); g.Preempted(Compute) {
								break
							}
						}
						g.Leave(Compute, says, 1, true)
					}
				})
			}
			commands, _ := victim(h, 9*time.Second)
			require.Greater(t, commands, 2700, "a third, less what the arbiter trusts others for")
			all.Wait()
			h.stop()
		})
	}
}

// TestKernelsFillIdleProcessors checks that a kernel which can use all processors runs on those that others leave idle
// while it waits for its turn, that nothing is lost so, and that weights hold.
func TestKernelsFillIdleProcessors(t *testing.T) {
	endless, all := block{processors: 1, kernel: time.Hour, fills: true}, block{processors: 64, kernel: 10 * ms, fills: true}
	weighs := func(b block, weight uint32) block {
		b.share.Weight = weight
		return b
	}
	short := block{processors: 1, kernel: 200 * us, think: 3 * ms, fills: true}
	for name, c := range map[string]struct {
		of     int
		blocks []block
		want   []float64 // of the time of all processors
		off    float64
	}{
		"one block of eight processors": {of: 8, blocks: []block{endless, all}, want: []float64{1. / 8, 7. / 8}, off: 0.01},
		"one block of two processors":   {of: 2, blocks: []block{endless, all}, want: []float64{0.5, 0.5}, off: 0.02},
		"by weight":                     {of: 2, blocks: []block{weighs(endless, 20), weighs(all, 80)}, want: []float64{0.2, 0.8}, off: 0.03},
		"by weight, much for the block": {of: 2, blocks: []block{weighs(endless, 80), weighs(all, 20)}, want: []float64{0.5, 0.5}, off: 0.02},
		"two that fill":                 {of: 2, blocks: []block{endless, all, all}, want: []float64{1. / 3, 1. / 3, 1. / 3}, off: 0.04},
		"two that need all":             {of: 2, blocks: []block{weighs(all, 70), weighs(all, 30)}, want: []float64{0.7, 0.3}, off: 0.03},
		"short ones beside":             {of: 8, blocks: []block{short, all}, want: []float64{0.006, 0.95}, off: 0.05},
	} {
		for _, policy := range []string{"band", "wfq"} {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Config{GPUs: []GPU{{Policy: policy, Processors: c.of}}})
				const length = 5
				blocks := slices.Clone(c.blocks)
				for i := range blocks {
					blocks[i].processors = min(blocks[i].processors, c.of)
				}
				for i, got := range h.beside(blocks, c.of, time.Now().Add(length*time.Second)) {
					require.InDelta(t, c.want[i], got.Seconds()/float64(length*c.of), c.off, "%s, %s, guest %d", policy, name, i)
				}
				require.Zero(t, h.s.Stats()[0].Engines[Compute].Expired)
				h.stop()
			})
		}
	}
}

// TestRogueFills checks that a backend which fills idle processors and does not stop is disconnected like any other, and
// takes nothing from the guest beside it until another waits.
func TestRogueFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Processors: 8}}})
		end := time.Now().Add(20 * time.Second)
		got := make(chan time.Duration)
		go func() {
			got <- h.beside([]block{{share: sched.Share{Weight: 100}, processors: 1, kernel: time.Hour}}, 8, end)[0]
		}()
		time.Sleep(ms)
		r := h.rogue("rogue")
		require.NoError(t, r.link.send(message{op: opRequest, value: flagPart | flagFill | flagPreempt | 8<<partShift}))
		_, ok := r.grant()
		require.True(t, ok)
		require.Equal(t, 7, r.page.granted(Compute))
		require.False(t, r.page.begin(Compute, work{part: 9, least: 8}))
		require.True(t, r.page.begin(Compute, work{part: 8, least: 1}))
		time.Sleep(time.Second)
		_, wait := victim(h, time.Second)
		require.LessOrEqual(t, wait, DefaultAnswerLimit+sched.DefaultWindow)
		_, ok = r.grant()
		require.False(t, ok, "it is disconnected")
		require.Greater(t, (<-got).Seconds(), 4.5, "all but the time for which the other waited")
		h.stop()
	})
}
