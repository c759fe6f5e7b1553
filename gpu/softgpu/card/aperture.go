package card

import (
	"sync"
	"sync/atomic"

	"pvdrm/gpu/softgpu/hw"
)

// aperture is a BAR that shows VRAM through page tables. It keeps the translations that it has
// looked up until they are flushed.
type aperture struct {
	mmu   hw.MMU                        // without a bus
	pages []atomic.Pointer[translation] // by page of the BAR

	mu         sync.Mutex
	register   uint32   // RegBAR1 or RegBAR3
	filled     []uint32 // the pages that are not nil
	descriptor uint64
}

// translation is a page of VRAM.
type translation struct {
	mem      []byte
	readOnly bool
}

func (a *aperture) init(v *hw.VRAM, size uint64) {
	a.mmu.VRAM = v
	a.pages = make([]atomic.Pointer[translation], size/hw.SmallPage)
}

// at returns the VRAM that the aperture shows from an offset to the end of its page; nil where it
// shows none, or none that may be written. Preconditions: the offset lies in the BAR.
func (a *aperture) at(off uint64, write bool) []byte {
	p := a.pages[off/hw.SmallPage].Load()
	if p == nil {
		if p = a.fill(off); p == nil {
			return nil
		}
	}
	if write && p.readOnly {
		return nil
	}
	return p.mem[off%hw.SmallPage:]
}

// fill looks a page up.
func (a *aperture) fill(off uint64) *translation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.register&hw.Valid == 0 {
		return nil
	}
	mem, base, readOnly, ok := hw.ViewOf(&a.mmu, a.descriptor).Lookup(off)
	if !ok {
		return nil
	}
	from := off&^(hw.SmallPage-1) - base
	n := uint32(off / hw.SmallPage)
	p := &translation{mem: mem[from : from+hw.SmallPage], readOnly: readOnly}
	if a.pages[n].Swap(p) == nil {
		a.filled = append(a.filled, n)
	}
	return p
}

// set gives the aperture another descriptor.
func (a *aperture) set(v uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.register, a.descriptor = v, uint64(v&hw.AddressField)<<12
	a.drop()
}

// get returns the register.
func (a *aperture) get() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.register
}

// flush drops the translations if they go through a directory.
func (a *aperture) flush(directory uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.register&hw.Valid != 0 && hw.ViewOf(&a.mmu, a.descriptor).Directory == directory {
		a.drop()
	}
}

// drop forgets all translations. Preconditions: mu is held.
func (a *aperture) drop() {
	for _, n := range a.filled {
		a.pages[n].Store(nil)
	}
	a.filled = a.filled[:0]
}
