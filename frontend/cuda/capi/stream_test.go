package capi

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// Each stream has an ID of its own: the default one by all its names, those of threads, and a stream
// that has the handle of no other.
func TestStreamIDs(t *testing.T) {
	p := newProgramInContext(t)
	id := func(p *program, stream uint64) uint64 {
		t.Helper()
		return p.second64("cuStreamGetId", stream)
	}
	other := p.on(2)
	other.ok("cuCtxSetCurrent", p.word64("cuCtxGetCurrent"))
	require.Equal(t, id(p, 0), id(p, streamLegacy))
	require.Equal(t, id(p, 0), id(other, 0))
	require.Equal(t, id(p, streamPerThread), id(p, streamPerThread))
	seen := map[uint64]bool{id(p, 0): true}
	first := p.word64("cuStreamCreate", 0)
	for _, one := range []uint64{id(p, streamPerThread), id(other, streamPerThread), id(p, first)} {
		require.False(t, seen[one], "%d", one)
		seen[one] = true
	}
	p.ok("cuStreamDestroy_v2", first)
	require.False(t, seen[id(p, p.word64("cuStreamCreate", 0))], "the channel is used again, the ID is not")
	p.gives(cuda.ErrInvalidHandle, "cuStreamGetId", first, p.out)
	p.gives(cuda.ErrInvalidValue, "cuStreamGetId", 0, 0)
	other.lib.ThreadEnd(2)
}

// A device has few channels. Streams share them, also the default streams of threads; where there
// are none to share, a thread uses the legacy default stream and a stream is refused.
func TestStreamsWithoutChannels(t *testing.T) {
	p := newProgramInContext(t)
	for range 20 {
		p.ok("cuStreamCreate", p.out, 0)
	}
	require.NotEqual(t, p.second64("cuStreamGetId", 0), p.second64("cuStreamGetId", streamPerThread))
	p.ok("cuCtxDestroy_v2", p.word64("cuCtxGetCurrent"))
	for p.call("cuCtxCreate_v2", p.out, 0, 0) == cuda.Success {
		continue // the last of them takes the last channel
	}
	p.gives(cuda.ErrDeviceUnavailable, "cuStreamCreate", p.out, 0)
	require.Equal(t, p.second64("cuStreamGetId", 0), p.second64("cuStreamGetId", streamPerThread))
	p.lib.ThreadEnd(1)
	p.gives(invalidContext, "cuCtxSynchronize") // the thread begins again
}

