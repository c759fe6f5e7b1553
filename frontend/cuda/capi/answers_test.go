package capi

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// Limits are rounded and missing as on NVIDIA's devices (tests/answers).
func TestLimits(t *testing.T) {
	p := newProgramInContext(t)
	p.ok("cuCtxSetLimit", limitStack, 1000)
	require.EqualValues(t, 1008, p.word64("cuCtxGetLimit", limitStack))
	require.EqualValues(t, 8<<20, p.word64("cuCtxGetLimit", limitHeap))
	p.ok("cuCtxSetLimit", limitHeap, 4<<20)
	p.gives(cuda.ErrOutOfMemory, "cuCtxSetLimit", limitHeap, 1<<40)
	require.EqualValues(t, 4<<20, p.word64("cuCtxGetLimit", limitHeap))
	require.EqualValues(t, 2, p.word64("cuCtxGetLimit", limitSyncDepth))
	require.EqualValues(t, 48<<10, p.word64("cuCtxGetLimit", limitShared))
	require.Zero(t, p.word64("cuCtxGetLimit", limitGraphics))
	p.gives(cuda.ErrNotPermitted, "cuCtxSetLimit", limitShared, 1)
	p.gives(cuda.ErrNotPermitted, "cuCtxSetLimit", limitGraphics, 1)
	p.gives(unsupportedLimit, "cuCtxGetLimit", p.out, limitLast)
	p.gives(cuda.ErrInvalidValue, "cuCtxGetLimit", p.out, 99)

	newer := newProgram(t)
	newer.gpu.Params[drm.ParamComputeMajor], newer.gpu.Params[drm.ParamComputeMinor] = 9, 0
	newer.lib = New(newer.lib.cfg)
	t.Cleanup(newer.lib.Close)
	newer.ok("cuInit", 0)
	newer.ok("cuCtxCreate_v2", newer.out, 0, 0)
	newer.gives(unsupportedLimit, "cuCtxGetLimit", newer.out, limitSyncDepth)
	newer.gives(unsupportedLimit, "cuCtxSetLimit", limitSyncDepth, 2)
	newer.ok("cuCtxSetLimit", limitStack, 1024)

	// L2 lines that persist come in tenths of five eighths of the cache.
	newer.ok("cuDeviceGetAttribute", newer.out, attrPersistingL2, 0)
	most := newer.word(newer.out) & math.MaxUint32
	require.EqualValues(t, newer.gpu.Params[drm.ParamL2Bytes]/8*5, most)
	require.EqualValues(t, most/10*3, newer.word64("cuCtxGetLimit", limitL2))
	for set, got := range map[uint64]uint64{0: 0, 1: most / 10, most / 10: most / 10, most/10 + 1: most / 10 * 2, most: most} {
		newer.ok("cuCtxSetLimit", limitL2, set)
		require.Equal(t, got, newer.word64("cuCtxGetLimit", limitL2), "%d bytes", set)
	}
	newer.ok("cuCtxSetLimit", limitL2, most)
	newer.gives(cuda.ErrInvalidValue, "cuCtxSetLimit", limitL2, most+1)
	newer.gives(cuda.ErrInvalidValue, "cuCtxSetLimit", limitL2, 1<<63)
	require.Equal(t, most, newer.word64("cuCtxGetLimit", limitL2))
	newer.ok("cuDeviceGetAttribute", newer.out, attrLargestWindow, 0)
	require.EqualValues(t, largestWindow, newer.word(newer.out)&math.MaxUint32)
}

// A program learns by the status and the null pointer that there is no function, and with the first
// version of the call by the result.
func TestMissingProcedure(t *testing.T) {
	p := newProgram(t)
	to, status := p.words(1), p.words(99)
	for _, c := range []struct {
		name    string
		version uint64
		want    uint64
	}{
		{name: "cuNoSuchThing", version: 12000, want: procNotFound},
		{name: "cuMemAllocAsync", version: 9000, want: procNotSufficient},
	} {
		p.ok("cuGetProcAddress_v2", p.text(c.name), to, c.version, 0, status)
		require.Zero(t, p.word(to), c.name)
		require.Equal(t, c.want, p.word(status)&0xffffffff, c.name)
		p.ok("cuGetProcAddress_v2", p.text(c.name), to, c.version, 0, 0)
		require.Zero(t, p.word(to), c.name)
		p.gives(cuda.ErrNotFound, "cuGetProcAddress", p.text(c.name), to, c.version, 0)
	}
	p.ok("cuGetProcAddress_v2", p.text("cuInit"), to, 12000, 0, status)
	require.NotZero(t, p.word(to))
}

// A context is no peer of itself: peer access cannot be enabled, and is not enabled.
func TestPeers(t *testing.T) {
	p := newProgram(t)
	first := p.word64("cuCtxCreate_v2", 0, 0)
	second := p.word64("cuCtxCreate_v2", 0, 0)
	for _, ctx := range []uint64{first, second} {
		p.gives(cuda.ErrPeerAccessUnsupported, "cuCtxEnablePeerAccess", ctx, 0)
		p.gives(cuda.ErrPeerAccessNotEnabled, "cuCtxDisablePeerAccess", ctx)
	}
	p.gives(invalidContext, "cuCtxEnablePeerAccess", 8, 0)
	p.gives(cuda.ErrInvalidValue, "cuCtxEnablePeerAccess", first, 1)
}

// The ID of a bus is whole or not there: half of one would be that of another device.
func TestRoomOfBusID(t *testing.T) {
	p := newProgram(t)
	p.gives(cuda.ErrInvalidValue, "cuDeviceGetPCIBusId", p.out, uint64(len("0000:00:00.0")), 0)
	p.ok("cuDeviceGetPCIBusId", p.out, uint64(len("0000:00:00.0"))+1, 0)
}

func TestBanksHave4Bytes(t *testing.T) {
	p := newProgramInContext(t)
	p.ok("cuCtxSetSharedMemConfig", maxBankConfig)
	require.EqualValues(t, bankOf4Bytes, p.word32("cuCtxGetSharedMemConfig"))
	p.gives(cuda.ErrInvalidValue, "cuCtxSetSharedMemConfig", maxBankConfig+1)
}
