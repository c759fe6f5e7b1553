package channels

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// outcome has the slowdown of each guest, and the sum of their rates as parts of those alone.
func outcome(t *testing.T, c Config) (slowdown []float64, efficiency float64, share []float64) {
	t.Helper()
	all, err := Run(c)
	require.NoError(t, err)
	busy := time.Duration(0)
	for _, r := range all {
		busy += r.Busy
	}
	for i, g := range c.Guests {
		alone, err := Run(Config{Policy: Direct, Guests: []Guest{g}, Length: c.Length})
		require.NoError(t, err)
		rate := float64(all[i].Requests) / float64(alone[0].Requests)
		slowdown = append(slowdown, 1/rate)
		efficiency += rate
		share = append(share, all[i].Busy.Seconds()/busy.Seconds())
	}
	return slowdown, efficiency, share
}

// Direct access divides the GPU by the lengths of requests; the policies divide it evenly, and dfq
// loses less than those that have a guest on the GPU at a time.
func TestPairs(t *testing.T) {
	for _, lengths := range [][2]time.Duration{{100 * us, 1500 * us}, {19 * us, 1700 * us}, {66 * us, 300 * us}, {66 * us, 1700 * us}, {100 * us, 20 * ms}} {
		pair := []Guest{{Request: lengths[0]}, {Request: lengths[1]}}
		slow, direct, share := outcome(t, Config{Policy: Direct, Guests: pair})
		require.Greater(t, slow[0], 4.0)
		require.Less(t, slow[1], 1.3)
		require.InDelta(t, lengths[0].Seconds()/(lengths[0]+lengths[1]).Seconds(), share[0], 0.01)
		for policy, most := range map[string]float64{"dtimeslice": 0.1, "dfq": 0.3} {
			slow, efficiency, _ := outcome(t, Config{Policy: policy, Guests: pair})
			t.Logf("%v %s: slowdown %.2f, efficiency %.3f", lengths, policy, slow, efficiency)
			for _, s := range slow {
				require.InDelta(t, 2, s, most, "%v, %s", lengths, policy)
			}
			require.Greater(t, efficiency, 0.97*direct, "%v, %s", lengths, policy)
		}
		_, engaged, _ := outcome(t, Config{Policy: "timeslice", Guests: pair})
		_, free, _ := outcome(t, Config{Policy: "dfq", Guests: pair})
		require.Greater(t, free, engaged, "a message for each request")
	}
}

// A guest alone pays for no policy.
func TestAlone(t *testing.T) {
	for _, policy := range []string{"timeslice", "dtimeslice", "dfq", "band"} {
		for _, d := range []time.Duration{19 * us, 300 * us, 1700 * us} {
			slow, _, _ := outcome(t, Config{Policy: policy, Guests: []Guest{{Request: d}}})
			require.InDelta(t, 1, slow[0], 0.01, "%s, %v", policy, d)
		}
	}
}

// Beside a guest that is idle for most of the time, a saturating one loses next to nothing under dfq,
// and about the idle time under time slices that are kept.
func TestOff(t *testing.T) {
	for _, off := range []float64{0.2, 0.5, 0.8} {
		pair := []Guest{{Request: 66 * us}, {Request: 300 * us, Off: off}}
		_, direct, _ := outcome(t, Config{Policy: Direct, Guests: pair})
		slow, free, _ := outcome(t, Config{Policy: "dfq", Guests: pair})
		_, kept, _ := outcome(t, Config{Policy: "dtimeslice", Guests: pair})
		t.Logf("off %.1f: direct %.3f, dfq %.3f, dtimeslice %.3f; slowdown %.2f", off, direct, free, kept, slow)
		require.Greater(t, free, 0.92*direct, off)
		if off == 0.8 {
			require.Greater(t, free, 0.97*direct)
			require.Less(t, kept, 0.7*direct)
			require.Less(t, slow[0], 1.4, "a sleeper saves nothing")
		}
	}
}

// Several guests of lengths from 19 us to 20 ms use the same, within 5 points of the equal share, and no
// request waits longer than two cycles.
func TestSeveral(t *testing.T) {
	lengths := []time.Duration{19 * us, 20 * ms, 100 * us, 1500 * us, 300 * us, 66 * us, 600 * us, 5 * ms}
	for _, n := range []int{2, 3, 4, 8} {
		var guests []Guest
		for _, d := range lengths[:n] {
			guests = append(guests, Guest{Request: d})
		}
		c := Config{Policy: "dfq", Guests: guests, Length: 30 * time.Second}
		_, efficiency, shares := outcome(t, c)
		t.Logf("%d guests: shares %.3f, efficiency %.3f", n, shares, efficiency)
		for i, s := range shares {
			require.InDelta(t, 1/float64(n), s, 0.05, "guest %d of %d", i, n)
		}
		all, err := Run(c)
		require.NoError(t, err)
		denied := uint64(0)
		for _, r := range all {
			require.Less(t, r.Longest, 2*time.Second)
			denied += r.Denied
		}
		require.Positive(t, denied)
	}
}

// Requests of nearly a slice get no more than others: overuse is paid back.
func TestOveruse(t *testing.T) {
	for _, policy := range []string{"timeslice", "dtimeslice"} {
		_, _, shares := outcome(t, Config{Policy: policy, Guests: []Guest{{Request: 27 * ms}, {Request: 300 * us}}, Length: 30 * time.Second})
		require.InDelta(t, 0.5, shares[0], 0.05, policy)
	}
}

// Guests that cannot be on the GPU together share it under dfq, too.
func TestExclusive(t *testing.T) {
	_, _, shares := outcome(t, Config{Policy: "dfq", Guests: []Guest{{Request: 100 * us}, {Request: 1500 * us}}, Exclusive: true})
	require.InDelta(t, 0.5, shares[0], 0.15)
}

func TestRefused(t *testing.T) {
	for _, c := range []Config{{}, {Guests: make([]Guest, 65)}, {Guests: []Guest{{}}}, {Guests: []Guest{{Request: ms, Off: 1}}}, {Guests: []Guest{{Request: time.Hour}}}} {
		_, err := Run(c)
		require.ErrorIs(t, err, ErrConfig)
	}
	_, err := Run(Config{Policy: "luck", Guests: []Guest{{Request: ms}}})
	require.Error(t, err)
}
