package virtgpu

import "sync/atomic"

// quota bounds what a guest may hold of something. It is safe for concurrent use.
type quota struct {
	max  int64
	used atomic.Int64
}

// take takes n if that much is left.
func (q *quota) take(n int64) bool {
	if q.used.Add(n) > q.max {
		q.used.Add(-n)
		return false
	}
	return true
}

// give returns n that were taken.
func (q *quota) give(n int64) { q.used.Add(-n) }

// quotas of one guest.
type quotas struct {
	entries quota // backing entries
	runs    quota // runs of contiguous mappings
	image   quota // bytes of 2D images
}

func newQuotas() *quotas {
	return &quotas{
		entries: quota{max: MaxEntries},
		runs:    quota{max: MaxMapRuns},
		image:   quota{max: MaxImageBytes},
	}
}
