package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// shape is a descriptor of a tensor of one dimension.
func (p *libraryProgram) shape(n uint64) uint64 {
	require.Zero(p.t, p.ask("cudnnCreateTensorDescriptor", p.out))
	d := p.word(p.out)
	require.Zero(p.t, p.ask("cudnnSetTensor4dDescriptor", d, 0, 0, n, 1, 1, 1))
	return d
}

// What a library has said of one descriptor it says of the next one like it.
func TestAnswersAreKept(t *testing.T) {
	p := newLibraryProgram(t)
	size := p.room(8)
	ask := func(d uint64) uint64 {
		require.Zero(t, p.ask("cudnnGetTensorSizeInBytes", d, size))
		return p.word(size)
	}
	p.log()
	first := p.shape(5)
	require.EqualValues(t, 20, ask(first))
	before := p.calls
	require.EqualValues(t, 20, ask(first))
	require.EqualValues(t, 20, ask(p.shape(5)))
	require.Equal(t, before, p.calls, "it is known")
	require.EqualValues(t, 24, ask(p.shape(6)))
	require.Zero(t, p.ask("cudnnSetTensor4dDescriptor", first, 0, 0, 7, 1, 1, 1))
	require.EqualValues(t, 28, ask(first), "it has changed")
	require.Equal(t, "size5 size6 size7", p.log())

	// A function that is not known to only answer may change a descriptor.
	x := p.shape(5)
	words := p.room(64)
	p.ask("cudnnGetTensor4dDescriptor", x, words, words+4, words+8, words+12, words+16, words+20, words+24, words+28, words+32)
	require.EqualValues(t, 20, ask(x))
	require.Equal(t, "size5", p.log())

	bad := p.shape(1<<32 - 1)
	require.NotZero(t, p.ask("cudnnGetTensorSizeInBytes", bad, size), "an earlier error is no answer")
	require.Zero(t, p.ask("cudnnGetTensorSizeInBytes", bad, size))
	require.Zero(t, p.ask("cudnnGetTensorSizeInBytes", bad, size))
	require.Equal(t, "size-1 size-1", p.log())

	p.ok("cuCtxCreate_v2", p.out, 0, 0)
	require.EqualValues(t, 20, ask(p.shape(5)))
	require.Equal(t, "size5", p.log(), "another context is asked itself")
	require.NotZero(t, p.ask("cudnnGetTensorSizeInBytes", 0xdead, size))
}

func TestAnswersAreBounded(t *testing.T) {
	p := newLibraryProgram(t)
	size := p.room(8)
	for n := range uint64(maxAnswers + 5) {
		d := p.shape(n + 1)
		require.Zero(t, p.ask("cudnnGetTensorSizeInBytes", d, size))
		require.Zero(t, p.ask("cudnnDestroyTensorDescriptor", d))
	}
	require.Len(t, p.lib.libraries.answers, 5)
	p.ok("cuCtxGetCurrent", p.out)
	p.ok("cuCtxDestroy_v2", p.word(p.out))
	require.Empty(t, p.lib.libraries.answers)
}

// The pack of arguments of a plan goes along with the call that executes it. PyTorch makes one for each.
func TestPacksGoAlong(t *testing.T) {
	p := newLibraryProgram(t)
	h, list := p.room(8), p.room(64)
	require.Zero(t, p.ask("cudnnCreate", h))
	pack := func(value uint64) uint64 {
		to := p.room(8)
		require.Zero(t, p.ask("cudnnBackendCreateDescriptor", 16, to))
		require.NoError(t, p.mem.Write(list, binary.LittleEndian.AppendUint64(nil, value)))
		require.Zero(t, p.ask("cudnnBackendSetAttribute", p.word(to), 1, 3, 1, list))
		require.Zero(t, p.ask("cudnnBackendFinalize", p.word(to)))
		return p.word(to)
	}
	plan := p.room(8)
	require.Zero(t, p.ask("cudnnBackendCreateDescriptor", 5, plan))
	p.log()
	before := p.calls
	good := pack(4)
	require.Equal(t, before, p.calls)
	require.Zero(t, p.ask("cudnnBackendExecute", p.word(h), p.word(plan), good))
	require.Equal(t, before+1, p.calls)
	require.Equal(t, "set1:3[1],4 pack4 stream1 execute5:0", p.log())
	pack(13) // the library refuses it
	require.EqualValues(t, 3000, p.ask("cudnnBackendExecute", p.word(h), p.word(plan), good))
	p.log()
	for range 200 { // more than wait for another call
		pack(4)
	}
	require.Greater(t, p.calls, before+4)
	require.Zero(t, p.ask("cudnnBackendExecute", p.word(h), p.word(plan), good), "none of them has left an error")
}

// The driver places variables of modules beyond the window of allocations. XLA convolves with constants there.
func TestPointersToVariables(t *testing.T) {
	p := newLibraryProgram(t)
	m := p.word64("cuModuleLoadData", p.program.text("global weights"))
	far := p.word64("cuModuleGetGlobal_v2", 0, m, p.program.text("weights"))
	to, list := p.room(8), p.room(8)
	require.Zero(t, p.ask("cudnnBackendCreateDescriptor", 16, to))
	for addr, want := range map[uint64]uint64{far: 0, far + 60: 0, far + 64: 2002} {
		require.NoError(t, p.mem.Write(list, binary.LittleEndian.AppendUint64(nil, addr)))
		require.EqualValues(t, want, p.ask("cudnnBackendSetAttribute", p.word(to), 1, 6, 1, list), "%#x", addr)
	}
}
