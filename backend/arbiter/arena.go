package arbiter

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
	"pvdrm/gpu"
)

// limits bounds the times for which the arbiter waits for a backend.
type limits struct {
	answer time.Duration // for a command to end once its engine is wanted by others
	use    time.Duration // for a command to begin once the token was granted
}

// arena is one GPU: its members and its tokens. The package comment describes its mutex.
type arena struct {
	number int
	limits limits
	log    *zap.Logger
	start  time.Time // times below are counted from it
	// settings are those of its creation, for changes of the policy alone.
	settings sched.Settings
	observe  func(Use) // may be nil

	// joint decides with the other GPUs of the arbiter, which share mu.
	joint *joint

	mu      *sync.Mutex
	tokens  [Engines]*token
	members map[string]*member // by name
	debts   []debt
	bounds  Limits
	next    sched.ID
	closed  bool
}

// member is a connected backend. Its arena's mutex guards it.
type member struct {
	id    sched.ID
	name  string
	peer  Peer
	payer string // see Admission
	share sched.Share
	// promised is what of the GPU is kept for the guest.
	promised Amounts
	page     *page
	link     link
	joined   time.Duration
	gone     bool
	seats    [Engines]seat
}

// seat is the state of a member at one engine.
type seat struct {
	hold        *hold // nil while it has not the token
	waiting     bool
	since       time.Duration // it waits
	used        uint64        // of the page, when it was last looked at
	commands    uint64        // as used
	trust       time.Duration // see token.owed
	waits       gpu.Histogram
	missed      uint   // grants in a row with which nothing was begun
	implausible uint64 // claims of impossible use
	preempted   uint64 // commands that had to stop
}

// errName is a name that another backend has.
var errName = errors.New("name is taken")

func newArena(number int, c GPU, l limits, j *joint, observe func(Use), log *zap.Logger) (*arena, error) {
	bounds, err := c.Limits.normal()
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", number, err)
	}
	a := &arena{bounds: bounds, number: number, limits: l, log: log, observe: observe, start: j.start, joint: j, mu: &j.mu, settings: c.Settings, members: map[string]*member{}}
	for e := range a.tokens {
		s, err := sched.New(c.Policy, c.Settings, 0)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", number, err)
		}
		if Engine(e) == Compute {
			s.SetProcessors(c.processors())
		}
		a.tokens[e] = newToken(a, Engine(e), s)
	}
	return a, nil
}

// now is the arena's time.
func (a *arena) now() time.Duration { return time.Since(a.start) }

// join adds a backend.
func (a *arena) join(name string, peer Peer, as Admission, p *page, l link) (*member, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errors.New("the arbiter ends")
	}
	if other := a.members[name]; other != nil {
		return nil, fmt.Errorf("%w: guest %s is served by process %d", errName, name, other.peer.PID)
	}
	promised, err := a.bounds.promise(as.Needs, a.promised())
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w", name, err)
	}
	p.promise(promised) // before the guest has the page
	now := a.now()
	m := &member{name: name, promised: promised, peer: peer, payer: as.Payer, share: as.Share, page: p, link: l, joined: now}
	if err := a.account(m, now); err != nil {
		return nil, err
	}
	for _, t := range a.tokens {
		t.byID[m.id] = m
	}
	a.members[name] = m
	a.joint.join(a, m)
	a.tell()
	return m, nil
}

// tell tells all members how many there are. a.mu is held.
func (a *arena) tell() {
	for _, m := range a.members {
		m.page.tell(len(a.members))
	}
}

// promised is what of the GPU is kept for all members. a.mu is held.
func (a *arena) promised() (sum Amounts) {
	for _, m := range a.members {
		sum = sum.add(m.promised)
	}
	return sum
}

// account gives a member its accounts: those that an earlier guest left to its payer, or new ones.
func (a *arena) account(m *member, now time.Duration) error {
	if taken, err := a.takeDebt(m, now); taken || err != nil {
		return err
	}
	a.next++
	m.id = a.next
	for e, t := range a.tokens {
		if err := t.sched.Add(m.id, m.share, now); err != nil {
			for _, t := range a.tokens[:e] {
				t.sched.Remove(m.id, now)
			}
			return err
		}
	}
	return nil
}

// leave removes a backend, whatever it has or waits for.
func (a *arena) leave(m *member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(m)
}

func (a *arena) remove(m *member) {
	if m.gone {
		return
	}
	m.gone = true
	delete(a.members, m.name)
	a.joint.leave(a, m)
	a.tell()
	for _, t := range a.tokens {
		t.remove(m)
	}
	a.leaveDebt(m, a.now())
	for _, t := range a.tokens {
		t.decide()
	}
}

// expel disconnects a backend. Its reader sees the end of the link.
func (a *arena) expel(m *member, why string) {
	a.log.Warn("backend disconnected", zap.String("guest", m.name), zap.Int32("pid", m.peer.PID), zap.String("reason", why))
	_ = m.link.send(message{op: opRefuse, value: uint32(unix.ETIMEDOUT), text: why}) // if it does not read, it sees the end
	m.link.close()
	a.remove(m)
}

// handle serves a message of a member. An error ends the connection.
func (a *arena) handle(m *member, msg message) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.gone {
		return errors.New("disconnected")
	}
	began := time.Now()
	t := a.tokens[msg.engine]
	switch msg.op {
	case opRequest:
		t.request(m, msg.value)
	case opCancel:
		t.cancel(m)
	case opYield:
		t.yielded(m, msg.grant, msg.value)
	}
	t.decide()
	t.sched.Overhead(time.Since(began), a.now())
	return nil
}

// serve starts the alarms of the tokens. Its functions return after close.
func (a *arena) serve() (waits []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.tokens {
		if wait := t.alarm.start(t.tick); wait != nil {
			waits = append(waits, wait)
		}
	}
	return waits
}

// close ends all connections.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, m := range a.members {
		m.link.close()
		a.remove(m)
	}
	for _, t := range a.tokens {
		t.alarm.stop()
	}
}

// change switches the policy.
func (a *arena) change(policy string, settings sched.Settings) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.tokens {
		if err := t.sched.Switch(policy, settings, a.now()); err != nil {
			return fmt.Errorf("GPU %d: %w", a.number, err)
		}
		t.decide()
	}
	return nil
}

// has reports whether a guest is connected.
func (a *arena) has(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.members[name] != nil
}

// setShare changes the share of a guest, and returns the new one.
func (a *arena) setShare(name string, change func(sched.Share) sched.Share) (sched.Share, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.members[name]
	if m == nil {
		return sched.Share{}, fmt.Errorf("guest %q is not connected to GPU %d", name, a.number)
	}
	share := change(m.share)
	for _, t := range a.tokens {
		if err := t.sched.SetShare(m.id, share, a.now()); err != nil {
			return sched.Share{}, fmt.Errorf("guest %s: %w", name, err)
		}
		t.decide()
	}
	m.share = share
	return share, nil
}
