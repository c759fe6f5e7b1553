package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClangRows(t *testing.T) {
	run := func(bench string, m Mode, round int, seconds float64, verified bool) Sample {
		s := Sample{Bench: bench, Series: Series{m, Full}, Round: round, Verified: verified}
		s.Seconds[Total], s.Seconds[Launch] = 9, seconds
		return s
	}
	wrong := run("nn", Clang, 1, 1, false)
	wrong.Error = "c[0] is 1, want 2"
	rows := ClangRows([]Sample{
		run("hs", Native, 1, 4, true), run("hs", Clang, 1, 2, true),
		run("hs", Clang, 2, 1, true), run("hs", Native, 2, 6, true),
		run("nn", Native, 1, 9, true), wrong,
		run("lud", Native, 1, 9, true), // was not run in C
		run("hs", PoCL, 1, 8, true),
	}, "avx2")
	require.Len(t, rows, 3)
	require.Equal(t, "hs", rows[0].Clang)
	require.InDelta(t, 5, rows[0].SoftGPU, 1e-9)
	require.InDelta(t, 1.5, rows[0].Native, 1e-9)
	require.InDelta(t, 4, rows[0].Ratio, 1e-9, "the median of 2 and 6, each of one round")
	require.True(t, rows[0].Verified)
	require.InDelta(t, 8, rows[0].PoCL, 1e-9)
	require.InDelta(t, 0.5, rows[0].RatioPoCL, 1e-9)
	require.Equal(t, ClangRow{Clang: "nn", ISA: "avx2", SoftGPU: 9, Native: 1, Ratio: 9, P10: 9, P90: 9, why: "c[0] is 1, want 2"}, rows[1])
	require.InDelta(t, 0.5, rows[2].RatioPoCL, 1e-9, "of those that were run on PoCL")
	require.Equal(t, GeometricMean, rows[2].Clang)
	require.InDelta(t, 6, rows[2].Ratio, 1e-9)
	require.False(t, rows[2].Verified)

	used := func(s Sample, seconds float64) Sample { s.Processor = seconds; return s }
	cpu := ClangRows([]Sample{used(run("hs", Native, 1, 4, true), 6), used(run("hs", Clang, 1, 2, true), 2), used(run("hs", PoCL, 1, 2, true), 12)}, "avx2")
	require.InDelta(t, 6, cpu[0].SoftGPUCPU, 1e-9)
	require.InDelta(t, 3, cpu[0].RatioCPU, 1e-9)
	require.InDelta(t, 0.5, cpu[0].PoCLCPU, 1e-9)
	require.InDelta(t, 3, cpu[1].RatioCPU, 1e-9)

	r := Report{Clang: rows}
	require.Equal(t, []string{"nn (against C): c[0] is 1, want 2"}, r.Failures())
	goals := map[string]bool{}
	for _, target := range r.clangTargets() {
		goals[target.Goal+": "+target.Found] = target.Met
	}
	require.Equal(t, map[string]bool{"at most 2.5: 6.000": false, "at most 4: 9.000 (nn)": false, "at most 0.7: 0.500": true, "at most 1.1: 0.500 (hs)": true}, goals)
	require.Empty(t, ClangRows(nil, "plain"))
	require.Empty(t, Report{}.clangTargets())
}

// With several numbers of processors there are rows for each, which say how many times as fast they make it.
func TestClangScale(t *testing.T) {
	run := func(bench string, m Mode, processors, round int, seconds float64, launches int) Sample {
		s := Sample{Bench: bench, Series: Series{m, Full}, Round: round, Processors: processors, Launches: launches, Verified: true}
		s.Seconds[Launch] = seconds
		return s
	}
	var samples []Sample
	for round := range 3 {
		for _, n := range []int{4, 2} {
			each := float64(round+1) / float64(n)
			samples = append(samples, run("mmul", Native, n, round, 8*each, 1), run("mmul", Clang, n, round, 4*each, 1),
				run("hs", Native, n, round, 0.010, 60), run("hs", Clang, n, round, 0.004*each, 60))
		}
	}
	samples[0].Verified = false // of mmul with four
	r := Report{Clang: ClangRows(samples, "avx2")}
	require.Len(t, r.Clang, 6)
	require.Equal(t, []int{2, 4}, r.processorCounts())
	two, four := r.Clang[:3], r.Clang[3:]
	require.Equal(t, 2, two[0].Processors)
	require.InDelta(t, 1, two[0].Speedup, 1e-9)
	require.InDelta(t, 8, two[0].SoftGPU, 1e-9)
	require.Equal(t, 4, four[0].Processors)
	require.Equal(t, 1, four[0].Launches)
	require.InDelta(t, 4, four[0].SoftGPU, 1e-9)
	require.InDelta(t, 2, four[0].Speedup, 1e-9)
	require.InDelta(t, 1, four[1].Speedup, 1e-9)
	require.InDelta(t, 2, four[1].NativeSpeedup, 1e-9)
	require.InDelta(t, 2, four[2].Speedup, 1e-9, "the launches of hs are short")
	require.Equal(t, []string{"mmul (against C on 4 processors)"}, r.Failures())
	require.Equal(t, four, r.clangRows())

	head, rows := r.scaleTable()
	require.Equal(t, []string{"", "launches", "2: ms", "4: ms", "times", "C"}, head)
	require.Equal(t, []string{"mmul", "1", "8000.000", "4000.000", "2.00", "2.00"}, rows[0])
	require.Equal(t, []string{GeometricMean, "", "", "", "2.00", "2.00"}, rows[2])
	speedup := []Target{{Figure: speedupFigure, Goal: "at least 1.9 times as fast", Found: "2.000", Met: true}}
	require.Equal(t, speedup, r.speedupTarget())

	var text, table bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "by processors")
	require.NoError(t, r.WriteCSV(&table))
	require.Contains(t, table.String(), "\nmmul,softgpu,processors-4,kernels,4,")

	r.Clang = two
	_, rows = r.scaleTable()
	require.Empty(t, rows, "there is nothing to compare")
	require.Empty(t, r.speedupTarget())
}
