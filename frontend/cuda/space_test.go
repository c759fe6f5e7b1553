package cuda

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
)

// newSharing makes a device whose files share memory.
func newSharing(t *testing.T) (*cudatest.GPU, *Device) {
	g := cudatest.NewGPU(t)
	g.Params[drm.ParamShares] = 1
	return g, newDevice(t, g)
}

func mustContext(t require.TestingT, dev *Device) *Context {
	c, err := dev.CreateContext()
	require.NoError(t, err)
	return c
}

// mustMapped makes memory of one page, mapped at addresses of its own.
func mustMapped(t require.TestingT, dev *Device, access Access) (DevicePtr, *Physical) {
	p, err := dev.AddressReserve(virtualPage, 0)
	require.NoError(t, err)
	mem, err := dev.MemCreate(nil, virtualPage)
	require.NoError(t, err)
	require.NoError(t, dev.MemMap(p, virtualPage, mem))
	require.NoError(t, dev.MemSetAccess(p, virtualPage, access))
	return p, mem
}

func mustUnmap(t require.TestingT, dev *Device, p DevicePtr) {
	require.NoError(t, dev.MemUnmap(p, virtualPage))
	require.NoError(t, dev.AddressFree(p, virtualPage))
}

// mustRelease releases memory for the last time.
func mustRelease(t require.TestingT, p *Physical) {
	last, err := p.Release()
	require.NoError(t, err)
	require.True(t, last)
}

// Memory needs no context, is the same in all, and outlives them.
func TestVirtualMemoryOfNoContext(t *testing.T) {
	g, dev := newSharing(t)
	p, mem := mustMapped(t, dev, AccessReadWrite)
	a, b := mustContext(t, dev), mustContext(t, dev)
	require.NoError(t, a.MemcpyHtoD(p, []byte("from a")))
	require.Equal(t, "from a", string(readBack(t, b, p, 6)))
	require.Equal(t, a.AllocationID(p), b.AllocationID(p))
	q, more := mustMapped(t, dev, AccessReadWrite) // contexts that are there already have it, too
	require.NoError(t, b.MemcpyHtoD(q, []byte("from b")))
	require.Equal(t, "from b", string(readBack(t, a, q, 6)))
	require.NoError(t, a.Destroy())
	require.NoError(t, b.Destroy())
	mustRelease(t, mem) // it is still mapped
	c := mustContext(t, dev)
	require.Equal(t, "from a", string(readBack(t, c, p, 6)))
	mustUnmap(t, dev, p)
	isResult(t, ErrInvalidValue, c.MemsetD8(p, 0, 1))
	require.NoError(t, c.Destroy())
	mustUnmap(t, dev, q)
	require.EqualValues(t, 64<<20-virtualPage, g.VRAMFree)
	mustRelease(t, more)
	require.NoError(t, dev.Driver().Close())
	require.Zero(t, g.Open, "the file of the memory is closed with the last of it")
}

// Access that one context cannot be given no context gets.
func TestVirtualMemoryAccessFails(t *testing.T) {
	g, dev := newSharing(t)
	a, b := mustContext(t, dev), mustContext(t, dev)
	p, mem := mustMapped(t, dev, AccessNone)
	g.FailNext(2, "VMBind", syscall.ENOMEM)
	isResult(t, ErrOutOfMemory, dev.MemSetAccess(p, virtualPage, AccessReadWrite))
	isResult(t, ErrInvalidValue, a.MemsetD8(p, 0, 1))
	isResult(t, ErrInvalidValue, b.MemsetD8(p, 0, 1))
	require.NoError(t, dev.MemSetAccess(p, virtualPage, AccessReadWrite))
	require.NoError(t, b.MemcpyHtoD(p, []byte("x")))
	require.Equal(t, "x", string(readBack(t, a, p, 1)))
	g.FailNext(1, "VMBind", syscall.ENOMEM)
	_, err := dev.CreateContext()
	isResult(t, ErrOutOfMemory, err)
	g.FailNext(1, "GemOpen", syscall.ENOMEM)
	_, err = dev.CreateContext()
	isResult(t, ErrOutOfMemory, err)
	mustRelease(t, mem)
	mustUnmap(t, dev, p)
	require.NoError(t, a.Destroy())
	require.NoError(t, b.Destroy())
}

