package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/schedtest"
)

const endless = time.Hour

// stopping runs guests under a policy for 11 s. A preemption takes 100 us.
func stopping(t *testing.T, policy string, set sched.Settings, guests ...schedtest.Guest) *schedtest.Report {
	t.Helper()
	r, err := schedtest.Run(schedtest.Config{Policy: policy, Settings: set, Guests: guests, Length: 11 * time.Second,
		Dispatch: 40 * us, Overhead: 5 * us, Preemption: 100 * us, Seed: 1})
	require.NoError(t, err)
	return r
}

// usage returns the mean usage of windows and the largest distance of one from what is expected,
// as parts of the time that all used.
func usage(r *schedtest.Report, i int, window time.Duration, expected float64) (mean, worst float64) {
	all := make([][]float64, len(r.Guests))
	for i, g := range r.Guests {
		all[i] = g.Usage(window, time.Second, 11*time.Second)
	}
	for n := range all[i] {
		sum := 0.0
		for i := range all {
			sum += all[i][n]
		}
		all[i][n] /= sum
	}
	return schedtest.Summary(all[i], expected)
}

// TestPreemptionSharesWindows checks that long commands no longer spoil the shares of short windows.
func TestPreemptionSharesWindows(t *testing.T) {
	for _, c := range []struct {
		name   string
		length []time.Duration
		window time.Duration
		worst  float64
	}{
		{name: "short and long", length: []time.Duration{100 * us, 20 * ms}, window: 100 * ms, worst: 0.035},
		{name: "short and long", length: []time.Duration{100 * us, 20 * ms}, window: 70 * ms, worst: 0.05},
		{name: "short and long", length: []time.Duration{100 * us, 20 * ms}, window: 130 * ms, worst: 0.035},
		{name: "short and long", length: []time.Duration{100 * us, 20 * ms}, window: 500 * ms, worst: 0.01},
		{name: "two endless", length: []time.Duration{endless, endless}, window: 100 * ms, worst: 0.03},
		{name: "four", length: []time.Duration{100 * us, 1500 * us, 20 * ms, endless}, window: 500 * ms, worst: 0.02},
	} {
		for _, policy := range []string{"band", "wfq"} {
			t.Run(fmt.Sprint(policy, " ", c.name, " ", c.window), func(t *testing.T) {
				var guests []schedtest.Guest
				for _, d := range c.length {
					guests = append(guests, schedtest.Guest{Kernel: d, Think: 10 * us})
				}
				r := stopping(t, policy, sched.Settings{}, guests...)
				whole := stopping(t, policy, sched.Settings{Preempt: sched.NoWait}, guests...)
				share := 1 / float64(len(guests))
				stops, busy := 0, time.Duration(0)
				for i, g := range r.Guests {
					stops += g.Preempted
					busy += g.Busy
					mean, worst := usage(r, i, c.window, share)
					_, without := usage(whole, i, c.window, share)
					t.Logf("guest %d: mean %4.1f %%, worst %4.1f points; whole commands %4.1f", i, 100*mean, 100*worst, 100*without)
					require.LessOrEqual(t, worst, c.worst, "guest %d", i)
					require.Zero(t, whole.Guests[i].Preempted)
				}
				lost := 1 - (busy-time.Duration(stops)*100*us).Seconds()/11
				t.Logf("%d preemptions, %.1f %% of the time lost; whole commands %.1f", stops, 100*lost, 100*(1-whole.Busy.Seconds()/11))
				require.Less(t, lost, 0.15)
			})
		}
	}
}

// TestPreemptionByWeight checks that endless commands share by weight.
func TestPreemptionByWeight(t *testing.T) {
	weights := []uint32{60, 30, 10}
	for _, policy := range []string{"band", "wfq"} {
		var guests []schedtest.Guest
		for _, w := range weights {
			guests = append(guests, schedtest.Guest{Share: sched.Share{Weight: w}, Kernel: endless})
		}
		r := stopping(t, policy, sched.Settings{}, guests...)
		for i, w := range weights {
			mean, _ := usage(r, i, time.Second, 0)
			require.InDelta(t, float64(w)/100, mean, 0.03, "%s, guest %d", policy, i)
		}
	}
}

// TestPreemptionIsSoon checks how long a guest with little to do waits for another's endless
// command, and that policies which do not preempt leave it alone.
func TestPreemptionIsSoon(t *testing.T) {
	little := schedtest.Guest{Kernel: 10 * us, Think: 5 * ms, Start: ms}
	long := schedtest.Guest{Kernel: endless}
	for _, policy := range sched.Names() {
		r := stopping(t, policy, sched.Settings{}, little, long)
		switch policy {
		case "fifo", "credit", "gdev-band", "gpuvm-band", "timeslice":
			require.Zero(t, r.Guests[1].Preempted, policy)
			continue
		case "dtimeslice": // after its slice
			require.Less(t, r.Guests[0].LongestWait, sched.TimeSlice+3*ms)
			continue
		case "dfq", "dfq-roundrobin": // one after the other here
			require.Less(t, r.Guests[0].LongestWait, 7*ms, policy)
		case "priority":
			continue // equal ones share; see below
		default: // the first command waits for the margin
			require.Less(t, r.Guests[0].LongestWait, 2500*us, policy)
		}
		require.Greater(t, r.Guests[0].Commands, 500, policy)
		require.Greater(t, r.Guests[1].Busy, 8*time.Second, policy)
	}
	first := little
	first.Share.Priority = 1
	r := stopping(t, "priority", sched.Settings{}, first, long)
	require.Less(t, r.Guests[0].LongestWait, 2*ms)
	first.Share = sched.Share{Class: sched.Latency}
	r = stopping(t, "elastic", sched.Settings{}, first, long)
	require.Less(t, r.Guests[0].LongestWait, 2*ms)
	// The other way round it waits for a turn of those that starve.
	long.Share.Priority = 1
	r = stopping(t, "priority", sched.Settings{}, little, long)
	require.InDelta(t, 10, r.Guests[0].Commands, 2)
	require.Less(t, r.Guests[0].LongestWait, 1100*ms)
}

// TestPreemptionEndsWaits checks that a command which goes on before all others stops once in a
// window: limits on how long a command keeps others waiting do not end it.
func TestPreemptionEndsWaits(t *testing.T) {
	guests := []schedtest.Guest{{Share: sched.Share{Weight: 10000}, Kernel: endless}, {Share: sched.Share{Weight: 1}, Kernel: endless}}
	r := stopping(t, "band", sched.Settings{}, guests...)
	longest := time.Duration(0)
	for _, s := range r.Guests[0].Spans {
		longest = max(longest, s.To-s.From)
	}
	require.LessOrEqual(t, longest, sched.DefaultWindow+ms)
}

// TestPreemptionOfCapped checks that a guest with a cap rests during endless commands, too.
func TestPreemptionOfCapped(t *testing.T) {
	r := stopping(t, "band", sched.Settings{}, schedtest.Guest{Share: sched.Share{Cap: 0.25}, Kernel: endless})
	mean, worst := schedtest.Summary(r.Guests[0].Usage(time.Second, time.Second, 11*time.Second), 0.25)
	require.InDelta(t, 0.25, mean, 0.01)
	require.Less(t, worst, 0.02)
}
