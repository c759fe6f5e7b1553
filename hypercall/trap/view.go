package trap

import "pvdrm/internal/hostmem"

// A View says for each page of BAR1 and then of BAR3, in 4 bytes, what an access of it does. The
// Aggregator writes it and never reads it: a guest that changes it fools itself.
type View struct{ mem []byte }

// Entries of a View: what an access does in bits 0-1, and for Shown and ShownReadOnly the page of the
// VM's VRAM in the others.
const (
	Traps         = 0
	Nothing       = 1 // reads as ones, and drops what is written
	Shown         = 2
	ShownReadOnly = 3

	viewShift = 2
	pageBytes = 4096
)

// ViewBytes returns how large the View of a VM is.
func ViewBytes(t Terms) uint64 {
	return ((t.BAR1+t.BAR3)/pageBytes*4 + pageBytes - 1) &^ (pageBytes - 1)
}

// NewView makes a View of memory of at least ViewBytes.
func NewView(mem []byte) View { return View{mem: mem} }

// Set writes an entry. Preconditions: it is one of the View.
func (v View) Set(entry int, what uint32, page uint64) {
	hostmem.SwapUint32(v.mem, 4*entry, what|uint32(page)<<viewShift)
}

// Get reads an entry.
func (v View) Get(entry int) (what uint32, page uint64) {
	w := hostmem.LoadUint32(v.mem, 4*entry)
	return w & (1<<viewShift - 1), uint64(w >> viewShift)
}
