package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/suite"
)

// scaledLeast is how long a program on scaled input takes natively, at least, in
// seconds without phases init and close: those of a context.
const scaledLeast = 0.050

// scalesOf finds, for each program, the scale of its input with which it runs long
// enough natively. The rounds that follow check the results.
func (f *benchFlags) scalesOf(ctx context.Context, native *agentProcess, r *bench.Report, progress func(string)) (map[string]int, error) {
	scales := map[string]int{}
	var told []string
	for _, name := range f.benches {
		b, err := suite.Find(name)
		if err != nil {
			return nil, err
		}
		if b.Fixed {
			continue
		}
		run := func(scale int) (float64, error) {
			progress(fmt.Sprintf("scaling %s: %d", name, scale))
			a, err := native.Do(ctx, agent.Request{Bench: name, Scale: scale, Trial: true})
			switch {
			case err == nil && a.Result == nil:
				err = errors.New("no result")
			case err == nil && a.Result.Error != "":
				err = errors.New(a.Result.Error)
			}
			if err != nil {
				return 0, fmt.Errorf("%s with its input %d times as large: %w", name, scale, err)
			}
			s := a.Result.Seconds
			return s.HtoD + s.Launch + s.DtoH, nil
		}
		scale, err := findScale(run)
		if err != nil {
			return nil, err
		}
		scales[name] = scale
		told = append(told, fmt.Sprintf("%s %d", name, scale))
	}
	r.Header.Facts = append(r.Header.Facts, bench.Fact{Name: "input scaled by", Value: strings.Join(told, ", ")})
	return scales, nil
}

// findScale returns a power of two with which run takes long enough and not much
// longer, or suite.MaxScale. It guesses from the last time, as each run opens a
// context, and large inputs take long to make. A run that takes long enough is
// repeated, since the first of its size warms up.
func findScale(run func(scale int) (seconds float64, err error)) (int, error) {
	for scale := 1; ; {
		took, err := run(scale)
		if err == nil && took >= scaledLeast {
			var again float64
			again, err = run(scale)
			took = min(took, again)
		}
		if err != nil || took >= scaledLeast || scale == suite.MaxScale {
			return scale, err
		}
		const most = 32 // times the last one: a short time is not exact
		factor := min(max(math.Ceil(scaledLeast/max(took, 1e-6)), 2), most)
		scale = min(scale<<bits.Len(uint(factor)-1), suite.MaxScale)
	}
}
