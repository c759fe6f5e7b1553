package jit

import (
	"math/bits"
	"slices"

	"pvdrm/gpu/softgpu/exec/tlb"
)

// Extents. Pages whose addresses follow one another, and whose host memory does, too, are one extent for
// native code: a buffer of a program mostly is one, of pages of several sizes. An access knows the extent that
// it found last, so that lanes in several pages of it need no look at each page. Extents come from pages
// in one table, which all have the rights that its accesses need, and go when those go.

// maxExtent bounds an extent, and what of a page native code accesses: it takes offsets as signed
// numbers of 32 bits.
const maxExtent = 1 << 31

// siteOf returns what native code keeps of a page, which is an extent of its own.
func siteOf(e *tlb.Translation) Site {
	return Site{from: e.Base, bytes: min(e.Mask+1, maxExtent), host: e.Page, page: e.Page, tag: e.Base | uint64(bits.Len64(e.Mask)-siteBits)}
}

// enter puts a page into a table, and joins it with those there that it continues. It returns its place.
func (s *Sites) enter(table []Site, e *tlb.Translation) *Site {
	whole := uint64(bits.Len64(e.Mask))
	at := &table[e.Base>>whole%tableSites]
	known := s.sizes[:maxSizes]
	this := size{less: whole - siteBits, whole: whole}
	if i := slices.Index(known, this); i < 0 {
		copy(known[1:], known)
		known[0] = this
	}
	*at = siteOf(e)
	joined := *at
	for range 2 { // what is below, and what is above
		for i := range table {
			joined.join(&table[i])
		}
	}
	if joined.bytes != at.bytes {
		for i := range table {
			if t := &table[i]; t.bytes != 0 && t.from-joined.from < joined.bytes {
				t.from, t.bytes, t.host = joined.from, joined.bytes, joined.host
			}
		}
	}
	return at
}

// join makes an extent larger by another, if one continues the other.
func (x *Site) join(y *Site) {
	if y.bytes == 0 || x.bytes+y.bytes > maxExtent {
		return
	}
	switch {
	case y.endsAt(x):
		x.from, x.host = y.from, y.host
	case !x.endsAt(y):
		return
	}
	x.bytes += y.bytes
}
