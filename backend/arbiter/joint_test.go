package arbiter

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// team is a guest that trains on two GPUs: a rank on each launches kernels, and one that waits for that of the other rank, as
// NCCL's do, and so on.
type team struct {
	weight  uint32
	kernels int           // before each collective
	kernel  time.Duration // of each of them
	reduce  time.Duration // of a collective, while it is on both GPUs
	pause   time.Duration // after it, without work
	lies    bool          // its backends claim that they use nothing
	apart   bool          // a seat of another name at each GPU, so that the arbiter knows nothing of its being one guest
}

// training is a team in work.
type training struct {
	team
	mu    sync.Mutex
	on    [2]bool // the rank's collective kernel is on its GPU
	done  [2]int  // collectives that a rank has ended
	left  time.Duration
	steps int
	ended []time.Time // each step
}

const (
	teamPass = 200 * us // to turn a GPU to another guest
	teamStop = 500 * us // for a kernel to leave it
)

// teamGPU is one of the two GPUs. Only the guest that has it uses it.
type teamGPU struct {
	last   *Gate
	passes int // from one guest to another
	busy   bool
}

// enter turns the GPU to a guest.
func (x *teamGPU) enter(g *Gate) {
	if x.busy {
		panic("two guests have a GPU")
	}
	x.busy = true
	if x.last != g {
		time.Sleep(teamPass)
		x.last = g
		x.passes++
	}
}

// seatAt joins at a GPU.
func (h *host) seatAt(name string, number uint32, weight uint32) *Gate {
	g, err := Join(GateConfig{WhenLost: WaitForArbiter, Preemptible: true, Turns: true,
		dial: h.dial(Hello{Name: name, GPU: number, Share: sched.Share{Weight: weight}})})
	require.NoError(h.t, err)
	return g
}

// start runs the ranks of a team until a time.
func (x *training) start(h *host, name string, gpus *[2]teamGPU, until time.Time, all *sync.WaitGroup) {
	x.left = x.reduce
	for rank := range 2 {
		as := name
		if x.apart {
			as = fmt.Sprint(name, "-", rank)
		}
		g := h.seatAt(as, uint32(rank), x.weight)
		all.Go(func() {
			defer g.Close()
			r := rankRun{training: x, gate: g, rank: rank, gpu: &gpus[rank], until: until}
			r.loop()
		})
	}
}

// rankRun is one rank on its GPU.
type rankRun struct {
	*training
	gate  *Gate
	rank  int
	gpu   *teamGPU
	until time.Time
}

func (r *rankRun) over() bool { return !time.Now().Before(r.until) }

// loop trains. It keeps the GPU from kernel to kernel until it has to leave it.
func (r *rankRun) loop() {
	for step := 1; !r.over(); step++ {
		r.work(step)
		time.Sleep(r.pause)
	}
}

// work is one step on the GPU.
func (r *rankRun) work(step int) {
	kernels, left := r.kernels, r.kernel
	for {
		if granted := r.gate.Enter(Compute, false); granted != nil {
			select {
			case <-granted:
			case <-time.After(time.Until(r.until)):
				r.gate.Cancel(Compute)
				return
			}
		}
		began := time.Now()
		r.gpu.enter(r.gate)
		ended := false
		for !ended && !r.gate.Preempted(Compute) && !r.over() {
			if kernels > 0 {
				d := min(look, left)
				time.Sleep(d)
				if left -= d; left == 0 {
					kernels, left = kernels-1, r.kernel
				}
				continue
			}
			ended = r.collective(step)
		}
		r.leaves(ended)
		used := time.Since(began)
		if r.lies {
			used = 0
		}
		r.gpu.busy = false
		r.gate.Leave(Compute, used, 1, !ended)
		if ended || r.over() {
			return
		}
	}
}

// collective has the kernel on the GPU for a moment, and reports whether it has ended.
func (r *rankRun) collective(step int) bool {
	r.mu.Lock()
	r.on[r.rank] = true
	r.mu.Unlock()
	time.Sleep(look)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done[r.rank] < step && r.done[1-r.rank] < step && r.on[1-r.rank] && r.rank == 0 {
		if r.left -= look; r.left <= 0 {
			r.left = r.reduce
			r.done = [2]int{step, step}
			r.steps++
			r.ended = append(r.ended, time.Now())
		}
	}
	return r.done[r.rank] >= step
}

// leaves takes the rank's kernel off the GPU.
func (r *rankRun) leaves(ended bool) {
	if !ended {
		time.Sleep(teamStop)
	}
	r.mu.Lock()
	r.on[r.rank] = false
	r.mu.Unlock()
}

// hog has endless kernels on one GPU. It returns for how long it had it, outside of hand-overs.
func (h *host) hog(name string, number, weight uint32, gpu *teamGPU, until time.Time) (had time.Duration) {
	g := h.seatAt(name, number, weight)
	defer g.Close()
	for time.Now().Before(until) {
		if granted := g.Enter(Compute, false); granted != nil {
			<-granted
		}
		began := time.Now()
		gpu.enter(g)
		for !g.Preempted(Compute) && time.Now().Before(until) {
			time.Sleep(look)
			had += look
		}
		time.Sleep(teamStop)
		gpu.busy = false
		g.Leave(Compute, time.Since(began), 1, true)
	}
	return had
}

