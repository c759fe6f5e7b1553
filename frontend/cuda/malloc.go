package cuda

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
)

// heapPragma is how a module brings the limit of malloc in kernels to the device (ptx.HeapPragma):
// the limit is a property of how the module is run, and older backends ignore pragmas.
const heapPragma = "\n.pragma \"pvdrm_malloc_heap %d\";\n"

// defaultHeap is the limit where a program sets none.
const defaultHeap = 8 << 20

// kernelHeap is what kernels of a context may allocate with malloc.
type kernelHeap struct {
	mu    sync.Mutex
	limit uint64 // 0: the device's default
	fixed bool   // a module that calls malloc was loaded
}

// SetHeapLimit is cuCtxSetLimit of CU_LIMIT_MALLOC_HEAP_SIZE. It is ErrInvalidValue once a module
// that calls malloc was loaded: the device has made the heap then.
func (c *Context) SetHeapLimit(bytes uint64) error {
	const call = "cuCtxSetLimit"
	h := &c.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.fixed && bytes != cmp.Or(h.limit, defaultHeap):
		return errorf(call, ErrInvalidValue, "a module that calls malloc is loaded, and has fixed the heap of kernels")
	case bytes > c.dev.TotalMem():
		return errorf(call, ErrOutOfMemory, "a heap of %d bytes for malloc in kernels; the device has %d", bytes, c.dev.TotalMem())
	}
	h.limit = max(bytes, 1)
	return nil
}

// tell adds the limit to a module that calls malloc.
func (h *kernelHeap) tell(ptx []byte) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fixed || h.limit == 0 || !names(ptx, "malloc") {
		return ptx
	}
	return fmt.Appendf(bytes.Clone(ptx), heapPragma, h.limit)
}

// fix notes that a module was loaded.
func (h *kernelHeap) fix(ptx []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fixed = h.fixed || names(ptx, "malloc")
}

// names reports whether a name stands in a PTX source, apart from longer ones.
func names(ptx []byte, name string) bool {
	for {
		i := bytes.Index(ptx, []byte(name))
		if i < 0 {
			return false
		}
		end := i + len(name)
		if (i == 0 || !inName(ptx[i-1])) && (end == len(ptx) || !inName(ptx[end])) {
			return true
		}
		ptx = ptx[end-1:] // with the character before the next one
	}
}

// inName reports whether names of PTX contain a character.
func inName(b byte) bool {
	return b == '_' || b == '$' || b == '%' || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}
