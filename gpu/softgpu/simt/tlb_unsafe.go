package simt

import (
	"fmt"
	"unsafe"

	"pvdrm/gpu"
)

// tlb is a worker's cache of translations, direct mapped: one part for pages
// of 2 MiB and more, one for those from 64 KiB on, one for smaller ones. A page
// has an entry for each piece of it of its part's granularity that was used, so
// that a page of 1 MiB is asked for 16 times at most, and not 256 times.
type tlb struct {
	large  [64]translation
	medium [256]translation
	small  [256]translation
}

const largeShift, mediumShift, smallShift = 21, 16, 12

// The entries that may hold the translation of va. Higher bits take part, since
// programs use buffers that lie powers of two apart.

func (t *tlb) largeSlot(va uint64) *translation {
	n := va >> largeShift
	return &t.large[(n^n>>6^n>>12)%uint64(len(t.large))]
}

func (t *tlb) mediumSlot(va uint64) *translation {
	n := va >> mediumShift
	return &t.medium[(n^n>>8^n>>16)%uint64(len(t.medium))]
}

func (t *tlb) smallSlot(va uint64) *translation {
	n := va >> smallShift
	return &t.small[(n^n>>8^n>>16)%uint64(len(t.small))]
}

// translation maps the page at base; it is empty where page is nil.
type translation struct {
	base uint64
	mask uint64         // page size minus 1
	page unsafe.Pointer // host memory of the page: a pointer, so it keeps the memory alive
	prot gpu.Prot
}

// holds reports whether the translation is that of va.
func (e *translation) holds(va uint64) bool { return va&^e.mask == e.base && e.page != nil }

func (t *tlb) flush() { *t = tlb{} }

// translate returns the translation of va, or nil where it is not mapped or not
// with the rights in need.
func (w *worker) translate(va uint64, need gpu.Prot) *translation {
	e := w.tlb.largeSlot(va)
	if !e.holds(va) {
		if e = w.tlb.mediumSlot(va); !e.holds(va) {
			if e = w.tlb.smallSlot(va); !e.holds(va) {
				e = w.fillTLB(va)
			}
		}
	}
	if e == nil || e.prot&need != need {
		return nil
	}
	return e
}

// fillTLB asks the address space.
func (w *worker) fillTLB(va uint64) *translation {
	page, base, prot, ok := w.run.space.Lookup(va)
	if !ok {
		return nil
	}
	size := uint64(len(page))
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(page)))%8 == 0 // for atomics; the address is only looked at
	if size < 1<<smallShift || size&(size-1) != 0 || va&^(size-1) != base || !aligned {
		panic(&gpu.LostError{Cause: gpu.LostDevice, Kernel: w.run.kernel.attrs.Name,
			Detail: fmt.Sprintf("bad page of %d bytes at 0x%x", size, base)})
	}
	e := w.tlb.smallSlot(va)
	switch {
	case size >= 1<<largeShift:
		e = w.tlb.largeSlot(va)
	case size >= 1<<mediumShift:
		e = w.tlb.mediumSlot(va)
	}
	*e = translation{base: base, mask: size - 1, page: unsafe.Pointer(&page[0]), prot: prot} // the page is not empty, see above
	return e
}

// word is what one lane moves at once.
type word interface {
	uint8 | uint16 | uint32 | uint64
}

// at returns the place of address va in the page. Precondition: va lies in the
// page and is aligned for T, and pages are aligned and sized for any T.
func at[T word](e *translation, va uint64) *T {
	return (*T)(unsafe.Add(e.page, va&e.mask)) // within the page by the precondition
}

// windowTo is .shared memory as a page at address 0, which an offset that was
// checked lies in. Precondition: s starts aligned to 8.
func windowTo(s []byte) translation {
	return translation{mask: 1<<64 - 1, page: unsafe.Pointer(unsafe.SliceData(s))} // nil if s is empty, when nothing passes the check
}

// wordBytes is the same memory as bytes.
func wordBytes(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w)) // 8 bytes for each element
}

// sizeOf is the size of T in bytes.
func sizeOf[T word]() uint64 {
	var x T
	return uint64(unsafe.Sizeof(x)) // a constant
}

// reg is 32-bit or 64-bit register i, as the size of D asks.
func reg[D uint32 | uint64](w *warp, i uint32) *[32]D {
	var x D
	if unsafe.Sizeof(x) == 8 { // a constant in each instance
		return (*[32]D)(unsafe.Pointer(&w.r64[i])) // D is uint64
	}
	return (*[32]D)(unsafe.Pointer(&w.r32[i])) // D is uint32
}

// fillLanes is fill32 or fill64.
func fillLanes[T uint32 | uint64](d *[32]T, v T) {
	if sizeOf[T]() == 8 { // a constant in each instance
		fill64((*[32]uint64)(unsafe.Pointer(d)), uint64(v)) // T is uint64
		return
	}
	fill32((*[32]uint32)(unsafe.Pointer(d)), uint32(v)) // T is uint32
}
