package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
)

// stacked is memory that may be reached without the kernel, and counts how often it was.
type stacked struct {
	*fakeMemory
	reads, writes, slow int
}

func (m *stacked) ReadDirect(p []byte, addr uint64) {
	m.reads++
	if err := m.fakeMemory.Read(p, addr); err != nil {
		panic(err) // it would be a fault
	}
}

func (m *stacked) WriteDirect(addr uint64, p []byte) {
	m.writes++
	if err := m.fakeMemory.Write(addr, p); err != nil {
		panic(err)
	}
}

func (m *stacked) Read(p []byte, addr uint64) error {
	m.slow++
	return m.fakeMemory.Read(p, addr)
}

func (m *stacked) Write(addr uint64, p []byte) error {
	m.slow++
	return m.fakeMemory.Write(addr, p)
}

// What lies on the stack of the thread is reached directly, and nothing else, not in part either.
func TestPointersToTheStack(t *testing.T) {
	p := newProgramInContext(t)
	mem := &stacked{fakeMemory: p.mem}
	p.lib.cfg.Memory = mem
	p.gpu.AddKernel("k", func(*cudatest.File, []byte) *cudatest.Fault { return nil }, 8, 4)
	f := p.function("k")
	stack := Stack{Low: p.mem.Keep(make([]byte, 256))}
	stack.High = stack.Low + 256
	calls := func(name string, args ...uint64) cuda.Result {
		var all [MaxArgs]uint64
		copy(all[:], args)
		*mem = stacked{fakeMemory: p.mem}
		return p.lib.Call(symbolsByName()[name], p.thread, &all, stack)
	}
	for name, c := range map[string]struct {
		at     uint64
		direct bool
	}{
		"in it":          {at: stack.Low + 8, direct: true},
		"its first word": {at: stack.Low, direct: true},
		"its last word":  {at: stack.High - 4, direct: true},
		"over its end":   {at: stack.High - 3},
		"before it":      {at: stack.Low - 1},
		"elsewhere":      {at: p.out},
	} {
		require.Equal(t, cuda.Success, calls("cuDeviceGetCount", c.at), name)
		require.Equal(t, c.direct, mem.writes == 1, name)
		require.Equal(t, c.direct, mem.slow == 0, name)
		require.Equal(t, uint32(1), uint32(p.word(c.at)), name)
	}
	require.Equal(t, cuda.ErrInvalidValue, calls("cuDeviceGetCount", ^uint64(0)-1))
	require.Equal(t, cuda.ErrInvalidValue, calls("cuDeviceGetCount", 0))

	// A launch: the array of pointers and what they lead to.
	a, b := stack.Low+100, stack.Low+120
	require.NoError(t, p.mem.Write(stack.Low+16, wordBytes([]uint64{a, b})))
	require.NoError(t, p.mem.Write(a, wordBytes([]uint64{42})))
	require.NoError(t, p.mem.Write(b, []byte{7, 0, 0, 0}))
	require.Equal(t, cuda.Success, calls("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, 0, stack.Low+16))
	require.Equal(t, 3, mem.reads)
	require.Zero(t, mem.slow)
	require.NoError(t, p.mem.Write(stack.Low+16, wordBytes([]uint64{p.out, b})))
	require.Equal(t, cuda.Success, calls("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, 0, stack.Low+16))
	require.Positive(t, mem.slow+mem.reads)
	require.NoError(t, p.mem.Write(stack.Low+16, wordBytes([]uint64{1, b})))
	require.Equal(t, cuda.ErrInvalidValue, calls("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, 0, stack.Low+16))
	p.ok("cuCtxSynchronize")
}
