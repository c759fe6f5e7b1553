package bench

import (
	"math"
	"slices"
)

// Spread is the median of some values and where most of them lie.
type Spread struct{ Median, P10, P90 float64 }

// spread sorts v and describes it. Without values all is 0.
func spread(v []float64) Spread {
	slices.Sort(v)
	return Spread{quantile(v, 0.5), quantile(v, 0.1), quantile(v, 0.9)}
}

// medianWithin is an interval in which the median of what v was drawn from lies with
// a probability of 95 %: between two of the values, by the normal approximation of
// the binomial distribution of how many are below the median.
func medianWithin(v []float64) (low, high float64) {
	if len(v) == 0 {
		return 0, 0
	}
	slices.Sort(v)
	n := float64(len(v))
	i := int(n/2 - 1.96*math.Sqrt(n)/2)
	i = min(max(i, 0), (len(v)-1)/2)
	return v[i], v[len(v)-1-i]
}

// quantile interpolates between the two values around place q of sorted ones.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// geomean is the geometric mean of positive values, 0 if there are none.
func geomean(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}
