package capi

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
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
