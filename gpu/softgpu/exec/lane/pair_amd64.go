package lane

// loadPair and storePair access 16 bytes at once, which must be aligned so. Processors with AVX
// promise that such an access is atomic (Intel's manual, volume 3A, section 9.1.1; AMD's too),
// and older ones do it.

//go:noescape
func loadPair(p *[2]uint64) (lo, hi uint64)

// swapPair replaces 16 bytes that equal old by next, in one atomic step, and returns what they were.
//
//go:noescape
func swapPair(p *[2]uint64, oldLo, oldHi, nextLo, nextHi uint64) (lo, hi uint64)

//go:noescape
func storePair(p *[2]uint64, lo, hi uint64)
