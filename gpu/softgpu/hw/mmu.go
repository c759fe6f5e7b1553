package hw

// MMU translates addresses of contexts: page tables in VRAM, and the bus for pages that are not
// there.
type MMU struct {
	VRAM *VRAM
	Bus  Bus
}

// Walk finds the entry that maps va in the page tables of the directory at the
// given VRAM address, the size of its page, and, where that is small, the
// address of its table. Size is 0 where nothing is mapped. Nothing that it
// reads is trusted.
func (v *VRAM) Walk(directory, va uint64) (e PTE, size, table uint64) {
	if va >= AddressMax {
		return 0, 0, 0
	}
	dir := PDE(v.Word(directory + va/DirectorySpan*EntryBytes))
	if t, ok := dir.Large(); ok {
		if e := PTE(v.Word(t + va%DirectorySpan/LargePage*EntryBytes)); e.OK(LargePage) {
			return e, LargePage, 0
		}
	}
	if t, ok := dir.Small(); ok {
		if e := PTE(v.Word(t + va%DirectorySpan/SmallPage*EntryBytes)); e.OK(SmallPage) {
			return e, SmallPage, t
		}
	}
	return 0, 0, 0
}

// widen returns the size of the largest naturally aligned block around va, at
// most 2 MiB, whose small pages lie side by side in memory with equal rights.
// Entry e maps va in the small table.
func (v *VRAM) widen(table, va uint64, e PTE) uint64 {
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
			if PTE(v.Word(table+uint64(other+i)*EntryBytes)) != want {
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
	e, size, table := m.VRAM.Walk(directory, va)
	if size == 0 {
		return nil, 0, false, false
	}
	addr := e.Addr() + va%size
	if size == SmallPage {
		size = m.VRAM.widen(table, va, e)
	}
	// What is consecutive in VRAM or on the bus may end or be scattered on the host.
	mem, at := m.VRAM.mem, addr
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
