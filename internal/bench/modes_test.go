package bench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

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
	var page bytes.Buffer
	require.NoError(t, WriteModesHTML(&page, "pvdrm <bench>", TrapCall, time.Now(), rows, nil))
	for _, want := range []string{"Figure 4.4", "Figure 4.8: time relative to native, fv", "Figure 4.9: phases, pv-multicall", "thesis: fv", "&lt;bench&gt;"} {
		require.Contains(t, page.String(), want)
	}
	require.NotContains(t, page.String(), "Figure 4.5", "fv-remap was not measured")
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

// With several guests, init and close are compared with those of the first number of them.
func TestModeGuests(t *testing.T) {
	run := func(seconds float64) (rows []ModeRow) {
		for _, phase := range modePhases {
			rows = append(rows, ModeRow{Mode: "fv", Bench: "madd", Phase: phase, Seconds: seconds, Verified: true})
		}
		return rows
	}
	rows := append(GuestRows(1, 0, [][]ModeRow{run(1)}), GuestRows(4, 2, [][]ModeRow{run(2), run(3), run(4)})...)
	require.Equal(t, 4, rows[len(modePhases)].Guests)
	var text bytes.Buffer
	require.NoError(t, WriteModeGuests(&text, rows))
	require.Regexp(t, `fv +1 +1 +1000.00 +3000.00 +1000.00 +1.00 +yes`, text.String())
	require.Regexp(t, `fv +4 +2 +3000.00 +9000.00 +3000.00 +3.00 +yes`, text.String())
	figures := manyFigures(rows)
	require.Len(t, figures, 1)
	require.Len(t, figures[0].groups, 1, "one for each mode")
	require.Equal(t, []part{{palette[0], 3}, {palette[1], 9}, {palette[2], 3}}, figures[0].groups[0].bars[1].parts)
	var page bytes.Buffer
	require.NoError(t, WriteModeGuestsHTML(&page, "pvdrm <bench>", time.Now(), rows))
	require.Contains(t, page.String(), "Figure 4.10: madd")
}

// A time line has all flushes and activations of a run, as the Aggregator counts them, in their order.
func TestTimeline(t *testing.T) {
	line, err := RecordTimeline("nop")
	require.NoError(t, err)
	p, err := OpenMode("fv")
	require.NoError(t, err)
	rows, err := p.RunMode(t.Context(), "nop")
	require.NoError(t, err)
	require.NoError(t, p.Close())
	total := rows[len(rows)-1]
	require.Len(t, line.Flushes, int(total.Flushes))
	require.Len(t, line.Activations, int(total.Activations))
	require.True(t, slices.IsSorted(line.Flushes) && slices.IsSorted(line.Activations))
	require.Positive(t, line.FlushesBeforeFirst)
	require.Zero(t, line.AfterLastFlush, "close flushes")
	sum := func(f figure, kind int) (n float64) {
		for _, g := range f.groups {
			for _, x := range g.bars[kind].parts {
				n += x.value
			}
		}
		return n
	}
	f := line.figure()
	require.Equal(t, []float64{float64(total.Flushes), float64(total.Activations)}, []float64{sum(f, 0), sum(f, 1)}, "each is in one column")
	require.Len(t, f.groups, timelineBins)
	_, err = RecordTimeline("none")
	require.Error(t, err)
}

// Contexts of a guest run a program at the same time.
func TestModeContexts(t *testing.T) {
	for _, m := range []string{NativeMode, "fv-opt", "pv-multicall"} {
		p, err := OpenMode(m)
		require.NoError(t, err)
		for _, n := range []int{1, 4} {
			runs, err := p.RunContexts(t.Context(), "loop", n)
			require.NoError(t, err)
			require.Len(t, runs, n)
			for _, r := range runs {
				require.True(t, r[len(r)-1].Verified)
			}
		}
		require.NoError(t, p.Close())
	}
}

// The charts by phase stack init, compute and close, and name the modes.
func TestModeFigures(t *testing.T) {
	var rows []ModeRow
	for _, m := range []string{NativeMode, "fv", "fv-remap", "fv-lazy"} {
		for i, phase := range modePhases {
			rows = append(rows, ModeRow{Mode: m, Bench: "nop", Phase: phase, Seconds: 1, Ratio: 1, Scans: uint64(i), TrapsBAR3: 1})
		}
	}
	figures := newModeTable(rows).figures()
	require.Len(t, figures, 3+3+4)
	scans := figures[0]
	require.Contains(t, scans.Caption, "fv, fv-lazy")
	require.Equal(t, []part{{palette[0], 0}, {palette[1], 1 + 2 + 3}, {palette[2], 4}}, scans.groups[0].bars[1].parts)
	require.Contains(t, figures[3].legend[0].name, "thesis")
}
