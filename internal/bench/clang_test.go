package bench

import (
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
	target, ok := r.clangTarget()
	require.True(t, ok)
	require.False(t, target.Met, "6 times; 2.5 are allowed")
	require.Empty(t, ClangRows(nil, "plain"))
	_, ok = Report{}.clangTarget()
	require.False(t, ok)
}
