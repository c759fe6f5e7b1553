package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/suite"
)

func TestModes(t *testing.T) {
	modes := []string{NativeMode, PassThroughMode, "fv", "pv-multicall"}
	rows, err := RunModes(t.Context(), modes, []string{"nop", "loop"}, OpenMode, 2, func(string) {})
	require.NoError(t, err)
	require.Len(t, rows, 2*len(modes)*len(modePhases))
	sum := ModeRow{}
	for _, r := range rows {
		require.True(t, r.Verified)
		if r.Bench != "loop" {
			continue
		}
		if r.Mode == NativeMode || r.Mode == PassThroughMode {
			require.Zero(t, r.TrapsBAR0+r.TrapsBAR1+r.TrapsBAR3+r.Scans)
		}
		if r.Mode == NativeMode {
			require.True(t, r.Ratio == 1 || r.Seconds == 0)
			require.NotZero(t, rows[len(rows)-1].Doorbells)
		}
		if r.Mode != "fv" {
			require.Zero(t, r.Scans)
			continue
		}
		require.Zero(t, r.Hypercalls)
		switch r.Phase {
		case "htod":
			require.Equal(t, uint64(1024), r.TrapsBAR1, "4 KiB, word by word")
		case "total":
			require.Equal(t, sum.TrapsBAR0, r.TrapsBAR0)
			require.Equal(t, sum.TrapsBAR1, r.TrapsBAR1)
			require.Equal(t, sum.TrapsBAR3, r.TrapsBAR3)
			require.Equal(t, sum.Scans, r.Scans)
			require.Equal(t, sum.Doorbells, r.Doorbells)
			require.Equal(t, r.Doorbells, r.Activations)
		}
		sum.TrapsBAR0 += r.TrapsBAR0
		sum.TrapsBAR1 += r.TrapsBAR1
		sum.TrapsBAR3 += r.TrapsBAR3
		sum.Scans += r.Scans
		sum.Doorbells += r.Doorbells
	}

	var text, lines bytes.Buffer
	require.NoError(t, WriteModes(&text, TrapCall, rows))
	require.Contains(t, text.String(), "320.76")
	require.NoError(t, WriteModesJSON(&lines, rows))
	require.Equal(t, len(rows), strings.Count(lines.String(), "\n"))
	var one map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(lines.String(), "\n", 2)[0]), &one))
	for _, field := range strings.Fields("mode bench phase seconds ratio traps_bar0 traps_bar1 traps_bar3 scans entries hypercalls multicall_ops activations flushes doorbells verified") {
		require.Contains(t, one, field)
	}
}

func TestModeNames(t *testing.T) {
	require.NoError(t, CheckMode("fv-opt"))
	require.NoError(t, CheckMode("pvdrm-pool"))
	require.Equal(t, []string{"native", "pt", "fv", "fv-remap", "fv-lazy", "fv-opt", "pv", "pv-multicall", "pvdrm", "pvdrm-pool"}, ModeNames()[:10])
	require.ErrorContains(t, CheckMode("xv"), "no mode")
	_, err := RunModes(t.Context(), []string{NativeMode}, []string{"none"}, OpenMode, 1, func(string) {})
	require.Error(t, err)
	require.Equal(t, []float64{2}, shorter([]ModeRow{{Mode: "fv", Bench: "a", Phase: "total", Seconds: 4}, {Mode: "pv", Bench: "a", Phase: "total", Seconds: 2},
		{Mode: "pv", Bench: "b", Phase: "total", Seconds: 2}, {Mode: "pv", Bench: "a", Phase: "init", Seconds: 1}}, "pv"))
	for _, p := range []table{publishedModes, publishedScans} {
		for b, row := range p.cells {
			require.Len(t, row, len(p.columns), b)
			_, err := suite.Find(b)
			require.NoError(t, err)
		}
		for _, m := range p.columns {
			require.NoError(t, CheckMode(m))
		}
	}
}
