package bench

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gloopReport is a throttle of which split takes four times as long, and an application, on a device.
func gloopReport(card bool) GLoopReport {
	split := []GLoopSample{{Total: 4, Kernel: 4, Points: 1e6}}
	row := func(program, version, what string, x GLoopSample, base []GLoopSample) GLoopRow {
		return NewGLoopRow(GLoopRow{Figure: "5.5", Program: program, Version: version, Case: what, Base: "split", Guests: 1, Verified: true}, []GLoopSample{x}, base)
	}
	return GLoopReport{Card: card, Rows: []GLoopRow{
		row("throttle", "gloop", "", GLoopSample{Total: 1, Kernel: 1, Points: 1e6}, split),
		row("throttle", "split", "", split[0], split),
		row("throttle", "gloop", "postTaskIfNecessary", GLoopSample{Total: 1, Kernel: 1, Points: 1e6}, split),
		row("tpacf", "gloop", "", GLoopSample{Total: 4.2, Kernel: 4.2, Points: 10}, split),
		{Figure: "5.11", Program: "tpacf", Version: "gloop", Case: "equal weights", Guests: 2, Share: 0.49, Expected: 0.5, Worst: 0.06, Verified: true},
	}}
}

func TestGLoopTargets(t *testing.T) {
	found := func(r GLoopReport) map[string]Target {
		all := map[string]Target{}
		for _, x := range r.targets() {
			all[x.Figure] = x
		}
		return all
	}
	soft, card := found(gloopReport(false)), found(gloopReport(true))
	require.True(t, soft["throttle, split over gloop"].Met, "4 times of 3")
	require.False(t, card["throttle, split over gloop"].Met, "4 times of 5")
	require.NotContains(t, soft, "a scheduling point", "a target for cards")
	require.True(t, card["a scheduling point"].Met)
	require.Equal(t, "1.00 µs", card["a scheduling point"].Found)
	require.False(t, soft["overhead of 1 programs"].Met, "5 % of 3")
	share := soft["5.11: share of tpacf among 2"]
	require.False(t, share.Met, "a window is a slice and more off")
	require.Equal(t, "1.0 points off, a window 6.0", share.Found)
}

func TestGLoopText(t *testing.T) {
	r := gloopReport(false)
	r.Rows[3].Verified, r.Rows[3].Error = false, "3 bins differ"
	require.True(t, r.Failed())
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b))
	lines := bytes.Split(b.Bytes(), []byte("\n"))
	require.Contains(t, string(lines[1]), "against split, published: 0.27, 0.23")
	require.NotContains(t, string(lines[3]), "published", "a case that the thesis has no figure of")
	require.Contains(t, string(lines[4]), "FAILED: 3 bins differ")
	for _, line := range lines {
		require.Less(t, len(line), 200, "%s", line)
	}
}

func TestGLoopSharesOfOne(t *testing.T) {
	run := &FairRun{Guests: []FairGuest{{Name: "guest-1", Workload: "matmul", Weight: 60, Kernels: 30, Ran: time.Second}}}
	rows := GLoopShares(GLoopRow{Figure: "5.16"}, run)
	require.Len(t, rows, 1)
	require.Zero(t, rows[0].Expected, "alone it has no share")
	require.InDelta(t, 30, rows[0].Rate, 1e-9)
}
