package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// Two guests: one uses the GPU three times as much as the other, and in the
// second half of each 100 ms not at all.
func fairExample() *FairRun {
	r := &FairRun{Policy: "band",
		Guests: []FairGuest{{Name: "a", Workload: "madd", Weight: 1, Kernels: 30, Ran: 2 * time.Second}, {Name: "b", Workload: "long-madd", Weight: 3, Kernels: 10, Ran: 2 * time.Second}}}
	var a, b time.Duration
	for at := time.Duration(0); at <= time.Second; at += 10 * time.Millisecond {
		r.At = append(r.At, at)
		r.Guests[0].Busy = append(r.Guests[0].Busy, a)
		r.Guests[1].Busy = append(r.Guests[1].Busy, b)
		if at%(100*time.Millisecond) < 50*time.Millisecond {
			a, b = a+2*time.Millisecond, b+6*time.Millisecond
		} else {
			b += 8 * time.Millisecond
		}
	}
	return r
}

func TestFairRows(t *testing.T) {
	rows := fairExample().Rows([]time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}, fairExample())
	require.Len(t, rows, 6)
	for i, want := range []FairRow{
		{WindowMS: 50, Guest: "a", Share: 0.125, Expected: 0.25, Worst: 0.25},
		{WindowMS: 50, Guest: "b", Share: 0.875, Expected: 0.75, Worst: 0.25},
		{WindowMS: 100, Guest: "a", Share: 0.125, Expected: 0.25, Worst: 0.125},
		{WindowMS: 100, Guest: "b", Share: 0.875, Expected: 0.75, Worst: 0.125},
	} {
		got := rows[i]
		require.Equal(t, want.WindowMS, got.WindowMS)
		require.Equal(t, want.Guest, got.Guest)
		require.InDelta(t, want.Share, got.Share, 1e-9)
		require.InDelta(t, want.Expected, got.Expected, 1e-9)
		require.InDelta(t, want.Worst, got.Worst, 1e-9)
		require.Equal(t, 2, got.Guests)
	}
	require.InDelta(t, 15, rows[0].Throughput, 1e-9)
	require.InDelta(t, 5, rows[1].ThroughputFIFO, 1e-9)
	var out bytes.Buffer
	fifo := fairExample()
	fifo.Policy = "fifo"
	report := FairReport{time.Now(), "pvdrm <bench>", []*FairRun{fifo, fairExample()}, rows,
		[]LoneRow{NewLoneRow(UnderArbiter, "band", "madd", 1, []Round{{99.5, 100}}), idleExample()}}
	require.NoError(t, report.WriteText(&out))
	require.Contains(t, out.String(), "87.5 %")
	out.Reset()
	require.NoError(t, report.WriteHTML(&out))
	require.Contains(t, out.String(), "<polyline")
	require.Contains(t, out.String(), "Execution time against FIFO")
	require.Contains(t, out.String(), "pvdrm &lt;bench&gt;")
	out.Reset()
	report.Rows = rows[:1]
	require.NoError(t, report.WriteJSON(&out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	for i, want := range [][]string{
		{"policy", "guests", "window_ms", "guest", "workload", "share", "expected", "worst", "unavoidable", "throughput", "throughput_fifo"},
		{"experiment", "policy", "guests", "workload", "throughput", "throughput_alone", "ratio", "p10", "p90"},
		{"experiment", "policy", "guests", "workload", "throughput", "throughput_alone", "ratio", "p10", "p90", "idle_pss", "idle_rss"},
	} {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &line))
		require.Len(t, line, len(want))
		for _, key := range want {
			require.Contains(t, line, key)
		}
	}
}

// idleExample is a guest that loses a tenth beside idle ones, in the median.
func idleExample() LoneRow {
	r := NewLoneRow(BesideIdle, "band", "madd", 64, []Round{{80, 100}, {180, 200}, {95, 100}})
	r.IdlePSS, r.IdleRSS = 10_000_000, 30_000_000
	return r
}

func TestLone(t *testing.T) {
	r := idleExample()
	require.InDelta(t, 0.9, r.Ratio, 1e-9)
	require.InDelta(t, 95, r.Throughput, 1e-9)
	require.InDelta(t, 100, r.Alone, 1e-9)
	targets := r.targets()
	require.Len(t, targets, 2)
	require.False(t, targets[0].Met, "a loss of 10 % is above 2 %")
	require.Equal(t, "10.00 %", targets[0].Found)
	require.True(t, targets[1].Met)
	under := NewLoneRow(UnderArbiter, "band", "madd", 1, []Round{{99.5, 100}, {0, 0}})
	require.InDelta(t, 0.995, under.Ratio, 1e-9, "a round in which nothing ran has no ratio")
	require.True(t, under.targets()[0].Met)
}

// The longest kernel decides what can be reached.
func TestUnavoidable(t *testing.T) {
	r := fairExample()
	// b was busy for 700 ms in one second and ran 5 kernels a second.
	require.InDelta(t, 0.14, r.kernel(&r.Guests[1]).Seconds(), 1e-6)
	rows := r.Rows([]time.Duration{500 * time.Millisecond}, nil)
	for _, row := range rows {
		require.InDelta(t, sched.Indivisible(140*time.Millisecond, 500*time.Millisecond, row.Expected), row.Unavoidable, 1e-6)
		require.Positive(t, row.Unavoidable)
	}
}

// Windows in which nobody used the GPU do not count.
func TestFairWindowsWithoutUse(t *testing.T) {
	r := fairExample()
	for i := range r.Guests {
		for n := range r.Guests[i].Busy {
			if r.At[n] > 500*time.Millisecond {
				r.Guests[i].Busy[n] = r.Guests[i].Busy[50]
			}
		}
	}
	require.Len(t, r.Usage(100 * time.Millisecond)[0], 5)
}
