package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Clang is the mode in which a program's kernels are C code of this machine, and PoCL
// that in which they run on OpenCL for processors: the software GPU is compared with
// both. Reports have no tables of their own.
const (
	Clang Mode = "clang"
	PoCL  Mode = "pocl"
)

// ClangRow compares the kernels of a program on the software GPU with the same in
// C, and with their OpenCL sources on PoCL: a line of JSON. Times are of phase launch, from the first launch until
// the last kernel has ended.
type ClangRow struct {
	Clang   string  `json:"clang"`             // the program, or GeometricMean
	ISA     string  `json:"isa"`               // avx512, avx2 or plain: what all of them use of the processor
	SoftGPU float64 `json:"softgpu,omitempty"` // seconds, median; none of the mean, as of Native
	Native  float64 `json:"native,omitempty"`
	Ratio   float64 `json:"ratio"` // of the two in the same round, median
	P10     float64 `json:"p10"`   // of the ratios
	P90     float64 `json:"p90"`
	// Verified says that all results of both were right.
	Verified bool `json:"verified"`

	// Processor times, where they are known: they do not depend on what else the machine does.
	SoftGPUCPU float64 `json:"softgpu_cpu,omitempty"` // seconds, median; none of the mean, as of NativeCPU
	NativeCPU  float64 `json:"native_cpu,omitempty"`
	RatioCPU   float64 `json:"ratio_cpu,omitempty"`      // of the two in the same round, median
	PoCLCPU    float64 `json:"ratio_pocl_cpu,omitempty"` // of softgpu to PoCL

	// Processors is how many all sides had, where it was chosen. Speedup is how many times as fast the
	// software GPU is as with the fewest of the report, and NativeSpeedup how many times C is; of the mean,
	// geometric means of the programs whose launches take 1 ms or more with the fewest.
	Processors    int     `json:"processors,omitempty"`
	Launches      int     `json:"launches,omitempty"` // of the program; 0 of the mean
	Speedup       float64 `json:"speedup,omitempty"`
	NativeSpeedup float64 `json:"native_speedup,omitempty"`

	PoCL      float64 `json:"pocl,omitempty"`       // seconds, median; 0 where it was not run, and of the mean
	RatioPoCL float64 `json:"ratio_pocl,omitempty"` // of softgpu to it in the same round, median

	why string // it is not, where that is known
}

// GeometricMean stands for all programs together.
const GeometricMean = "geometric-mean"

// ClangRows summarizes runs in the modes Native, Clang and PoCL, all with the same
// instructions of the processor: for each number of processors, from the fewest on, a row for each program, and one for
// their geometric mean.
func ClangRows(samples []Sample, isa string) (rows []ClangRow) {
	byCount := map[int][]Sample{}
	for _, s := range samples {
		byCount[s.Processors] = append(byCount[s.Processors], s)
	}
	var fewest map[string]clangRuns
	for _, count := range slices.Sorted(maps.Keys(byCount)) {
		names, runs := clangRunsOf(byCount[count])
		if fewest == nil {
			fewest = runs
		}
		rows = append(rows, clangRows(names, runs, fewest, ClangRow{ISA: isa, Processors: count, Verified: true})...)
	}
	return rows
}

// clangRunsOf sorts runs by program, in the order in which those come.
func clangRunsOf(samples []Sample) (names []string, all map[string]clangRuns) {
	all = map[string]clangRuns{}
	for _, s := range samples {
		if _, ok := all[s.Bench]; !ok {
			names = append(names, s.Bench)
			all[s.Bench] = clangRuns{Native: {}, Clang: {}, PoCL: {}}
		}
		all[s.Bench][s.Series.Mode][s.Round] = s
	}
	return names, all
}

