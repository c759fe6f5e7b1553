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
