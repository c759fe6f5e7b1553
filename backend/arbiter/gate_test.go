package arbiter

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// enter enters and waits.
func enter(g *Gate, e Engine) {
	if granted := g.Enter(e, false); granted != nil {
		<-granted
	}
}

func TestWithoutArbiter(t *testing.T) {
	g, err := Join(GateConfig{})
	require.NoError(t, err)
	for e := range Engines {
		for range 3 {
			require.Nil(t, g.Enter(e, false))
			g.Leave(e, ms, 1, false)
		}
	}
	require.False(t, g.Stats().Joined)
	g.Close()
	g.Close()
	require.Nil(t, g.Enter(Copy, false))
	g.Leave(Copy, 0, 1, false)
	require.Panics(t, func() { g.Leave(Copy, 0, 1, false) })
	require.Zero(t, testing.AllocsPerRun(100, func() {
		g.Enter(Copy, false)
		g.Leave(Copy, ms, 1, false)
	}))
}

// A guest knows whether it has the GPU to itself, and learns when others come and go.
func TestSingle(t *testing.T) {
	none, err := Join(GateConfig{})
	require.NoError(t, err)
	require.False(t, none.Single(), "no arbiter tells")
	none.Close()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		a := h.gate("a", sched.Share{}, WaitForArbiter)
		synctest.Wait()
		require.True(t, a.Single())
		b := h.gate("b", sched.Share{}, WaitForArbiter)
		synctest.Wait()
		require.False(t, a.Single())
		require.False(t, b.Single())
		b.Close()
		synctest.Wait()
		require.True(t, a.Single())
		a.Close()
		h.stop()
	})
}

// Alone, a guest asks once.
func TestStandingToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		g := h.gate("a", sched.Share{}, WaitForArbiter)
		for range 1000 {
			run(g, Compute, ms)
			time.Sleep(ms)
		}
		st := h.s.Stats()[0]
		require.Equal(t, []string{"a"}, st.Engines[Compute].Holders)
		require.Equal(t, uint64(1), st.Engines[Compute].Grants)
		require.Zero(t, st.Engines[Copy].Grants)
		waits := g.Stats().Waits
		require.Equal(t, uint64(1), waits[Compute].Count())
		require.Zero(t, waits[Copy].Count())
		e := st.Guests[0].Engines[Compute]
		require.True(t, e.Standing)
		require.Equal(t, time.Second, e.Busy)
		require.Equal(t, uint64(1000), e.Commands)
		require.InDelta(t, 0.5, e.Usage, 0.01)
		require.True(t, g.Alone(Compute))
		require.False(t, g.Alone(Copy), "it never asked for that")

		// Another comes while the first is idle: no answer of the first is needed.
		other := h.gate("b", sched.Share{}, WaitForArbiter)
		now := time.Now()
		run(other, Compute, ms)
		require.Equal(t, ms, time.Since(now))
		// And while it runs.
		enter(g, Compute)
		granted := other.Enter(Compute, false)
		require.NotNil(t, granted)
		time.Sleep(5 * ms)
		synctest.Wait()
		require.False(t, g.Alone(Compute))
		select {
		case <-granted:
			require.Fail(t, "two run at once")
		default:
		}
		g.Leave(Compute, 5*ms, 1, false)
		<-granted
		other.Leave(Compute, 0, 1, false)
		g.Close()
		other.Close()
		h.stop()
	})
}

// The commands of a turn count, however few or many it has.
func TestCommandsOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		g := h.gate("a", sched.Share{}, WaitForArbiter)
		for _, commands := range []uint64{16, 1, 0} {
			enter(g, Compute)
			time.Sleep(ms)
			g.Leave(Compute, ms, commands, false)
		}
		e := h.s.Stats()[0].Guests[0].Engines[Compute]
		require.Equal(t, uint64(17), e.Commands)
		require.Equal(t, 3*ms, e.Busy)
		g.Close()
		h.stop()
	})
}

