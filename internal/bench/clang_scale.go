package bench

import (
	"cmp"
	"fmt"
	"slices"
)

// processorCounts lists the numbers of processors that the comparison with C has rows of; 0 stands for all.
func (r Report) processorCounts() (counts []int) {
	for _, x := range r.Clang {
		if !slices.Contains(counts, x.Processors) {
			counts = append(counts, x.Processors)
		}
	}
	return counts
}

// clangRowsOn are the rows with a number of processors.
func (r Report) clangRowsOn(count int) []ClangRow {
	return slices.DeleteFunc(slices.Clone(r.Clang), func(x ClangRow) bool { return x.Processors != count })
}

// clangRows are the rows with the most processors.
func (r Report) clangRows() []ClangRow {
	counts := r.processorCounts()
	if len(counts) == 0 {
		return nil
	}
	return r.clangRowsOn(slices.Max(counts))
}

const scaleNote = "by processors: time of the kernels on the software GPU in ms, and how many times as fast they are as with the fewest, beside C; " +
	"the mean is of programs whose launches take 1 ms or more with the fewest"

// scaleTable compares numbers of processors; it is empty unless several were asked for.
func (r Report) scaleTable() (head []string, rows [][]string) {
	counts := r.processorCounts()
	if len(counts) < 2 {
		return nil, nil
	}
	head = []string{"", "launches"}
	for i, n := range counts {
		head = append(head, fmt.Sprintf("%d: ms", n))
		if i > 0 {
			head = append(head, "times", "C")
		}
	}
	for _, x := range r.clangRowsOn(counts[0]) {
		cells := []string{x.Clang, ""}
		if x.Launches > 0 {
			cells[1] = fmt.Sprint(x.Launches)
		}
		for i, n := range counts {
			y, _ := findClang(r.clangRowsOn(n), x.Clang)
			cells = append(cells, milliseconds(y.SoftGPU))
			if i > 0 {
				cells = append(cells, fmt.Sprintf("%.2f", y.Speedup), fmt.Sprintf("%.2f", y.NativeSpeedup))
			}
		}
		rows = append(rows, cells)
	}
	return head, rows
}

func milliseconds(s float64) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", 1e3*s)
}

// findClang finds the row of a program, or of the mean.
func findClang(rows []ClangRow, name string) (ClangRow, bool) {
	i := slices.IndexFunc(rows, func(x ClangRow) bool { return x.Clang == name })
	if i < 0 {
		return ClangRow{}, false
	}
	return rows[i], true
}

// clangGoals are how many times as long as in C the kernels may take, geometric mean, by what is
// used of the processor.
var clangGoals = map[string]float64{"avx512": 2, "avx2": 2.5, "plain": 4}

// The other figures of the comparison with C and PoCL.
const (
	longKernel    = 100e-6 // seconds in C, from which on a program counts for the worst
	worstInC      = 4.0    // times C
	shortInC      = 5.0    // times C, of shorter ones
	poclGoal      = 0.7    // times PoCL, geometric mean
	worstInPoCL   = 1.1
	speedupGoal   = 1.9 // from speedupFrom to speedupTo processors, geometric mean
	speedupFrom   = 2
	speedupTo     = 4
	speedupFigure = "the same, from 2 to 4 processors, programs whose launches take 1 ms or more, geometric mean"
)

// clangTargets compares the comparison with C with what PVDRM means to reach.
func (r Report) clangTargets() (all []Target) {
	rows := r.clangRows()
	mean, ok := findClang(rows, GeometricMean)
	if !ok {
		return nil
	}
	rows = slices.DeleteFunc(rows, func(x ClangRow) bool { return x.Clang == GeometricMean })
	goal := clangGoals[mean.ISA]
	all = append(all, Target{"kernels on the software GPU against C, geometric mean, " + mean.ISA, fmt.Sprintf("at most %g", goal),
		factor(mean.Ratio), mean.Ratio <= goal})
	worst := func(figure string, goal float64, ratio func(ClangRow) float64, counts func(ClangRow) bool) {
		of := slices.DeleteFunc(slices.Clone(rows), func(x ClangRow) bool { return !counts(x) })
		if len(of) == 0 {
			return
		}
		x := slices.MaxFunc(of, func(a, b ClangRow) int { return cmp.Compare(ratio(a), ratio(b)) })
		all = append(all, Target{figure, fmt.Sprintf("at most %g", goal), fmt.Sprintf("%s (%s)", factor(ratio(x)), x.Clang), ratio(x) <= goal})
	}
	byC, byPoCL := func(x ClangRow) float64 { return x.Ratio }, func(x ClangRow) float64 { return x.RatioPoCL }
	worst("the same, worst of those that take C 100 us or more", worstInC, byC, func(x ClangRow) bool { return x.Native >= longKernel })
	worst("the same, worst of those that take C less", shortInC, byC, func(x ClangRow) bool { return x.Native < longKernel })
	if mean.RatioPoCL > 0 {
		all = append(all, Target{"the same against PoCL, geometric mean", fmt.Sprintf("at most %g", poclGoal), factor(mean.RatioPoCL), mean.RatioPoCL <= poclGoal})
		worst("the same against PoCL, worst", worstInPoCL, byPoCL, func(x ClangRow) bool { return x.RatioPoCL > 0 })
	}
	return append(all, r.speedupTarget()...)
}

// speedupTarget compares two numbers of processors, where both were measured.
func (r Report) speedupTarget() []Target {
	var times []float64
	more := r.clangRowsOn(speedupTo)
	for _, x := range r.clangRowsOn(speedupFrom) {
		y, ok := findClang(more, x.Clang)
		if ok && x.Clang != GeometricMean && x.SoftGPU >= longLaunch*float64(x.Launches) {
			times = append(times, x.SoftGPU/max(y.SoftGPU, least))
		}
	}
	if len(times) == 0 {
		return nil
	}
	mean := geomean(times)
	goal := fmt.Sprintf("at least %g times as fast", speedupGoal)
	return []Target{{Figure: speedupFigure, Goal: goal, Found: factor(mean), Met: mean >= speedupGoal}}
}