// A context that is lost keeps no other from its memory.
func TestVirtualMemoryBesideLostContext(t *testing.T) {
	_, dev := newSharing(t)
	a, b := mustContext(t, dev), mustContext(t, dev)
	p, mem := mustMapped(t, dev, AccessReadWrite)
	a.fake().Lost = &cudatest.Fault{}
	require.NoError(t, dev.MemSetAccess(p, virtualPage, AccessRead))
	require.NoError(t, dev.MemSetAccess(p, virtualPage, AccessReadWrite))
	require.NoError(t, b.MemcpyHtoD(p, []byte("x")))
	require.Equal(t, "x", string(readBack(t, b, p, 1)))
	mustRelease(t, mem)
	mustUnmap(t, dev, p)
	_ = a.Destroy() // tells of the loss
	require.NoError(t, b.Destroy())
}

// used makes memory, maps it and uses it in a context, which it may outlive, and frees all.
func used(dev *Device, c *Context) error {
	p, err := dev.AddressReserve(virtualPage, 0)
	if err != nil {
		return err
	}
	mem, err := dev.MemCreate(c, virtualPage)
	if err != nil {
		return err
	}
	err = errors.Join(dev.MemMap(p, virtualPage, mem), dev.MemSetAccess(p, virtualPage, AccessReadWrite))
	if c != nil {
		err = errors.Join(err, c.MemsetD8(p, 1, virtualPage), c.Destroy())
	}
	_, released := mem.Release()
	return errors.Join(err, released, dev.MemUnmap(p, virtualPage), dev.AddressFree(p, virtualPage))
}

// Contexts come and go while memory is mapped, used and unmapped.
func TestVirtualMemoryConcurrently(t *testing.T) {
	_, dev := newSharing(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 12 {
				var c *Context
				var err error
				if i%2 == 0 {
					c, err = dev.CreateContext()
				}
				if err == nil {
					err = used(dev, c)
				}
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	all.Wait()
}

// Memory that is mapped is had again by its address, and is there as long as it is retained.
func TestRetainedMemory(t *testing.T) {
	g, dev := newSharing(t)
	p, mem := mustMapped(t, dev, AccessReadWrite)
	mustRelease(t, mem)
	_, err := dev.Retain(p - 1)
	isResult(t, ErrInvalidValue, err)
	for range 2 {
		again, err := dev.Retain(p + virtualPage - 1)
		require.NoError(t, err)
		require.Same(t, mem, again)
	}
	mustUnmap(t, dev, p)
	_, err = dev.Retain(p)
	isResult(t, ErrInvalidValue, err)
	last, err := mem.Release()
	require.NoError(t, err)
	require.False(t, last)
	require.EqualValues(t, 64<<20-virtualPage, g.VRAMFree)
	mustRelease(t, mem)
	require.EqualValues(t, 64<<20, g.VRAMFree)
}

// What takes memory away waits for the work of all contexts.
func TestVirtualMemoryWaitsEverywhere(t *testing.T) {
	g, dev := newSharing(t)
	g.Lazy = true
	a, b := mustContext(t, dev), mustContext(t, dev)
	p, mem := mustMapped(t, dev, AccessReadWrite)
	for _, c := range []*Context{a, b} {
		require.NoError(t, c.MemsetD8Async(p, 1, virtualPage, mustStream(t, c)))
	}
	mustUnmap(t, dev, p)
	mustRelease(t, mem)
	require.NoError(t, a.Destroy())
	require.NoError(t, b.Destroy())
}

// A file that cannot be opened, memory that cannot be had: nothing is left.
func TestVirtualMemoryOfNoContextFails(t *testing.T) {
	g, dev := newSharing(t)
	for _, call := range []string{"open", "GemNew", "GemShare"} {
		g.FailNext(1, call, syscall.ENOMEM)
		_, err := dev.MemCreate(nil, virtualPage)
		isResult(t, ErrOutOfMemory, err, call)
		require.Equal(t, 1, g.Open, "but for the file of Init")
	}
	_, err := dev.MemImport(nil, drm.Key{1})
	isResult(t, ErrInvalidValue, err)
	require.Equal(t, 1, g.Open)
}

// A device that shares only what is mapped shares memory of MemAlloc; memory of MemCreate stays a
// context's.
func TestSharesMapped(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Params[drm.ParamShares] = drm.SharesMapped
	dev := newDevice(t, g)
	require.Zero(t, dev.Shares())
	require.Equal(t, 1, dev.SharesMapped())
	c := mustContext(t, dev)
	p, err := c.MemAlloc(100)
	require.NoError(t, err)
	require.True(t, c.Exports(p))
	name, err := c.ShareMemory(p)
	require.NoError(t, err)
	other := mustContext(t, dev)
	_, err = other.OpenMemory(name)
	require.NoError(t, err)
	_, err = dev.MemCreate(nil, virtualPage)
	require.Error(t, err)
	_, err = dev.ImportPool(drm.Key{1})
	require.ErrorIs(t, err, ErrNotSupported)
	require.NoError(t, other.Destroy())
	require.NoError(t, c.Destroy())
}
