package softgpu

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// space is the address space of one context: what is mapped where, the page
// tables that say so in VRAM, and the bus that system memory is on.
type space struct {
	vram      *vram
	directory uint64    // VRAM address of the page directory
	count     *mappings // of the device

	mu sync.RWMutex // see the package comment
	hw.MMU
	maps   []mapping         // sorted by va, not overlapping
	tables map[uint64]*table // by index in the directory
}

// mapping shows n bytes of a memory, from off on, at va.
type mapping struct {
	va, n uint64
	mem   *memory
	off   uint64
}

// table is the pair of page tables of one entry of the directory. They are
// allocated together, so that breaking up a large page needs no memory.
type table struct {
	large, small uint64 // VRAM addresses
	used         int    // entries that are valid, of both tables
}

// maxMappings bounds the mappings of all address spaces of a device: the device remembers
// each in memory of the host.
const maxMappings = 1 << 17

// mappings counts those of a device.
type mappings struct{ n atomic.Int64 }

func newSpace(v *vram, count *mappings) (*space, error) {
	dir, err := v.allocContiguous(hw.DirectoryBytes)
	if err != nil {
		return nil, fmt.Errorf("page directory: %w", err)
	}
	return &space{vram: v, directory: dir, count: count, MMU: hw.MMU{VRAM: v.VRAM}, tables: map[uint64]*table{}}, nil
}

// destroy frees the page tables. Preconditions: no engine uses the space.
func (s *space) destroy() {
	if s.tables == nil { // that of a Domain
		return
	}
	for _, t := range s.tables {
		s.vram.free(t.extent())
	}
	s.vram.free(extent{s.directory, hw.DirectoryBytes})
	s.count.n.Add(-int64(len(s.maps)))
	clear(s.tables)
	s.maps = nil
}

func (t *table) extent() extent { return extent{t.small, hw.TableBytes} }

// insert maps [off, off+n) of m at va. Preconditions: all are page aligned and
// in range.
func (s *space) insert(va uint64, m *memory, off, n uint64, readOnly bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.first(va)
	if at < len(s.maps) && s.maps[at].va < va+n {
		return fmt.Errorf("%w: [0x%x, 0x%x) overlaps the mapping of %d bytes at 0x%x",
			gpu.ErrExists, va, va+n, s.maps[at].n, s.maps[at].va)
	}
	if s.count.n.Load() >= maxMappings {
		return s.full()
	}
	if err := s.prepare(va, n); err != nil {
		return err
	}
	s.count.n.Add(1)
	s.maps = slices.Insert(s.maps, at, mapping{va, n, m, off})
	for n > 0 {
		t, addr, run := m.place(off)
		run = min(run, n)
		s.enter(va, t, addr, run, readOnly)
		va, off, n = va+run, off+run, n-run
	}
	return nil
}

// remove takes away what is mapped in [va, va+n) and reports whether there was
// anything. It fails, and removes nothing, where it would have to cut a mapping in two and
// there is no room for one more. Tables that became empty are returned: they may be freed once the
// TLBs are flushed, as the memory may.
func (s *space) remove(va, n uint64) (dead []extent, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.first(va)
	if from < len(s.maps) {
		if m := s.maps[from]; m.va < va && va+n < m.va+m.n && s.count.n.Load() >= maxMappings {
			return nil, true, s.full()
		}
	}
	to := from
	var rest []mapping // what stays of mappings that are cut
	for ; to < len(s.maps) && s.maps[to].va < va+n; to++ {
		m := s.maps[to]
		lo, hi := max(va, m.va), min(va+n, m.va+m.n)
		if m.va < lo {
			rest = append(rest, mapping{m.va, lo - m.va, m.mem, m.off})
		}
		if hi < m.va+m.n {
			rest = append(rest, mapping{hi, m.va + m.n - hi, m.mem, m.off + hi - m.va})
		}
		dead = append(dead, s.erase(lo, hi-lo)...)
	}
	found = to > from
	s.count.n.Add(int64(len(rest) - (to - from)))
	s.maps = slices.Replace(s.maps, from, to, rest...)
	return dead, found, nil
}

// full is the error of what would need one more mapping.
func (s *space) full() error {
	return fmt.Errorf("%w: the device has %d mappings, and no room for more", gpu.ErrNoMemory, maxMappings)
}