// Functions of the program run once each, in the order of their stream, and not after an error; a
// callback gets the error.
func TestHostFunctions(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelFault(1)
	fault := p.function("fault")
	for i := range uint64(20) {
		p.ok("cuLaunchHostFunc", 0, 0x1000, i)
	}
	p.ok("cuStreamAddCallback", 0, 0x2000, 77, 0)
	p.ok("cuCtxSynchronize")
	var want []uint64
	for i := range uint64(20) {
		want = append(want, 0x1000, i, 0, 0)
	}
	require.Equal(t, append(want, 0x2000, 0, uint64(cuda.Success), 77), p.invoked)
	p.gives(cuda.ErrInvalidValue, "cuLaunchHostFunc", 0, 0, 0)
	p.gives(cuda.ErrInvalidHandle, "cuLaunchHostFunc", 0x1234, 0x1000, 0)

	p.invoked = nil
	p.ok("cuLaunchKernel", fault, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
	p.ok("cuLaunchHostFunc", 0, 0x1000, 1)
	p.ok("cuStreamAddCallback", 0, 0x2000, 78, 0)
	p.gives(cuda.ErrIllegalAddress, "cuCtxSynchronize")
	require.Equal(t, []uint64{0x2000, 0, uint64(cuda.ErrIllegalAddress), 78}, p.invoked)
	p.gives(cuda.ErrIllegalAddress, "cuMemAlloc_v2", p.out, 64) // and so it stays
}

// Work that has not run is NOT_READY, for streams and events alike.
func TestQueries(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	add, memory := p.function("add"), p.word64("cuMemAlloc_v2", 64)
	arguments := p.words(p.words(memory), p.halves(16), p.halves(1))
	stream, event, untimed := p.word64("cuStreamCreate", 1), p.word64("cuEventCreate", 0), p.word64("cuEventCreate", eventDisableTiming)
	p.ok("cuEventQuery", event) // nothing was recorded
	p.gives(cuda.ErrInvalidHandle, "cuEventElapsedTime", p.out, event, event)
	p.gpu.SetLazy(true)
	p.ok("cuLaunchKernel", add, 1, 1, 1, 16, 1, 1, 0, stream, arguments, 0)
	p.ok("cuEventRecord", event, stream)
	p.ok("cuEventRecord", untimed, stream)
	p.gives(cuda.ErrNotReady, "cuStreamQuery", stream)
	p.gives(cuda.ErrNotReady, "cuEventQuery", event)
	p.gives(cuda.ErrNotReady, "cuEventElapsedTime", p.out, event, event)
	p.gives(cuda.ErrInvalidHandle, "cuEventElapsedTime", p.out, event, untimed)
	p.ok("cuStreamWaitEvent", 0, event, 0)
	p.ok("cuEventSynchronize", event)
	p.gives(cuda.ErrNotReady, "cuStreamQuery", stream) // the other event
	p.ok("cuStreamSynchronize", stream)
	p.ok("cuStreamQuery", stream)
	p.ok("cuEventElapsedTime", p.out, event, event)
	require.Zero(t, math.Float32frombits(uint32(p.word(p.out))))
	require.EqualValues(t, 1, uint32(p.second64("cuStreamGetFlags", stream)))
	p.ok("cuEventDestroy_v2", event)
	p.gives(cuda.ErrInvalidHandle, "cuEventRecord", event, stream)
	p.gives(cuda.ErrInvalidHandle, "cuEventDestroy_v2", stream)
	p.ok("cuStreamDestroy_v2", stream)
	p.gives(cuda.ErrInvalidHandle, "cuStreamQuery", stream)
}

// Threads use one context, streams and events of their own, and hand each other host functions.
func TestStreamsOfManyThreads(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	ctx, add := p.word64("cuCtxGetCurrent"), p.function("add")
	var all sync.WaitGroup
	for thread := range uint64(4) {
		q := p.on(thread + 10)
		all.Go(func() {
			q.ok("cuCtxSetCurrent", ctx)
			memory, event := q.word64("cuMemAlloc_v2", 64), q.word64("cuEventCreate", 0)
			arguments := q.words(q.words(memory), q.halves(16), q.halves(1))
			q.ok("cuMemsetD32_v2", memory, 0, 16)
			for range 20 {
				q.ok("cuLaunchKernel_ptsz", add, 1, 1, 1, 16, 1, 1, 0, 0, arguments, 0)
				q.ok("cuEventRecord_ptsz", event, 0)
				q.ok("cuLaunchHostFunc_ptsz", 0, 0x1000, thread)
				q.ok("cuStreamWaitEvent_ptsz", 0, event, 0)
			}
			q.ok("cuStreamSynchronize_ptsz", 0)
			q.ok("cuMemcpyDtoH_v2", q.out, memory, 4)
			require.EqualValues(q.t, 20, uint32(q.word(q.out)))
			q.ok("cuMemFree_v2", memory)
			q.lib.ThreadEnd(thread + 10)
		})
	}
	all.Wait()
	require.Len(t, p.invoked, 4*20*4)
}

// What a thread has queued on its stream is done though the thread has ended, and then the stream
// goes.
func TestThreadEndsBeforeItsWork(t *testing.T) {
	p := newProgramInContext(t)
	x, _ := find[*context](p.lib, p.word64("cuCtxGetCurrent"))
	begun, end := make(chan struct{}), make(chan struct{})
	p.lib.cfg.Invoke = func(_, _, _, _ uint64) uint64 {
		begun <- struct{}{}
		<-end
		return 0
	}
	p.ok("cuStreamSetAttribute", streamPerThread, streamSyncPolicy, p.words(4, 0, 0, 0))
	for i := range uint64(2) {
		p.ok("cuLaunchHostFunc", streamPerThread, 8, i)
	}
	p.lib.ThreadEnd(1)
	for range 2 {
		<-begun
		end <- struct{}{}
	}
	q := p.on(2)
	q.ok("cuCtxSetCurrent", x.handle)
	q.ok("cuCtxSynchronize")
	require.Empty(t, x.attributes)
	for range 5 { // of six channels; the default stream has one
		q.ok("cuStreamCreate", q.out, 0)
	}
}

// A host function on a stream that was made non-blocking holds up nothing on the default stream, but
// all that waits for the context.
func TestHostFunctionOfNonBlockingStream(t *testing.T) {
	p := newProgramInContext(t)
	release, ran := make(chan struct{}), false
	p.lib.cfg.Invoke = func(_, _, _, _ uint64) uint64 {
		<-release
		ran = true
		return 0
	}
	memory := p.word64("cuMemAlloc_v2", 64)
	p.ok("cuLaunchHostFunc", p.word64("cuStreamCreate", streamNonBlocking), 0x1000, 0)
	p.ok("cuMemsetD32_v2", memory, 7, 16)
	p.ok("cuMemcpyDtoH_v2", p.out, memory, 4)
	p.ok("cuStreamSynchronize", 0)
	require.EqualValues(t, 7, uint32(p.word(p.out)))
	close(release)
	p.ok("cuCtxSynchronize")
	require.True(t, ran)
}