// contestants are those who train, and what else is on the GPUs.
type contestants struct {
	policy string
	teams  []team
	hog    uint32                                                                // weight of one on the second GPU; 0 is none
	also   func(h *host, gpus *[2]teamGPU, until time.Time, all *sync.WaitGroup) // may be nil
}

// outcome is what they did, in a second more than the windows of one second.
type outcome struct {
	steps  []int
	shares [][]float64 // of the steps of all, in each window
	hogged float64     // part of the time that the hog had the second GPU
	handed float64     // part of the time in which a GPU was handed over, of the one with more of that
}

const teamWindows = 7

// train runs them.
func (c contestants) train(t *testing.T) (r outcome) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: c.policy}, {Policy: c.policy}}})
		begin := time.Now().Add(time.Second)
		until := begin.Add(teamWindows * time.Second)
		var all sync.WaitGroup
		var gpus [2]teamGPU
		runs := make([]*training, len(c.teams))
		for i, x := range c.teams {
			runs[i] = &training{team: x}
			runs[i].start(h, fmt.Sprint("team", i), &gpus, until, &all)
		}
		if c.hog > 0 {
			all.Go(func() {
				r.hogged = h.hog("hog", 1, c.hog, &gpus[1], until).Seconds() / until.Sub(begin.Add(-time.Second)).Seconds()
			})
		}
		if c.also != nil {
			c.also(h, &gpus, until, &all)
		}
		time.Sleep(time.Until(until))
		for n, st := range h.server().Stats() {
			require.Zero(t, st.Engines[Compute].Expired, "GPU %d", n)
		}
		all.Wait()
		for n := range gpus {
			r.handed = max(r.handed, float64(gpus[n].passes)*(teamPass+teamStop).Seconds()/(teamWindows+1))
		}
		for i := range runs {
			r.steps = append(r.steps, runs[i].steps)
			r.shares = append(r.shares, runs[i].windows(begin, runs))
		}
		h.stop()
	})
	return r
}

// windows is a team's part of the steps of all in each second.
func (x *training) windows(begin time.Time, all []*training) (parts []float64) {
	for n := range teamWindows {
		from := begin.Add(time.Duration(n) * time.Second)
		sum := 0
		for _, o := range all {
			sum += o.within(from)
		}
		parts = append(parts, float64(x.within(from))/float64(max(sum, 1)))
	}
	return parts
}

// within is how many steps ended in a second.
func (x *training) within(from time.Time) (n int) {
	for _, at := range x.ended {
		if at.After(from) && !at.After(from.Add(time.Second)) {
			n++
		}
	}
	return n
}

func sum(all []int) (n int) {
	for _, k := range all {
		n += k
	}
	return n
}

// trains is a program of steps of 4 ms.
var trains = team{kernels: 10, kernel: 300 * us, reduce: ms, pause: 100 * us}

// weighing returns teams that do the same, by weight.
func weighing(x team, weights ...uint32) (all []team) {
	for _, w := range weights {
		x.weight = w
		all = append(all, x)
	}
	return all
}

// Where the arbiter does not know that the seats at two GPUs are those of one guest, guests wait for each other: each has a
// GPU while the other has the next one. Shares are not the weights then, and time is lost.
func TestTeamsWithoutJointTurns(t *testing.T) {
	alone := contestants{policy: "band", teams: weighing(trains, 1)}.train(t)
	x := trains
	x.apart = true
	r := contestants{policy: "band", teams: weighing(x, 75, 25)}.train(t)
	part := float64(r.steps[0]) / float64(sum(r.steps))
	t.Logf("%v steps, %.3f of them of the first, %.3f of one alone", r.steps, part, float64(sum(r.steps))/float64(alone.steps[0]))
	require.Greater(t, part, 0.8)
	require.Less(t, sum(r.steps), alone.steps[0]*85/100)
}

// With joint turns the shares are the weights in each second, and nothing is lost but the time to hand the GPUs over.
func TestTeams(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		alone := contestants{policy: policy, teams: weighing(trains, 1)}.train(t)
		for _, weights := range [][]uint32{{75, 25}, {50, 50}, {90, 10}, {50, 30, 20}} {
			r := contestants{policy: policy, teams: weighing(trains, weights...)}.train(t)
			worst := 0.0
			for i, w := range weights {
				part := float64(r.steps[i]) / float64(sum(r.steps))
				require.InDelta(t, float64(w)/100, part, 0.01, "%s %v, team %d", policy, weights, i)
				for _, part := range r.shares[i] {
					worst = max(worst, math.Abs(part-float64(w)/100))
				}
			}
			together := float64(sum(r.steps)) / float64(alone.steps[0])
			t.Logf("%s %v: %v steps, worst second %.1f points off, together %.3f of one alone, %.3f handed over", policy, weights, r.steps,
				100*worst, together, r.handed)
			require.Less(t, worst, 0.02, "%s %v", policy, weights)
			require.Greater(t, together+r.handed, 0.98, "%s %v", policy, weights)
		}
	}
}

