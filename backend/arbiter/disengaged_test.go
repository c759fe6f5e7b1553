package arbiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// contestBeside runs guests whose commands may be on the GPU together, which serves them one at a
// time, and returns what part of the GPU's time each used, and the arbiter's counts at the end.
func contestBeside(t *testing.T, policy string, length time.Duration, kernels ...time.Duration) (shares []float64, st GPUStats) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Config{GPUs: []GPU{{Policy: policy}}})
		engine := make(chan struct{}, 1) // the GPU
		end := time.Now().Add(length)
		used := make([]time.Duration, len(kernels))
		done := make(chan struct{})
		for i, kernel := range kernels {
			go func() {
				defer func() { done <- struct{}{} }()
				g := h.gate(fmt.Sprint("guest", i), sched.Share{}, WaitForArbiter)
				defer g.Close()
				for time.Now().Before(end) {
					if granted := g.Enter(Compute, true); granted != nil {
						<-granted
					}
					began := time.Now()
					engine <- struct{}{}
					time.Sleep(kernel)
					<-engine
					used[i] += kernel
					g.Leave(Compute, time.Since(began), 1, false)
					time.Sleep(5 * us)
				}
			}()
		}
		time.Sleep(length - ms)
		st = h.server().Stats()[0]
		for range kernels {
			<-done
		}
		h.stop()
		all := time.Duration(0)
		for _, u := range used {
			all += u
		}
		for _, u := range used {
			shares = append(shares, u.Seconds()/all.Seconds())
		}
	})
	return shares, st
}

// Guests with short and with long commands that have the GPU together share it, with far fewer grants
// than commands.
func TestDisengagedShares(t *testing.T) {
	for policy, tolerance := range map[string]float64{"dfq": 0.05, "dtimeslice": 0.05} {
		shares, st := contestBeside(t, policy, 10*time.Second, 100*us, 1500*us)
		require.InDelta(t, 0.5, shares[0], tolerance, policy)
		commands, denied := uint64(0), uint64(0)
		for _, g := range st.Guests {
			commands += g.Engines[Compute].Commands
			denied += g.Engines[Compute].Denied
		}
		require.Greater(t, commands, uint64(20_000), policy)
		require.Less(t, st.Engines[Compute].Grants, commands/20, policy)
		require.Equal(t, policy == "dfq", denied > 0, policy)
		require.Zero(t, st.Engines[Compute].Expired)
	}
}

// Engaged, each command has a grant.
func TestEngagedShares(t *testing.T) {
	shares, st := contestBeside(t, "timeslice", 3*time.Second, 100*us, 1500*us)
	require.InDelta(t, 0.5, shares[0], 0.1)
	commands := uint64(0)
	for _, g := range st.Guests {
		commands += g.Engines[Compute].Commands
	}
	require.InEpsilon(t, commands, st.Engines[Compute].Grants, 0.05)
}
