package arbiter

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// victim runs commands of a millisecond for a time, and reports how many.
func victim(h *host, length time.Duration) (commands int, longestWait time.Duration) {
	g := h.gate("victim", sched.Share{}, WaitForArbiter)
	defer g.Close()
	for end := time.Now().Add(length); time.Now().Before(end); commands++ {
		asked := time.Now()
		longestWait = max(longestWait, run(g, Compute, ms).Sub(asked))
	}
	return commands, longestWait
}

// rogue is a backend by hand.
type rogue struct {
	link link
	m    *member
	page *page
}

func (h *host) rogue(name string) *rogue { return h.rogueAs(name, name) }

func (h *host) rogueAs(name, payer string) *rogue {
	l, m, p, err := h.connectAs(&Hello{Name: name}, payer)
	require.NoError(h.t, err)
	return &rogue{l, m, p}
}

// grant waits for the next grant. It reports false at the end.
func (r *rogue) grant() (uint64, bool) {
	for {
		m, err := r.link.receive()
		if err != nil || m.op == opRefuse {
			return 0, false
		}
		if m.op == opGrant {
			return m.grant, true
		}
	}
}

// A backend asks for the token and never begins anything, again and again.
func TestTokenNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		r := h.rogue("rogue")
		go func() {
			for r.link.send(message{op: opRequest}) == nil {
				if _, ok := r.grant(); !ok {
					return
				}
				time.Sleep(25 * ms)
			}
		}()
		commands, wait := victim(h, 30*time.Second)
		require.Greater(t, commands, 13_000, "it has at least its half")
		require.LessOrEqual(t, wait, DefaultUseLimit<<maxMissed)
		h.stop()
		time.Sleep(time.Second) // until it notices
	})
}

// A backend keeps the engine busy for ever.
func TestTokenKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		r := h.rogue("rogue")
		require.NoError(t, r.link.send(message{op: opRequest}))
		_, ok := r.grant()
		require.True(t, ok)
		require.True(t, r.page.begin(Compute, work{}))
		time.Sleep(time.Hour) // alone, it may
		commands, wait := victim(h, 20*time.Second)
		require.Equal(t, DefaultAnswerLimit, wait)
		require.Equal(t, 5000, commands)
		_, ok = r.grant()
		require.False(t, ok, "it is disconnected")
		require.True(t, r.m.gone)
		st := h.s.Stats()[0].Engines[Compute]
		require.Equal(t, uint64(1), st.Expired)
		h.stop()
	})
}

// A backend whose commands take almost as long as is allowed pays for each, also
// if it says that it used nothing.
func TestHog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		r := h.rogue("rogue")
		go func() {
			for r.link.send(message{op: opRequest}) == nil {
				n, ok := r.grant()
				if !ok {
					return
				}
				r.page.begin(Compute, work{})
				time.Sleep(10 * time.Second)
				r.page.store(Compute, 0)
				_ = r.link.send(message{op: opYield, grant: n}) // if it fails, so does the next
			}
		}()
		minutes := 10
		if testing.Short() {
			minutes = 4
		}
		commands, _ := victim(h, time.Duration(minutes)*time.Minute)
		require.Greater(t, commands, minutes*60*1000*45/100)
		h.stop()
		time.Sleep(time.Minute) // until it notices
	})
}

// Backends lie about what they have used.
func TestLies(t *testing.T) {
	kernels := []time.Duration{ms, 200 * us, 10 * ms}
	if testing.Short() {
		kernels = kernels[:1]
	}
	for name, claim := range map[string]func(used time.Duration) time.Duration{
		"nothing": func(time.Duration) time.Duration { return 0 },
		"half":    func(d time.Duration) time.Duration { return d / 2 },
		"more":    func(d time.Duration) time.Duration { return 1000 * d },
		"wraps":   func(time.Duration) time.Duration { return 1<<63 - 1 },
		"random":  func(time.Duration) time.Duration { return time.Duration(rand.Int64()) },
	} {
		for _, kernel := range kernels {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Config{})
				stop := make(chan struct{})
				var liar sync.WaitGroup
				liar.Go(func() {
					g := h.gate("liar", sched.Share{}, WaitForArbiter)
					defer g.Close()
					for {
						select {
						case <-stop:
							return
						default:
						}
						enter(g, Compute)
						time.Sleep(kernel)
						g.Leave(Compute, claim(kernel), 1, false)
					}
				})
				commands, _ := victim(h, 10*time.Second)
				require.Greater(t, commands, 4500, "%s, %v", name, kernel)
				st := h.s.Stats()[0]
				require.LessOrEqual(t, st.Guests[0].Engines[Compute].Busy, 10*time.Second+kernel)
				close(stop)
				liar.Wait()
				h.stop()
			})
		}
	}
}

// Backends write what they like into their pages, and send what they like.
func TestNonsense(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Config{AnswerLimit: 100 * ms})
			for i := range 4 {
				go func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					for h.server() != nil {
						l, _, p, err := h.connect(&Hello{Name: fmt.Sprintf("rogue-%d", i)})
						if err != nil {
							time.Sleep(ms)
							continue
						}
						gone := make(chan struct{})
						go func() {
							defer close(gone)
							for {
								if _, err := l.receive(); err != nil {
									return
								}
							}
						}()
						for range rng.IntN(2000) {
							for range rng.IntN(4) {
								switch rng.IntN(5) {
								case 0:
									p.store(Engine(rng.IntN(2)), rng.Uint32())
								case 1:
									p.addUsed(Engine(rng.IntN(2)), time.Duration(rng.Int64()), rng.Uint64())
								case 2:
									p.store(Compute, bitHeld|bitBusy|bitBegun)
								default:
									ops := []operation{opRequest, opRequest, opYield, opCancel}
									m := message{op: ops[rng.IntN(4)], engine: Engine(rng.IntN(2)), value: rng.Uint32N(8), grant: rng.Uint64N(50)}
									_ = l.send(m) // disconnected, perhaps: then a new connection follows
								}
							}
							time.Sleep(time.Duration(rng.Int64N(int64(300 * us))))
						}
						l.close()
						<-gone
					}
				}()
			}
			commands, wait := victim(h, 5*time.Second)
			require.Greater(t, commands, 400)
			require.Less(t, wait, time.Second)
			h.stop()
			time.Sleep(time.Second) // until all notice
		})
	}
}

// A backend that does not read is disconnected, and costs the others nothing.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{})
		r := h.rogue("rogue")
		go func() {
			for r.link.send(message{op: opRequest}) == nil {
				time.Sleep(ms)
			}
		}()
		commands, _ := victim(h, time.Minute)
		require.Greater(t, commands, 27_000)
		require.True(t, r.m.gone)
		h.stop()
		time.Sleep(time.Second) // until it notices
	})
}

// A flood is slowed down, and the sender alone waits.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		h := newHost(t, Config{MaxMessages: most})
		r := h.rogue("rogue")
		sent := 0
		go func() {
			for h.server() != nil {
				if r.link.send(message{op: opCancel}) == nil {
					sent++
				} else {
					time.Sleep(ms)
				}
			}
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, sent, 11*most+128)
		h.stop()
		time.Sleep(2 * time.Second) // until all notice
	})
}
