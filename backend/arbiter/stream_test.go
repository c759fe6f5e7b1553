package arbiter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// trainer is a program that trains on a GPU: launches of 10 to 200 us without a wait, a wait for all of a step, and a pause
// of the processor between two steps, from half to one and a half times as long.
type trainer struct {
	weight   uint32
	step     time.Duration // GPU time
	pause    time.Duration
	launches time.Duration // processor time of each
}

// streamGPU is a GPU that runs what its guests have queued, one guest after the other, by way of the arbiter.
type streamGPU struct {
	pass    time.Duration // to turn to another guest
	message time.Duration // latency of a message between a backend and the arbiter

	last   *lane // that had it
	passes int
	busy   bool
}

// slowLink delays messages.
type slowLink struct {
	link
	delay time.Duration
	out   chan delayed
	once  sync.Once
}

type delayed struct {
	at time.Time
	m  message
}

func newSlowLink(l link, delay time.Duration) *slowLink {
	s := &slowLink{link: l, delay: delay, out: make(chan delayed, 100)}
	go func() {
		for d := range s.out {
			time.Sleep(time.Until(d.at))
			_ = l.send(d.m) // the other side may have closed it
		}
	}()
	return s
}

func (l *slowLink) send(m message) error {
	l.out <- delayed{time.Now().Add(l.delay), m}
	return nil
}

func (l *slowLink) receive() (message, error) {
	m, err := l.link.receive()
	time.Sleep(l.delay)
	return m, err
}

func (l *slowLink) close() {
	l.once.Do(func() { close(l.out) })
	l.link.close()
}

// The rules of a channel of gpu/nvidia, which has no test in virtual time because it polls.
const (
	laneFlight = 16
	laneAhead  = 2 * ms
	laneShared = 500 * us
	laneTurn   = 6 * ms
	laneLinger = 120 * us
)

// lane is a channel of a backend, with the rules of gpu/nvidia.
type lane struct {
	gpu  *streamGPU
	gate *Gate
	wake chan struct{} // something is queued
	done chan struct{} // all that was queued has ended

	mu    sync.Mutex
	queue []time.Duration // kernels
	left  int             // kernels that have not ended

	// The loop's own.
	flight []time.Duration // kernels that have begun
	cost   time.Duration   // of them
	since  time.Time       // it has the engine
	rested time.Time       // since when it was busy
	shared time.Time       // when others wanted the engine last
	missed int             // times in a row that it lingered in vain
	work   spans
}

func (s *lane) push(d time.Duration) {
	s.mu.Lock()
	s.queue = append(s.queue, d)
	s.left++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *lane) pop() (d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, s.queue = s.queue[0], s.queue[1:]
	return d
}

func (s *lane) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0
}

func (s *lane) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left == 0
}

// ended counts a kernel that has ended.
func (s *lane) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		select {
		case s.done <- struct{}{}:
		default:
		}
	}
}

// over reports whether the turn is over, so that nothing more begins.
func (s *lane) over() bool {
	if s.gate.Preempted(Compute) {
		return true
	}
	held := time.Since(s.since)
	return held+s.cost > laneTurn && s.gate.Wanted(Compute) && (!s.gate.Turn(Compute) || s.gate.Revoked(Compute, held))
}

// ahead is for how long kernels that have begun may run.
func (s *lane) ahead() time.Duration {
	if !s.gate.Alone(Compute) {
		s.shared = time.Now()
	}
	if time.Since(s.shared) > 100*ms {
		return laneAhead
	}
	return laneShared
}

// lingers keeps the engine for a moment. It reports whether something came.
func (s *lane) lingers() bool {
	if s.over() || !s.gate.Turn(Compute) && !s.gate.Alone(Compute) {
		return false
	}
	if s.missed >= 2 {
		if s.missed++; s.missed%16 != 0 {
			return false
		}
	}
	late := time.After(min(max(time.Since(s.rested)/16, laneLinger), 4*laneLinger))
	for !s.pending() {
		select {
		case <-s.wake:
		case <-late:
			s.missed++
			return false
		}
	}
	s.rested, s.missed = time.Now(), 0
	return true
}

