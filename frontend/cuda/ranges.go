package cuda

import (
	"slices"
	"sort"
)

// ranges finds what an address belongs to. Ranges are not empty and do not
// overlap. Addresses are those of the GPU or of the program.
type ranges[T any] struct{ list []entry[T] } // by start

type entry[T any] struct {
	start, n uint64
	value    T
}

func (r *ranges[T]) search(addr uint64) int {
	return sort.Search(len(r.list), func(i int) bool { return r.list[i].start > addr })
}

// insert adds [start, start+n).
func (r *ranges[T]) insert(start, n uint64, v T) {
	r.list = slices.Insert(r.list, r.search(start), entry[T]{start, n, v})
}

// remove takes out the range that starts at addr, if there is one.
func (r *ranges[T]) remove(addr uint64) {
	if i := r.search(addr); i > 0 && r.list[i-1].start == addr {
		r.list = slices.Delete(r.list, i-1, i)
	}
}

// find returns the range in which [addr, addr+n) lies whole.
func (r *ranges[T]) find(addr, n uint64) (entry[T], bool) {
	i := r.search(addr)
	if i == 0 {
		return entry[T]{}, false
	}
	e := r.list[i-1]
	at := addr - e.start
	if at >= e.n || n > e.n-at {
		return entry[T]{}, false
	}
	return e, true
}

// touches says whether a range has a part of [addr, addr+n), whose end fits in 64 bits.
func (r *ranges[T]) touches(addr, n uint64) bool {
	i := r.search(addr)
	return i > 0 && addr-r.list[i-1].start < r.list[i-1].n || i < len(r.list) && r.list[i].start-addr < n
}

// exactly returns the ranges that make up [addr, addr+n), if that is not empty and
// without a gap, and none goes beyond it.
func (r *ranges[T]) exactly(addr, n uint64) ([]entry[T], bool) {
	first := r.search(addr) - 1
	if first < 0 || n == 0 {
		return nil, false
	}
	for last := first; last < len(r.list) && r.list[last].start == addr && r.list[last].n <= n; last++ {
		addr, n = addr+r.list[last].n, n-r.list[last].n
		if n == 0 {
			return slices.Clone(r.list[first : last+1]), true
		}
	}
	return nil, false
}
