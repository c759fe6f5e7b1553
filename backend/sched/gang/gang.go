package gang

import (
	"slices"
	"time"

	"pvdrm/backend/sched"
)

// Constants of turns.
const (
	// Round is the time in which each of those who share a device has a turn, by share. It is twice that of guests with one
	// device: kernels that wait for each other have to be stopped at the end of a turn.
	Round = 2 * sched.DefaultRound
	// MeanTurn is the least that the mean turn of those has who share a device.
	MeanTurn = 6 * time.Millisecond
	// Patience is for how long a turn goes on without work.
	Patience = 500 * time.Microsecond
	// PatienceMost bounds a longer one: a quarter of the time for which the turn has lasted.
	PatienceMost = sched.PauseMost
	patiencePart = 4
	// HandOver is what of a turn is not charged if another had one of its devices before: a GPU takes that long to turn to
	// another guest. Otherwise those with short turns would have less than their share.
	HandOver = 300 * time.Microsecond
	// LeaveMost is for how long a guest may be late without being charged, and a tenth of its turn at most: to take a
	// kernel off a GPU takes that long.
	LeaveMost = time.Millisecond
	leavePart = 10
	leastTurn = time.Millisecond
	// maxDebts bounds the payers of which debts are kept.
	maxDebts = 256
)

// Guest names a guest at all devices: guests of two payers are two, whatever their names.
type Guest struct{ Payer, Name string }

// Coordinator decides whose turn it is. See the package comment.
type Coordinator struct {
	devices []*sched.Scheduler
	guests  map[Guest]*entity
	gangs   []*entity // with two seats or more, in the order in which they became that
	rests   []*entity // by device
	last    []*entity // that had a turn, by device
	debts   map[string]time.Duration
	now     time.Duration
	round   time.Duration
	order   []*entity // scratch
}

// entity is a guest, or the rest of a device.
type entity struct {
	guest Guest
	seats []seat

	share   float64
	virtual time.Duration // of its turns, divided by its share
	active  bool
	waiting bool // on any device
	has     bool // an engine
	late    bool
	up      bool
	since   time.Duration // it is up
	end     time.Duration // of its turn
	free    time.Duration // that it is not charged for from now on
	wanted  time.Duration // when it wanted a device last
}

// seat is an entity's place at a device. A rest's has no ID.
type seat struct {
	device  int
	id      sched.ID
	waiting bool
	has     bool
}

// New makes a Coordinator of the schedulers of the compute engines of some devices.
func New(devices []*sched.Scheduler, round time.Duration) *Coordinator {
	if round == 0 {
		round = Round
	}
	c := &Coordinator{devices: devices, last: make([]*entity, len(devices)), round: round, guests: map[Guest]*entity{}, debts: map[string]time.Duration{}}
	for d := range devices {
		c.rests = append(c.rests, &entity{seats: []seat{{device: d}}})
	}
	return c
}

// Join adds a guest's seat at a device.
func (c *Coordinator) Join(g Guest, device int, id sched.ID) {
	e := c.guests[g]
	if e == nil {
		e = &entity{guest: g}
		c.guests[g] = e
	}
	e.seats = append(e.seats, seat{device: device, id: id})
	if len(e.seats) == 2 {
		e.virtual = c.floor(e) + c.debts[g.Payer]
		delete(c.debts, g.Payer)
		c.gangs = append(c.gangs, e)
	}
}

// Leave removes a guest's seat at a device. What a gang owes when it leaves, the next gang of its payer owes.
func (c *Coordinator) Leave(g Guest, device int) {
	e := c.guests[g]
	if e == nil {
		return
	}
	i := slices.IndexFunc(e.seats, func(s seat) bool { return s.device == device })
	if i < 0 {
		return
	}
	c.devices[device].Exclude(e.seats[i].id, false) // its account may stay, for another guest
	if len(e.seats) == 2 {
		c.devices[e.seats[1-i].device].Exclude(e.seats[1-i].id, false)
		c.gangs = slices.DeleteFunc(c.gangs, func(o *entity) bool { return o == e })
		c.leaveDebt(e)
		e.up, e.late = false, false
	}
	e.seats = slices.Delete(e.seats, i, i+1)
	if len(e.seats) == 0 {
		delete(c.guests, g)
	}
}

// leaveDebt keeps what a gang has had more than the others, in virtual time.
func (c *Coordinator) leaveDebt(e *entity) {
	owed := c.debts[e.guest.Payer] + max(e.virtual-c.floor(e), 0)
	if owed <= 0 {
		return
	}
	c.debts[e.guest.Payer] = owed
	if len(c.debts) <= maxDebts {
		return
	}
	least := e.guest.Payer
	for payer, d := range c.debts {
		if d < c.debts[least] {
			least = payer
		}
	}
	delete(c.debts, least)
}

// floor is the least virtual time of the entities that share a device with one: of those that want it or, if there are none,
// of the active ones; its own if there are none of these either.
func (c *Coordinator) floor(e *entity) time.Duration {
	wanting, active := sched.Never, sched.Never
	for o := range c.all {
		switch {
		case o == e || !o.active || !o.meets(e):
		case c.wants(o):
			wanting = min(wanting, o.virtual)
		default:
			active = min(active, o.virtual)
		}
	}
	switch {
	case wanting < sched.Never:
		return wanting
	case active < sched.Never:
		return active
	}
	return e.virtual
}

// all calls f with all entities: gangs, and rests of devices.
func (c *Coordinator) all(f func(*entity) bool) {
	for _, e := range c.gangs {
		if !f(e) {
			return
		}
	}
	for _, e := range c.rests {
		if !f(e) {
			return
		}
	}
}

// meets reports whether two entities share a device.
func (e *entity) meets(o *entity) bool {
	return slices.ContainsFunc(e.seats, func(s seat) bool {
		return slices.ContainsFunc(o.seats, func(t seat) bool { return s.device == t.device })
	})
}

// gang reports whether an entity is one, not a rest.
func (e *entity) gang() bool { return len(e.seats) > 1 }

// Up returns the guests whose turn it is, for statistics and tests.
func (c *Coordinator) Up() (up []Guest) {
	for _, e := range c.gangs {
		if e.up {
			up = append(up, e.guest)
		}
	}
	return up
}
