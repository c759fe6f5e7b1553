package cuda

import (
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/frontend/cuda/cudatest"
)

const virtualPage = 2 << 20 // of the fake's VRAM

func mustReserve(t require.TestingT, c *Context, n uint64) DevicePtr {
	p, err := c.dev.AddressReserve(n, 0)
	require.NoError(t, err)
	return p
}

func mustCreate(t require.TestingT, c *Context, n uint64) *Physical {
	p, err := c.dev.MemCreate(c, n)
	require.NoError(t, err)
	return p
}

// Memory that is mapped side by side is one range for copies, as long as it is mapped.
func TestVirtualMemory(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	require.EqualValues(t, virtualPage, c.dev.Granularity())
	p := mustReserve(t, c, 4*virtualPage)
	a, b := mustCreate(t, c, virtualPage), mustCreate(t, c, 2*virtualPage)
	require.NoError(t, c.dev.MemMap(p, virtualPage, a))
	require.NoError(t, c.dev.MemMap(p+virtualPage, 2*virtualPage, b))
	text := []byte("across the two")
	at := p + virtualPage - 6
	isResult(t, ErrInvalidValue, c.MemcpyHtoD(at, text), "there is no access yet")
	require.NoError(t, c.dev.MemSetAccess(p, 3*virtualPage, AccessReadWrite))
	require.NoError(t, c.MemcpyHtoD(at, text))
	require.Equal(t, text, readBack(t, c, at, len(text)))
	isResult(t, ErrInvalidValue, c.MemsetD8(p+3*virtualPage-1, 0, 2), "the rest is reserved only")
	isResult(t, ErrInvalidValue, c.MemFree(p))

	// The handle of a can go; its memory stays until it is unmapped. That of b can be
	// mapped a second time.
	mustRelease(t, a)
	_, err := a.Release()
	isResult(t, ErrInvalidValue, err)
	isResult(t, ErrInvalidValue, c.dev.MemMap(p+3*virtualPage, virtualPage, a))
	require.NoError(t, c.dev.MemMap(p+3*virtualPage, virtualPage, b))
	require.NoError(t, c.dev.MemSetAccess(p+3*virtualPage, virtualPage, AccessReadWrite))
	require.Equal(t, text[6:], readBack(t, c, p+3*virtualPage, len(text)-6))
	isResult(t, ErrInvalidValue, c.dev.AddressFree(p, 4*virtualPage), "something is mapped")
	require.NoError(t, c.dev.MemUnmap(p, 3*virtualPage))
	isResult(t, ErrInvalidValue, c.MemcpyHtoD(at, text))
	require.NoError(t, c.dev.MemUnmap(p+3*virtualPage, virtualPage))
	mustRelease(t, b)
	require.EqualValues(t, 64<<20, g.VRAMFree)
	require.NoError(t, c.dev.AddressFree(p, 4*virtualPage))
	isResult(t, ErrInvalidValue, c.dev.AddressFree(p, 4*virtualPage))
	require.Equal(t, p, mustReserve(t, c, virtualPage), "the addresses are free again")
}

