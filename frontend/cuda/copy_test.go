package cuda

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/cudatest"
)

// Copies of sizes around the pieces of the ring, from and to pageable memory,
// at odd addresses, give back what went in.
func TestPageableCopies(t *testing.T) {
	sizes := []int{1, 7, 63, 64, 65, 4096, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64 << 10, 100_001, 256 << 10, 256<<10 + 1,
		1 << 20, 3<<20 + 5, 4<<20 + 1, 9<<20 + 3}
	for i := range 4 {
		lazy, ample := i&1 != 0, i&2 != 0
		t.Run(fmt.Sprintf("lazy %v, ample %v", lazy, ample), func(t *testing.T) {
			staged = stagingOn(ample)
			defer func() { staged = stagingOn(false) }()
			g := cudatest.NewGPU(t)
			g.Lazy = lazy
			c := newContext(t, g)
			p := mustAlloc(t, c, 10<<20)
			for i, n := range sizes {
				src := noise(n, uint64(i))
				want := bytes.Clone(src)
				at := p + DevicePtr(i)
				require.NoError(t, c.MemcpyHtoD(at, src))
				clear(src) // the program's again
				require.Equal(t, want, readBack(t, c, at, n), "%d bytes", n)
			}
			// And down again, now that the ring is large.
			for i, n := range sizes {
				want := noise(n, uint64(i+100))
				require.NoError(t, c.MemcpyHtoD(p, want))
				require.Equal(t, want, readBack(t, c, p, n), "%d bytes", n)
			}
			require.LessOrEqual(t, g.Calls["GemNew"], 1+len(staged.sizes))
		})
	}
}

// A small copy to the device is one EXEC and waits for nothing, even while the
// device is busy.
func TestSmallCopyDoesNotWait(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Lazy = true
	c := newContext(t, g)
	const n, size = 200, 300
	p := mustAlloc(t, c, n*size)
	var want []byte
	for i := range n {
		b := noise(size, uint64(i))
		want = append(want, b...)
		require.NoError(t, c.MemcpyHtoD(p+DevicePtr(i*size), b))
		clear(b)
	}
	require.Zero(t, g.Calls["Wait"])
	require.Equal(t, n, g.Calls["Exec"])
	require.Equal(t, want, readBack(t, c, p, n*size))
}

// More copies than the ring holds: the oldest are waited for.
func TestRingWrapsAround(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Lazy = true
	c := newContext(t, g)
	p := mustAlloc(t, c, 1<<20)
	var want []byte
	for i := 0; len(want) < 1<<20-30_000; i++ {
		b := noise(1+i*977%30_000, uint64(i))
		require.NoError(t, c.MemcpyHtoD(p+DevicePtr(len(want)), b))
		want = append(want, b...)
		clear(b)
	}
	require.Positive(t, g.Calls["Wait"])
	require.Equal(t, want, readBack(t, c, p, len(want)))
}

func TestPinnedCopiesAreNotStaged(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p, h := mustAlloc(t, c, 4<<20), mustHost(t, c, 4<<20)
	copy(h.Bytes(), noise(4<<20, 1))
	made := g.Calls["GemNew"]
	require.NoError(t, c.MemcpyHtoD(p, h.Bytes()))
	clear(h.Bytes())
	require.NoError(t, c.MemcpyDtoH(h.Bytes()[100:200], p+100))
	require.Equal(t, 2, g.Calls["Exec"], "each whole")
	require.Equal(t, made, g.Calls["GemNew"])
	require.Equal(t, noise(4<<20, 1)[100:200], h.Bytes()[100:200])
	require.Equal(t, make([]byte, 100), h.Bytes()[:100])

	// Pinned memory to itself is a copy like any other.
	require.NoError(t, c.MemcpyHtoD(h.DevicePtr(), h.Bytes()[100:200]))
	require.Equal(t, noise(4<<20, 1)[100:200], h.Bytes()[:100])
	isResult(t, ErrInvalidValue, c.MemcpyHtoD(h.DevicePtr()+50, h.Bytes()[100:200]), "overlap")
}

