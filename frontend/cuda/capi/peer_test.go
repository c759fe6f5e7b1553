package capi

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
)

// No address is memory of two contexts, so calls find the context that has it, whichever is
// current, and copies go from one to another.
func TestMemoryOfOtherContexts(t *testing.T) {
	p := newProgram(t)
	const n = 3 * maxBounce / 2
	var contexts, memory []uint64
	for range 3 {
		contexts = append(contexts, p.word64("cuCtxCreate_v2", 0, 0))
		memory = append(memory, p.word64("cuMemAlloc_v2", n))
	}
	require.NotEqual(t, memory[0], memory[1])
	require.NotEqual(t, memory[1], memory[2])
	const end = 1000 // what is looked at
	host := p.mem.Keep(make([]byte, end))
	filled := func(at uint64, v byte) {
		t.Helper()
		got := make([]byte, end)
		p.ok("cuMemcpyDtoH_v2", host, at+n-end, end)
		require.NoError(t, p.mem.Read(got, host))
		require.True(t, bytes.Equal(bytes.Repeat([]byte{v}, end), got))
	}
	for i, at := range memory { // the last context is current
		p.ok("cuMemsetD8_v2", at, uint64(i+1), n)
		filled(at, byte(i+1))
		require.Equal(t, contexts[i], p.word64("cuPointerGetAttribute", pointerContext, at))
	}
	p.ok("cuMemcpyDtoD_v2", memory[0], memory[1], n)
	filled(memory[0], 2)
	p.ok("cuMemcpy", memory[1], memory[2], n)
	filled(memory[1], 3)
	p.ok("cuMemcpyPeer", memory[2], contexts[2], memory[0], contexts[0], n)
	filled(memory[2], 2)
	stream := p.word64("cuStreamCreate", 0)
	p.ok("cuMemcpyDtoDAsync_v2", memory[0], memory[1], n, stream)
	filled(memory[0], 3)
	p.ok("cuMemcpyPeerAsync", memory[1], contexts[1], memory[2], contexts[2], n, stream)
	filled(memory[1], 2)
	p.ok("cuMemcpyPeerAsync", memory[1], contexts[1], memory[1], contexts[1], 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemcpyDtoD_v2", memory[0], memory[1]+1, n)
	p.gives(cuda.ErrInvalidValue, "cuMemcpyPeer", memory[0]+1, contexts[0], memory[1], contexts[1], n)
	p.gives(invalidContext, "cuMemcpyPeer", memory[0], 1, memory[1], contexts[1], n)
	for i := range contexts {
		p.ok("cuMemFree_v2", memory[i])
		p.gives(cuda.ErrInvalidValue, "cuMemsetD8_v2", memory[i], 0, 1)
	}
	for _, x := range contexts {
		p.ok("cuCtxDestroy_v2", x)
	}
}

// onPeers is onTwo with devices that reach each other's memory.
func onPeers(t *testing.T) (p *program, contexts [2]uint64) {
	p = newProgramOnTwo(t)
	for i, g := range []*cudatest.GPU{p.gpu, p.second} {
		g.Params[drm.ParamShares], g.Params[drm.ParamPeers] = drm.SharesMapped, 2>>i
		g.Peers = []*cudatest.GPU{[]*cudatest.GPU{p.second, p.gpu}[i]}
	}
	p.ok("cuInit", 0)
	for dev := range contexts {
		contexts[dev] = p.word64("cuDevicePrimaryCtxRetain", uint64(dev))
	}
	return p, contexts
}

// filled has a context allocate, and fills that.
func (p *program) filled(x uint64, n uint64, v byte) uint64 {
	p.t.Helper()
	p.ok("cuCtxSetCurrent", x)
	at := p.word64("cuMemAlloc_v2", n)
	p.ok("cuMemsetD8_v2", at, uint64(v), n)
	return at
}

// shows checks one byte of memory of a context.
func (p *program) shows(x, at uint64, v byte) {
	p.t.Helper()
	host := p.mem.Keep(make([]byte, 1))
	p.ok("cuCtxSetCurrent", x)
	p.ok("cuMemcpyDtoH_v2", host, at, 1)
	got := make([]byte, 1)
	require.NoError(p.t, p.mem.Read(got, host))
	require.Equal(p.t, v, got[0])
}

// kernelSees returns the memory that a kernel of the second device has at an address; nil if there is none.
func (p *program) kernelSees(at, n uint64) []byte {
	for _, f := range p.second.Opened {
		b, err := f.At(at, n, true)
		f.Lost = nil // the test looked, and no kernel
		if err == nil {
			return b
		}
	}
	return nil
}

// Where devices reach each other's memory, a context that enables it writes what another one has and what that one
// allocates later, until it disables it, and copies go directly.
func TestPeerAccess(t *testing.T) {
	p, x := onPeers(t)
	for i := range uint64(2) {
		require.EqualValues(t, 1, p.word32("cuDeviceCanAccessPeer", i, 1-i))
		require.Zero(t, p.word32("cuDeviceCanAccessPeer", i, i))
		require.EqualValues(t, 1, p.word32("cuDeviceGetP2PAttribute", p2pAccess, i, 1-i))
		require.Zero(t, p.word32("cuDeviceGetP2PAttribute", 3, i, 1-i), "of atomics nothing is known")
	}
	const n = 3 << 20
	before, small := p.filled(x[0], n, 1), p.filled(x[0], 64, 2)
	p.ok("cuCtxSetCurrent", x[1])
	p.gives(cuda.ErrInvalidValue, "cuCtxEnablePeerAccess", x[0], 1)
	p.gives(invalidContext, "cuCtxEnablePeerAccess", 99, 0)
	p.gives(cuda.ErrPeerAccessUnsupported, "cuCtxEnablePeerAccess", x[1], 0)
	p.gives(cuda.ErrPeerAccessNotEnabled, "cuCtxDisablePeerAccess", x[0])
	p.ok("cuCtxEnablePeerAccess", x[0], 0)
	p.gives(cuda.ErrPeerAccessAlreadyEnabled, "cuCtxEnablePeerAccess", x[0], 0)
	later := p.filled(x[0], n, 3)
	p.ok("cuCtxSetCurrent", x[1])
	for i, at := range []uint64{before, small, later} {
		there := p.kernelSees(at+31, 2)
		there[0], there[1] = byte(10+i), byte(20+i)
		p.shows(x[0], at+31, byte(10+i))
		p.shows(x[0], at+32, byte(20+i))
	}
	require.Equal(t, x[0], p.word64("cuPointerGetAttribute", pointerContext, later), "it stays the other context's")
	p.ok("cuMemFree_v2", later)
	require.Nil(t, p.kernelSees(later, 1))
	p.ok("cuCtxSetCurrent", x[1])
	p.ok("cuCtxDisablePeerAccess", x[0])
	require.Nil(t, p.kernelSees(small, 1))
	p.ok("cuMemFree_v2", before)
	p.ok("cuMemFree_v2", small)
	for i := range uint64(2) {
		p.ok("cuDevicePrimaryCtxRelease_v2", i)
	}
}

// Copies between devices that reach each other's memory do not go through the program, on any stream, and whether
// access was enabled or not.
func TestPeerCopies(t *testing.T) {
	p, x := onPeers(t)
	const n = 1 << 20
	a, b := p.filled(x[0], n, 1), p.filled(x[1], n, 2)
	p.ok("cuMemcpyPeer", a, x[0], b, x[1], n)
	p.shows(x[0], a+n-1, 2)
	p.ok("cuMemsetD8_v2", a, 3, n)
	p.ok("cuCtxSetCurrent", x[1])
	s := p.word64("cuStreamCreate", 1)
	p.second.Lazy = true
	p.ok("cuMemcpyPeerAsync", b, x[1], a, x[0], n, s)
	p.gives(cuda.ErrNotReady, "cuStreamQuery", s)
	p.ok("cuStreamSynchronize", s)
	p.second.Lazy = false
	p.shows(x[1], b+n-1, 3)
	p.ok("cuMemsetD8_v2", b, 4, n)
	p.ok("cuMemcpyDtoDAsync_v2", a, b, n, s) // to the other device
	p.ok("cuStreamSynchronize", s)
	p.shows(x[0], a+n-1, 4)
	p.gives(cuda.ErrInvalidValue, "cuMemcpyPeerAsync", b, x[1], a+1, x[0], n, s)
	// What is freed is not reached any more; its end costs the other context nothing.
	p.ok("cuMemFree_v2", a)
	p.gives(cuda.ErrInvalidValue, "cuMemcpyDtoDAsync_v2", b, a, n, s)
	a = p.filled(x[0], n, 5)
	p.ok("cuMemcpyPeer", b, x[1], a, x[0], n)
	p.shows(x[1], b, 5)
	p.ok("cuDevicePrimaryCtxRelease_v2", 0)
	p.shows(x[1], b, 5)
	p.ok("cuDevicePrimaryCtxRelease_v2", 1)
}
