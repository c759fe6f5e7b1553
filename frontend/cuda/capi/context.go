package capi

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"pvdrm/frontend/cuda"
)

// context is a CUcontext.
type context struct {
	*cuda.Context
	handle  uint64
	primary bool

	// next is the context that took the place, and the handle, of a primary one that was reset.
	next atomic.Pointer[context]

	// late is the error of a graph that failed after its launch had returned: all later work of
	// the context fails with it.
	late atomic.Pointer[error]

	mu        sync.Mutex
	flags     uint32
	users     int // cuCtxAttach and cuCtxDetach
	limits    map[uint32]uint64
	cache     uint32
	ended     bool
	host      map[*cuda.Stream]chan struct{} // closed when the last host function of a stream is done
	streams   map[uint64]*cuda.Stream        // the default streams of threads
	allocated map[uint64]uint32              // memory by cuMemHostAlloc: flags by address
	lent      map[uint64]lending             // memory by cuMemHostRegister, by address
	objects   map[uint64]*object             // textures and surfaces, by the address of their descriptors

	attributes map[*cuda.Stream]map[uint32][]byte // that were set, of streams

	synced map[uint64]bool // allocations with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, by id

	graphs *cuda.Stream // for work of graphs that run on streams of other contexts; nil before the first

	conditions conditions // of conditional nodes
	launcher   launcher   // of graphs by kernels
}

func (c *context) owner() *context { return nil } // its handle stays known, to be refused

// newContext makes a context and its handle.
func (c *call) newContext(dev *cuda.Device, flags uint32) (*context, error) {
	made, err := dev.CreateContext()
	if err != nil {
		return nil, err
	}
	x := &context{Context: made, flags: flags, users: 1, limits: map[uint32]uint64{},
		streams: map[uint64]*cuda.Stream{}, allocated: map[uint64]uint32{}, lent: map[uint64]lending{}, objects: map[uint64]*object{}, host: map[*cuda.Stream]chan struct{}{}}
	x.handle = c.lib.handles.add(x)
	return x, nil
}

// destroy ends a context. What queued work did wrong is told by the error.
func (l *Library) destroy(x *context) error {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	l.dropCaptures(func(s *cuda.Stream) bool { return s.Context() == x.Context })
	err := x.Context.Destroy()
	l.handles.removeOwned(x)
	l.dropLibraries(x)
	if !x.primary {
		l.handles.remove(x.handle)
	}
	return err
}

// context finds the context in argument i; null is an error.
func (c *call) context(i int) (*context, error) {
	x, ok := find[*context](c.lib, c.u64(i))
	if !ok {
		return nil, c.fail(invalidContext, "0x%x is no context", c.u64(i))
	}
	return x, nil
}

// contextNotNull is context for calls to which a null pointer is a wrong value and no wrong context.
func (c *call) contextNotNull(i int) (*context, error) {
	if c.u64(i) == 0 {
		return nil, c.fail(cuda.ErrInvalidValue, "argument %d is a null pointer", i+1)
	}
	return c.context(i)
}

// Flags of contexts. How the program waits, memory that can be mapped and core dumps are hints.
const (
	contextFlags  = 0xff // CU_CTX_FLAGS_MASK of CUDA 12
	contextWaits  = 7    // CU_CTX_SCHED_MASK, of which one bit may be set
	contextMemops = 0x80 // CU_CTX_SYNC_MEMOPS: calls without a stream wait for all of their work
)

// contextFlags checks the flags in argument i.
func (c *call) contextFlags(i int) error {
	if f := c.u32(i); f&^contextFlags != 0 || bits.OnesCount32(f&contextWaits) > 1 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", f)
	}
	return nil
}

func (c *context) setFlags(flags uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flags = flags
}

// waitsForMemory reports whether calls without a stream wait for copies within the device, too.
func (c *context) waitsForMemory() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flags&contextMemops != 0 || len(c.synced) > 0
}

func ctxCreate(c *call) error { return c.create(1, 2) }

// noAffinity refuses n execution affinities at list, as a GPU without MPS does.
func (c *call) noAffinity(list uint64, n int32) error {
	switch {
	case n <= 0:
		return nil
	case list == 0:
		return c.fail(cuda.ErrInvalidValue, "%d execution affinities at a null pointer", n)
	}
	return c.fail(unsupportedAffinity, "execution affinity")
}

// ctxCreateAffinity is cuCtxCreate_v3, with an array of CUexecAffinityParam.
func ctxCreateAffinity(c *call) error {
	if err := c.noAffinity(c.u64(1), c.i32(2)); err != nil {
		return err
	}
	return c.create(3, 4)
}

// ctxCreateParams is cuCtxCreate_v4, with a CUctxCreateParams: an array of
// CUexecAffinityParam, its length, and a CUctxCigParam, all of which may be missing.
func ctxCreateParams(c *call) error {
	if c.u64(1) != 0 {
		const size, affinities, graphics = 24, 8, 16
		b, err := c.read(c.u64(1), size)
		if err != nil {
			return err
		}
		if err := c.noAffinity(le64(b), int32(le32(b[affinities:]))); err != nil {
			return err
		}
		if le64(b[graphics:]) != 0 {
			return c.fail(cuda.ErrNotSupported, "sharing with a graphics queue")
		}
	}
	return c.create(2, 3)
}

func (c *call) create(flags, dev int) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if err := c.contextFlags(flags); err != nil {
		return err
	}
	d, err := c.device(dev)
	if err != nil {
		return err
	}
	x, err := c.newContext(d, c.u32(flags))
	if err != nil {
		return err
	}
	c.lib.remember(x)
	c.thread.stack = append(c.thread.stack, x)
	return to.set(x.handle)
}