func TestAsyncCopies(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Lazy = true
	c := newContext(t, g)
	s := mustStream(t, c)
	p, h := mustAlloc(t, c, 4096), mustHost(t, c, 4096)
	want := noise(1000, 3)
	copy(h.Bytes()[24:], want)
	require.NoError(t, c.MemcpyHtoDAsync(p, h, 24, 1000, s))
	require.NoError(t, c.MemcpyDtoDAsync(p+2000, p, 1000, s))
	require.NoError(t, c.MemcpyDtoHAsync(h, 3000, p+2000, 1000, s))
	require.Zero(t, g.Calls["Wait"])
	require.NotEqual(t, want, h.Bytes()[3000:4000])
	require.NoError(t, s.Synchronize())
	require.Equal(t, want, h.Bytes()[3000:4000])

	for _, r := range [][2]uint64{{0, 4097}, {4097, 0}, {4000, 97}, {1, ^uint64(0)}, {^uint64(0), 1}} {
		isResult(t, ErrInvalidValue, c.MemcpyHtoDAsync(p, h, r[0], r[1], s), "%v", r)
		isResult(t, ErrInvalidValue, c.MemcpyDtoHAsync(h, r[0], p, r[1], s), "%v", r)
	}
	require.NoError(t, c.MemcpyHtoDAsync(p, h, 4096, 0, s))
}

func TestCopyArguments(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p, q := mustAlloc(t, c, 1000), mustAlloc(t, c, 1000)
	b := make([]byte, 1001)
	for name, err := range map[string]error{
		"HtoD past the end":    c.MemcpyHtoD(p, b),
		"HtoD across two":      c.MemcpyHtoD(p+900, b[:200]),
		"HtoD to null":         c.MemcpyHtoD(0, b),
		"DtoH past the end":    c.MemcpyDtoH(b, p),
		"DtoH before":          c.MemcpyDtoH(b[:1], p-1),
		"DtoD bad source":      c.MemcpyDtoD(p, q+1, 1000),
		"DtoD bad destination": c.MemcpyDtoD(p+1, q, 1000),
		"DtoD endless":         c.MemcpyDtoD(p, q, ^uint64(0)),
		"DtoD same":            c.MemcpyDtoD(p, p, 1000),
		"DtoD overlap up":      c.MemcpyDtoD(p+1, p, 500),
		"DtoD overlap down":    c.MemcpyDtoD(p, p+499, 500),
		"2D pitch":             c.Memcpy2D(Copy2D{p, q, 10, 5, 6, 2}),
		"2D past the end":      c.Memcpy2D(Copy2D{p, q, 100, 100, 100, 11}),
		"2D endless":           c.Memcpy2D(Copy2D{p, q, 1 << 33, 1 << 33, 1, 1 << 33}),
		"2D wraps":             c.Memcpy2D(Copy2D{p, q, ^uint64(0), 10, 1, 2}),
		"2D overlap":           c.Memcpy2D(Copy2D{p, p + 500, 100, 100, 10, 6}),
	} {
		isResult(t, ErrInvalidValue, err, name)
	}
	require.Zero(t, g.Calls["Exec"])
	for name, err := range map[string]error{
		"HtoD":    c.MemcpyHtoD(0, nil),
		"DtoH":    c.MemcpyDtoH(nil, 0),
		"DtoD":    c.MemcpyDtoD(0, 0, 0),
		"2D":      c.Memcpy2D(Copy2D{Height: 5}),
		"memset":  c.MemsetD32(1, 0, 0),
		"2D set":  c.MemsetD2D8(0, 0, 0, 5, 0),
		"touches": c.MemcpyDtoD(p, p+500, 500),
	} {
		require.NoError(t, err, name)
	}
}

func TestCopy2D(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p, h := mustAlloc(t, c, 1000), mustHost(t, c, 1000)
	copy(h.Bytes(), noise(1000, 9))
	require.NoError(t, c.MemsetD8(p, 0, 1000))
	s := mustStream(t, c)
	require.NoError(t, c.Memcpy2DAsync(Copy2D{Dst: p + 3, Src: h.DevicePtr() + 5, DstPitch: 100, SrcPitch: 20, Width: 7, Height: 10}, s))
	want := make([]byte, 1000)
	for y := range 10 {
		copy(want[3+100*y:][:7], h.Bytes()[5+20*y:])
	}
	require.Equal(t, want, readBack(t, c, p, 1000))
}

