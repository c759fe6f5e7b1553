package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"pvdrm/backend/sched"
)

// Policies of a cluster.
const (
	Wait     = "wait"     // user-facing tasks go first and wait for batch tasks that run
	Priority = "priority" // each user-facing task that finds no GPU revokes a batch task
	Elastic  = "elastic"  // as many GPUs as the SLA needs (sched.Needed)
)

// Policies are the names of all policies.
func Policies() []string { return []string{Wait, Priority, Elastic} }

// Config is what to simulate. Zero values stand for the defaults.
type Config struct {
	Policy string
	Load   float64 // work offered, as a part of what the GPUs can do; 0 is 1
	Mix    Mix     // the zero value is Mixes[0]
	GPUs   int     // 0 is 4
	Jobs   int     // 0 is 30
	SLA    time.Duration
	// Latency is how long a revoked GPU takes until the next task begins; 0 is
	// TReM's, 22 ms.
	Latency time.Duration
	// Restart is how long a batch task takes to begin again after a revocation,
	// which is time of its GPU; 0 is TReM's 75 ms (clearing and refilling).
	Restart time.Duration
	// MaxRevocations is how often one task may be revoked; 0 is any number.
	MaxRevocations int
	// Keep makes a revoked task keep what it has done, as if the device preempted
	// it, instead of beginning again.
	Keep bool
	Seed uint64
	// Check is called after each event, if it is set.
	Check func(State)
}

// State is what a test sees of a simulation after an event.
type State struct {
	Now                    time.Duration
	UserWaits, BatchWaits  int // tasks
	UserRuns, BatchRuns    int // GPUs
	Idle, Revoking, Needed int // GPUs
	Ending                 int // of BatchRuns: too near to their ends to be revoked
}

// Report is the outcome.
type Report struct {
	Tasks       int           // user-facing tasks that ended
	Met         int           // of these within the SLA
	Revocations int           // of batch tasks
	MostRevoked int           // revocations of one task
	Useful      time.Duration // GPU time of tasks that ended
	Lost        time.Duration // GPU time of executions that were revoked, and of starting them again
	Slowest     time.Duration // response of a user-facing task

	// Batch is how long each batch job took from its arrival to its end, in order of arrival. The
	// workload does not depend on the policy, so reports of the same seed compare job by job.
	Batch []time.Duration
}

// SLAMet is the part of the user-facing tasks that ended within the SLA.
func (r Report) SLAMet() float64 { return float64(r.Met) / float64(max(r.Tasks, 1)) }

// LostPart is the part of the GPU time used that was lost by revocations.
func (r Report) LostPart() float64 { return float64(r.Lost) / float64(max(r.Lost+r.Useful, 1)) }

// Add adds the report of another run.
func (r *Report) Add(o Report) {
	r.Tasks, r.Met, r.Revocations = r.Tasks+o.Tasks, r.Met+o.Met, r.Revocations+o.Revocations
	r.Useful, r.Lost = r.Useful+o.Useful, r.Lost+o.Lost
	r.Batch = append(r.Batch, o.Batch...)
	r.MostRevoked, r.Slowest = max(r.MostRevoked, o.MostRevoked), max(r.Slowest, o.Slowest)
}

// ErrConfig is what a Config is refused with.
var ErrConfig = errors.New("no such simulation")

func (c Config) normal() (Config, error) {
	if c.Mix == (Mix{}) {
		c.Mix = Mixes[0]
	}
	c.Load, c.GPUs, c.Jobs = cmp.Or(c.Load, 1), cmp.Or(c.GPUs, 4), cmp.Or(c.Jobs, 30)
	c.SLA = cmp.Or(c.SLA, sched.DefaultSLA)
	c.Latency, c.Restart = cmp.Or(c.Latency, 22*time.Millisecond), cmp.Or(c.Restart, 75*time.Millisecond)
	switch {
	case !slices.Contains(Policies(), c.Policy):
		return c, fmt.Errorf("%w: policy %q; choose %s", ErrConfig, c.Policy, strings.Join(Policies(), ", "))
	case !(c.Load > 0 && c.Load <= 100) || c.GPUs < 1 || c.GPUs > 1024 || c.Jobs < 1 || c.Jobs > 100_000 || !(c.Mix.User >= 0 && c.Mix.User <= 1):
		return c, fmt.Errorf("%w: load %g, %d GPUs, %d jobs, %g of them user-facing", ErrConfig, c.Load, c.GPUs, c.Jobs, c.Mix.User)
	case c.SLA < 0 || c.Latency < 0 || c.Restart < 0:
		return c, fmt.Errorf("%w: negative times", ErrConfig)
	}
	return c, nil
}

// gpu is one GPU: idle, running a task, or being cleared after a revocation.
type gpu struct {
	task  *task
	since time.Duration // the task, or the revocation, began
	setup time.Duration // of the time from then on, what starting the task again takes
	until time.Duration // it ends; sched.Never of an idle GPU
}

type simulation struct {
	Config
	now    time.Duration
	coming []arrival // in order of time
	user   []*task   // wait, in order
	batch  []*task
	gpus   []gpu
	mean   time.Duration // of the execution times of user-facing tasks that ended
	report Report
}

