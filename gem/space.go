package gem

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"syscall"
)

// Errors of a Space. They are values, not built at each call: a heap asks one
// Space after the other.
var (
	ErrNoRoom       = fmt.Errorf("no free range of addresses is large enough: %w", syscall.ENOSPC)
	ErrNotAllocated = fmt.Errorf("no allocated range starts at this address: %w", syscall.EINVAL)
)

// Space hands out ranges of a window of addresses: GPU virtual addresses of a
// file, or the bytes of one object. It knows numbers only and touches no memory.
//
// Allocation takes the smallest free range that fits, the lowest of equals, so
// that large ranges stay whole. What is freed is joined with free neighbours at
// once. The time for Alloc and Free grows with the number of free ranges.
//
// A Space is not safe for concurrent use.
type Space struct {
	free []span            // by address; none empty, no two touch
	used map[uint64]uint64 // start of each range handed out → its length
}

type span struct{ start, n uint64 }

func (s span) end() uint64 { return s.start + s.n }

// NewSpace makes a Space of [base, base+size), all of it free. It is EINVAL
// when the end does not fit in 64 bits.
func NewSpace(base, size uint64) (*Space, error) {
	if base+size < base {
		return nil, fmt.Errorf("addresses from 0x%x, 0x%x of them, wrap around: %w", base, size, syscall.EINVAL)
	}
	s := &Space{used: map[uint64]uint64{}}
	if size > 0 {
		s.free = []span{{base, size}}
	}
	return s, nil
}

// Alloc takes n bytes that start at a multiple of align, a power of two. It is
// ErrNoRoom when there is no such range, EINVAL when n is 0 or align is wrong.
func (s *Space) Alloc(n, align uint64) (addr uint64, err error) {
	if n == 0 || bits.OnesCount64(align) != 1 {
		return 0, fmt.Errorf("a range of %d bytes aligned to %d: %w", n, align, syscall.EINVAL)
	}
	best, bestPad := -1, uint64(0)
	for i, f := range s.free {
		pad := -f.start & (align - 1)
		if pad > f.n || f.n-pad < n || best >= 0 && f.n >= s.free[best].n {
			continue
		}
		best, bestPad = i, pad
		if f.n == n {
			break // nothing fits better
		}
	}
	if best < 0 {
		return 0, ErrNoRoom
	}
	f := s.free[best]
	addr = f.start + bestPad
	head := span{f.start, bestPad}
	tail := span{addr + n, f.n - bestPad - n}
	switch {
	case head.n > 0 && tail.n > 0:
		s.free[best] = head
		s.free = slices.Insert(s.free, best+1, tail)
	case head.n > 0:
		s.free[best] = head
	case tail.n > 0:
		s.free[best] = tail
	default:
		s.free = slices.Delete(s.free, best, best+1)
	}
	s.used[addr] = n
	return addr, nil
}

// Free gives back the range that Alloc returned as addr, and returns its length
// in bytes. It is ErrNotAllocated when no range in use starts there.
func (s *Space) Free(addr uint64) (n uint64, err error) {
	n, ok := s.used[addr]
	if !ok {
		return 0, ErrNotAllocated
	}
	delete(s.used, addr)
	i := sort.Search(len(s.free), func(i int) bool { return s.free[i].start > addr })
	joinsLeft := i > 0 && s.free[i-1].end() == addr
	joinsRight := i < len(s.free) && addr+n == s.free[i].start
	switch {
	case joinsLeft && joinsRight:
		s.free[i-1].n += n + s.free[i].n
		s.free = slices.Delete(s.free, i, i+1)
	case joinsLeft:
		s.free[i-1].n += n
	case joinsRight:
		s.free[i].start, s.free[i].n = addr, s.free[i].n+n
	default:
		s.free = slices.Insert(s.free, i, span{addr, n})
	}
	return n, nil
}

// Empty reports whether nothing is allocated.
func (s *Space) Empty() bool { return len(s.used) == 0 }

// FreeBytes is the sum of all free ranges.
func (s *Space) FreeBytes() uint64 {
	var sum uint64
	for _, f := range s.free {
		sum += f.n
	}
	return sum
}
