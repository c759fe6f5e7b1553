package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// poolProps is a CUmemPoolProps in the memory of the program.
func (p *program) poolProps(kind, handles, location, device uint32, most uint64, usage uint32) uint64 {
	at := p.words(0, 0, 0, most, uint64(usage), 0, 0, 0, 0, 0, 0)
	require.NoError(p.t, p.mem.Write(at, p.bytesOf(p.halves(kind, handles, location, device), 16)))
	return at
}

func (p *program) bytesOf(addr uint64, n int) []byte {
	b := make([]byte, n)
	require.NoError(p.t, p.mem.Read(b, addr))
	return b
}

func (p *program) poolAttribute(pool uint64, a cuda.PoolAttribute) uint64 {
	p.t.Helper()
	at := p.words(0)
	p.ok("cuMemPoolGetAttribute", pool, uint64(a), at)
	return p.word(at)
}

// What an H100 answers (tests/answers): allocations of no bytes, memory that is freed twice, at once
// or by a call for other memory.
func TestStreamOrderedMemory(t *testing.T) {
	p := newProgramInContext(t)
	require.EqualValues(t, 1, p.word32("cuDeviceGetAttribute", 115, 0))
	require.EqualValues(t, 0, p.word32("cuDeviceGetAttribute", 119, 0))
	stream := p.word64("cuStreamCreate", 0)
	require.Zero(t, p.word64("cuMemAllocAsync", 0, stream))
	p.ok("cuMemFreeAsync", 0, stream)
	p.gives(cuda.ErrOutOfMemory, "cuMemAllocAsync", p.out, 1<<50, stream)
	p.gives(cuda.ErrInvalidValue, "cuMemAllocAsync", 0, 64, stream)
	p.gives(cuda.ErrInvalidHandle, "cuMemAllocAsync", p.out, 64, 0x1234)

	pool := p.word64("cuDeviceGetDefaultMemPool", 0)
	memory := p.word64("cuMemAllocAsync", 4096, stream)
	require.EqualValues(t, memoryDevice, uint32(p.word64("cuPointerGetAttribute", pointerType, memory)))
	require.Equal(t, pool, p.word64("cuPointerGetAttribute", pointerPool, memory+4095))
	p.ok("cuMemFreeAsync", memory, stream)
	p.gives(cuda.ErrInvalidValue, "cuMemFreeAsync", memory, stream)
	require.Equal(t, memory, p.word64("cuMemAllocAsync", 4096, stream))
	p.ok("cuMemFree_v2", memory)
	p.gives(cuda.ErrInvalidValue, "cuMemFree_v2", memory)
	other := p.word64("cuMemAlloc_v2", 4096)
	require.Zero(t, p.word64("cuPointerGetAttribute", pointerPool, other))
	p.ok("cuMemFreeAsync", other, stream)
	p.gives(cuda.ErrInvalidValue, "cuMemFreeAsync", p.out, stream)
	host := p.word64("cuMemHostAlloc", 64, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemFreeAsync", host, stream)
	p.ok("cuMemFreeHost", host)

	p.ok("cuMemAllocAsync_ptsz", p.out, 64, 0)
	p.ok("cuMemFreeAsync_ptsz", p.word(p.out), 0)
	p.ok("cuCtxSynchronize")
	require.Zero(t, p.poolAttribute(pool, cuda.PoolReservedCurrent))
	p.lib.ThreadEnd(1)
}

// Memory is freed after the functions of the program that are queued before.
func TestFreeAfterHostFunction(t *testing.T) {
	p := newProgramInContext(t)
	memory := p.word64("cuMemAllocAsync", 64, 0)
	p.ok("cuLaunchHostFunc", 0, 0x1000, 7)
	p.ok("cuMemFreeAsync", memory, 0)
	require.Equal(t, []uint64{0x1000, 7, 0, 0}, p.invoked)
}

func TestPoolCalls(t *testing.T) {
	p := newProgram(t)
	pool := p.word64("cuDeviceGetDefaultMemPool", 0)
	require.Equal(t, pool, p.word64("cuDeviceGetMemPool", 0), "no context is needed")
	require.Equal(t, pool, p.word64("cuDeviceGetDefaultMemPool", 0))
	p.gives(cuda.ErrInvalidDevice, "cuDeviceGetDefaultMemPool", p.out, 7)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolDestroy", pool)
	p.ok("cuMemPoolTrimTo", pool, 0)
	require.Zero(t, p.poolAttribute(pool, cuda.PoolReleaseThreshold))
	p.gives(cuda.ErrInvalidValue, "cuMemPoolGetAttribute", pool, 99, p.out)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolGetAttribute", pool, 4, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolSetAttribute", pool, 4, 0)
	at := p.words(1<<32 | 5)
	p.ok("cuMemPoolSetAttribute", pool, 4, at)
	require.EqualValues(t, 1<<32|5, p.poolAttribute(pool, cuda.PoolReleaseThreshold))
	p.ok("cuMemPoolSetAttribute", pool, 1, p.halves(0, 1))
	at = p.words(0xffff_ffff_ffff_ffff)
	p.ok("cuMemPoolGetAttribute", pool, 1, at)
	require.EqualValues(t, uint64(0xffff_ffff_0000_0000), p.word(at), "an int")

	for _, c := range []struct {
		props uint64
		want  cuda.Result
	}{
		{props: p.poolProps(0, 0, 1, 0, 0, 0), want: cuda.ErrInvalidValue},
		{props: p.poolProps(1, 1, 1, 0, 0, 0), want: cuda.ErrNotSupported},
		{props: p.poolProps(1, 0, 3, 0, 0, 0), want: cuda.ErrNotSupported},
		{props: p.poolProps(1, 0, 1, 1, 0, 0), want: cuda.ErrInvalidDevice},
		{props: p.poolProps(1, 0, 1, 0, 0, 2), want: cuda.ErrNotSupported},
		{props: 0, want: cuda.ErrInvalidValue},
	} {
		p.gives(c.want, "cuMemPoolCreate", p.out, c.props)
	}
	own := p.word64("cuMemPoolCreate", p.poolProps(1, 0, 1, 0, 1<<20, 0))
	p.ok("cuDeviceSetMemPool", 0, own)
	location, access := p.halves(1, 0), p.halves(1, 0, 3)
	require.Equal(t, own, p.word64("cuMemGetMemPool", location, 1))
	require.Equal(t, pool, p.word64("cuMemGetDefaultMemPool", location, 1))
	p.gives(cuda.ErrNotSupported, "cuMemGetMemPool", p.out, location, 2)
	p.ok("cuMemSetMemPool", location, 1, own)
	require.EqualValues(t, 3, p.word32("cuMemPoolGetAccess", own, location))
	p.ok("cuMemPoolSetAccess", own, access, 1)
	p.ok("cuMemPoolSetAccess", own, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolSetAccess", own, p.halves(1, 0, 0), 1)
	p.gives(cuda.ErrInvalidDevice, "cuMemPoolSetAccess", own, p.halves(1, 1, 3), 1)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolSetAccess", own, access, 1<<60)

	p.ok("cuCtxCreate_v2", p.out, 0, 0)
	memory := p.word64("cuMemAllocFromPoolAsync", 64, own, 0)
	require.Equal(t, own, p.word64("cuPointerGetAttribute", pointerPool, memory))
	p.gives(cuda.ErrOutOfMemory, "cuMemAllocAsync", p.out, 4<<20, 0)
	p.ok("cuMemPoolDestroy", own)
	require.Zero(t, p.word64("cuPointerGetAttribute", pointerPool, memory))
	require.Equal(t, pool, p.word64("cuDeviceGetMemPool", 0))
	for name, args := range map[string][]uint64{
		"cuMemPoolDestroy": {own}, "cuMemPoolTrimTo": {own, 0}, "cuMemPoolGetAttribute": {own, 4, p.out}, "cuMemPoolSetAttribute": {own, 4, at},
		"cuMemPoolSetAccess": {own, access, 1}, "cuMemPoolGetAccess": {p.out, own, location}, "cuDeviceSetMemPool": {0, own},
		"cuMemAllocFromPoolAsync": {p.out, 64, own, 0}, "cuMemSetMemPool": {location, 1, own},
	} {
		p.gives(cuda.ErrInvalidValue, name, args...)
	}
	p.ok("cuMemFreeAsync", memory, 0)
}
