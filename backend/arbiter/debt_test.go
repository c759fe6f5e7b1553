package arbiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// newcomers runs commands one after the other for a payer, each stay of theirs under a new name.
func newcomers(h *host, share sched.Share, stay, kernel time.Duration, end time.Time) (used time.Duration) {
	for i := 0; time.Now().Before(end); i++ {
		name := fmt.Sprintf("newcomer-%d", i)
		hello := &Hello{Name: name, Share: share}
		g, err := Join(GateConfig{WhenLost: WaitForArbiter, dial: func() (link, *page, error) {
			l, _, p, err := h.connectAs(hello, "newcomers")
			return l, p, err
		}})
		if err != nil {
			panic(err)
		}
		for leave := time.Now().Add(stay); ; {
			run(g, Compute, kernel)
			used += kernel
			if now := time.Now(); !now.Before(leave) || !now.Before(end) {
				break
			}
		}
		g.Close()
		synctest.Wait()
	}
	return used
}

// Guests that leave and come back under new names get no more than one that stays, however long
// their commands are and however often they do it.
func TestNewNameShedsNoDebt(t *testing.T) {
	const length = 10 * time.Second
	for _, stay := range []time.Duration{0, time.Second} {
		for _, kernel := range []time.Duration{ms, 15 * ms, 200 * ms} {
			for _, weight := range []uint32{1, 4} {
				synctest.Test(t, func(t *testing.T) {
					h := newHost(t, Config{})
					end := time.Now().Add(length)
					attack := make(chan time.Duration)
					go func() { attack <- newcomers(h, sched.Share{}, stay, kernel, end) }()
					honest := h.gate("honest", sched.Share{Weight: weight}, WaitForArbiter)
					used := time.Duration(0)
					for time.Now().Before(end) {
						run(honest, Compute, ms)
						used += ms
					}
					honest.Close()
					got := (<-attack).Seconds() / length.Seconds()
					h.stop()
					require.LessOrEqual(t, got, 1/float64(1+weight)+0.04, "stay %v, commands of %v", stay, kernel)
					require.GreaterOrEqual(t, used.Seconds()/length.Seconds(), float64(weight)/float64(1+weight)-0.04)
				})
			}
		}
	}
}

// Nor do they leave a cap behind.
func TestNewNameKeepsCap(t *testing.T) {
	const length = 30 * time.Second
	for _, stay := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{})
			used := newcomers(h, sched.Share{Cap: 0.1}, stay, 200*ms, time.Now().Add(length))
			h.stop()
			require.LessOrEqual(t, used.Seconds()/length.Seconds(), 0.11)
		})
	}
}

// borrow has a guest use the engine and leave with a debt of about so much.
func (h *host) borrow(t *testing.T, r *rogue, debt time.Duration) {
	other := h.gate("other", sched.Share{}, WaitForArbiter)
	require.NoError(t, r.link.send(message{op: opRequest}))
	_, granted := r.grant()
	require.True(t, granted)
	require.True(t, r.page.begin(Compute, work{}))
	waits := other.Enter(Compute, false) // so that the time is taken from somebody
	require.NotNil(t, waits)
	time.Sleep(2 * debt) // half of it is given out to the one that waits
	r.link.close()
	<-waits
	other.Leave(Compute, 0, 1, false)
	other.Close()
	synctest.Wait()
	require.True(t, r.m.gone)
}

// A debt is its payer's: of all of its guests, the one of the same name gets it first.
func TestWhoPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		defer h.stop()
		debts := func() (names []string) {
			for _, d := range h.s.arenas[0].debts {
				names = append(names, d.name)
			}
			return names
		}
		credit := func(name, payer string) time.Duration {
			r := h.rogueAs(name, payer)
			defer synctest.Wait()
			defer r.link.close()
			return -h.s.arenas[0].tokens[Compute].sched.Debt(r.m.id)
		}
		large, small := h.rogueAs("large", "x"), h.rogueAs("small", "x")
		h.borrow(t, large, 200*ms)
		h.borrow(t, small, 100*ms) // a part of what this uses is given to the former
		require.Equal(t, []string{"large", "small"}, debts())
		require.Zero(t, credit("large", "y"), "the name alone says nothing")
		less, more := credit("small", "x"), credit("large", "x")
		require.Negative(t, less)
		require.Less(t, more, less)
		require.Equal(t, more, credit("new", "x"), "the largest first")
		require.ElementsMatch(t, []string{"new", "small"}, debts())
	})
}

// What is remembered is bounded, and what is forgotten first is little.
func TestDebtsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		defer h.stop()
		h.borrow(t, h.rogueAs("large", "large"), 25*ms)
		for i := range maxDebts + 10 {
			g := h.gate(fmt.Sprintf("capped-%d", i), sched.Share{Cap: sched.MinCap}, WaitForArbiter)
			run(g, Compute, 10*us) // and no more for ten milliseconds
			g.Close()
			synctest.Wait()
		}
		a := h.s.arenas[0]
		require.Len(t, a.debts, maxDebts)
		require.Len(t, a.tokens[Compute].sched.Stats(a.now()), len(a.debts), "the scheduler forgets them, too")
		require.Contains(t, a.debts, debt{id: 1, name: "large", payer: "large"})
	})
}
