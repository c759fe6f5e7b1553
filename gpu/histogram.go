package gpu

import (
	"math/bits"
	"time"
)

// Histogram counts times by their magnitude: bucket i has those below 2^i
// microseconds that are in no smaller bucket, the last one all others.
type Histogram [24]uint64

// Bucket returns the number of the bucket that counts a time.
func (*Histogram) Bucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 0)/time.Microsecond)), len(Histogram{})-1)
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) { h[h.Bucket(d)]++ }

// Count is the number of all times.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Bound is the upper bound of a bucket.
func (h *Histogram) Bound(i int) time.Duration { return time.Microsecond << i }
