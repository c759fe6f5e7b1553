// Package heap is the allocator behind malloc and free of kernels.
//
// It hands out addresses of a range of memory that it never touches: all that it knows lies in
// the host's memory, where no kernel can write. Free looks up what it is given and refuses what
// Malloc did not return, so a hostile kernel harms only what it could overwrite anyway.
//
// The range is cut into pages. Sizes up to maxSmall are rounded up to one of about fifty classes
// and come from slabs: runs of pages with at most 64 places of one class. Larger sizes take
// whole pages. Memory of the host is in proportion to the range (pageState), not to the number of
// allocations. The longest loop is over the pages of an allocation, 64 at a time: a search does
// not look at pages one by one (runs).
package heap

import (
	"math/bits"
	"sync"
)

const (
	// PageBytes is the unit in which the range is divided.
	PageBytes = 1 << 10
	// Align is the alignment of allocations.
	Align = 16

	maxSmall    = 8 << 10 // the largest size that comes from a slab
	slabPlaces  = 8       // that a slab has at least
	stepsPerTwo = 8       // classes between a power of two and the next

	// MaxBytes bounds a range, and so the host's memory for it: 1/32 of the range.
	MaxBytes = 2 << 30
)

// Heap is one range of memory. Its methods may be called concurrently; a nil Heap is empty.
type Heap struct {
	base, size uint64

	mu      sync.Mutex
	pages   []pageState
	runs    runs // of free pages
	partial [classes]int32
	live    int // allocations
}

// pageState describes the slab or the run of pages that begins at a page; other pages of a slab
// only name that page.
type pageState struct {
	used       uint64 // of a slab: a bit for each place that is taken
	first      int32  // page at which the slab or run begins, or began that last named this page
	count      int32  // pages of the run
	next, prev int32  // slabs of the class with places left; none at the ends
	class      uint8  // of a slab; large: a run for one allocation; unused: no run begins here
}

const (
	none   = -1
	unused = 0xff
	large  = 0xfe
)

// pageStateBytes is what the heap keeps of the host's memory for a page.
const pageStateBytes = 32

// HostBytes is what a heap of a size keeps of the host's memory.
func HostBytes(size uint64) uint64 { return size / PageBytes * pageStateBytes * 33 / 32 }

// New makes a heap of a range of addresses, of which base and size are multiples of PageBytes.
// Preconditions: size is at most MaxBytes, and the range does not begin at 0.
func New(base, size uint64) *Heap {
	n := int(size / PageBytes)
	h := &Heap{base: base, size: size, pages: make([]pageState, n), runs: newRuns(n)}
	for i := range h.pages {
		h.pages[i].class = unused
	}
	for i := range h.partial {
		h.partial[i] = none
	}
	h.runs.set(0, n, true)
	return h
}

// Range returns the addresses of the heap.
func (h *Heap) Range() (base, size uint64) { return h.base, h.size }

// Live returns the number of allocations.
func (h *Heap) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live
}

// Malloc returns the address of n bytes that nothing else has, a multiple of Align; 0 if there
// is no room.
func (h *Heap) Malloc(n uint64) uint64 {
	if h == nil || n > h.size {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var addr uint64
	if n <= maxSmall {
		addr = h.small(classOf(n))
	} else {
		addr = h.large(int((n + PageBytes - 1) / PageBytes))
	}
	if addr != 0 {
		h.live++
	}
	return addr
}

// small takes a place of a class.
func (h *Heap) small(c uint8) uint64 {
	p := h.partial[c]
	if p == none {
		first, ok := h.take(slabs[c].pages, c)
		if !ok {
			return 0
		}
		p = int32(first)
		h.pages[p].used = 0
		h.push(c, p)
	}
	s := &h.pages[p]
	place := bits.TrailingZeros64(^s.used)
	s.used |= 1 << place
	if s.used == slabs[c].all {
		h.unlink(c, p)
	}
	return h.base + uint64(p)*PageBytes + uint64(place)*slabs[c].bytes
}

// large takes a run of pages for one allocation.
func (h *Heap) large(n int) uint64 {
	first, ok := h.take(n, large)
	if !ok {
		return 0
	}
	return h.base + uint64(first)*PageBytes
}

// Free gives an allocation back. It reports whether addr is one.
func (h *Heap) Free(addr uint64) bool {
	if h == nil || addr < h.base || addr-h.base >= h.size {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	off := addr - h.base
	page := int32(off / PageBytes)
	p := h.pages[page].first
	s := &h.pages[p]
	if s.class == unused || page-p >= s.count {
		return false
	}
	off -= uint64(p) * PageBytes
	if s.class == large {
		if off != 0 {
			return false
		}
		h.give(int(p))
		h.live--
		return true
	}
	return h.freeSmall(p, s, off)
}

// freeSmall gives back the place at an offset in the slab that begins at page p.
func (h *Heap) freeSmall(p int32, s *pageState, off uint64) bool {
	c := &slabs[s.class]
	place := off / c.bytes
	if off%c.bytes != 0 || place >= 64 || s.used>>place&1 == 0 {
		return false
	}
	if s.used == c.all {
		h.push(s.class, p)
	}
	s.used &^= 1 << place
	if s.used == 0 {
		h.unlink(s.class, p)
		h.give(int(p))
	}
	h.live--
	return true
}

// push makes the slab at page p the first of its class with places left.
func (h *Heap) push(c uint8, p int32) {
	s := &h.pages[p]
	s.prev, s.next = none, h.partial[c]
	if s.next != none {
		h.pages[s.next].prev = p
	}
	h.partial[c] = p
}

// unlink takes the slab at page p out of the list of its class.
func (h *Heap) unlink(c uint8, p int32) {
	s := &h.pages[p]
	if s.next != none {
		h.pages[s.next].prev = s.prev
	}
	if s.prev != none {
		h.pages[s.prev].next = s.next
	} else {
		h.partial[c] = s.next
	}
}

// take finds n free pages in a row, the first ones that there are, and makes a run of them.
func (h *Heap) take(n int, class uint8) (first int, ok bool) {
	if first, ok = h.runs.find(n); ok {
		h.claim(first, n, class)
	}
	return first, ok
}

// claim makes a run of free pages. Within one that is large no address is an allocation's, so its
// other pages may name what they will: Free does not find that they are of that run.
func (h *Heap) claim(first, n int, class uint8) {
	h.runs.set(first, n, false)
	h.pages[first].first, h.pages[first].count, h.pages[first].class = int32(first), int32(n), class
	for i := 1; i < n && class != large; i++ {
		h.pages[first+i].first = int32(first)
	}
}

// give frees the run that begins at a page.
func (h *Heap) give(first int) {
	h.pages[first].class = unused
	h.runs.set(first, int(h.pages[first].count), true)
}