func ctxDestroy(c *call) error {
	x, err := c.contextNotNull(0)
	if err != nil && c.lib.wasDestroyed(c.u64(0)) {
		return c.fail(cuda.ErrContextIsDestroyed, "the context 0x%x", c.u64(0))
	}
	if err != nil {
		return err
	}
	if x.primary {
		return c.fail(invalidContext, "the primary context is not destroyed but released")
	}
	return c.end(x)
}

// end destroys a context and takes it from the top of this thread's stack.
func (c *call) end(x *context) error {
	c.lib.forget(x)
	c.lib.noteDestroyed(x.handle)
	if n := len(c.thread.stack); n > 0 && c.thread.stack[n-1] == x {
		c.thread.stack = c.thread.stack[:n-1]
	}
	return c.lib.destroy(x)
}

func ctxAttach(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.users++
	x.mu.Unlock()
	return to.set(x.handle)
}

func ctxDetach(c *call) error {
	x, err := c.context(0)
	if err != nil {
		return err
	}
	if x.primary {
		return c.fail(invalidContext, "the primary context is not detached but released")
	}
	x.mu.Lock()
	x.users--
	last := x.users == 0
	x.mu.Unlock()
	if last {
		return c.end(x)
	}
	return nil
}

// maxStack bounds the contexts that a thread has pushed.
const maxStack = 1 << 16

func ctxPushCurrent(c *call) error {
	x, err := c.contextNotNull(0)
	if err != nil {
		return err
	}
	if len(c.thread.stack) == maxStack {
		return c.fail(cuda.ErrOutOfMemory, "a thread can push %d contexts", maxStack)
	}
	c.thread.stack = append(c.thread.stack, x)
	return nil
}

func ctxPopCurrent(c *call) error {
	to, err := c.optional(0, 8)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	c.thread.stack = c.thread.stack[:len(c.thread.stack)-1]
	return to.set(x.handle)
}

func ctxSetCurrent(c *call) error {
	if n := len(c.thread.stack); n > 0 && c.u64(0) == 0 {
		c.thread.stack = c.thread.stack[:n-1]
		return nil
	}
	if c.u64(0) == 0 {
		return nil
	}
	x, err := c.context(0)
	if err != nil {
		return err
	}
	if n := len(c.thread.stack); n > 0 {
		c.thread.stack[n-1] = x
	} else {
		c.thread.stack = append(c.thread.stack, x)
	}
	return nil
}

func ctxGetCurrent(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if n := len(c.thread.stack); n > 0 {
		return to.set(c.thread.stack[n-1].handle)
	}
	return to.set(0)
}

// currentOr finds the context in argument i; null means the current one.
func (c *call) currentOr(i int) (*context, error) {
	if c.u64(i) == 0 {
		return c.current()
	}
	return c.context(i)
}

func ctxGetDevice(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	return to.set(uint64(x.Device().Ordinal()))
}

func ctxGetDeviceOf(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	x, err := c.currentOr(1)
	if err != nil {
		return err
	}
	return to.set(uint64(x.Device().Ordinal()))
}

func ctxSynchronize(c *call) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	return c.synchronize(x)
}

func ctxSynchronizeOf(c *call) error {
	x, err := c.currentOr(0)
	if err != nil {
		return err
	}
	return c.synchronize(x)
}

// synchronize waits for the work of a context.
func (c *call) synchronize(x *context) error {
	return c.settle(x, nil, x.Synchronize)
}

func ctxGetFlags(c *call) error {
	to, x, err := c.outInContext(0, 4)
	if err != nil {
		return err
	}
	x.mu.Lock()
	flags := x.flags
	x.mu.Unlock()
	return to.set(uint64(flags))
}

func ctxSetFlags(c *call) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if err := c.contextFlags(0); err != nil {
		return err
	}
	x.setFlags(c.u32(0))
	return nil
}

func ctxGetID(c *call) error {
	to, err := c.out64(1)
	if err != nil {
		return err
	}
	x, err := c.currentOr(0)
	if err != nil {
		return err
	}
	return to.set((x.handle - handleBase) / handleStep)
}

func ctxGetAPIVersion(c *call) error {
	to, err := c.out32(1)
	if err != nil {
		return err
	}
	if _, err := c.currentOr(0); err != nil {
		return err
	}
	return to.set(3020) // that of cuCtxCreate_v2
}

// hint sets or gets one of the context's hints, which have no effect.
func (c *call) hint(set bool, which func(*context) *uint32, most uint32) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if set {
		if c.u32(0) > most {
			return c.fail(cuda.ErrInvalidValue, "%d", c.u32(0))
		}
		x.mu.Lock()
		*which(x) = c.u32(0)
		x.mu.Unlock()
		return nil
	}
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	x.mu.Lock()
	v := *which(x)
	x.mu.Unlock()
	return to.set(uint64(v))
}

func cacheHint(x *context) *uint32 { return &x.cache }

func ctxSetCacheConfig(c *call) error { return c.hint(true, cacheHint, maxCacheConfig) }
func ctxGetCacheConfig(c *call) error { return c.hint(false, cacheHint, maxCacheConfig) }

// Banks of shared memory have 4 bytes on all devices since compute capability 5.0, and what a
// program sets is checked and has no effect.

func ctxSetSharedMemConfig(c *call) error {
	if c.u32(0) > maxBankConfig {
		return c.fail(cuda.ErrInvalidValue, "%d", c.u32(0))
	}
	_, err := c.current()
	return err
}

func ctxGetSharedMemConfig(c *call) error {
	to, _, err := c.outInContext(0, 4)
	if err != nil {
		return err
	}
	return to.set(bankOf4Bytes)
}

func (c *context) isEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}
