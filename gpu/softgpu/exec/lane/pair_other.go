//go:build !amd64

package lane

import "sync"

// pairs serialises loadPair, storePair and swapPair where no instruction accesses 16 bytes at once.
var pairs sync.Mutex

func loadPair(p *[2]uint64) (lo, hi uint64) {
	pairs.Lock()
	defer pairs.Unlock()
	return p[0], p[1]
}

func storePair(p *[2]uint64, lo, hi uint64) {
	pairs.Lock()
	defer pairs.Unlock()
	p[0], p[1] = lo, hi
}

func swapPair(p *[2]uint64, oldLo, oldHi, nextLo, nextHi uint64) (lo, hi uint64) {
	pairs.Lock()
	defer pairs.Unlock()
	if lo, hi = p[0], p[1]; lo == oldLo && hi == oldHi {
		p[0], p[1] = nextLo, nextHi
	}
	return lo, hi
}
