package nvidia

import (
	"slices"
	"sync"

	"pvdrm/gpu"
)

// mapping is a range of addresses that commands may use.
type mapping struct {
	va, n uint64
	mem   *memory // nil for a variable of a module
	off   uint64  // in mem
	write bool
}

func (m *mapping) end() uint64 { return m.va + m.n }

// space is what is mapped in a context, in the order of addresses. The worker
// does the mapping; the space decides what copies, fills and timestamps may touch,
// which the driver would take for memory of its process where nothing is mapped.
type space struct {
	mu   sync.RWMutex
	maps []mapping // guarded by mu
}

// from returns the index of the first mapping that ends behind va.
func (s *space) from(va uint64) int {
	i, _ := slices.BinarySearchFunc(s.maps, va, func(m mapping, va uint64) int {
		if m.end() <= va {
			return -1
		}
		return 1
	})
	return i
}

// free reports whether nothing is mapped in a range.
func (s *space) free(va, n uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.from(va)
	return i == len(s.maps) || s.maps[i].va >= va+n
}

// insert adds a mapping. Preconditions: its range is free.
func (s *space) insert(m mapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maps = slices.Insert(s.maps, s.from(m.va), m)
}

// overlapping returns the mappings that have a part in a range.
func (s *space) overlapping(va, n uint64) []mapping {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.from(va)
	j := i
	for j < len(s.maps) && s.maps[j].va < va+n {
		j++
	}
	return slices.Clone(s.maps[i:j])
}

// all returns all mappings.
func (s *space) all() []mapping {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.maps)
}

// of returns the mappings of a memory.
func (s *space) of(m *memory) []mapping {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []mapping
	for _, x := range s.maps {
		if x.mem == m {
			out = append(out, x)
		}
	}
	return out
}

// remove drops a range and returns what remains of the mappings that it cut.
func (s *space) remove(va, n uint64) (rest []mapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.from(va)
	j := i
	for ; j < len(s.maps) && s.maps[j].va < va+n; j++ {
		m := s.maps[j]
		if m.va < va {
			left := m
			left.n = va - m.va
			rest = append(rest, left)
		}
		if m.end() > va+n {
			right := m
			cut := va + n - m.va
			right.va, right.off, right.n = m.va+cut, m.off+cut, m.n-cut
			rest = append(rest, right)
		}
	}
	s.maps = slices.Replace(s.maps, i, j, rest...)
	return rest
}

// local reports whether an address is one of VRAM.
func (s *space) local(va uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.from(va)
	return i < len(s.maps) && s.maps[i].va <= va && (s.maps[i].mem == nil || s.maps[i].mem.runs == nil)
}

// reach returns how many of the n bytes at va can be used without a stop: to the
// end of the mapping, or in VRAM, which the driver takes for one piece, to the end
// of what is mapped without a gap. It is 0 with a fault where va may not be used.
func (s *space) reach(va, n uint64, write bool) (uint64, *gpu.LostError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.from(va)
	if i == len(s.maps) || s.maps[i].va > va {
		return 0, &gpu.LostError{Cause: gpu.LostAddress, Addr: va, Write: write, Detail: "not mapped"}
	}
	if write && !s.maps[i].write {
		return 0, &gpu.LostError{Cause: gpu.LostAddress, Addr: va, Write: write, Detail: "mapped read-only"}
	}
	end := s.maps[i].end()
	if s.maps[i].mem != nil && s.maps[i].mem.runs == nil {
		for j := i + 1; end-va < n && j < len(s.maps) && s.maps[j].va == end && (s.maps[j].write || !write); j++ {
			end = s.maps[j].end()
		}
	}
	return min(n, end-va), nil
}
