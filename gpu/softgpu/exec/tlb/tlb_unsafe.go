package tlb

import (
	"fmt"
	"unsafe"

	"pvdrm/gpu"
)

// TLB is a worker's cache of translations, direct mapped: one part for pages
// of 2 MiB and more, one for those from 64 KiB on, one for smaller ones. A page
// has an entry for each piece of it of its part's granularity that was used, so
// that a page of 1 MiB is asked for 16 times at most, and not 256 times.
type TLB struct {
	large  [64]Translation
	medium [256]Translation
	small  [256]Translation
	filled bool // some entry is
	space  Space
	kernel string // the name, for faults
}

const largeShift, mediumShift, smallShift = 21, 16, 12

// The entries that may hold the translation of va. Higher bits take part, since
// programs use buffers that lie powers of two apart.

func (t *TLB) largeSlot(va uint64) *Translation {
	n := va >> largeShift
	return &t.large[(n^n>>6^n>>12)%uint64(len(t.large))]
}

func (t *TLB) mediumSlot(va uint64) *Translation {
	n := va >> mediumShift
	return &t.medium[(n^n>>8^n>>16)%uint64(len(t.medium))]
}

func (t *TLB) smallSlot(va uint64) *Translation {
	n := va >> smallShift
	return &t.small[(n^n>>8^n>>16)%uint64(len(t.small))]
}

// Translation maps the page at base; it is empty where page is nil.
type Translation struct {
	Base uint64
	Mask uint64         // page size minus 1
	Page unsafe.Pointer // host memory of the page: a pointer, so it keeps the memory alive
	prot gpu.Prot
}

// holds reports whether the translation is for va.
func (e *Translation) holds(va uint64) bool { return va&^e.Mask == e.Base && e.Page != nil }

// Open empties the cache for a kernel that runs in an address space.
func (t *TLB) Open(s Space, kernel string) {
	t.Flush()
	t.space, t.kernel = s, kernel
}

// Close forgets the address space.
func (t *TLB) Close() { t.space = nil }

// Flush drops all translations. Short launches often have none.
func (t *TLB) Flush() {
	if !t.filled {
		return
	}
	t.filled = false
	clear(t.large[:])
	clear(t.medium[:])
	clear(t.small[:])
}

// Translate returns the translation of va, or nil where it is not mapped or not
// with the rights in need.
func (t *TLB) Translate(va uint64, need gpu.Prot) *Translation {
	e := t.largeSlot(va)
	if !e.holds(va) {
		if e = t.mediumSlot(va); !e.holds(va) {
			if e = t.smallSlot(va); !e.holds(va) {
				e = t.fill(va)
			}
		}
	}
	if e == nil || e.prot&need != need {
		return nil
	}
	return e
}

// fill asks the address space.
func (t *TLB) fill(va uint64) *Translation {
	page, base, prot, ok := t.space.Lookup(va)
	if !ok {
		return nil
	}
	size := uint64(len(page))
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(page)))%8 == 0 // for atomics; the address is only looked at
	if size < 1<<smallShift || size&(size-1) != 0 || va&^(size-1) != base || !aligned {
		panic(&gpu.LostError{Cause: gpu.LostDevice, Kernel: t.kernel,
			Detail: fmt.Sprintf("bad page of %d bytes at 0x%x", size, base)})
	}
	e := t.smallSlot(va)
	switch {
	case size >= 1<<largeShift:
		e = t.largeSlot(va)
	case size >= 1<<mediumShift:
		e = t.mediumSlot(va)
	}
	t.filled = true
	*e = Translation{Base: base, Mask: size - 1, Page: unsafe.Pointer(&page[0]), prot: prot} // the page is not empty, see above
	return e
}

// Word is what one lane moves at once.
type Word interface {
	uint8 | uint16 | uint32 | uint64
}

// At returns the place of address va in the page. Precondition: va lies in the
// page and is aligned for T, and pages are aligned and sized for any T.
func At[T Word](e *Translation, va uint64) *T {
	return (*T)(unsafe.Add(e.Page, va&e.Mask)) // within the page by the precondition
}

// PairAt is At for 16 bytes, to which va is aligned.
func PairAt(e *Translation, va uint64) *[2]uint64 {
	return (*[2]uint64)(unsafe.Add(e.Page, va&e.Mask)) // within the page, as At
}

// WindowTo is .shared memory as a page at address 0, which an offset that was
// checked lies in. Precondition: s starts aligned to 8.
func WindowTo(s []byte) Translation {
	return Translation{Mask: 1<<64 - 1, Page: unsafe.Pointer(unsafe.SliceData(s))} // nil if s is empty, when nothing passes the check
}

// WordBytes is the same memory as bytes.
func WordBytes(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w)) // 8 bytes for each element
}

// SizeOf is the size of T in bytes.
func SizeOf[T Word]() uint64 {
	var x T
	return uint64(unsafe.Sizeof(x)) // a constant
}
