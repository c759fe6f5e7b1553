package bench

import (
	"context"
	"fmt"
	"slices"

	"pvdrm/internal/bench/micro"
)

// Place runs programs and micro-benchmarks in one series.
type Place interface {
	// Run runs a program once. The error is for a place that does not work; a
	// wrong result is told by the Sample.
	Run(ctx context.Context, bench string, round int) (Sample, error)
	// Micro runs the micro-benchmarks.
	Micro(ctx context.Context) ([]micro.Result, error)
	Series() Series
}

// Plan is what to run.
type Plan struct {
	Benches []string
	Places  []Place
	Runs    int // rounds; with more than one the first is thrown away
	// Lacks says which programs a place does not run; nil: none.
	Lacks func(place Series, bench string) bool
}

// Run runs the plan. Before each run it calls progress with a line for the user. With an
// error it also returns the samples of what was run everywhere until then.
func (p Plan) Run(ctx context.Context, progress func(string)) ([]Sample, error) {
	var kept []Sample
	whole := 0 // of them, those of programs that were run everywhere
	for round := range p.Runs {
		for _, name := range p.Benches {
			for i := range p.Places {
				// Each round begins with another place, so that none always follows the same.
				place := p.Places[(i+round)%len(p.Places)]
				if p.Lacks != nil && p.Lacks(place.Series(), name) {
					continue
				}
				progress(fmt.Sprintf("run %d of %d: %s, %s", round+1, p.Runs, name, place.Series()))
				s, err := place.Run(ctx, name, round)
				if err != nil {
					return kept[:whole], fmt.Errorf("%s, %s: %w", name, place.Series(), err)
				}
				if round > 0 || p.Runs == 1 {
					kept = append(kept, s)
				}
			}
			whole = len(kept)
		}
	}
	return kept, nil
}

// RunMicro runs the micro-benchmarks of all places but the floor, which has no
// calls worth measuring.
func (p Plan) RunMicro(ctx context.Context, progress func(string)) ([]Micro, error) {
	var all []Micro
	native := map[string]float64{}
	for _, place := range p.Places {
		s := place.Series()
		if s.Mode == Floor {
			continue
		}
		progress("micro-benchmarks, " + s.String())
		results, err := place.Micro(ctx)
		if err != nil {
			return all, fmt.Errorf("micro-benchmarks, %s: %w", s, err)
		}
		for _, r := range results {
			if s.Mode == Native {
				native[r.Micro] = r.NS
			}
			all = append(all, newMicro(s, r))
		}
	}
	for i := range all {
		if all[i].BaselineNS == 0 {
			all[i].BaselineNS = native[all[i].Micro]
		}
	}
	order := func(m Micro) int {
		return slices.IndexFunc(micro.All(), func(a micro.Micro) bool { return a.Name == m.Micro })
	}
	slices.SortStableFunc(all, func(a, b Micro) int { return order(a) - order(b) })
	return all, nil
}

// Micro is a micro-benchmark in one series: a line of JSON.
type Micro struct {
	Micro      string  `json:"micro"`
	Mode       Mode    `json:"mode"`
	Config     string  `json:"config"`
	NS         float64 `json:"ns"`          // of one call, median
	BaselineNS float64 `json:"baseline_ns"` // of what it is compared with; 0 if that was not run
	// What the backend counted during a loop; nil where nothing was counted.
	Doorbells  *uint64 `json:"doorbells,omitempty"`
	Interrupts *uint64 `json:"interrupts,omitempty"`
	Grants     *uint64 `json:"grants,omitempty"`
}

func newMicro(s Series, r micro.Result) Micro {
	m := Micro{Micro: r.Micro, Mode: s.Mode, Config: s.Config, NS: r.NS, BaselineNS: r.BaselineNS}
	if e := r.Exits; e != nil {
		m.Doorbells, m.Interrupts, m.Grants = &e.Doorbells, &e.Interrupts, &e.Grants
	}
	return m
}

// Ratio is NS over BaselineNS; ok is false where there is no baseline.
func (m Micro) Ratio() (ratio float64, ok bool) {
	if m.BaselineNS == 0 {
		return 0, false
	}
	return m.NS / m.BaselineNS, true
}
