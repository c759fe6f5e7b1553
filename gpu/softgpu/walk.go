package softgpu

import "pvdrm/gpu"

// walk finds the entry that maps va in the page tables of the directory at the
// given VRAM address, the size of its page, and, where that is small, the
// address of its table. Size is 0 where nothing is mapped. Nothing that it
// reads is trusted.
func (v *vram) walk(directory, va uint64) (e pte, size, table uint64) {
	if va >= addressMax {
		return 0, 0, 0
	}
	dir := pde(v.word(directory + va/directorySpan*entryBytes))
	if t, ok := dir.large(); ok {
		if e := pte(v.word(t + va%directorySpan/largePage*entryBytes)); e.ok(largePage) {
			return e, largePage, 0
		}
	}
	if t, ok := dir.small(); ok {
		if e := pte(v.word(t + va%directorySpan/smallPage*entryBytes)); e.ok(smallPage) {
			return e, smallPage, t
		}
	}
	return 0, 0, 0
}

// widen returns the size of the largest naturally aligned block around va, at
// most 2 MiB, whose small pages lie side by side in memory with equal rights.
// Entry e is that of va in the small table.
func (v *vram) widen(table, va uint64, e pte) uint64 {
	size := uint64(smallPage)
	page := int64(va % directorySpan / smallPage)
	for size < largePage {
		n := int64(size / smallPage)
		other := page&^(n-1) ^ n // first page of the block's twin
		addr := int64(e.addr()) + (other-page)*smallPage
		if addr < 0 || addr+int64(size) > addressMax {
			break
		}
		for i := range n {
			want := makePTE(e.target(), uint64(addr+i*smallPage), e.readOnly())
			if pte(v.word(table+uint64(other+i)*entryBytes)) != want {
				return size
			}
		}
		size *= 2
	}
	return size
}

// lookup translates va through the directory at the given VRAM address to the
// largest piece of host memory that it finds around it, as simt.Space.Lookup
// wants it. Preconditions: s.mu is held, shared at least.
func (s *space) lookup(directory, va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	e, size, table := s.vram.walk(directory, va)
	if size == 0 {
		return nil, 0, 0, false
	}
	addr := e.addr() + va%size
	if size == smallPage {
		size = s.vram.widen(table, va, e)
	}
	prot = gpu.ProtRead | gpu.ProtWrite
	if e.readOnly() {
		prot = gpu.ProtRead
	}
	// What is consecutive in VRAM or on the bus may end or be scattered on the host.
	mem, at := s.vram.mem, addr
	if e.target() != targetVRAM {
		mem, at = s.bus.run(addr)
	}
	for ; size >= smallPage; size /= 2 {
		base = va &^ (size - 1)
		if before := va - base; at >= before && at-before <= uint64(len(mem)) && size <= uint64(len(mem))-(at-before) {
			from := at - before
			return mem[from : from+size : from+size], base, prot, true
		}
	}
	return nil, 0, 0, false
}

// view is an address space as an engine sees it: through the directory that a
// channel descriptor names. It is the simt.Space of kernels.
type view struct {
	space     *space
	directory uint64 // VRAM address
}

// Lookup implements simt.Space.
func (w view) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	w.space.mu.RLock()
	defer w.space.mu.RUnlock()
	return w.space.lookup(w.directory, va)
}