// clangRows makes the rows of a number of processors from one that has what all of them have.
func clangRows(names []string, runs, fewest map[string]clangRuns, like ClangRow) (rows []ClangRow) {
	for _, name := range names {
		row := like
		row.Clang = name
		wall, used := runs[name].compare(Clang, &row)
		if len(wall.ratios) == 0 {
			continue
		}
		r := spread(wall.ratios)
		row.SoftGPU, row.Native = spread(wall.own).Median, spread(wall.other).Median
		row.Ratio, row.P10, row.P90 = r.Median, r.P10, r.P90
		if len(used.ratios) > 0 {
			row.SoftGPUCPU, row.NativeCPU, row.RatioCPU = spread(used.own).Median, spread(used.other).Median, spread(used.ratios).Median
		}
		if wall, used := runs[name].compare(PoCL, &row); len(wall.ratios) > 0 {
			row.PoCL, row.RatioPoCL = spread(wall.other).Median, spread(wall.ratios).Median
			if len(used.ratios) > 0 {
				row.PoCLCPU = spread(used.ratios).Median
			}
		}
		if like.Processors > 0 {
			row.Speedup, row.NativeSpeedup = runs[name].faster(fewest[name], Native), runs[name].faster(fewest[name], Clang)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	return append(rows, clangMean(rows, like))
}

// clangMean makes the row of all programs together.
func clangMean(rows []ClangRow, like ClangRow) ClangRow {
	mean := like
	mean.Clang = GeometricMean
	var long []ClangRow
	for _, row := range rows {
		mean.Verified = mean.Verified && row.Verified
		if row.Speedup*row.SoftGPU >= longLaunch*float64(row.Launches) {
			long = append(long, row)
		}
	}
	of := func(rows []ClangRow, field func(ClangRow) float64) float64 {
		var known []float64
		for _, row := range rows {
			if x := field(row); x > 0 {
				known = append(known, x)
			}
		}
		if len(known) == 0 {
			return 0
		}
		return geomean(known)
	}
	mean.Ratio, mean.RatioCPU = of(rows, func(r ClangRow) float64 { return r.Ratio }), of(rows, func(r ClangRow) float64 { return r.RatioCPU })
	mean.P10, mean.P90 = of(rows, func(r ClangRow) float64 { return r.P10 }), of(rows, func(r ClangRow) float64 { return r.P90 })
	mean.RatioPoCL, mean.PoCLCPU = of(rows, func(r ClangRow) float64 { return r.RatioPoCL }), of(rows, func(r ClangRow) float64 { return r.PoCLCPU })
	if like.Processors > 0 {
		mean.Speedup = of(long, func(r ClangRow) float64 { return r.Speedup })
		mean.NativeSpeedup = of(long, func(r ClangRow) float64 { return r.NativeSpeedup })
	}
	return mean
}

// longLaunch is how long a launch of a kernel takes, in seconds, that all processors are to make faster.
const longLaunch = 1e-3

// clangRuns are the runs of a program, by mode and round.
type clangRuns map[Mode]map[int]Sample

// comparison is times of the software GPU and of another, and their ratios.
type comparison struct{ own, other, ratios []float64 }

func (c *comparison) add(own, other float64) {
	c.own, c.other, c.ratios = append(c.own, own), append(c.other, other), append(c.ratios, own/max(other, least))
}

// compare compares the runs on the software GPU with those of a mode, by the clock and by what processors
// did, and notes in row whether all are right.
func (r clangRuns) compare(with Mode, row *ClangRow) (wall, used comparison) {
	for round, o := range r[with] {
		g, ok := r[Native][round]
		if !ok {
			continue
		}
		wall.add(g.Seconds[Launch], o.Seconds[Launch])
		if g.Processor > 0 && o.Processor > 0 {
			used.add(g.Processor, o.Processor)
		}
		row.Launches = g.Launches
		row.Verified = row.Verified && g.Verified && o.Verified
		row.why = cmp.Or(row.why, firstError([]Sample{g, o}))
	}
	return wall, used
}

// faster returns how many times as fast the runs of a mode are as others, the median of the rounds that both have.
func (r clangRuns) faster(than clangRuns, mode Mode) float64 {
	var times []float64
	for round, s := range r[mode] {
		if o, ok := than[mode][round]; ok {
			times = append(times, o.Seconds[Launch]/max(s.Seconds[Launch], least))
		}
	}
	if len(times) == 0 {
		return 0
	}
	return spread(times).Median
}

// clangNote says what the table shows; clangHead is its head, and cells are a row.
const clangNote = "the software GPU against the same kernels in C, and in OpenCL on PoCL, on all processors (with --processors on the most of them): time of the kernels in ms, medians, and ratios of processor time"

var clangHead = []string{"", "softgpu", "C", "ratio", "p10-p90", "of cpu", "PoCL", "ratio", "of cpu", ""}

func (r ClangRow) cells() []string {
	cells := []string{r.Clang, "", "", factor(r.Ratio), factor(r.P10) + "-" + factor(r.P90), "", "", "", "", ""}
	for i, x := range map[int]float64{5: r.RatioCPU, 7: r.RatioPoCL, 8: r.PoCLCPU} {
		if x > 0 {
			cells[i] = factor(x)
		}
	}
	if r.PoCL > 0 {
		cells[6] = fmt.Sprintf("%.3f", 1e3*r.PoCL)
	}
	if r.Clang != GeometricMean {
		cells[1], cells[2] = fmt.Sprintf("%.3f", 1e3*r.SoftGPU), fmt.Sprintf("%.3f", 1e3*r.Native)
	}
	if !r.Verified {
		cells[9] = "WRONG"
	}
	return cells
}

// clangFigure draws the ratios.
func (r Report) clangFigure() (f figure, ok bool) {
	f.Title, f.Caption = "The software GPU against clang", "Time of the kernels relative to the same in C on the same processors. Logarithmic."
	f.unit, f.line, f.log = "of C", 1, true
	for _, x := range r.clangRows() {
		f.groups = append(f.groups, group{x.Clang, []bar{{fmt.Sprintf("%s: %s", x.Clang, factor(x.Ratio)), []part{{palette[0], x.Ratio}}}}})
	}
	return f, len(r.Clang) > 0
}