// When no larger ring can be had the small one does the work.
func TestStagingWithoutMemory(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p := mustAlloc(t, c, 9<<20)
	g.FailNext(1, "GemNew", syscall.ENOMEM)
	isResult(t, ErrOutOfMemory, c.MemcpyHtoD(p, []byte{1}))
	require.NoError(t, c.MemcpyHtoD(p, []byte{1}))
	for range 2 {
		want := noise(9<<20, 5)
		g.FailNext(1, "GemNew", syscall.ENOMEM)
		require.NoError(t, c.MemcpyHtoD(p, want))
		g.FailNext(1, "GemNew", syscall.ENOMEM)
		require.True(t, bytes.Equal(want, readBack(t, c, p, len(want))))
	}
}

func TestMemset(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	s := mustStream(t, c)
	p := mustAlloc(t, c, 256)
	for _, r := range []struct {
		name string
		do   func() error
		want func(b []byte)
	}{
		{name: "D8", do: func() error { return c.MemsetD8(p+1, 7, 5) }, want: func(b []byte) { rows(b[1:], 0, []byte{7}, 5, 1) }},
		{name: "D16", do: func() error { return c.MemsetD16(p+2, 0x0102, 5) }, want: func(b []byte) { rows(b[2:], 0, []byte{2, 1}, 5, 1) }},
		{name: "D32", do: func() error { return c.MemsetD32(p+4, 0x01020304, 5) }, want: func(b []byte) { rows(b[4:], 0, []byte{4, 3, 2, 1}, 5, 1) }},
		{name: "D8Async", do: func() error { return c.MemsetD8Async(p, 9, 256, s) }, want: func(b []byte) { rows(b, 0, []byte{9}, 256, 1) }},
		{name: "D16Async", do: func() error { return c.MemsetD16Async(p, 9, 3, s) }, want: func(b []byte) { rows(b, 0, []byte{9, 0}, 3, 1) }},
		{name: "D32Async", do: func() error { return c.MemsetD32Async(p, 9, 3, s) }, want: func(b []byte) { rows(b, 0, []byte{9, 0, 0, 0}, 3, 1) }},
		{name: "D2D8", do: func() error { return c.MemsetD2D8(p+1, 10, 7, 5, 3) }, want: func(b []byte) { rows(b[1:], 10, []byte{7}, 5, 3) }},
		{name: "D2D16", do: func() error { return c.MemsetD2D16(p+2, 10, 0x0102, 5, 3) }, want: func(b []byte) { rows(b[2:], 10, []byte{2, 1}, 5, 3) }},
		{name: "D2D32", do: func() error { return c.MemsetD2D32(p, 24, 0x01020304, 5, 10) }, want: func(b []byte) { rows(b, 24, []byte{4, 3, 2, 1}, 5, 10) }},
		{name: "D2D8Async", do: func() error { return c.MemsetD2D8Async(p, 0, 7, 5, 1, s) }, want: func(b []byte) { rows(b, 0, []byte{7}, 5, 1) }},
		{name: "D2D16Async", do: func() error { return c.MemsetD2D16Async(p, 4, 7, 2, 2, s) }, want: func(b []byte) { rows(b, 4, []byte{7, 0}, 2, 2) }},
		{name: "D2D32Async", do: func() error { return c.MemsetD2D32Async(p, 8, 7, 1, 2, s) }, want: func(b []byte) { rows(b, 8, []byte{7, 0, 0, 0}, 1, 2) }},
	} {
		require.NoError(t, c.MemsetD8(p, 0xee, 256))
		require.NoError(t, r.do(), r.name)
		want := bytes.Repeat([]byte{0xee}, 256)
		r.want(want)
		require.Equal(t, want, readBack(t, c, p, 256), r.name)
	}
	for name, err := range map[string]error{
		"D16 misaligned":   c.MemsetD16(p+1, 0, 1),
		"D32 misaligned":   c.MemsetD32(p+2, 0, 1),
		"pitch misaligned": c.MemsetD2D32(p, 6, 0, 1, 2),
		"pitch too small":  c.MemsetD2D32(p, 4, 0, 2, 2),
		"past the end":     c.MemsetD32(p, 0, 65),
		"endless":          c.MemsetD32(p, 0, 1<<62),
		"endless 2D":       c.MemsetD2D8(p, 1<<32, 0, 1, 1<<32),
	} {
		isResult(t, ErrInvalidValue, err, name)
	}
}

// rows repeats a pattern n times in each of height rows.
func rows(b []byte, pitch int, pattern []byte, n, height int) {
	for y := range height {
		copy(b[y*pitch:], bytes.Repeat(pattern, n))
	}
}