func TestVirtualMemoryArguments(t *testing.T) {
	g := cudatest.NewGPU(t)
	c, other := newContext(t, g), newContext(t, g)
	for _, n := range []uint64{0, 1, virtualPage - 1, virtualPage + 4096, math.MaxUint64} {
		_, err := c.dev.AddressReserve(n, 0)
		isResult(t, ErrInvalidValue, err, "%d", n)
		_, err = c.dev.MemCreate(c, n)
		isResult(t, ErrInvalidValue, err, "%d", n)
	}
	_, err := c.dev.AddressReserve(virtualPage, 3)
	isResult(t, ErrInvalidValue, err)
	for _, n := range []uint64{1 << 37, 1 << 63} {
		_, err = c.dev.AddressReserve(n, 0)
		isResult(t, ErrOutOfMemory, err)
		_, err = c.dev.MemCreate(c, n)
		isResult(t, ErrOutOfMemory, err)
	}
	p, err := c.dev.AddressReserve(2*virtualPage, 1<<30)
	require.NoError(t, err)
	require.Zero(t, p%(1<<30))
	m, foreign := mustCreate(t, c, virtualPage), mustCreate(t, other, virtualPage)
	for name, err := range map[string]error{
		"more than there is": c.dev.MemMap(p, 2*virtualPage, m),
		"not reserved":       c.dev.MemMap(p+2*virtualPage, virtualPage, m),
		"partly reserved":    c.dev.MemMap(p-virtualPage, 2*virtualPage, m),
		"not aligned":        c.dev.MemMap(p+4096, virtualPage, m),
		"no size":            c.dev.MemMap(p, 0, m),
		"another device's":   c.dev.MemMap(p, virtualPage, foreign),
		"wraps around":       c.dev.MemMap(p, math.MaxUint64-virtualPage+1, m),
	} {
		isResult(t, ErrInvalidValue, err, name)
	}
	require.NoError(t, c.dev.MemMap(p, virtualPage, m))
	isResult(t, ErrInvalidValue, c.dev.MemMap(p, virtualPage, m), "something is there")
	for name, err := range map[string]error{
		"a gap":              c.dev.MemUnmap(p, 2*virtualPage),
		"a part":             c.dev.MemUnmap(p, 4096),
		"nothing":            c.dev.MemUnmap(p+virtualPage, virtualPage),
		"no size":            c.dev.MemUnmap(p, 0),
		"access to a gap":    c.dev.MemSetAccess(p, 2*virtualPage, AccessReadWrite),
		"write only":         c.dev.MemSetAccess(p, virtualPage, 2),
		"a part of it":       c.dev.AddressFree(p, virtualPage),
		"not where it began": c.dev.AddressFree(p+virtualPage, virtualPage),
	} {
		isResult(t, ErrInvalidValue, err, name)
	}
	for _, want := range []Access{AccessRead, AccessReadWrite, AccessReadWrite, AccessRead, AccessNone, AccessNone} {
		require.NoError(t, c.dev.MemSetAccess(p, virtualPage, want))
		got, err := c.dev.MemAccess(p + virtualPage - 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, want == AccessRead, c.fake().ReadOnly())
	}
	_, err = c.dev.MemAccess(p + virtualPage)
	isResult(t, ErrInvalidValue, err)
}

// What takes memory away waits for the work that uses it.
func TestVirtualMemoryWaits(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Lazy = true
	c := newContext(t, g)
	p, m, s := mustReserve(t, c, virtualPage), mustCreate(t, c, virtualPage), mustStream(t, c)
	require.NoError(t, c.dev.MemMap(p, virtualPage, m))
	for _, take := range []func() error{
		func() error { return c.dev.MemSetAccess(p, virtualPage, AccessRead) },
		func() error { return c.dev.MemUnmap(p, virtualPage) },
	} {
		require.NoError(t, c.dev.MemSetAccess(p, virtualPage, AccessReadWrite))
		require.NoError(t, c.MemsetD8Async(p, 1, virtualPage, s))
		require.NoError(t, take())
	}
	// The rest is freed with the context.
	require.NoError(t, c.dev.MemMap(p, virtualPage, m))
	require.NoError(t, c.dev.MemSetAccess(p, virtualPage, AccessReadWrite))
	require.NoError(t, c.MemsetD8Async(p, 1, virtualPage, s))
}

func TestVirtualMemoryFails(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p, m := mustReserve(t, c, virtualPage), mustCreate(t, c, virtualPage)
	require.NoError(t, c.dev.MemMap(p, virtualPage, m))
	g.FailNext(1, "VMBind", syscall.ENOMEM)
	isResult(t, ErrOutOfMemory, c.dev.MemSetAccess(p, virtualPage, AccessReadWrite))
	access, err := c.dev.MemAccess(p)
	require.NoError(t, err)
	require.Equal(t, AccessNone, access)
	isResult(t, ErrInvalidValue, c.MemsetD8(p, 0, 1))
	require.NoError(t, c.dev.MemSetAccess(p, virtualPage, AccessReadWrite))
	require.NoError(t, c.MemsetD8(p, 0, 1))
}

// Ranges against a slice with an owner for each address.
func TestRangesAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 24
		var owner [size]int
		var r ranges[int]
		for id := 1; id < 8; id++ {
			start := rapid.IntRange(0, size-1).Draw(t, "start")
			n := rapid.IntRange(1, size-start).Draw(t, "n")
			taken := slices.ContainsFunc(owner[start:start+n], func(o int) bool { return o != 0 })
			require.Equal(t, taken, r.touches(uint64(start), uint64(n)))
			list, whole := r.exactly(uint64(start), uint64(n))
			tiles := !slices.Contains(owner[start:start+n], 0) && (start == 0 || owner[start-1] != owner[start]) &&
				(start+n == size || owner[start+n] != owner[start+n-1])
			require.Equal(t, tiles, whole)
			for _, e := range list {
				require.Equal(t, e.value, owner[e.start])
			}
			if !taken {
				r.insert(uint64(start), uint64(n), id)
				for i := range n {
					owner[start+i] = id
				}
			}
		}
	})
}
