package hw

// MMU translates addresses of contexts: page tables in VRAM, and the bus for pages that are not
// there.
//
// With a second level (nested paging) the VRAM addresses in directories and page tables, and those
// of directories and tables themselves, are a virtual machine's. They are translated through a
// directory of the hypervisor's, which has the same format: an address of the machine's VRAM in
// place of a virtual one, and entries that name VRAM.
type MMU struct {
	VRAM   *VRAM
	Bus    Bus
	Second uint64 // VRAM address of the second level's directory, plus 1; 0 for none
}

// Walk finds the entry that maps va in the page tables of the directory at the
// given VRAM address, the size of its page, and, where that is small, the
// address of its table. Size is 0 where nothing is mapped. Nothing that it
// reads is trusted.
func (v *VRAM) Walk(directory, va uint64) (e PTE, size, table uint64) {
	return walk(v.Word, directory, va)
}

// walk is VRAM.Walk with the words that word returns.
func walk(word func(addr uint64) uint64, directory, va uint64) (e PTE, size, table uint64) {
	if va >= AddressMax {
		return 0, 0, 0
	}
	dir := PDE(word(directory + va/DirectorySpan*EntryBytes))
	if t, ok := dir.Large(); ok {
		if e := PTE(word(t + va%DirectorySpan/LargePage*EntryBytes)); e.OK(LargePage) {
			return e, LargePage, 0
		}
	}
	if t, ok := dir.Small(); ok {
		if e := PTE(word(t + va%DirectorySpan/SmallPage*EntryBytes)); e.OK(SmallPage) {
			return e, SmallPage, t
		}
	}
	return 0, 0, 0
}

// word reads a word at an address of VRAM as directories and tables have it.
func (m *MMU) word(addr uint64) uint64 {
	if m.Second == 0 {
		return m.VRAM.Word(addr)
	}
	page, off := m.page(addr)
	if page == nil || addr%EntryBytes != 0 {
		return 0
	}
	return LoadWord(page[off : off+EntryBytes])
}

// page returns the VRAM around an address that is consecutive, and the place of the address in it;
// nil where the second level maps none.
func (m *MMU) page(addr uint64) (mem []byte, off uint64) {
	if m.Second == 0 {
		return m.VRAM.mem, addr
	}
	e, size, _ := m.VRAM.Walk(m.Second-1, addr)
	if size == 0 || e.Target() != TargetVRAM {
		return nil, 0
	}
	return m.VRAM.Bytes(e.Addr(), size), addr % size
}

// widen returns the size of the largest naturally aligned block around va, at
// most 2 MiB, whose small pages lie side by side in memory with equal rights.
// Entry e maps va in the small table.
func (m *MMU) widen(table, va uint64, e PTE) uint64 {
	size := uint64(SmallPage)
	page := int64(va % DirectorySpan / SmallPage)
	for size < LargePage {
		n := int64(size / SmallPage)
		other := page&^(n-1) ^ n // first page of the block's twin
		addr := int64(e.Addr()) + (other-page)*SmallPage
		if addr < 0 || addr+int64(size) > AddressMax {
			break
		}
		for i := range n {
			want := MakePTE(e.Target(), uint64(addr+i*SmallPage), e.ReadOnly())
			if PTE(m.word(table+uint64(other+i)*EntryBytes)) != want {
				return size
			}
		}
		size *= 2
	}
	return size
}

// Lookup translates va through the directory at the given VRAM address to the largest piece of
// host memory that it finds around it: page[va-base] is the byte at va. Pages are naturally
// aligned and a power of two in size.
func (m *MMU) Lookup(directory, va uint64) (page []byte, base uint64, readOnly, ok bool) {
	e, size, table := walk(m.word, directory, va)
	if size == 0 {
		return nil, 0, false, false
	}
	addr := e.Addr() + va%size
	if size == SmallPage {
		size = m.widen(table, va, e)
	}
	// What is consecutive in VRAM or on the bus may end or be scattered on the host.
	mem, at := m.page(addr)
	if e.Target() != TargetVRAM {
		mem, at = m.Bus.Run(addr)
	}
	for ; size >= SmallPage; size /= 2 {
		base = va &^ (size - 1)
		if before := va - base; at >= before && at-before <= uint64(len(mem)) && size <= uint64(len(mem))-(at-before) {
			from := at - before
			return mem[from : from+size : from+size], base, e.ReadOnly(), true
		}
	}
	return nil, 0, false, false
}
