package suite

import (
	"fmt"
	"math"
)

// checkEqual compares what the GPU computed with the reference, element by element.
func checkEqual[T comparable](what string, got, want []T) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if got[i] != w {
			return fmt.Errorf("%s[%d] is %v, want %v", what, i, got[i], w)
		}
	}
	return nil
}

// checkClose compares with the reference up to an absolute tolerance. NaN is
// close to nothing.
func checkClose(what string, got []float32, want []float64, tolerance float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= tolerance) {
			return fmt.Errorf("%s[%d] is %v, want %v within %g", what, i, got[i], w, tolerance)
		}
	}
	return nil
}
