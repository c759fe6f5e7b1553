package gang_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/gang"
)

const ms = time.Millisecond

// place is a guest's seat in the tests.
type place struct {
	guest  int
	as     gang.Guest
	device int
	id     sched.ID

	waiting, has, revoked bool
	grants                int
}

// world is some devices with guests that do what they are told: guest 0 and 1 use both devices, guest 2 the second one.
type world struct {
	t       *testing.T
	devices []*sched.Scheduler
	c       *gang.Coordinator
	places  []*place
	now     time.Duration
	again   time.Duration
	done    []string // for messages
}

func guestOf(n int) gang.Guest { return gang.Guest{Payer: "user", Name: fmt.Sprint(n)} }

func newWorld(t *testing.T, policy string) *world {
	w := &world{t: t}
	for range 2 {
		s, err := sched.New(policy, sched.Settings{}, 0)
		require.NoError(t, err)
		w.devices = append(w.devices, s)
	}
	w.c = gang.New(w.devices, 0)
	for guest, devices := range [][]int{{0, 1}, {1, 0}, {1}} {
		for _, d := range devices {
			w.join(guest, d)
		}
	}
	w.settle()
	return w
}

func (w *world) join(guest, device int) {
	p := &place{guest: guest, as: guestOf(guest), device: device, id: sched.ID(guest + 1)}
	s := w.devices[device]
	require.NoError(w.t, s.Add(p.id, sched.Share{}, w.now))
	s.Turns(p.id, true)
	s.Preemptible(p.id, true)
	w.c.Join(guestOf(guest), device, p.id)
	w.places = append(w.places, p)
}

// toggle is the next thing that a guest does at a device: it comes, gives up, or returns the engine, and with more waits again.
func (w *world) toggle(p *place, more bool) {
	s := w.devices[p.device]
	switch {
	case p.has:
		p.has, p.revoked, p.waiting = false, false, more
		require.NoError(w.t, s.Complete(p.id, ms, 1, more, w.now))
	case p.waiting:
		p.waiting = false
		require.NoError(w.t, s.Withdraw(p.id, w.now))
	default:
		p.waiting = true
		require.NoError(w.t, s.Arrive(p.id, w.now))
	}
	w.settle()
}

// pass lets time pass, with what falls due meanwhile.
func (w *world) pass(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.now = max(min(end, w.again), w.now+1)
		w.settle()
	}
}

func (w *world) at(device int, id sched.ID) *place {
	for _, p := range w.places {
		if p.device == device && p.id == id {
			return p
		}
	}
	require.Fail(w.t, "no such guest", "%d at %d", id, device)
	return nil
}

// settle follows all decisions, and checks what must always hold.
func (w *world) settle() {
	planned, _ := w.c.Plan(w.now)
	w.again = planned
	up := w.c.Up()
	for d, s := range w.devices {
		for {
			x := s.Next(w.now)
			if x.Run != 0 {
				p := w.at(d, x.Run)
				p.waiting, p.has, p.revoked = false, true, false
				p.grants++
				w.checkGrant(p, up)
			} else if x.Revoke != 0 || x.Preempt != 0 {
				w.at(d, max(x.Revoke, x.Preempt)).revoked = true
			} else if x.Share == 0 {
				w.again = min(w.again, x.Again)
				break
			}
		}
	}
	w.checkUp(up)
}

// checkGrant checks that no guest with two devices gets one of them in the turn of another.
func (w *world) checkGrant(p *place, up []gang.Guest) {
	if p.guest == 2 || slices.Contains(up, p.as) {
		return
	}
	require.Empty(w.t, up, "guest %d gets device %d in another's turn, after %v", p.guest, p.device, w.done)
}

// checkUp checks that one guest has a device at a time, and that the turns of guests which share devices are not at the same
// time.
func (w *world) checkUp(up []gang.Guest) {
	require.LessOrEqual(w.t, len(up), 1, "after %v", w.done)
	for d := range w.devices {
		holders := 0
		for _, p := range w.places {
			if p.device == d && p.has {
				holders++
			}
		}
		require.LessOrEqual(w.t, holders, 1, "device %d after %v", d, w.done)
	}
}

// live lets all guests want all the time, and return what they have to, until each of the first two has had both devices at
// the same time and the third its one. It fails if that takes longer than some rounds.
func (w *world) live() {
	begin := w.now
	had := [3]bool{}
	for had != [3]bool{true, true, true} {
		require.Less(w.t, w.now-begin, 400*ms, "a guest waits: had %v after %v", had, w.done)
		holds := [3]int{}
		for _, p := range w.places {
			if p.has && p.revoked {
				w.toggle(p, true)
			} else if !p.has && !p.waiting {
				w.toggle(p, true)
			}
			if p.has {
				holds[p.guest]++
			}
		}
		for g, n := range holds {
			had[g] = had[g] || n == 2 || g == 2 && n == 1
		}
		w.pass(max(min(w.again-w.now, ms), 1))
	}
}