// A guest with one GPU shares it with a guest that uses two, by weight, whatever its kernels are. The other GPU has only
// the latter.
func TestTeamBesideHog(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		alone := contestants{policy: policy, teams: weighing(trains, 1)}.train(t)
		for _, c := range []struct {
			teams []uint32
			hog   uint32
		}{{[]uint32{50}, 50}, {[]uint32{25}, 75}, {[]uint32{80}, 20}, {[]uint32{50, 25}, 25}} {
			r := contestants{policy: policy, teams: weighing(trains, c.teams...), hog: c.hog}.train(t)
			t.Logf("%s %v and %d: %v steps of %d, the hog %.3f, %.3f handed over", policy, c.teams, c.hog, r.steps, alone.steps[0], r.hogged, r.handed)
			used := r.hogged + float64(sum(r.steps))/float64(alone.steps[0])
			require.InDelta(t, 1, used+r.handed, 0.02, "%s %+v", policy, c)
			require.InDelta(t, float64(c.hog)/100, r.hogged/used, 0.01, "%s %+v", policy, c)
			for i, w := range c.teams {
				require.InDelta(t, float64(w)/100, float64(r.steps[i])/float64(alone.steps[0])/used, 0.01, "%s %+v", policy, c)
			}
		}
	}
}

// Reports of use change nothing: one that claims to have used nothing has its share.
func TestTeamLies(t *testing.T) {
	teams := weighing(trains, 50, 50)
	teams[1].lies = true
	r := contestants{policy: "band", teams: teams}.train(t)
	require.InDelta(t, 0.5, float64(r.steps[0])/float64(sum(r.steps)), 0.01, "%v", r.steps)
}

// keeps is a backend that does not return a GPU for a time, again and again.
func keeps(g *Gate, gpu *teamGPU, more time.Duration, until time.Time) (had time.Duration) {
	defer g.Close()
	for time.Now().Before(until) {
		if granted := g.Enter(Compute, false); granted != nil {
			select {
			case <-granted:
			case <-time.After(time.Until(until)):
				g.Cancel(Compute)
				return had
			}
		}
		began := time.Now()
		gpu.enter(g)
		for !g.Preempted(Compute) && time.Now().Before(until) {
			time.Sleep(look)
		}
		time.Sleep(min(more, time.Until(until)))
		had += time.Since(began)
		gpu.busy = false
		g.Leave(Compute, 0, 1, true)
	}
	return had
}

// A guest that returns its GPUs late, or one of them, pays for that, and has no more than its share in the end.
func TestTeamReturnsLate(t *testing.T) {
	for _, more := range []time.Duration{10 * ms, 100 * ms, 400 * ms} {
		alone := contestants{policy: "band", teams: weighing(trains, 1)}.train(t)
		var had [2]time.Duration
		r := contestants{policy: "band", teams: weighing(trains, 50), also: func(h *host, gpus *[2]teamGPU, until time.Time, all *sync.WaitGroup) {
			for n := range 2 {
				g := h.seatAt("late", uint32(n), 50)
				all.Go(func() { had[n] = keeps(g, &gpus[n], more*time.Duration(n), until) })
			}
		}}.train(t)
		part := float64(r.steps[0]) / float64(alone.steps[0])
		t.Logf("%v late: %.3f, %.3f of the time; the other guest %.3f of what it has alone", more, had[0].Seconds()/8, had[1].Seconds()/8, part)
		require.Less(t, had[1].Seconds()/8, 0.56)
		require.Greater(t, part, 0.42)
	}
}

// A guest that dies in its turn, with both GPUs or one of them, leaves both to the others.
func TestTeamDies(t *testing.T) {
	alone := contestants{policy: "band", teams: weighing(trains, 1)}.train(t)
	died := 0
	r := contestants{policy: "band", teams: weighing(trains, 50), also: func(h *host, gpus *[2]teamGPU, until time.Time, all *sync.WaitGroup) {
		all.Go(func() {
			for n := range 40 {
				var gates [2]*Gate
				for k := range gates {
					gates[k] = h.seatAt(fmt.Sprint("dies", n), uint32(k), 50)
				}
				time.Sleep(time.Duration(n) * ms)
				for k, g := range gates[:1+n%2] {
					if granted := g.Enter(Compute, false); granted != nil {
						select {
						case <-granted:
							died++
						case <-time.After(50 * ms):
						}
						_ = k
					}
				}
				for _, g := range gates {
					g.Close()
				}
				time.Sleep(50 * ms)
			}
		})
	}}.train(t)
	t.Logf("%v of %v steps, %d died in their turns", r.steps, alone.steps, died)
	require.Greater(t, died, 10)
	require.Greater(t, r.steps[0], alone.steps[0]*70/100)
}
