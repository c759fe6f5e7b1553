package heap

import "math/bits"

// runs knows which pages are free, and finds some in a row in a time that hardly depends on how
// many there are: a kernel could else have the allocator look through millions of pages for
// each of its threads, and neither end nor give way meanwhile.
type runs struct {
	free   []uint64 // a bit for each page that is free
	tree   []run    // node i joins nodes 2i and 2i+1; the last half are the words of free
	leaves int      // a power of 2
}

// run describes the free pages below a node: how many are in a row at its begin, at its end, and
// at most.
type run struct{ head, tail, best uint32 }

const wordPages = 64 // in a word of runs.free

// newRuns makes runs of n pages, none of which is free.
func newRuns(n int) runs {
	words := (n + wordPages - 1) / wordPages
	leaves := 1 << bits.Len(uint(max(words, 1)-1))
	return runs{free: make([]uint64, words), tree: make([]run, 2*leaves), leaves: leaves}
}

// has reports whether a page is free.
func (r *runs) has(page int) bool { return r.free[page/wordPages]>>(page%wordPages)&1 != 0 }

// set marks n pages as free or as taken.
func (r *runs) set(first, n int, free bool) {
	low, high := first/wordPages, (first+n-1)/wordPages
	for w := low; w <= high; w++ {
		from, to := max(first-w*wordPages, 0), min(first+n-w*wordPages, wordPages)
		mask := ^uint64(0) >> (wordPages - (to - from)) << from
		if free {
			r.free[w] |= mask
		} else {
			r.free[w] &^= mask
		}
		r.tree[r.leaves+w] = runOf(r.free[w])
	}
	half := uint32(wordPages)
	for low, high = r.leaves+low, r.leaves+high; low > 1; half *= 2 {
		low, high = low/2, high/2
		for i := low; i <= high; i++ {
			r.tree[i] = join(r.tree[2*i], r.tree[2*i+1], half)
		}
	}
}

// runOf describes a word.
func runOf(x uint64) run {
	r := run{head: uint32(bits.TrailingZeros64(^x)), tail: uint32(bits.LeadingZeros64(^x))}
	for x != 0 {
		x >>= bits.TrailingZeros64(x)
		n := bits.TrailingZeros64(^x)
		r.best, x = max(r.best, uint32(n)), x>>n
	}
	return r
}

// join describes two neighbours of so many pages each.
func join(a, b run, pages uint32) run {
	r := run{head: a.head, tail: b.tail, best: max(a.best, b.best, a.tail+b.head)}
	if a.head == pages {
		r.head += b.head
	}
	if b.tail == pages {
		r.tail += a.tail
	}
	return r
}

// find returns the first place at which n pages in a row are free.
func (r *runs) find(n int) (first int, ok bool) {
	want := uint32(n)
	if r.tree[1].best < want {
		return 0, false
	}
	i, half := 1, r.leaves*wordPages/2
	for ; i < r.leaves; half /= 2 {
		a, b := r.tree[2*i], r.tree[2*i+1]
		switch {
		case a.best >= want:
			i = 2 * i
		case a.tail+b.head >= want:
			return first + half - int(a.tail), true
		default:
			i, first = 2*i+1, first+half
		}
	}
	word := r.free[i-r.leaves]
	for range n - 1 {
		word &= word >> 1
	}
	return first + bits.TrailingZeros64(word), true
}