// The engines are independent of each other.
func TestEnginesOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		a, b := h.gate("a", sched.Share{}, WaitForArbiter), h.gate("b", sched.Share{}, WaitForArbiter)
		enter(a, Compute)
		enter(b, Copy)
		st := h.s.Stats()[0]
		require.Equal(t, []string{"a"}, st.Engines[Compute].Holders)
		require.Equal(t, []string{"b"}, st.Engines[Copy].Holders)
		a.Leave(Compute, 0, 1, false)
		b.Leave(Copy, 0, 1, false)
		a.Close()
		b.Close()
		h.stop()
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		a, b := h.gate("a", sched.Share{}, WaitForArbiter), h.gate("b", sched.Share{}, WaitForArbiter)
		free := func() { // whoever comes gets the engine at once
			t.Helper()
			for _, g := range []*Gate{b, a} {
				now := time.Now()
				run(g, Compute, ms)
				require.Equal(t, ms, time.Since(now))
			}
		}
		// While another runs.
		enter(a, Compute)
		require.NotNil(t, b.Enter(Compute, false))
		synctest.Wait()
		b.Cancel(Compute)
		a.Leave(Compute, 0, 1, false)
		free()
		// Before the arbiter knows, and while its grant is on the way.
		require.NotNil(t, b.Enter(Compute, false))
		b.Cancel(Compute)
		synctest.Wait()
		free()
		// And again before that arrives.
		b.Enter(Compute, false)
		b.Cancel(Compute)
		enter(b, Compute)
		b.Leave(Compute, 0, 1, false)
		free()
		// After it was granted.
		b.Enter(Compute, false)
		synctest.Wait()
		b.Cancel(Compute)
		free()
		a.Close()
		b.Close()
		h.stop()
	})
}

// A backend that says that more follows waits again at once; if nothing
// follows, the others wait no longer than the limit.
func TestMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: "fifo"}}})
		a, b := h.gate("a", sched.Share{}, WaitForArbiter), h.gate("b", sched.Share{}, WaitForArbiter)
		enter(a, Compute)
		granted := b.Enter(Compute, false)
		synctest.Wait()
		a.Leave(Compute, 0, 1, true)
		<-granted
		again := a.Enter(Compute, false)
		require.NotNil(t, again)
		b.Leave(Compute, 0, 1, false)
		<-again
		granted = b.Enter(Compute, false)
		synctest.Wait()
		a.Leave(Compute, 0, 1, true) // and nothing follows
		<-granted
		b.Leave(Compute, 0, 1, true)
		synctest.Wait()
		now := time.Now()
		enter(b, Compute) // the token is a's, who does nothing
		require.Equal(t, DefaultUseLimit, time.Since(now))
		b.Leave(Compute, 0, 1, false)
		a.Close()
		b.Close()
		h.stop()
	})
}

// The arbiter ends and comes back while one runs, one waits and one is idle.
func TestArbiterRestarts(t *testing.T) {
	for _, lost := range []Lost{GoAlone, WaitForArbiter} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{})
			var gates []*Gate
			for _, name := range []string{"runs", "waits", "idle"} {
				gates = append(gates, h.gate(name, sched.Share{}, lost))
			}
			for range 3 {
				enter(gates[0], Compute)
				granted := gates[1].Enter(Compute, false)
				require.NotNil(t, granted)
				synctest.Wait()
				h.stop()
				synctest.Wait()
				if lost == GoAlone {
					<-granted
					require.Nil(t, gates[2].Enter(Compute, false))
					gates[2].Leave(Compute, ms, 1, false)
				} else {
					select {
					case <-granted:
						require.Fail(t, "ran without an arbiter")
					default:
					}
				}
				time.Sleep(time.Minute)
				h.start(Config{})
				time.Sleep(DefaultMaxBackoff + DefaultMaxBackoff/2)
				synctest.Wait()
				require.Len(t, h.s.Stats()[0].Guests, 3, "all came back")
				<-granted
				gates[0].Leave(Compute, ms, 1, false)
				gates[1].Leave(Compute, ms, 1, false)
				for _, g := range gates {
					require.True(t, g.Stats().Joined)
					run(g, Compute, ms)
				}
			}
			require.Equal(t, uint64(3), gates[0].Stats().Lost)
			for _, g := range gates {
				g.Close()
			}
			h.stop()
		})
	}
}

