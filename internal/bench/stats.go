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
// a probability of 95 % or more, whatever the distribution: between two of the values,
// by the binomial distribution of how many are below the median. Fewer than six values
// have no such interval; then it is the range of all of them.
func medianWithin(v []float64) (low, high float64) {
	if len(v) == 0 {
		return 0, 0
	}
	slices.Sort(v)
	last := len(v) - 1
	// Outside lies the median if at most i values are below it, or at most i above.
	const most = 0.05
	outside, i := 2*halves(len(v), 0), 0
	for next := 1; next <= last/2; next++ {
		if outside += 2 * halves(len(v), next); outside > most {
			break
		}
		i = next
	}
	return v[i], v[last-i]
}

// halves is the probability that k of n fair coins show heads.
func halves(n, k int) float64 {
	all, _ := math.Lgamma(float64(n + 1))
	heads, _ := math.Lgamma(float64(k + 1))
	tails, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(all - heads - tails - float64(n)*math.Ln2)
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
