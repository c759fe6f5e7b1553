package cuda

import (
	"encoding/binary"
	"fmt"
)

// HostMem is memory of the program that the GPU reaches itself: pages granted
// to the backend. Copies from and to it need no staging, and kernels can use it
// through DevicePtr.
type HostMem struct {
	c    *Context
	addr DevicePtr

	heap    *heap
	managed bool
	module  bool // a variable of a module, which frees it

	block block // guarded by memory.mu; mem is nil when freed

	// Of memory that the program has allocated itself: registered.go. Memory.mu guards at and n.
	registered *registration
	at, n      uint64 // in the program; 0 when it is not registered any more
}

// MemAllocHost is cuMemAllocHost (and cuMemHostAlloc: all of it is mapped).
// What the memory holds is undefined.
func (c *Context) MemAllocHost(n uint64) (*HostMem, error) {
	return c.allocHost("cuMemAllocHost", n, c.memory.system, false)
}

// MemAllocUnified is MemAllocHost of memory whose address in the program is its
// address on the GPU, so that both can use one pointer. Objects for it cost a little
// more to make. ErrNotSupported where the driver is no drm.Placer.
func (c *Context) MemAllocUnified(n uint64) (*HostMem, error) {
	return c.allocHost("cuMemAllocHost", n, c.memory.unified, false)
}

// MemAllocManaged is cuMemAllocManaged: memory as of MemAllocUnified. It does not
// move to the GPU: kernels reach it as they reach pinned memory.
func (c *Context) MemAllocManaged(n uint64) (*HostMem, error) {
	return c.allocHost("cuMemAllocManaged", n, c.memory.unified, true)
}

func (c *Context) allocHost(call string, n uint64, from *heap, managed bool) (*HostMem, error) {
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	if n == 0 {
		return nil, errorf(call, ErrInvalidValue, "the size is 0")
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if from == nil {
		return nil, errorf(call, ErrNotSupported, "this driver maps no memory at a given address")
	}
	b, err := from.alloc(n)
	if err != nil {
		return nil, c.fail(call, fmt.Errorf("%d bytes of pinned memory: %w", n, err))
	}
	h := &HostMem{c: c, addr: DevicePtr(b.addr), heap: from, managed: managed, block: b}
	m.note(b.addr, n, allocation{host: h})
	m.pinned.insert(hostAddress(b.mem), n, h)
	return h, nil
}

// Bytes is the memory itself. It must not be used after Free or after the
// context was destroyed: its pages are gone then. From then on Bytes is nil, as it always is of
// registered memory.
// What queued work reads or writes of it must be left alone until that is done.
func (h *HostMem) Bytes() []byte {
	h.c.memory.mu.Lock()
	defer h.c.memory.mu.Unlock()
	return h.block.mem
}

// Address is where the memory begins in the program, 0 when it is freed. It
// serves callers that know memory by its address, as C programs do.
func (h *HostMem) Address() uint64 {
	addr, _ := h.extent()
	return addr
}

// Size returns how many bytes the memory has, 0 when it is freed.
func (h *HostMem) Size() uint64 {
	_, n := h.extent()
	return n
}

// extent returns where the memory lies in the program, which is 0 when it is freed.
func (h *HostMem) extent() (addr, n uint64) {
	h.c.memory.mu.Lock()
	defer h.c.memory.mu.Unlock()
	if h.registered != nil {
		return h.at, h.n
	}
	if b := h.block.mem; b != nil {
		return hostAddress(b), uint64(len(b))
	}
	return 0, 0
}

// HostMemAt finds the pinned memory in which n bytes at an address of the
// program lie whole, and where in it; nil when there is none.
func (c *Context) HostMemAt(addr, n uint64) (h *HostMem, off uint64) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, ok := c.memory.pinned.find(addr, n)
	if !ok {
		return nil, 0
	}
	return e.value, addr - e.start
}

// PinnedDevicePtr says whether p points into pinned memory of the context.
func (c *Context) PinnedDevicePtr(p DevicePtr) bool {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, ok := c.memory.byAddr.find(uint64(p), 1)
	return ok && e.value.host != nil
}

// Word returns the word of 4 bytes at an offset. Unlike Bytes it is safe while another goroutine
// destroys the context. Work that writes the word must be done.
func (h *HostMem) Word(off uint64) (v uint32, err error) {
	err = h.withWord(off, func(b []byte) { v = binary.LittleEndian.Uint32(b) })
	return v, err
}

// SetWord sets the word of 4 bytes at an offset. Work that uses it must be done.
func (h *HostMem) SetWord(off uint64, v uint32) error {
	return h.withWord(off, func(b []byte) { binary.LittleEndian.PutUint32(b, v) })
}

func (h *HostMem) withWord(off uint64, do func([]byte)) error {
	const call = "cuMemHostGetDevicePointer"
	if err := h.c.enter(call); err != nil {
		return err
	}
	defer h.c.life.RUnlock()
	mem := h.Bytes()
	if off > uint64(len(mem)) || uint64(len(mem))-off < 4 {
		return errorf(call, ErrInvalidValue, "a word at %d of pinned memory of %d bytes", off, len(mem))
	}
	do(mem[off : off+4])
	return nil
}

// Managed says whether MemAllocManaged made the memory.
func (h *HostMem) Managed() bool { return h.managed }

// DevicePtr is cuMemHostGetDevicePointer: the address for kernels and copies.
func (h *HostMem) DevicePtr() DevicePtr { return h.addr }

// Free is cuMemFreeHost. It waits for the work of the context first.
func (h *HostMem) Free() error {
	const call = "cuMemFreeHost"
	c := h.c
	c.dev.driver.portable.settle(call, c)
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	switch {
	case h.registered != nil:
		return errorf(call, ErrInvalidValue, "the memory is the program's own, which it has registered")
	case h.module:
		return errorf(call, ErrInvalidValue, "the memory is a variable of a module")
	case h.Bytes() == nil:
		return errorf(call, ErrInvalidValue, "the memory is freed already")
	}
	if err := c.waitIdle(call); err != nil {
		return err
	}
	return h.release(call)
}

// release frees memory that no work uses. Preconditions: the caller has entered the context.
func (h *HostMem) release(call string) error {
	c := h.c
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	b := h.block
	if b.mem == nil { // another goroutine was faster
		return errorf(call, ErrInvalidValue, "the memory is freed already")
	}
	h.block.mem = nil
	m.byAddr.remove(b.addr)
	m.pinned.remove(hostAddress(b.mem))
	if err := h.heap.free(b); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// pinnedAt finds the GPU address of a slice that lies whole in pinned memory.
func (c *Context) pinnedAt(b []byte) (DevicePtr, bool) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	at := hostAddress(b)
	e, ok := c.memory.pinned.find(at, uint64(len(b)))
	if !ok {
		return 0, false
	}
	return e.value.addr + DevicePtr(at-e.start), true
}

// span finds n bytes of h from off on.
func (c *Context) span(call string, h *HostMem, off, n uint64) (DevicePtr, error) {
	if h == nil || h.c != c {
		return 0, errorf(call, ErrInvalidValue, "the pinned memory does not belong to the context")
	}
	at, size := h.extent()
	if at == 0 {
		return 0, errorf(call, ErrInvalidValue, "the pinned memory is freed")
	}
	if off > size || n > size-off {
		return 0, errorf(call, ErrInvalidValue, "%d bytes from %d on, of pinned memory of %d bytes", n, off, size)
	}
	return h.addr + DevicePtr(off), nil
}