// TestEveryOrderOfEvents goes through all sequences of some events: no two guests have a device, a guest with two devices
// gets none in another's turn, and after each sequence no guest waits for good.
func TestEveryOrderOfEvents(t *testing.T) {
	const places = 5
	depth, all := 5, places+2
	if testing.Short() {
		depth = 4
	}
	sequences := 1
	for range depth {
		sequences *= all
	}
	for _, policy := range []string{"band", "wfq"} {
		for n := range sequences {
			w := newWorld(t, policy)
			for k, i := n, 0; i < depth; k, i = k/all, i+1 {
				switch e := k % all; {
				case e < places:
					p := w.places[e]
					w.done = append(w.done, fmt.Sprintf("guest %d at %d", p.guest, p.device))
					w.toggle(p, false)
				case e == places:
					w.done = append(w.done, "1 ms")
					w.pass(ms)
				default:
					w.done = append(w.done, "20 ms")
					w.pass(20 * ms)
				}
			}
			w.live()
		}
	}
}

// TestThreeByTwo checks that guests each two of which share a device have turns, none passed over for good.
func TestThreeByTwo(t *testing.T) {
	var devices []*sched.Scheduler
	for range 3 {
		s, err := sched.New("band", sched.Settings{}, 0)
		require.NoError(t, err)
		devices = append(devices, s)
	}
	w := &world{t: t, devices: devices, c: gang.New(devices, 0)}
	for g, at := range [][]int{{0, 1}, {1, 2}, {2, 0}} {
		w.join(g, at[0])
		w.join(g, at[1])
	}
	both := [3]time.Duration{}
	for w.now < 3*time.Second {
		planned, _ := w.c.Plan(w.now)
		require.LessOrEqual(t, len(w.c.Up()), 1)
		for g := range both {
			if slices.Contains(w.c.Up(), guestOf(g)) {
				both[g] += ms
			}
		}
		_ = planned
		for _, p := range w.places {
			s := devices[p.device]
			switch {
			case p.has && p.revoked:
				p.has, p.revoked, p.waiting = false, false, true
				require.NoError(t, s.Complete(p.id, ms, 1, true, w.now))
			case !p.has && !p.waiting:
				p.waiting = true
				require.NoError(t, s.Arrive(p.id, w.now))
			}
		}
		w.follow()
		w.now += ms
	}
	for g, had := range both {
		require.InDelta(t, 1, had.Seconds(), 0.1, "guest %d", g)
	}
}

// follow follows the decisions of all devices.
func (w *world) follow() {
	for d, s := range w.devices {
		for {
			x := s.Next(w.now)
			switch {
			case x.Run != 0:
				p := w.at(d, x.Run)
				p.waiting, p.has, p.revoked = false, true, false
				continue
			case x.Revoke != 0 || x.Preempt != 0:
				w.at(d, max(x.Revoke, x.Preempt)).revoked = true
				continue
			case x.Share != 0:
				continue
			}
			break
		}
	}
}

// A gang that leaves with a debt owes it under a new name, and one of another payer does not.
func TestDebtOfAGang(t *testing.T) {
	for _, payer := range []string{"user", "another"} {
		w := newWorld(t, "band")
		first := w.places[0:2]
		for _, p := range w.places[:4] { // guests 0 and 1 want both devices
			w.toggle(p, true)
		}
		w.pass(ms)
		require.Equal(t, []gang.Guest{guestOf(0)}, w.c.Up())
		w.pass(300 * ms) // it does not return them
		for _, p := range first {
			s := w.devices[p.device]
			w.c.Leave(guestOf(0), p.device)
			s.Remove(p.id, w.now)
			require.NoError(t, s.Add(7, sched.Share{}, w.now))
			s.Turns(7, true)
			s.Preemptible(7, true)
			p.id, p.as, p.has, p.revoked = 7, gang.Guest{Payer: payer, Name: "new"}, false, false
			w.c.Join(p.as, p.device, 7)
		}
		w.settle()
		had := time.Duration(0)
		for begin := w.now; w.now-begin < 200*ms; {
			for _, p := range w.places[:4] {
				if p.has && p.revoked || !p.has && !p.waiting {
					w.toggle(p, true)
				}
			}
			if slices.Contains(w.c.Up(), gang.Guest{Payer: payer, Name: "new"}) {
				had += ms
			}
			w.pass(ms)
		}
		if payer == "user" {
			require.Less(t, had, 20*ms)
		} else {
			require.Greater(t, had, 60*ms)
		}
	}
}
