// Package extent allocates ranges of a space of numbers, such as the addresses of a memory.
package extent

import "slices"

// Space knows which ranges are free. It does not lock.
type Space struct {
	free []span // sorted, not adjacent
	used uint64
}

type span struct{ from, to uint64 }

// New makes a space of the numbers from a first to the last before an end.
func New(from, end uint64) *Space { return &Space{free: []span{{from, end}}} }

// Used returns how many numbers are taken.
func (s *Space) Used() uint64 { return s.used }

// Take takes n numbers in a row, of which the first is a multiple of align, a power of two: the
// first that are free. It reports false where there are none, and for no numbers.
func (s *Space) Take(n, align uint64) (from uint64, ok bool) {
	if n == 0 {
		return 0, false
	}
	for i, f := range s.free {
		from = (f.from + align - 1) &^ (align - 1)
		if from < f.from || from > f.to || n > f.to-from {
			continue
		}
		var rest []span
		for _, r := range []span{{f.from, from}, {from + n, f.to}} {
			if r.from < r.to {
				rest = append(rest, r)
			}
		}
		s.free = slices.Replace(s.free, i, i+1, rest...)
		s.used += n
		return from, true
	}
	return 0, false
}

// Give gives back what Take returned. Preconditions: all of it is taken.
func (s *Space) Give(from, n uint64) {
	i, _ := slices.BinarySearchFunc(s.free, from, func(f span, at uint64) int {
		switch {
		case f.from < at:
			return -1
		case f.from > at:
			return 1
		}
		return 0
	})
	f := span{from, from + n}
	end := i
	if i < len(s.free) && s.free[i].from == f.to {
		f.to, end = s.free[i].to, i+1
	}
	if i > 0 && s.free[i-1].to == f.from {
		f.from, i = s.free[i-1].from, i-1
	}
	s.free = slices.Replace(s.free, i, end, f)
	s.used -= n
}
