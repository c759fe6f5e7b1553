package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Target is a figure that PVDRM means to reach.
type Target struct {
	Figure string
	Goal   string
	Found  string
	Met    bool
}

// The figures.
const (
	longProgram    = 0.050 // seconds natively, from which on ratios mean something
	averageGoal    = 1.02  // of such programs as local guests
	worstGoal      = 1.05
	scaledGoal     = 1.01 // of those on scaled input, without phases init and close
	scaledMost     = 1.03
	shortGoal      = 0.002 // seconds that nop may take more than natively
	doorbellGoal   = 10    // in a whole run
	nullGoalVM     = 2.0   // times a getppid()
	nullGoalLocal  = 1000  // ns
	batchGoal      = 500   // ns, that is two million a second
	reuseGoal      = 0.01  // of the first allocation
	copyGoal       = 1.10  // of a memcpy
	thesisPooling  = "thesis: 1.04, at most 1.09"
	thesisDoorbell = "thesis, with multicall"
)

// Targets compares the report with what PVDRM means to reach, as far as it was measured.
func (r Report) Targets() []Target {
	var all []Target
	add := func(figure, goal, found string, met bool) { all = append(all, Target{figure, goal, found, met}) }

	if m := r.micro("null", VM); m != nil {
		v, _ := m.Ratio()
		add("null ioctl in a machine", fmt.Sprintf("at most %.0f getppid()", nullGoalVM),
			fmt.Sprintf("%s, %s getppid()", seconds(m.NS/1e9), factor(v)), v <= nullGoalVM)
	}
	if m := r.micro("null", Local); m != nil {
		add("null ioctl of a local guest", "under 1 us", seconds(m.NS/1e9), m.NS < nullGoalLocal)
	}
	if m := r.micro("null-batched", Local); m != nil {
		add("batched null operations, local", "over 2 million/s", fmt.Sprintf("%.2f million/s", 1e3/m.NS), m.NS < batchGoal)
	}
	for _, s := range []Series{{VM, Full}, {Local, Full}} {
		if t, ok := r.doorbells(s); ok {
			all = append(all, t)
		}
	}
	for _, mode := range []Mode{VM, Local} {
		for _, name := range []string{"launch-loop", "copy-loop"} {
			if m := r.micro(name, mode); m != nil && m.Doorbells != nil {
				add(fmt.Sprintf("doorbells, grants in %s, %s", name, mode), "0, 0",
					fmt.Sprintf("%d, %d", *m.Doorbells, *m.Grants), *m.Doorbells == 0 && *m.Grants == 0)
			}
		}
	}
	for _, mode := range []Mode{VM, Local} {
		if m := r.micro("alloc-64M", mode); m != nil {
			v, _ := m.Ratio()
			add("second allocation of 64 MiB, "+string(mode), "under 1 % of the first with its page faults",
				fmt.Sprintf("%.2g %% (%s of %s)", 100*v, seconds(m.NS/1e9), seconds(m.BaselineNS/1e9)), v < reuseGoal)
		}
	}
	if m := r.micro("copy-64M", Local); m != nil {
		v, _ := m.Ratio()
		add("64 MiB through granted pages, local", "at most 1.10 memcpy", factor(v), v <= copyGoal)
	}
	return append(append(all, r.clangTargets()...), r.runs()...)
}

// doorbells compares whole runs of four programs.
func (r Report) doorbells(s Series) (t Target, ok bool) {
	var names, found, thesis []string
	t.Met = true
	for _, b := range []string{"nop", "madd", "srad", "pincpy"} {
		row := r.row(b, s, Total)
		if row == nil {
			continue
		}
		names = append(names, b)
		found = append(found, fmt.Sprint(row.Doorbells))
		thesis = append(thesis, publishedHypercalls.cell(b, withMulticall))
		t.Met = t.Met && row.Doorbells <= doorbellGoal
	}
	t.Figure = fmt.Sprintf("doorbells of %s, %s", strings.Join(names, "/"), s)
	t.Goal = fmt.Sprintf("at most %d (%s: %s)", doorbellGoal, thesisDoorbell, strings.Join(thesis, "/"))
	t.Found = strings.Join(found, "/")
	return t, len(names) > 0
}

// runs compares whole runs of local guests with native ones.
func (r Report) runs() (all []Target) {
	var long []float64
	worst, where := 0.0, ""
	native, local := Series{Native, Full}, Series{Local, Full}
	var scaled []float64
	for _, b := range r.benches() {
		n, l := r.row(b, native, Total), r.row(b, local, Total)
		if n == nil || l == nil || l.Ratio == nil {
			continue
		}
		if n.Scale > 0 {
			work := func(s Series) float64 {
				sum := 0.0
				for _, p := range []Phase{HtoD, Launch, DtoH} {
					if row := r.row(b, s, p); row != nil {
						sum += row.Seconds
					}
				}
				return sum
			}
			if w := work(native); w >= longProgram {
				scaled = append(scaled, work(local)/w)
			}
		}
		if b == "nop" {
			extra := l.Seconds - n.Seconds
			all = append(all, Target{"nop as a local guest", "at most 2 ms more than native", seconds(max(extra, 0)) + " more", extra <= shortGoal})
		}
		if n.Seconds < longProgram {
			continue
		}
		long = append(long, *l.Ratio)
		if *l.Ratio > worst {
			worst, where = *l.Ratio, b
		}
	}
	if len(long) > 0 {
		mean := geomean(long)
		all = append(all,
			Target{fmt.Sprintf("local guest against native, the %d programs of 50 ms or more, average", len(long)),
				fmt.Sprintf("at most %.2f (%s)", averageGoal, thesisPooling), factor(mean), mean <= averageGoal},
			Target{"the same, at most", fmt.Sprintf("%.2f", worstGoal), fmt.Sprintf("%s (%s)", factor(worst), where), worst <= worstGoal})
	}
	if len(scaled) > 0 {
		mean, most := geomean(scaled), slices.Max(scaled)
		all = append(all, Target{fmt.Sprintf("the %d programs on scaled input, without init and close, average and at most", len(scaled)),
			fmt.Sprintf("%.2f, %.2f", scaledGoal, scaledMost), factor(mean) + ", " + factor(most), mean <= scaledGoal && most <= scaledMost})
	}
	return all
}
