package cuda

import (
	"math"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
)

func TestMemAllocArguments(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	_, err := c.MemAlloc(0)
	isResult(t, ErrInvalidValue, err)
	_, err = c.MemAllocHost(0)
	isResult(t, ErrInvalidValue, err)
	for _, n := range []uint64{65 << 20, 1 << 36, 1<<36 + 1, 1 << 63, math.MaxUint64} {
		_, err = c.MemAlloc(n)
		isResult(t, ErrOutOfMemory, err, "%d", n)
		require.Condition(t, func() bool { return errorIsAny(err, syscall.ENOMEM, syscall.ENOSPC) }, "%v", err)
	}
	for _, element := range []uint32{0, 1, 32} {
		_, _, err = c.MemAllocPitch(10, 10, element)
		isResult(t, ErrInvalidValue, err)
	}
	_, _, err = c.MemAllocPitch(0, 10, 4)
	isResult(t, ErrInvalidValue, err)
	for _, dims := range [][2]uint64{{math.MaxUint64, 1}, {1 << 40, 1 << 40}} {
		_, _, err = c.MemAllocPitch(dims[0], dims[1], 4)
		isResult(t, ErrOutOfMemory, err)
	}
	p, pitch, err := c.MemAllocPitch(513, 3, 4)
	require.NoError(t, err)
	require.EqualValues(t, 1024, pitch)
	_, n, err := c.MemGetAddressRange(p)
	require.NoError(t, err)
	require.EqualValues(t, 3*1024, n)
}

func errorIsAny(err error, targets ...syscall.Errno) bool {
	for _, e := range targets {
		if resultOf(err) == resultOf(e) {
			return true
		}
	}
	return false
}

func TestMemFree(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p, q, h := mustAlloc(t, c, 300), mustAlloc(t, c, 3<<20), mustHost(t, c, 100)
	for name, bad := range map[string]DevicePtr{
		"null": 0, "inside": p + 256, "large, inside": q + 2<<20, "before": p - 1, "pinned": h.DevicePtr(), "nowhere": 12345,
	} {
		isResult(t, ErrInvalidValue, c.MemFree(bad), name)
	}
	base, n, err := c.MemGetAddressRange(q + 2<<20)
	require.NoError(t, err)
	require.Equal(t, q, base)
	require.EqualValues(t, 3<<20, n)
	require.NoError(t, c.MemFree(p))
	require.NoError(t, c.MemFree(q))
	for _, freed := range []DevicePtr{p, q} {
		isResult(t, ErrInvalidValue, c.MemFree(freed), "twice")
		isResult(t, ErrInvalidValue, c.MemcpyHtoD(freed, []byte{1}))
		isResult(t, ErrInvalidValue, c.MemcpyDtoH([]byte{1}, freed))
		isResult(t, ErrInvalidValue, c.MemsetD8(freed, 0, 1))
		_, _, err := c.MemGetAddressRange(freed)
		isResult(t, ErrNotFound, err)
	}
	require.NoError(t, h.Free())
	isResult(t, ErrInvalidValue, h.Free())
	require.Nil(t, h.Bytes())
	isResult(t, ErrInvalidValue, c.MemsetD8(h.DevicePtr(), 0, 1))
	isResult(t, ErrInvalidValue, c.MemcpyHtoDAsync(mustAlloc(t, c, 1), h, 0, 0, nil))
}

// The pointer of another context is not one of this: at worst it has the same
// number, and then means this one's own memory.
func TestForeignPointers(t *testing.T) {
	g := cudatest.NewGPU(t)
	a, b := newContext(t, g), newContext(t, g)
	p := mustAlloc(t, a, 4096)
	isResult(t, ErrInvalidValue, b.MemFree(p))
	isResult(t, ErrInvalidValue, b.MemcpyHtoD(p, make([]byte, 8)))
	h, s, e := mustHost(t, a, 64), mustStream(t, a), mustEvent(t, a)
	q := mustAlloc(t, b, 4096)
	isResult(t, ErrInvalidValue, b.MemcpyHtoDAsync(q, h, 0, 8, nil))
	isResult(t, ErrInvalidValue, b.MemcpyDtoHAsync(nil, 0, q, 8, nil))
	isResult(t, ErrInvalidHandle, b.MemsetD8Async(q, 1, 8, s))
	isResult(t, ErrInvalidHandle, b.MemcpyDtoDAsync(q, q+64, 8, s))
	isResult(t, ErrInvalidHandle, mustStream(t, b).WaitEvent(e))
	isResult(t, ErrInvalidHandle, mustEvent(t, b).Record(s))
	_, err := mustEvent(t, b).Elapsed(e)
	isResult(t, ErrInvalidHandle, err)
	require.NoError(t, b.MemcpyHtoD(q, h.Bytes()), "another context's pinned memory is ordinary memory")
}

