package sched

import "time"

// Indivisible is how far from its share the usage of a window can be at best,
// at worst, for a guest whose commands cannot be divided: one that gets exactly
// its share by running commands of one length at equal distances.
func Indivisible(kernel, window time.Duration, share float64) float64 {
	if kernel <= 0 {
		return 0
	}
	period := time.Duration(float64(kernel) / share)
	whole, rest := window/period*kernel, window%period
	most := whole + min(rest, kernel)
	least := whole + max(rest-(period-kernel), 0)
	return max(float64(most)/float64(window)-share, share-float64(least)/float64(window))
}
