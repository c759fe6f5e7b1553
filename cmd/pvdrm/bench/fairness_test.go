package bench

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two guests: one uses the GPU three times as much as the other, and in the
// second half of each 100 ms not at all.
func fairExample() *FairRun {
	r := &FairRun{Policy: "band", Elapsed: 2 * time.Second,
		Guests: []FairGuest{{Name: "a", Workload: "madd", Weight: 1, Kernels: 30}, {Name: "b", Workload: "long-madd", Weight: 3, Kernels: 10}}}
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
	require.NoError(t, WriteFairText(&out, rows))
	require.Contains(t, out.String(), "87.5 %")
	out.Reset()
	fifo := fairExample()
	fifo.Policy = "fifo"
	require.NoError(t, WriteFairHTML(&out, "pvdrm <bench>", time.Now(), []*FairRun{fifo, fairExample()}, rows))
	require.Contains(t, out.String(), "<polyline")
	require.Contains(t, out.String(), "Execution time against FIFO")
	require.Contains(t, out.String(), "pvdrm &lt;bench&gt;")
	out.Reset()
	require.NoError(t, WriteFairJSON(&out, rows[:1]))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	for _, key := range []string{"policy", "guests", "window_ms", "guest", "workload", "share", "expected", "worst", "throughput", "throughput_fifo"} {
		require.Contains(t, line, key)
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
