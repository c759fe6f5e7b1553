package ptx

import (
	"math"
	"strconv"
	"strings"
)

// HeapPragma begins the text of a .pragma that PVDRM has in addition to those of the manual:
//
//	.pragma "pvdrm_malloc_heap 67108864";
//
// At module scope it says how many bytes kernels of the context want to allocate with malloc, as
// a program set it by cuCtxSetLimit; of the context's modules the first that calls malloc counts.
const HeapPragma = "pvdrm_malloc_heap"

// ManagedPragma begins the text of a .pragma that says where a variable with .attribute(.managed)
// lies, which a program reaches at the same address:
//
//	.pragma "pvdrm_managed 140737488355328 counter";
//
// The module has the variable's initial contents at the place that it would have without.
const ManagedPragma = "pvdrm_managed"

// Managed calls do for each variable that the pragma gives a place. What cannot be read is left out.
func (g *Pragma) Managed(do func(name string, addr uint64)) {
	for _, text := range g.Text {
		rest, is := strings.CutPrefix(text, ManagedPragma+" ")
		number, name, both := strings.Cut(rest, " ")
		if !is || !both {
			continue
		}
		if addr, err := strconv.ParseUint(number, 10, 64); err == nil {
			do(name, addr)
		}
	}
}

// MallocHeap returns the number of bytes that a HeapPragma names, and whether it is one. It is the
// largest of all numbers where it cannot be read.
func (g *Pragma) MallocHeap() (bytes uint64, ok bool) {
	for _, text := range g.Text {
		number, is := strings.CutPrefix(text, HeapPragma+" ")
		if !is {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			n = math.MaxUint64
		}
		bytes, ok = n, true
	}
	return bytes, ok
}