// loop runs what is queued until the end.
func (s *lane) loop(until time.Time) {
	for {
		for !s.pending() {
			select {
			case <-s.wake:
			case <-time.After(time.Until(until)):
				return
			}
		}
		if granted := s.gate.Enter(Compute, false); granted != nil {
			<-granted
		}
		if s.gpu.busy {
			panic("two guests have the GPU")
		}
		s.gpu.busy = true
		if s.gpu.last != s {
			time.Sleep(s.gpu.pass)
			s.gpu.last = s
			s.gpu.passes++
		}
		s.turn(until)
		s.gpu.busy = false
		s.gate.Leave(Compute, 0, 0, s.pending())
	}
}

// turn has the GPU.
func (s *lane) turn(until time.Time) {
	s.since, s.rested = time.Now(), time.Now()
	for first := true; ; first = false {
		for s.pending() && len(s.flight) < laneFlight && s.cost <= s.ahead() && (first && len(s.flight) == 0 || !s.over()) {
			d := s.pop()
			s.flight, s.cost = append(s.flight, d), s.cost+d
		}
		if len(s.flight) == 0 {
			if s.pending() || !time.Now().Before(until) || !s.lingers() {
				return
			}
			continue
		}
		d, from := s.flight[0], time.Now()
		time.Sleep(d)
		s.flight, s.cost = s.flight[1:], s.cost-d
		s.work = append(s.work, struct{ from, to time.Time }{from, time.Now()})
		s.gate.Charge(Compute, d, 1)
		s.ended()
	}
}

// train does steps until a time, and returns how long each took.
func (s *lane) train(x trainer, seed uint64, until time.Time) (took []time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for time.Now().Before(until) {
		begun := time.Now()
		for left := x.step; left > 0; {
			d := min(10*us+time.Duration(rng.Int64N(int64(190*us))), left)
			left -= d
			time.Sleep(x.launches)
			s.push(d)
		}
		for !s.idle() {
			select {
			case <-s.done:
			case <-time.After(time.Until(until.Add(time.Second))):
				return took
			}
		}
		took = append(took, time.Since(begun))
		time.Sleep(x.pause/2 + time.Duration(rng.Int64N(int64(x.pause)+1)))
	}
	return took
}

// trained is the outcome of programs that train together.
type trained struct {
	shares [][]float64 // of each in each window of a second, of what all used
	busy   float64     // part of the time for which the GPU worked
	lost   float64     // part of the time for which it was handed over
	took   [][]time.Duration
	stats  GPUStats
}

// streamer joins as a backend of a GPU that serves guests in turn.
func (x *streamGPU) streamer(h *host, name string, weight uint32) *lane {
	dial := h.dial(Hello{Name: name, Share: sched.Share{Weight: weight}})
	g, err := Join(GateConfig{WhenLost: WaitForArbiter, Preemptible: true, Turns: true, dial: func() (link, *page, error) {
		l, p, err := dial()
		return newSlowLink(l, x.message), p, err
	}})
	require.NoError(h.t, err)
	return &lane{gpu: x, gate: g, wake: make(chan struct{}, 1), done: make(chan struct{}, 1)}
}