// removeMemory takes away all mappings of m, like remove.
func (s *space) removeMemory(m *memory) (dead []extent, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.maps)
	s.maps = slices.DeleteFunc(s.maps, func(e mapping) bool {
		if e.mem != m {
			return false
		}
		dead = append(dead, s.erase(e.va, e.n)...)
		return true
	})
	s.count.n.Add(int64(len(s.maps) - before))
	return dead, len(s.maps) < before
}

// first returns the index of the first mapping that ends after va.
func (s *space) first(va uint64) int {
	return sort.Search(len(s.maps), func(i int) bool { return s.maps[i].va+s.maps[i].n > va })
}

// gap finds n free bytes in a window, at a multiple of align, a power of two.
func (s *space) gap(w gpu.Window, n, align uint64) (va uint64, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	up := func(va uint64) uint64 { return (va + align - 1) &^ (align - 1) }
	va = up(w.Base)
	for i := s.first(w.Base); i < len(s.maps) && s.maps[i].va < va+n; i++ {
		va = max(va, up(s.maps[i].va+s.maps[i].n))
	}
	return va, w.Contains(va, n)
}

// prepare makes the page tables of [va, va+n), all or none.
func (s *space) prepare(va, n uint64) error {
	var made []uint64
	for i := va / hw.DirectorySpan; i <= (va+n-1)/hw.DirectorySpan; i++ {
		if s.tables[i] != nil {
			continue
		}
		addr, err := s.vram.allocContiguous(hw.TableBytes)
		if err != nil {
			for _, i := range made {
				s.vram.free(s.drop(i))
			}
			return fmt.Errorf("page table: %w", err)
		}
		t := &table{small: addr, large: addr + hw.SmallTable}
		s.tables[i] = t
		s.vram.SetWord(s.directory+i*hw.EntryBytes, uint64(hw.MakePDE(t.large, t.small)))
		made = append(made, i)
	}
	return nil
}

// drop takes an empty pair of tables out of the directory.
func (s *space) drop(i uint64) extent {
	t := s.tables[i]
	delete(s.tables, i)
	s.vram.SetWord(s.directory+i*hw.EntryBytes, 0)
	return t.extent()
}

// enter writes the entries of n bytes that are consecutive in the target.
func (s *space) enter(va uint64, t hw.Target, addr, n uint64, readOnly bool) {
	for n > 0 {
		tab := s.tables[va/hw.DirectorySpan]
		at, page := tab.smallEntry(va), uint64(hw.SmallPage)
		if va%hw.LargePage == 0 && addr%hw.LargePage == 0 && n >= hw.LargePage {
			at, page = tab.largeEntry(va), hw.LargePage
		}
		s.vram.SetWord(at, uint64(hw.MakePTE(t, addr, readOnly)))
		tab.used++
		va, addr, n = va+page, addr+page, n-page
	}
}

// erase clears the entries of n bytes, all of which are mapped, breaking up
// large pages that it cuts. It returns the tables that are empty now.
func (s *space) erase(va, n uint64) (dead []extent) {
	for n > 0 {
		tab := s.tables[va/hw.DirectorySpan]
		chunk := min(n, hw.LargePage-va%hw.LargePage)
		large := tab.largeEntry(va)
		e := hw.PTE(s.vram.Word(large))
		if e != 0 {
			s.vram.SetWord(large, 0)
			tab.used--
		}
		if e == 0 || chunk < hw.LargePage {
			if e != 0 {
				s.enterSmall(tab, va&^(hw.LargePage-1), e)
			}
			for page := va; page < va+chunk; page += hw.SmallPage {
				s.vram.SetWord(tab.smallEntry(page), 0)
				tab.used--
			}
		}
		if tab.used == 0 {
			dead = append(dead, s.drop(va/hw.DirectorySpan))
		}
		va, n = va+chunk, n-chunk
	}
	return dead
}

// enterSmall writes small pages in place of the large one at va.
func (s *space) enterSmall(tab *table, va uint64, e hw.PTE) {
	for off := uint64(0); off < hw.LargePage; off += hw.SmallPage {
		s.vram.SetWord(tab.smallEntry(va+off), uint64(hw.MakePTE(e.Target(), e.Addr()+off, e.ReadOnly())))
		tab.used++
	}
}

func (t *table) largeEntry(va uint64) uint64 {
	return t.large + va%hw.DirectorySpan/hw.LargePage*hw.EntryBytes
}

func (t *table) smallEntry(va uint64) uint64 {
	return t.small + va%hw.DirectorySpan/hw.SmallPage*hw.EntryBytes
}

// settle waits until the copy engine has left the translations that it took
// before the call. (Those of kernels go with exec.Control.FlushTLB.)
func (s *space) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
}
