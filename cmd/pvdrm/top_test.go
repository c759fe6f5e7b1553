package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/gpu"
)

func TestTopRows(t *testing.T) {
	start := time.Unix(0, 0)
	backend := func(pid int, busy time.Duration, launches uint64, waited time.Duration) backendStats {
		gate := &arbiter.GateStats{}
		gate.Waited[arbiter.Compute] = waited
		share := &arbiter.GuestStats{Share: sched.Share{Weight: 30}}
		share.Engines[arbiter.Compute].Fraction = 0.3
		share.Engines[arbiter.Compute].Denied = launches / 10
		return backendStats{PID: pid, Name: "a", Device: gpu.Stats{ComputeBusy: busy, Launches: launches, Preemptions: 2 * launches, Replays: launches / 5, VRAMUsed: 5 << 20}, Gate: gate, Share: share}
	}
	before := topSample{start, []backendStats{backend(1, time.Second, 10, 0)}}
	after := topSample{start.Add(2 * time.Second), []backendStats{backend(1, 1500*time.Millisecond, 30, time.Second), backend(2, 0, 0, 0)}}
	require.Equal(t, []topRow{{Guest: "a", PID: 1, Weight: 30, Expected: 0.3, Share: 0.25, Waiting: 0.5, Launches: 10, Preempts: 20, Denials: 1, Revokes: 2, VRAM: 5 << 20}},
		topRows(before, after), "and nothing of a guest that is new")
	require.Empty(t, topRows(after, after))

	before.backends[0].GL, after.backends[0].GL = &virgl.Stats{Busy: time.Second}, &virgl.Stats{Busy: 2 * time.Second}
	row := topRows(before, after)[0]
	require.InDelta(t, 0.5, row.Render, 1e-9)
	require.InDelta(t, 0.75, row.Share, 1e-9, "kernels and rendering take turns")
}

func TestTopTable(t *testing.T) {
	rows := []topRow{{Guest: "guest-1", Weight: 50, Expected: 0.5, Share: 0.48, Render: 0.2, Copy: 0.01, Waiting: 0.5, Launches: 123.4, Preempts: 2.5, Denials: 1.5, Revokes: 0.5, Queued: 7, VRAM: 3 << 20}, {Guest: "alone", Share: 1}}
	require.Equal(t, []string{
		"GUEST        WEIGHT  SHARE EXPECT RENDER   COPY   WAIT LAUNCH/S STOPS/S DENY/S REVOKE/S QUEUE    MIB",
		"guest-1          50  48.0%  50.0%  20.0%   1.0%  50.0%    123.4     2.5    1.5      0.5     7      3 #####|....",
		"alone             - 100.0%      -   0.0%   0.0%   0.0%      0.0     0.0    0.0      0.0     0      0 ##########",
	}, topTable(rows, topNumbers+11))
}

// However small the terminal and however odd the numbers, a frame fits.
func TestTopFrameFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(0, 200).Draw(t, "width"), rapid.IntRange(0, 30).Draw(t, "height")
		rows := make([]topRow, rapid.IntRange(0, 20).Draw(t, "rows"))
		for i := range rows {
			rows[i] = topRow{Guest: rapid.StringMatching(`[a-z]{0,40}`).Draw(t, "guest"), Share: rapid.Float64Range(-1, 5).Draw(t, "share"),
				Expected: rapid.Float64Range(0, 1).Draw(t, "expected"), Launches: rapid.Float64Range(0, 1e12).Draw(t, "launches")}
		}
		lines := topFrame(rows, 0, width, height, time.Unix(0, 0))
		require.LessOrEqual(t, len(lines), height)
		for _, l := range lines {
			require.LessOrEqual(t, len(l), width)
		}
	})
}

func TestTopKeys(t *testing.T) {
	for _, key := range []byte{'q', 3, 4} {
		_, quit := pressed(key, 0)
		require.True(t, quit, "key %d", key)
	}
	rows := []topRow{{Guest: "a", Share: 0.1, VRAM: 9}, {Guest: "b", Share: 0.9, Waiting: 1}, {Guest: "c", Share: 0.5, Launches: 3}}
	for key, first := range map[byte]string{'s': "b", 'g': "a", 'w': "b", 'l': "c", 'v': "a"} {
		order, quit := pressed(key, 0)
		require.False(t, quit)
		sortRows(rows, order)
		require.Equal(t, first, rows[0].Guest, "key %c", key)
	}
	order, quit := pressed('x', 2)
	require.False(t, quit)
	require.Equal(t, 2, order, "other keys do nothing")
	require.NotContains(t, strings.Join(topFrame(rows, 0, 200, 30, time.Unix(0, 0)), ""), "\x1b")
}
