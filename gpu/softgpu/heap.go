package softgpu

import (
	"cmp"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/snapshot"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/gpu/softgpu/internal/heap"
)

// defaultHeap is what kernels of a context can allocate with malloc, as CUDA has it by default
// (cudaLimitMallocHeapSize), where the module that makes the heap asks for nothing else.
const defaultHeap = 8 << 20

// heapBytes is the size of a heap with such a limit. It is larger by an eighth for what rounding
// takes: CUDA promises at least the limit. What is more than a heap can have is not rounded.
func heapBytes(limit uint64) uint64 {
	if limit > heap.MaxBytes {
		return limit
	}
	return (limit + limit/8 + hw.SmallPage - 1) &^ (hw.SmallPage - 1)
}

// mallocHeap is the memory that kernels of a context get from malloc. It exists from the first
// module on that calls malloc, up to the end of the context: CUDA lets memory outlive the kernel
// and the module that allocated it.
type mallocHeap struct {
	*heap.Heap
	mem *memory // where it lies
}

// heapCharge is what a heap costs the owner of a context: also the host's memory for it.
func heapCharge(size uint64) uint64 { return size + heap.HostBytes(size) }

// heapOf returns the size of the heap that a program needs and the context has not; 0 if there
// is none to make.
func (c *context) heapOf(p *exec.Program) (uint64, error) {
	if !p.Mallocs || c.heap.Load() != nil {
		return 0, nil
	}
	size := heapBytes(cmp.Or(p.Heap, defaultHeap))
	if size > heap.MaxBytes {
		return 0, fmt.Errorf("%w: a heap of %d bytes for malloc; a context may have %d", gpu.ErrNoMemory, p.Heap, heap.MaxBytes)
	}
	return size, nil
}

// makeHeap gives the context a heap of a size. Preconditions: c.mu is held, and there is none.
func (c *context) makeHeap(size uint64) error {
	va, ok := c.space.gap(heapWindow(size), size, hw.SmallPage)
	if !ok {
		return fmt.Errorf("%w: no %d bytes of addresses left for the heap of malloc", gpu.ErrNoMemory, size)
	}
	_, err := c.mapHeap(heap.New(va, size))
	return err
}

// restoreHeap gives the context a heap as saved in a snapshot. Preconditions: as of makeHeap; the
// heap has at most heap.MaxBytes.
func (c *context) restoreHeap(saved *snapshot.Heap) error {
	if err := check.Map(heapWindow(saved.Size), saved.Size, saved.VA, 0, saved.Size, gpu.ProtRead); err != nil {
		return err
	}
	made, err := heap.Restore(saved.VA, saved.Size, saved.State)
	if err != nil {
		return fmt.Errorf("%w: %v", gpu.ErrInvalid, err)
	}
	mem, err := c.mapHeap(made)
	if err == nil {
		mem.fill(saved.Data)
	}
	return err
}

// heapWindow is where a heap of a size lies.
func heapWindow(size uint64) gpu.Window {
	if size > modules.Size/8 {
		return heaps
	}
	return modules
}

// mapHeap allocates memory for a heap and makes it the context's.
func (c *context) mapHeap(made *heap.Heap) (*memory, error) {
	va, size := made.Range()
	ext, err := c.dev.vram.alloc(size)
	if err != nil {
		return nil, fmt.Errorf("heap of malloc: %w", err)
	}
	mem := newVRAMMemory(c, ext)
	if err := c.space.insert(va, mem, 0, size, false); err != nil {
		c.release(mem)
		return nil, fmt.Errorf("heap of malloc: %w", err)
	}
	c.memories[mem] = struct{}{}
	c.heap.Store(&mallocHeap{Heap: made, mem: mem})
	return mem, nil
}

// state describes the heap. Preconditions: c.mu is held, and all channels rest.
func (h *mallocHeap) state() *snapshot.Heap {
	va, size := h.Range()
	return &snapshot.Heap{VA: va, Size: size, Data: h.mem.contents(), State: h.State()}
}

// Retained implements gpu.Retainer.
func (c *context) Retained() uint64 {
	h := c.heap.Load()
	if h == nil {
		return 0
	}
	_, size := h.Range()
	return heapCharge(size)
}

// allocator is what kernels that are launched now get.
func (c *context) allocator() *heap.Heap {
	if h := c.heap.Load(); h != nil {
		return h.Heap
	}
	return nil
}
