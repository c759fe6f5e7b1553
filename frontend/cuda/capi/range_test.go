package capi

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// What is said of ranges of managed memory can be asked for, as on an H100.
func TestRangeAttributes(t *testing.T) {
	p := newProgramInContext(t)
	const n = 4096
	m, _ := p.managed()
	ask := func(attribute, bytes uint64) int32 {
		t.Helper()
		p.ok("cuMemRangeGetAttribute", p.out, 4, attribute, m, bytes)
		return int32(p.word(p.out))
	}
	all := func(bytes uint64) (list []int32) {
		for _, a := range []uint64{1, 2, 3, 4, 5, 6, 7, 8} {
			list = append(list, ask(a, bytes))
		}
		return list
	}
	require.Equal(t, []int32{0, -2, -2, -2, 0, -2, 0, -2}, all(16))
	const device, host = locationDevice, locationHost
	p.ok("cuMemAdvise_v2", m, 16, 1, device)
	p.ok("cuMemAdvise_v2", m, 16, 3, device)
	p.ok("cuMemAdvise_v2", m, 16, 5, device)
	stream := p.word64("cuStreamCreate", 0)
	p.ok("cuMemPrefetchAsync_v2", m, 16, device, 0, stream)
	require.Equal(t, []int32{1, 0, 0, 0, 1, 0, 1, 0}, all(16))
	require.Equal(t, []int32{0, -2, -2, -2, 0, -2, 0, -2}, all(n), "not all of it")
	p.ok("cuMemAdvise", m, 16, 5, 0xffffffff) // the program
	p.ok("cuMemRangeGetAttribute", p.out, 12, 3, m, 16)
	require.EqualValues(t, uint64(0xffffffff_00000000), p.word(p.out))
	require.EqualValues(t, -2, int32(p.word(p.out+8)))
	p.ok("cuMemPrefetchAsync_v2", m, 16, host, 0, stream)
	require.EqualValues(t, -1, ask(4, 16))
	require.EqualValues(t, 2, ask(7, 16))
	p.ok("cuMemRangeGetAttributes", p.words(p.out, p.out+4), p.words(4, 4), p.halves(1, 2), 2, m, 16)
	require.EqualValues(t, 1, p.word(p.out))
	for _, advice := range []uint64{2, 4, 6} {
		p.ok("cuMemAdvise_v2", m, 16, advice, device)
	}
	require.Equal(t, []int32{0, -2, -1, -1, 0, -2, 2, -1}, all(16))
	p.ok("cuMemAdvise_v2", m, 16, 3, device)
	p.ok("cuMemAdvise_v2", m, 16, 3, locationHostLast)
	require.EqualValues(t, -2, ask(2, 16), "a NUMA node takes the preference back")
	p.gives(cuda.ErrInvalidValue, "cuMemAdvise_v2", m, 16, 3, device|7<<32)
	p.gives(cuda.ErrInvalidValue, "cuMemAdvise_v2", m, 0, 1, device)
	p.gives(cuda.ErrInvalidValue, "cuMemPrefetchAsync_v2", m, 0, device, 0, stream)
	p.ok("cuMemPrefetchBatchAsync", p.words(m, m+16, m+2048), p.words(16, 16, 16), 3, p.words(device, host), p.words(0, 2), 2, 0, stream)
	require.EqualValues(t, 0, ask(4, 32))
	p.ok("cuMemDiscardBatchAsync", p.words(m), p.words(n), 1, 0, stream)
	p.ok("cuMemDiscardAndPrefetchBatchAsync", p.words(m), p.words(n), 1, p.words(host), p.words(0), 1, 0, stream)
	require.EqualValues(t, -1, ask(4, n))

	d := p.word64("cuMemAlloc_v2", 4096)
	for name, args := range map[string][]uint64{
		"size 2": {p.out, 2, 1, m, 4096}, "size 8": {p.out, 8, 1, m, 4096}, "attribute 0": {p.out, 4, 0, m, 4096}, "attribute 9": {p.out, 4, 9, m, 4096},
		"list of 6 bytes": {p.out, 6, 3, m, 4096}, "not managed": {p.out, 4, 1, d, 4096}, "of the program": {p.out, 4, 1, p.out, 8},
		"nothing": {p.out, 4, 1, m, 0}, "null": {0, 4, 1, m, 4096}, "too long": {p.out, 4, 1, m, n + 1},
	} {
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuMemRangeGetAttribute", args...), name)
	}
	p.gives(cuda.ErrInvalidValue, "cuMemRangeGetAttributes", p.words(p.out), p.words(4), p.halves(1), 0, m, 4096)
	for name, args := range map[string][]uint64{
		"none": {p.words(m), p.words(8), 0, p.words(device), p.words(0), 1, 0, stream}, "null stream": {p.words(m), p.words(8), 1, p.words(device), p.words(0), 1, 0, 0},
		"flags": {p.words(m), p.words(8), 1, p.words(device), p.words(0), 1, 1, stream}, "not managed": {p.words(d), p.words(8), 1, p.words(device), p.words(0), 1, 0, stream},
		"location": {p.words(m), p.words(8), 1, p.words(9), p.words(0), 1, 0, stream},
	} {
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuMemPrefetchBatchAsync", args...), name)
	}
	p.lib.forgetHints(m, n)
	require.Equal(t, []int32{0, -2, -2, -2, 0, -2, 0, -2}, all(n))
}

