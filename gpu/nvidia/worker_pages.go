package nvidia

import "fmt"

// cut reports whether pages are a row of whole chunks.
func (m *vram) cut(first, n int) bool {
	begins, ends := false, false
	page := 0
	for _, p := range m.chunks {
		begins = begins || page == first
		page += p.pages
		ends = ends || page == first+n
	}
	return begins && ends
}

// unmapVRAM unmaps pages of one mapping.
func (w *worker) unmapVRAM(va, size uint64) error {
	m, i := w.lookup(va, size)
	if m == nil {
		return fmt.Errorf("%d bytes at %#x are no part of a mapping", size, va)
	}
	old := m.placed[i]
	skipped, n := int((va-old.va)/vramPage), int(size/vramPage)
	if !m.cut(old.first+skipped, n) {
		if err := w.divide(m); err != nil {
			return err
		}
	}
	if err := w.drv.check("cuMemUnmap", w.drv.memUnmap(va, size)); err != nil {
		return err
	}
	delete(w.at, old.va)
	m.placed = append(m.placed[:i], m.placed[i+1:]...)
	for _, rest := range []placed{
		{va: old.va, first: old.first, n: skipped, access: old.access},
		{va: va + size, first: old.first + skipped + n, n: old.n - skipped - n, access: old.access},
	} {
		if rest.n > 0 {
			m.placed = append(m.placed, rest)
			w.at[rest.va] = m
		}
	}
	return nil
}

// lookup finds the mapping that has a range, most often all of it.
func (w *worker) lookup(va, size uint64) (*vram, int) {
	holds := func(p *placed) bool { return va >= p.va && va+size <= p.va+p.size() }
	if m := w.at[va]; m != nil {
		for i := range m.placed {
			if holds(&m.placed[i]) {
				return m, i
			}
		}
	}
	for _, m := range w.memories {
		for i := range m.placed {
			if holds(&m.placed[i]) {
				return m, i
			}
		}
	}
	return nil, 0
}

// divide makes each page of a memory an allocation of its own, unless it is.
func (w *worker) divide(m *vram) error {
	if len(m.chunks) == len(m.zeroed) {
		return nil
	}
	return w.remake(m)
}

// remake makes new pages for a memory, each an allocation of its own. What is in it stays, and so do its mappings, which
// nothing uses meanwhile: all that the context has begun ends first. An error leaves the memory as it was, unless it
// says that nothing works any more.
func (w *worker) remake(m *vram) error {
	pages, err := w.makeChunks(len(m.zeroed), 1, w.device)
	if err != nil {
		return err
	}
	p := &w.path
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := w.quiet(); err != nil {
		w.free(pages)
		return err
	}
	first := 0
	for _, old := range m.chunks {
		if err := w.move(old, pages[first:first+old.pages], m.zeroed[first:first+old.pages]); err != nil {
			w.free(pages)
			return err
		}
		first += old.pages
	}
	for _, at := range m.placed {
		err := w.drv.check("cuMemUnmap", w.drv.memUnmap(at.va, at.size()))
		if err == nil {
			err = w.place(pages, at)
		}
		if err == nil {
			err = w.access(at.va, at.size(), at.access)
		}
		if err != nil { // and no way back
			return &driverError{Call: "dividing VRAM", Code: resultUnknown, Name: err.Error()}
		}
	}
	w.free(m.chunks)
	m.chunks = pages
	return nil
}

// quiet waits for all that the channels have begun. Path.mu is held.
func (w *worker) quiet() error {
	for i := range w.path.streams {
		if s := w.path.streams[i].handle; s != 0 {
			if err := w.drv.check("cuStreamSynchronize", w.drv.streamSynchronize(s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// move copies what is in a part to pages, if anything is.
func (w *worker) move(from chunk, to []chunk, zeroed []bool) error {
	used := false
	for _, z := range zeroed {
		used = used || z
	}
	if !used {
		return nil
	}
	source := placed{va: w.scratch, n: from.pages, access: accessReadWrite}
	target := placed{va: w.scratch + uint64(chunkPages)*vramPage, n: from.pages, access: accessReadWrite}
	if err := w.open([]chunk{from}, source); err != nil {
		return err
	}
	err := w.open(to, target)
	if err == nil {
		err = w.drv.check("cuMemcpyAsync", w.drv.memcpyAsync(target.va, source.va, source.size(), w.control))
		if err == nil {
			err = w.drv.check("cuStreamSynchronize", w.drv.streamSynchronize(w.control))
		}
		w.drv.memUnmap(target.va, target.size()) // of our own mapping
	}
	w.drv.memUnmap(source.va, source.size()) // likewise
	return err
}

// open maps chunks and gives access to them.
func (w *worker) open(chunks []chunk, at placed) error {
	err := w.place(chunks, at)
	if err != nil {
		return err
	}
	if err = w.access(at.va, at.size(), at.access); err != nil {
		w.drv.memUnmap(at.va, at.size()) // the first error is the one to tell
	}
	return err
}
