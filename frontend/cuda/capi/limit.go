package capi

import (
	"slices"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/link"
)

const (
	limitStack     = 0
	limitHeap      = 2 // CU_LIMIT_MALLOC_HEAP_SIZE
	limitSyncDepth = 3 // devices from compute capability 9.0 on do not have it
	limitL2        = 6 // CU_LIMIT_PERSISTING_L2_CACHE_SIZE, a hint
	limitShared    = 7 // CU_LIMIT_SHMEM_SIZE, which can only be queried
	limitGraphics  = 8 // CU_LIMIT_CIG_ENABLED, the same
	limitLast      = 9

	stackUnit = 16 // bytes, of which a stack is a multiple
)

// defaultLimits is by CUlimit.
var defaultLimits = [...]uint64{
	0:         1024,    // CU_LIMIT_STACK_SIZE
	1:         1 << 20, // CU_LIMIT_PRINTF_FIFO_SIZE
	limitHeap: 8 << 20,
	3:         2,    // CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH
	4:         2048, // CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT
	5:         64,   // CU_LIMIT_MAX_L2_FETCH_GRANULARITY
	limitL2:   0,    // but for devices that have it
}

func ctxSetLimit(c *call) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if l := c.u32(0); l == limitShared || l == limitGraphics {
		return c.fail(cuda.ErrNotPermitted, "limit %d can only be queried", l)
	}
	if err := c.limit(x, 0); err != nil {
		return err
	}
	v := c.u64(1)
	if c.u32(0) == limitStack {
		v = (v + stackUnit - 1) &^ (stackUnit - 1)
	}
	if c.u32(0) == limitL2 {
		if v, err = c.persistingL2(x, v); err != nil {
			return err
		}
	}
	if c.u32(0) == limitHeap {
		if err := x.SetHeapLimit(v); err != nil {
			return err
		}
	}
	x.mu.Lock()
	x.limits[c.u32(0)] = v
	x.mu.Unlock()
	return nil
}

// tenths of the cache lines that may persist are the unit of limitL2, and defaultTenths of them are
// its value before it is set, on an H100.
const (
	tenths        = 10
	defaultTenths = 3
)

// persistingL2 is the value that limitL2 gets where a program sets it to v bytes.
func (c *call) persistingL2(x *context, v uint64) (uint64, error) {
	n, _ := attribute(x.Device(), attrPersistingL2)
	most := uint64(n)
	unit := most / tenths
	switch {
	case unit == 0:
		return v, nil // the device has none, and ignores it
	case v > most:
		return 0, c.fail(cuda.ErrInvalidValue, "%d bytes of the L2 cache; at most %d may persist", v, most)
	}
	return min((v+unit-1)/unit*unit, most), nil
}

// limit checks the CUlimit in argument i, which a program may set.
func (c *call) limit(x *context, i int) error {
	l := c.u32(i)
	if l > limitLast {
		return c.fail(cuda.ErrInvalidValue, "limit %d", l)
	}
	if l >= uint32(len(defaultLimits)) || l == limitSyncDepth && capability(x.Device()) >= hopper {
		return c.fail(unsupportedLimit, "limit %d", l)
	}
	return nil
}

// limitOf is the value of a limit that the device has.
func (x *context) limitOf(l uint32) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if v, ok := x.limits[l]; ok {
		return v
	}
	if most, _ := attribute(x.Device(), attrPersistingL2); l == limitL2 {
		return uint64(most) / tenths * defaultTenths
	}
	return defaultLimits[l]
}

// answers gives the device runtime of a module what the device answers, if kernels may ask. Limits
// are those at this time.
func (m *module) answers() error {
	at, n, err := m.Global(link.DeviceVariable)
	if err != nil || n != 8*link.DeviceWords {
		return nil // it has none
	}
	words := slices.Repeat([]uint64{link.DeviceLacks}, link.DeviceWords)
	for a := 1; a <= lastAttribute; a++ {
		if v, ok := attribute(m.ctx.Device(), a); ok {
			words[a] = uint64(uint32(v))
		}
	}
	words[link.DevicePTX], words[link.DeviceBinary] = uint64(m.target), uint64(capability(m.ctx.Device()))
	words[link.DeviceOrdinal] = uint64(m.ctx.Device().Ordinal())
	words[link.DeviceOthers] = uint64(m.ctx.Device().Driver().DeviceCount() - 1)
	for l := range uint32(len(defaultLimits)) {
		if l != limitSyncDepth || capability(m.ctx.Device()) < hopper {
			words[link.DeviceLimits+l] = m.ctx.limitOf(l)
		}
	}
	most, _ := attribute(m.ctx.Device(), attrSharedOptin)
	words[link.DeviceLimits+limitShared], words[link.DeviceLimits+limitGraphics] = uint64(most), 0
	return m.ctx.MemcpyHtoD(at, wordBytes(words))
}

func ctxGetLimit(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if c.u32(1) == limitShared {
		most, _ := attribute(x.Device(), attrSharedOptin)
		return to.set(uint64(most))
	}
	if c.u32(1) == limitGraphics {
		return to.set(0)
	}
	if err := c.limit(x, 1); err != nil {
		return err
	}
	return to.set(x.limitOf(c.u32(1)))
}
