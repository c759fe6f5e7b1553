package arbiter

import (
	"sync"
	"time"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/gang"
)

// joint gives guests with several GPUs of one arbiter their turns on all of them at the same time. Its mutex is that of
// all arenas of the arbiter.
type joint struct {
	start time.Time // from which all arenas count

	mu     sync.Mutex
	arenas []*arena
	gangs  *gang.Coordinator // nil while there is one GPU
	alarm  *alarm
	closed bool
}

func newJoint() *joint {
	j := &joint{start: time.Now()}
	j.alarm = newAlarm(j.tick)
	return j
}

// begin is called once, when the arenas are made.
func (j *joint) begin(arenas []*arena, round time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.arenas = arenas
	if len(arenas) < 2 {
		return
	}
	var engines []*sched.Scheduler
	for _, a := range arenas {
		engines = append(engines, a.tokens[Compute].sched)
	}
	j.gangs = gang.New(engines, round)
}

// guestOf names a member at all GPUs. Two users who call their guests the same are two payers.
func guestOf(m *member) gang.Guest { return gang.Guest{Payer: m.payer, Name: m.name} }

// join adds a member of an arena, and leave removes it. The mutex is held.
func (j *joint) join(a *arena, m *member) {
	if j.gangs != nil {
		j.gangs.Join(guestOf(m), a.number, m.id)
	}
}

func (j *joint) leave(a *arena, m *member) {
	if j.gangs != nil {
		j.gangs.Leave(guestOf(m), a.number)
	}
}

// plan is called before a token decides for an engine that GPUs have together. Those of the other GPUs decide, too, if whose
// turn it is has changed. The mutex is held.
func (j *joint) plan(t *token, now time.Duration) {
	if j.gangs == nil || j.closed {
		return
	}
	again, changed := j.gangs.Plan(now)
	if again < sched.Never {
		j.alarm.set(again - now)
	}
	if !changed {
		return
	}
	for _, a := range j.arenas {
		if other := a.tokens[Compute]; other != t {
			other.decideAlone(now)
		}
	}
}

// tick runs when the time has come to plan again.
func (j *joint) tick() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed && len(j.arenas) > 0 {
		j.arenas[0].tokens[Compute].decide()
	}
}

// serve starts the alarm; its function returns after close.
func (j *joint) serve() (wait func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.alarm.start(j.tick)
}

func (j *joint) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.alarm.stop()
}
