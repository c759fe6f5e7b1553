package bench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// Two guests: one uses the GPU three times as much as the other, and in the
// second half of each 100 ms not at all.
func fairExample() *FairRun {
	r := &FairRun{Policy: "band", Length: time.Second,
		Guests: []FairGuest{{Name: "a", Workload: "madd", Weight: 1, Kernels: 30, Ran: 2 * time.Second}, {Name: "b", Workload: "long-madd", Weight: 3, Kernels: 10, Ran: 2 * time.Second}}}
	for at := time.Duration(0); at < time.Second; at += 100 * time.Millisecond {
		// One that can be cut anywhere, in pieces of 2 and 6, then of 8 ms.
		for piece := at; piece < at+50*time.Millisecond; piece += 10 * time.Millisecond {
			r.Guests[0].Uses = append(r.Guests[0].Uses, Use{piece, piece + 2*time.Millisecond, 1})
			r.Guests[1].Uses = append(r.Guests[1].Uses, Use{piece + 2*time.Millisecond, piece + 8*time.Millisecond, 0})
		}
		r.Guests[1].Uses = append(r.Guests[1].Uses, Use{at + 52*time.Millisecond, at + 92*time.Millisecond, 1})
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
	report := FairReport{Date: time.Now(), Command: "pvdrm <bench>", Runs: []*FairRun{fifo, fairExample()}, Rows: rows,
		Turns: []TurnRow{turnExample()},
		Lone:  []LoneRow{NewLoneRow(UnderArbiter, "band", "madd", 1, []Round{{99.5, 100}}), idleExample()}}
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
	require.Len(t, lines, 4)
	for i, want := range [][]string{
		{"policy", "guests", "window_ms", "guest", "workload", "share", "expected", "worst", "unavoidable", "ideal", "throughput", "throughput_fifo"},
		{"experiment", "policy", "guests", "workload", "rounds", "throughput", "throughput_fifo", "ratio", "p10", "p90", "low", "high"},
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
	// b was busy for 700 ms and ran 10 kernels.
	require.Equal(t, 70*time.Millisecond, r.Guests[1].kernel())
	rows := r.Rows([]time.Duration{500 * time.Millisecond}, nil)
	for _, row := range rows {
		require.InDelta(t, sched.Indivisible(70*time.Millisecond, 500*time.Millisecond, row.Expected), row.Unavoidable, 1e-6)
		require.Positive(t, row.Unavoidable)
	}
}

// The ideal scheduler gives each its share, as far as kernels can be divided.
func TestIdeal(t *testing.T) {
	r := &FairRun{Length: 10 * time.Second, Guests: []FairGuest{{Weight: 3}, {Weight: 1}, {Weight: 1}}}
	for i, k := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 2 * time.Millisecond} {
		for range 50 { // too few for the run: they begin anew
			r.Guests[i].Uses = append(r.Guests[i].Uses, Use{0, k, 1})
		}
	}
	ideal := r.ideal()
	for i, want := range []float64{0.6, 0.2, 0.2} {
		mean, worst := summary(ideal.Usage(73 * time.Millisecond)[i], want)
		require.InDelta(t, want, mean, 0.002)
		require.Less(t, worst, 0.05)
		require.Positive(t, worst)
	}
	r.Guests[2].Uses = nil
	require.Nil(t, r.ideal(), "of one that ran nothing there are no kernels to run")
	require.Zero(t, r.Rows([]time.Duration{time.Second}, nil)[0].Ideal)
}

// Windows in which nobody used the GPU do not count.
func TestFairWindowsWithoutUse(t *testing.T) {
	r := fairExample()
	for i := range r.Guests {
		r.Guests[i].Uses = slices.DeleteFunc(r.Guests[i].Uses, func(u Use) bool { return u.From >= 500*time.Millisecond })
	}
	require.Len(t, r.Usage(100 * time.Millisecond)[0], 5)
}

// What began before the run counts from then, and what ends after it until then.
func TestFairWindowsAtTheEdges(t *testing.T) {
	r := &FairRun{Length: 100 * time.Millisecond, Guests: []FairGuest{{Weight: 1}}}
	r.Guests[0].Uses = []Use{
		{From: -5 * time.Millisecond, To: 5 * time.Millisecond, Kernels: 1},
		{From: 90 * time.Millisecond, To: 130 * time.Millisecond, Kernels: 1},
	}
	require.Equal(t, [][]time.Duration{{15 * time.Millisecond}}, r.windows(100*time.Millisecond))
}

func turnExample() TurnRow {
	var rounds []Round
	for i := range 21 {
		rounds = append(rounds, Round{Throughput: 100 - float64(i)/10, Alone: 100})
	}
	return NewTurnRow("band", "long-madd", 4, rounds)
}

func TestTurns(t *testing.T) {
	r := turnExample()
	require.InDelta(t, 0.99, r.Ratio, 1e-9)
	require.InDelta(t, 0.985, r.Low, 1e-9)
	require.InDelta(t, 0.995, r.High, 1e-9)
	require.Equal(t, 21, r.Rounds)
	targets := r.targets()
	require.Len(t, targets, 1)
	require.False(t, targets[0].Met, "1 % is not under 1 %")
	r.Workload = "madd"
	require.True(t, r.targets()[0].Met)
	r.Policy = "credit"
	require.Empty(t, r.targets())
}

// What is cut at the edges of a turn counts neither way.
func TestRate(t *testing.T) {
	r := &FairRun{Length: 100 * time.Millisecond, Guests: make([]FairGuest, 2)}
	for at := 3 * time.Millisecond; at < 120*time.Millisecond; at += 10 * time.Millisecond {
		g := &r.Guests[int(at/(10*time.Millisecond))%2]
		g.Uses = append(g.Uses, Use{at, at + 10*time.Millisecond, 1})
	}
	require.InDelta(t, 100, r.Rate(0), 1e-9)
	require.InDelta(t, 100, r.Rate(50*time.Millisecond), 1e-9)
	require.Zero(t, r.Rate(90*time.Millisecond), "one kernel has no rate")
	require.Zero(t, (&FairRun{Length: time.Second}).Rate(0))
}

func TestWork(t *testing.T) {
	alone := map[string]float64{"short": 1000, "long": 100}
	run := func(policy string, short, long int) *FairRun {
		return &FairRun{Policy: policy, Guests: []FairGuest{{Workload: "short", Kernels: short, Ran: time.Second}, {Workload: "long", Kernels: long, Ran: time.Second}}}
	}
	without := run(None, 200, 80)
	r, ok := NewWorkRow(run("band", 490, 49), without, alone)
	require.True(t, ok)
	require.InDelta(t, 0.98, r.Work, 1e-9)
	require.InDelta(t, 0.98, r.Ratio, 1e-9)
	require.Equal(t, []float64{490, 49}, r.Throughput)
	require.Empty(t, r.targets(), "of GPUs of their own")
	r.OneGPU = true
	require.Len(t, r.targets(), 1)
	require.True(t, r.targets()[0].Met)
	worse, _ := NewWorkRow(run("band", 480, 48), without, alone)
	worse.OneGPU = true
	require.False(t, worse.targets()[0].Met)
	same, ok := NewWorkRow(without, without, alone)
	require.True(t, ok)
	require.Equal(t, 1.0, same.Ratio)
	require.Empty(t, same.targets())
	for _, bad := range []map[string]float64{nil, {"short": 1000}} {
		_, ok := NewWorkRow(run("band", 1, 1), without, bad)
		require.False(t, ok)
	}
	_, ok = NewWorkRow(run("band", 0, 0), without, alone)
	require.False(t, ok)
	var out strings.Builder
	require.NoError(t, FairReport{Work: []WorkRow{same, r}}.WriteText(&out))
	require.Contains(t, out.String(), "0.9800")
	require.Contains(t, out.String(), "  490.0 49.0\n")
}