// Run simulates until all tasks have ended.
func Run(c Config) (Report, error) {
	c, err := c.normal()
	if err != nil {
		return Report{}, err
	}
	m := &simulation{Config: c, gpus: make([]gpu, c.GPUs)}
	for i := range m.gpus {
		m.gpus[i].until = sched.Never
	}
	m.coming = arrivals(c, rand.New(rand.NewPCG(c.Seed, 2)))
	slices.SortStableFunc(m.coming, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	for _, a := range m.coming {
		if a.task == nil {
			m.report.Batch = append(m.report.Batch, 0)
		}
	}
	for m.step() {
		m.revoke()
		m.dispatch()
		if m.Check != nil {
			m.Check(m.state())
		}
	}
	return m.report, nil
}

// step goes to the next event. It reports false when there is none.
func (m *simulation) step() bool {
	next := sched.Never
	if len(m.coming) > 0 {
		next = m.coming[0].at
	}
	for _, g := range m.gpus {
		next = min(next, g.until)
	}
	if next == sched.Never {
		return false
	}
	m.now = next
	for i := range m.gpus {
		if g := &m.gpus[i]; g.until <= m.now {
			if g.task != nil {
				m.ended(g.task, g.setup)
			}
			*g = gpu{until: sched.Never}
		}
	}
	for len(m.coming) > 0 && m.coming[0].at <= m.now {
		a := m.coming[0]
		m.coming = m.coming[1:]
		if a.task != nil {
			m.user = append(m.user, a.task)
			continue
		}
		for range MaxOutstanding {
			m.issue(a.job)
		}
	}
	return true
}

// issue makes the next task of a batch job wait.
func (m *simulation) issue(j *job) {
	if j.left > 0 {
		j.left--
		j.open++
		m.batch = append(m.batch, &task{job: j, arrived: m.now})
	}
}

// ended counts a task that has ended.
func (m *simulation) ended(t *task, setup time.Duration) {
	m.report.Useful += t.job.length
	m.report.Lost += setup
	if j := t.job; j.class == sched.Batch {
		j.open--
		if m.issue(j); j.open == 0 {
			m.report.Batch[j.number] = m.now - j.arrived
		}
		return
	}
	const weight = 8 // of the past in the running mean
	if m.mean == 0 {
		m.mean = t.job.length
	}
	m.mean += (t.job.length - m.mean) / weight
	response := m.now - t.arrived
	m.report.Tasks++
	m.report.Slowest = max(m.report.Slowest, response)
	if response <= m.SLA {
		m.report.Met++
	}
}

// outstanding counts the user-facing tasks that wait or run.
func (m *simulation) outstanding() int {
	n := len(m.user)
	for _, g := range m.gpus {
		if g.task != nil && g.task.job.class == sched.Latency {
			n++
		}
	}
	return n
}

// needed is how many GPUs are for user-facing tasks.
func (m *simulation) needed() int {
	q := m.outstanding()
	switch {
	case m.Policy == Elastic && m.mean > 0:
		return sched.Needed(m.mean, q, m.SLA, m.GPUs)
	case m.Policy == Wait:
		return 0
	}
	return min(q, m.GPUs) // of Elastic, too, while nothing is known of the tasks
}

// revoke takes batch tasks off GPUs that user-facing tasks need.
func (m *simulation) revoke() {
	running, at := m.batchRuns()
	for excess := len(running) - (m.GPUs - m.needed()); excess > 0; excess-- {
		v := sched.Victim(running, m.now, m.Latency, m.MaxRevocations)
		if v < 0 {
			return
		}
		g := &m.gpus[at[v]]
		t := g.task
		t.revocations++
		m.report.Revocations++
		m.report.MostRevoked = max(m.report.MostRevoked, t.revocations)
		if ran := m.now - g.since; m.Keep {
			t.done += max(ran-g.setup, 0)
			m.report.Lost += min(ran, g.setup)
		} else {
			m.report.Lost += ran
		}
		m.batch = slices.Insert(m.batch, 0, t)
		*g = gpu{since: m.now, until: m.now + m.Latency}
		running, at = slices.Delete(running, v, v+1), slices.Delete(at, v, v+1)
	}
}

// batchRuns returns the batch tasks that run, and where.
func (m *simulation) batchRuns() (running []sched.Running, at []int) {
	for i, g := range m.gpus {
		if g.task != nil && g.task.job.class == sched.Batch {
			running = append(running, sched.Running{Started: g.since, Expected: g.until - g.since, Revocations: g.task.revocations})
			at = append(at, i)
		}
	}
	return running, at
}

// dispatch gives idle GPUs to tasks: user-facing ones first, and batch tasks what
// is not for user-facing ones.
func (m *simulation) dispatch() {
	running, _ := m.batchRuns()
	room := m.GPUs - m.needed() - len(running)
	for i := range m.gpus {
		g := &m.gpus[i]
		switch {
		case g.until != sched.Never:
		case len(m.user) > 0:
			m.start(g, &m.user)
		case len(m.batch) > 0 && room > 0:
			m.start(g, &m.batch)
			room--
		}
	}
}

// start runs the first task of a queue.
func (m *simulation) start(g *gpu, queue *[]*task) {
	t := (*queue)[0]
	*queue = (*queue)[1:]
	*g = gpu{task: t, since: m.now}
	if t.revocations > 0 {
		g.setup = m.Restart
	}
	g.until = m.now + g.setup + t.job.length - t.done
}

func (m *simulation) state() State {
	s := State{Now: m.now, UserWaits: len(m.user), BatchWaits: len(m.batch), Needed: m.needed()}
	for _, g := range m.gpus {
		switch {
		case g.task == nil && g.until == sched.Never:
			s.Idle++
		case g.task == nil:
			s.Revoking++
		case g.task.job.class == sched.Latency:
			s.UserRuns++
		default:
			s.BatchRuns++
			if g.until-m.now < m.Latency {
				s.Ending++
			}
		}
	}
	return s
}