// train runs programs together for six seconds, of which it leaves out the first.
func train(t *testing.T, policy string, all ...trainer) (r trained) {
	const windows = 5
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: policy}}})
		x := &streamGPU{pass: 200 * us, message: 60 * us}
		begin := time.Now().Add(time.Second)
		end := begin.Add(windows * time.Second)
		lanes, wait := make([]*lane, len(all)), sync.WaitGroup{}
		r.took, r.shares = make([][]time.Duration, len(all)), make([][]float64, len(all))
		for i, p := range all {
			s := x.streamer(h, fmt.Sprint(i), p.weight)
			lanes[i] = s
			wait.Go(func() { s.loop(end) })
			wait.Go(func() { r.took[i] = s.train(p, uint64(i), end) })
		}
		time.Sleep(time.Until(end))
		r.stats = h.server().Stats()[0]
		wait.Wait()
		r.lost = float64(x.passes) * (x.pass + 2*x.message).Seconds() / (windows + 1)
		for n := range windows {
			from, sum := begin.Add(time.Duration(n)*time.Second), time.Duration(0)
			for _, s := range lanes {
				sum += s.work.within(from, from.Add(time.Second))
			}
			r.busy += sum.Seconds() / windows
			for i, s := range lanes {
				r.shares[i] = append(r.shares[i], float64(s.work.within(from, from.Add(time.Second)))/float64(sum))
			}
		}
		for _, s := range lanes {
			s.gate.Close()
		}
		h.stop()
	})
	require.Zero(t, r.stats.Engines[Compute].Expired)
	return r
}

// Programs that train share by weight in each second, and lose no more than what it takes to hand the GPU over, whether
// they go on at once after a step or pause. Wfq counts the time for which guests have the engine, whether they use it or not.
func TestTrainingByWeight(t *testing.T) {
	trainers := []trainer{
		{step: 4500 * us, pause: 60 * us, launches: 8 * us}, {step: 5 * ms, pause: 200 * us, launches: 8 * us},
		{step: 2 * ms, pause: 500 * us, launches: 5 * us}, {step: 4 * ms, pause: ms, launches: 8 * us},
	}
	alone := make([]float64, len(trainers))
	for i, x := range trainers {
		alone[i] = train(t, "band", x).busy
	}
	for policy, most := range map[string]float64{"band": 0.01, "wfq": 0.025} {
		for i, weights := range [][]uint32{{75, 25}, {50, 50}, {90, 10}, {50, 30, 20}} {
			for k, x := range trainers {
				if testing.Short() && k != i {
					continue // each of the weights with one of the trainers
				}
				var all []trainer
				for _, w := range weights {
					x.weight = w
					all = append(all, x)
				}
				r, worst := train(t, policy, all...), 0.0
				for i, w := range weights { // which are percent
					for _, part := range r.shares[i] {
						worst = max(worst, math.Abs(part-float64(w)/100))
					}
				}
				t.Logf("%s %v, steps of %v, pauses of %v: worst second %.1f points off, together %.3f of one alone, %.3f lost", policy, weights,
					x.step, x.pause, 100*worst, r.busy/alone[k], r.lost)
				require.LessOrEqual(t, worst, most, "%s %v %v", policy, weights, x)
				require.GreaterOrEqual(t, (r.busy+r.lost)/alone[k], 0.98, "%s %v %v", policy, weights, x)
				require.Less(t, r.lost, 0.15, "%s %v %v", policy, weights, x)
			}
		}
	}
}

// A program with a short kernel now and then does not wait for the end of a turn.
func TestShortKernelBesideTraining(t *testing.T) {
	r := train(t, "band", trainer{weight: 50, step: 100 * us, pause: 5 * ms, launches: 8 * us}, trainer{weight: 50, step: 5 * ms, pause: 60 * us, launches: 8 * us})
	took := r.took[0]
	slices.Sort(took)
	t.Logf("median %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
	require.Less(t, took[len(took)*99/100], 4*ms)
}

// A guest that had the engine alone, and has nothing to do, returns it at once when another comes, also where it could stay
// for another slice.
func TestIdleHolderReturnsTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: "wfq", Settings: sched.Settings{Slice: 10 * ms, Preempt: 10 * ms}}}})
		a, b := h.preemptible("a", sched.Share{}), h.preemptible("b", sched.Share{})
		run(a, Compute, ms)
		time.Sleep(ms)
		begin := time.Now()
		require.Equal(t, begin, run(b, Compute, ms))
		a.Close()
		b.Close()
		h.stop()
	})
}
