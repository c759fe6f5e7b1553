package heap

import "math/bits"

// classes is how many sizes slabs have: the multiples of Align up to 128, and then stepsPerTwo
// for each power of two up to maxSmall.
const classes = 8 + 6*stepsPerTwo

// slab is what all slabs of a class have in common.
type slab struct {
	bytes uint64 // of a place
	pages int
	all   uint64 // bits of its places
}

var slabs = makeSlabs()

func makeSlabs() (list [classes]slab) {
	for c := range list {
		s := &list[c]
		s.bytes = uint64(c+1) * Align
		if c >= 8 {
			step := uint64(128/stepsPerTwo) << ((c - 8) / stepsPerTwo)
			s.bytes = step * uint64(stepsPerTwo+1+(c-8)%stepsPerTwo)
		}
		s.pages = int((slabPlaces*s.bytes + PageBytes - 1) / PageBytes)
		places := uint64(s.pages) * PageBytes / s.bytes
		s.all = ^uint64(0) >> (64 - places)
	}
	return list
}

// classOf returns the class of a size up to maxSmall.
func classOf(n uint64) uint8 {
	if n <= 128 {
		return uint8((max(n, 1) - 1) / Align)
	}
	log := bits.Len64(n-1) - 1                // 2^log < n <= 2^(log+1)
	step := uint64(1) << log / stepsPerTwo    // between two classes
	within := (n - 1 - uint64(1)<<log) / step // 0 to stepsPerTwo-1
	return uint8(8 + (log-7)*stepsPerTwo + int(within))
}