// Started before the arbiter, a backend goes alone or waits, and joins.
func TestArbiterComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		h.stop()
		alone, waits := h.gate("alone", sched.Share{}, GoAlone), h.gate("waits", sched.Share{}, WaitForArbiter)
		require.Nil(t, alone.Enter(Compute, false))
		granted := waits.Enter(Compute, false)
		time.Sleep(10 * time.Second)
		h.start(Config{})
		<-granted
		waits.Leave(Compute, 0, 1, false)
		alone.Leave(Compute, 0, 1, false)
		time.Sleep(2 * DefaultMaxBackoff)
		require.True(t, alone.Stats().Joined)
		alone.Close()
		waits.Close()
		h.stop()
	})
}

// Closing lets whoever waits go, and frees what was held.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		a, b, c := h.gate("a", sched.Share{}, WaitForArbiter), h.gate("b", sched.Share{}, WaitForArbiter), h.gate("c", sched.Share{}, WaitForArbiter)
		enter(a, Compute)
		toB, toC := b.Enter(Compute, false), c.Enter(Compute, false)
		synctest.Wait()
		b.Close()
		<-toB
		b.Leave(Compute, 0, 1, false)
		synctest.Wait()
		select {
		case <-toC:
			require.Fail(t, "two run at once")
		default:
		}
		a.Close() // as it does when its process dies
		<-toC
		c.Leave(Compute, 0, 1, false)
		a.Leave(Compute, 0, 1, false)
		c.Close()
		h.stop()
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		g := h.gate("a", sched.Share{Reserve: 0.8}, GoAlone)
		for _, hello := range []Hello{{Name: "a"}, {Name: "b", Share: sched.Share{Reserve: 0.3}}, {Name: "c", Share: sched.Share{Cap: 2}}} {
			_, err := Join(GateConfig{dial: h.dial(hello)})
			var refused *RefusedError
			require.ErrorAs(t, err, &refused, hello.Name)
		}
		_, err := Take(t.Context(), Taking{Socket: "nowhere", Hello: Hello{Name: "a b"}})
		require.ErrorIs(t, err, unix.EINVAL)
		require.Len(t, h.s.Stats()[0].Guests, 1, "nothing is left of those refused")
		g.Close()
		h.stop()
	})
	require.True(t, errors.Is(&RefusedError{Errno: unix.EBUSY}, unix.EBUSY))
}

func TestSwitchAndShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: "fifo"}, {}}})
		a := h.gate("a", sched.Share{}, GoAlone)
		enter(a, Compute)
		require.NoError(t, h.s.Switch(0, "credit", sched.Settings{}))
		require.Equal(t, "credit", h.s.Stats()[0].Policy)
		require.Equal(t, "band", h.s.Stats()[1].Policy)
		require.ErrorIs(t, h.s.Switch(0, "none", sched.Settings{}), sched.ErrPolicy)
		require.Error(t, h.s.Switch(2, "band", sched.Settings{}))
		require.NoError(t, h.s.SetShare(0, "a", sched.Share{Weight: 7}))
		require.Equal(t, uint32(7), h.s.Stats()[0].Guests[0].Share.Weight)
		require.Error(t, h.s.SetShare(0, "b", sched.Share{}))
		require.ErrorIs(t, h.s.SetShare(0, "a", sched.Share{Cap: 7}), sched.ErrShare)
		a.Leave(Compute, 0, 1, false)
		a.Close()
		h.stop()
	})
	for _, bad := range []Config{
		{GPUs: []GPU{{Policy: "none"}}}, {GPUs: []GPU{{Settings: sched.Settings{Wait: -7}}}},
		{MaxBackends: -1}, {AnswerLimit: -1}, {UseLimit: -1}, {MaxPerUser: -1}, {MaxMessages: -1},
	} {
		_, err := NewServer(bad)
		require.Error(t, err, "%+v", bad)
	}
}
