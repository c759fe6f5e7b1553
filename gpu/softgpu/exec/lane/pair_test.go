package lane

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSwapPair counts in 16 bytes from several goroutines: no half is ever seen without the other.
func TestSwapPair(t *testing.T) {
	p := (*[2]uint64)(make([]uint64, 1024)) // allocations of pages are aligned
	const workers, each = 4, 5000
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				lo, hi := loadPair(p)
				for {
					if lo != ^hi+1 {
						t.Errorf("%x and %x", lo, hi)
						return
					}
					was, high := swapPair(p, lo, hi, lo+1, hi-1)
					if was == lo && high == hi {
						break
					}
					lo, hi = was, high
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, [2]uint64{workers * each, ^uint64(workers*each) + 1}, *p)
	lo, hi := swapPair(p, 1, 2, 3, 4)
	require.Equal(t, *p, [2]uint64{lo, hi}, "they differ, and stay")
}