// Ranges behave as if each byte had a hint of its own.
func TestHintsOfRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h hints
	var bytes [64]hint
	for range 3000 {
		from, n := r.Uint64N(64), uint64(0)
		n = 1 + r.Uint64N(64-from)
		at, kind := location{kind: r.Uint32N(3)}, r.IntN(3)
		edit := func(h *hint) {
			switch kind {
			case 0:
				h.preferred = at
			case 1:
				h.readMostly = at.kind == 1
			default:
				*h = hint{}
			}
		}
		h.change(from, n, edit)
		for i := range n {
			edit(&bytes[from+i])
		}
		from = r.Uint64N(64)
		n = 1 + r.Uint64N(64-from)
		want := map[hint]bool{}
		for i := range n {
			want[bytes[from+i]] = true
		}
		got := map[hint]bool{}
		for _, is := range h.of(from, n) {
			got[is] = true
		}
		require.Equal(t, want, got)
		for i, x := range h.list {
			require.Less(t, x.from, x.to)
			require.NotEqual(t, hint{}, x.hint)
			require.True(t, i == 0 || h.list[i-1].to <= x.from)
		}
	}
}

// What a device may execute on, fetch and do to memory of the host, and the work of a whole context.
func TestDeviceAnswersOfCUDA13(t *testing.T) {
	p := newProgramInContext(t)
	require.Zero(t, p.word32("cuDeviceGetExecAffinitySupport", 0, 0))
	p.ok("cuCtxGetExecAffinity", p.out, 0)
	n := p.word(p.out)
	require.Zero(t, uint32(n))
	require.EqualValues(t, n>>32, p.word32("cuDeviceGetAttribute", 16, 0))
	p.gives(unsupportedAffinity, "cuCtxGetExecAffinity", p.out, 1)
	p.gives(unsupportedAffinity, "cuCtxCreate_v3", p.out, p.words(0, 0), 1, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuCtxCreate_v3", p.out, 0, 1, 0, 0)
	p.gives(unsupportedAffinity, "cuCtxCreate_v4", p.out, p.words(p.out, 2, 0), 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuDeviceGetTexture1DLinearMaxWidth", p.out, 1, 3, 0)
	p.gives(cuda.ErrInvalidValue, "cuDeviceGetTexture1DLinearMaxWidth", p.out, 99, 1, 0)
	require.LessOrEqual(t, p.word64("cuDeviceGetTexture1DLinearMaxWidth", 0x20, 4, 0), uint64(1)<<28)
	p.ok("cuDeviceGetHostAtomicCapabilities", p.out, p.halves(0, 12), 2, 0)
	require.Zero(t, p.word(p.out))
	p.gives(cuda.ErrInvalidValue, "cuDeviceGetHostAtomicCapabilities", p.out, p.halves(0), 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuDeviceGetHostAtomicCapabilities", p.out, p.halves(13), 1, 0)

	x := p.word64("cuCtxGetCurrent")
	event := p.word64("cuEventCreate", 0)
	p.ok("cuCtxRecordEvent", x, event)
	p.ok("cuEventQuery", event)
	p.ok("cuCtxWaitEvent", x, event)
	p.gives(invalidContext, "cuCtxRecordEvent", 0, event)
	other := p.word64("cuCtxCreate_v2", 0, 0)
	p.gives(cuda.ErrInvalidHandle, "cuCtxRecordEvent", other, event)
	p.ok("cuCtxWaitEvent", other, event)
}