func TestSmallAllocationsShareObjects(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	var ptrs []DevicePtr
	for i := range 5000 {
		p := mustAlloc(t, c, uint64(1+i%1000))
		require.Zero(t, p%256)
		ptrs = append(ptrs, p)
	}
	require.Equal(t, 2, g.Calls["GemNew"])
	for _, p := range ptrs {
		require.NoError(t, c.MemFree(p))
	}
	require.Equal(t, 1, g.Calls["GemClose"], "one empty object is kept")
	mustAlloc(t, c, 1<<20)
	require.Equal(t, 2, g.Calls["GemNew"], "and used again")
	mustAlloc(t, c, 1<<20+1)
	require.Equal(t, 3, g.Calls["GemNew"])
}

func TestPinnedMemoryLayout(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	a, b, big := mustHost(t, c, 100), mustHost(t, c, 200), mustHost(t, c, 1<<20)
	require.Equal(t, 2, g.Calls["GemNew"])
	for h, n := range map[*HostMem]int{a: 100, b: 200, big: 1 << 20} {
		require.Len(t, h.Bytes(), n)
		require.Equal(t, n, cap(h.Bytes()), "append must not reach the neighbour")
		require.Zero(t, h.DevicePtr()%systemAlign)
		require.GreaterOrEqual(t, uint64(h.DevicePtr()), g.Params[drm.ParamSystemBase])
	}
}

func TestMemGetInfo(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	mustAlloc(t, c, 4<<20)
	free, total, err := c.MemGetInfo()
	require.NoError(t, err)
	require.EqualValues(t, 60<<20, free)
	require.EqualValues(t, 64<<20, total)
	g.FailNext(1, "GetParam", syscall.ENODEV)
	_, _, err = c.MemGetInfo()
	isResult(t, ErrDeviceUnavailable, err)

	g = cudatest.NewGPU(t) // with a driver, which knows what others have
	g.Params[drm.ParamImages] = 1
	c = newContext(t, g)
	for left, want := range map[uint64]uint64{1 << 20: 1 << 20, 0: 0, 1 << 40: 64 << 20} {
		g.Left = left
		free, total, err = c.MemGetInfo()
		require.NoError(t, err)
		require.Equal(t, want, free)
		require.EqualValues(t, 64<<20, total)
	}
	g.FailNext(1, "Ask", syscall.EINVAL)
	free, _, err = c.MemGetInfo()
	require.NoError(t, err, "a guest that has a limit")
	require.EqualValues(t, 64<<20, free)
}

// Memory that runs out can be had again after something was freed, and failed
// attempts leave nothing behind.
func TestOutOfMemory(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	var ptrs []DevicePtr
	for {
		p, err := c.MemAlloc(6 << 20)
		if err != nil {
			isResult(t, ErrOutOfMemory, err)
			require.ErrorIs(t, err, syscall.ENOMEM)
			break
		}
		ptrs = append(ptrs, p)
	}
	require.Len(t, ptrs, 10)
	require.NoError(t, c.MemFree(ptrs[3]))
	require.Equal(t, ptrs[3], mustAlloc(t, c, 6<<20))
}

// Freeing waits for queued work, however far it got.
func TestFreeWaits(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Lazy = true
	c := newContext(t, g)
	s := mustStream(t, c)
	p, h := mustAlloc(t, c, 4<<20), mustHost(t, c, 4<<20)
	require.NoError(t, c.MemcpyHtoDAsync(p, h, 0, 4<<20, s))
	require.NoError(t, c.MemFree(p))
	q := mustAlloc(t, c, 4<<20)
	require.NoError(t, c.MemcpyHtoDAsync(q, h, 0, 4<<20, s))
	require.NoError(t, h.Free())
}

func TestRanges(t *testing.T) {
	var r ranges[string]
	r.insert(100, 10, "b")
	r.insert(50, 10, "a")
	r.insert(math.MaxUint64-9, 9, "top")
	for _, c := range []struct {
		addr, n uint64
		want    string
	}{
		{addr: 50, n: 10, want: "a"},
		{addr: 59, n: 1, want: "a"},
		{addr: 59, n: 2},
		{addr: 60, n: 1},
		{addr: 49, n: 1},
		{addr: 0},
		{addr: 100, n: 10, want: "b"},
		{addr: 100, n: 11},
		{addr: 105, n: math.MaxUint64},
		{addr: math.MaxUint64 - 1, n: 1, want: "top"},
		{addr: math.MaxUint64, n: 1},
		{addr: math.MaxUint64 - 9, n: math.MaxUint64},
	} {
		e, ok := r.find(c.addr, c.n)
		require.Equal(t, c.want != "", ok, "%+v", c)
		require.Equal(t, c.want, e.value, "%+v", c)
	}
	r.remove(51)
	_, ok := r.find(50, 1)
	require.True(t, ok)
	r.remove(50)
	_, ok = r.find(50, 1)
	require.False(t, ok)
}
