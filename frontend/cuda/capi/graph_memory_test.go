package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// allocNode is CUDA_MEM_ALLOC_NODE_PARAMS for n bytes.
func (p *grapher) allocNode(n uint64) uint64 {
	b := make([]byte, allocNodeBytes)
	b[0], b[8] = 1, 1 // pinned, of device 0
	binary.LittleEndian.PutUint64(b[allocNodeSize:], n)
	return p.program.mem.Keep(b)
}

// addAlloc adds a node that allocates n bytes and returns it with the address.
func (p *grapher) addAlloc(g, n uint64, deps ...uint64) (node, addr uint64) {
	p.t.Helper()
	params := p.allocNode(n)
	node = p.addNode("cuGraphAddMemAllocNode", g, []uint64{params}, deps...)
	return node, p.word(params + allocNodeAddress)
}

// fillAt is CUDA_MEMSET_NODE_PARAMS for 16 numbers at an address.
func (p *grapher) fillAt(addr uint64, v uint32) uint64 {
	return p.words(addr, 0, uint64(v)|4<<32, 16, 1, 0)
}

func (p *grapher) graphMem(a cuda.GraphMemAttribute) uint64 {
	p.t.Helper()
	p.ok("cuDeviceGetGraphMemAttribute", 0, uint64(a), p.out)
	return p.word(p.out)
}

func (p *grapher) freeMemory() uint64 {
	p.t.Helper()
	p.ok("cuMemGetInfo_v2", p.out, p.out+8)
	return p.word(p.out)
}

// A graph allocates memory at its first launch, works there and frees it; the memory stays for the
// next launch until it is trimmed.
func TestGraphAllocatesAndFrees(t *testing.T) {
	p := newGrapher(t)
	free := p.freeMemory()
	g := p.word64("cuGraphCreate", 0)
	alloc, addr := p.addAlloc(g, 64)
	fill := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillAt(addr, 7), 0}, alloc)
	down := p.addNode("cuGraphAddMemcpyNode", g, []uint64{p.copyNode(memoryHost, p.host, memoryDevice, addr), 0}, fill)
	gone := p.addNode("cuGraphAddMemFreeNode", g, []uint64{addr}, down)
	for node, kind := range map[uint64]graph.Kind{alloc: graph.MemAlloc, gone: graph.MemFree} {
		require.EqualValues(t, kind, uint32(p.second64("cuGraphNodeGetType", node)))
	}
	exec := p.instantiate(g)
	require.Equal(t, free, p.freeMemory(), "nothing was launched")
	for range 2 {
		p.ok("cuMemcpyHtoD_v2", p.data, p.words(make([]uint64, 8)...), 64)
		p.ok("cuGraphLaunch", exec, p.stream)
		p.ok("cuStreamSynchronize", p.stream)
		require.EqualValues(t, 7|7<<32, p.word(p.host))
		p.gives(cuda.ErrInvalidValue, "cuMemFree_v2", addr)
	}
	page := p.graphMem(cuda.GraphMemUsedCurrent)
	require.GreaterOrEqual(t, page, uint64(64))
	require.Equal(t, page, p.graphMem(cuda.GraphMemReservedCurrent))
	p.ok("cuDeviceGraphMemTrim", 0)
	require.Zero(t, p.graphMem(cuda.GraphMemReservedCurrent))
	require.Equal(t, free, p.freeMemory())
	p.ok("cuDeviceSetGraphMemAttribute", 0, uint64(cuda.GraphMemReservedHigh), p.words(0))
	require.Zero(t, p.graphMem(cuda.GraphMemReservedHigh))
	p.gives(cuda.ErrInvalidValue, "cuDeviceSetGraphMemAttribute", 0, uint64(cuda.GraphMemReservedHigh), p.words(1))
	p.gives(cuda.ErrInvalidValue, "cuDeviceGetGraphMemAttribute", 0, 4, p.out)

	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuGraphExecDestroy", exec)
	p.ok("cuGraphDestroy", g)
	p.ok("cuStreamSynchronize", p.stream)
	require.Equal(t, free, p.freeMemory())
	p.gives(cuda.ErrInvalidValue, "cuMemsetD32_v2", addr, 0, 1)
}

// Memory that a graph leaves allocated is the program's, until it, another graph or the next launch
// frees it.
func TestGraphLeavesMemory(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	alloc, addr := p.addAlloc(g, 64)
	p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillAt(addr, 7), 0}, alloc)
	exec := p.instantiate(g)
	launch := func(e uint64) cuda.Result { return p.call("cuGraphLaunch", e, p.stream) }
	require.Equal(t, cuda.Success, launch(exec))
	require.Equal(t, cuda.ErrInvalidValue, launch(exec), "it is allocated")
	p.ok("cuMemcpyDtoH_v2", p.host, addr, 64)
	require.EqualValues(t, 7|7<<32, p.word(p.host))

	p.ok("cuMemFree_v2", addr)
	p.gives(cuda.ErrInvalidValue, "cuMemFree_v2", addr)
	require.Equal(t, cuda.Success, launch(exec))
	p.ok("cuMemFreeAsync", addr, p.stream)
	p.gives(cuda.ErrInvalidValue, "cuMemFreeAsync", addr, p.stream)
	require.Equal(t, cuda.Success, launch(exec))

	other := p.word64("cuGraphCreate", 0)
	p.addNode("cuGraphAddMemFreeNode", other, []uint64{addr})
	frees := p.instantiate(other)
	require.Equal(t, cuda.Success, launch(frees))
	require.Equal(t, cuda.ErrInvalidValue, launch(frees), "it is free")

	p.ok("cuGraphExecDestroy", exec)
	auto := p.word64("cuGraphInstantiateWithFlags", g, autoFreeOnLaunch)
	require.Equal(t, cuda.Success, launch(auto))
	require.Equal(t, cuda.Success, launch(auto))

	// Who holds the address is gone, but the memory is the program's.
	for call, h := range map[string]uint64{"cuGraphExecDestroy": auto, "cuGraphDestroy": g} {
		p.ok(call, h)
	}
	p.ok("cuGraphExecDestroy", frees)
	p.ok("cuGraphDestroy", other)
	p.ok("cuMemsetD32_v2", addr, 5, 16)
	p.ok("cuMemFree_v2", addr)
	p.gives(cuda.ErrInvalidValue, "cuMemsetD32_v2", addr, 5, 16)
	require.Zero(t, p.graphMem(cuda.GraphMemReservedCurrent))
}

// Memory that is freed before another allocation of the size begins serves that, too.
func TestGraphMemoryIsReused(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	a, first := p.addAlloc(g, 64)
	fill := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillAt(first, 7), 0}, a)
	_, beside := p.addAlloc(g, 64, a)
	free := p.addNode("cuGraphAddMemFreeNode", g, []uint64{first}, fill)
	other, larger := p.addAlloc(g, 1<<20, free)
	b, second := p.addAlloc(g, 64, other)
	_, third := p.addAlloc(g, 64, free)
	require.Equal(t, first, second)
	for _, x := range []uint64{beside, larger, third} {
		require.NotEqual(t, first, x)
	}
	again := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillAt(second, 9), 0}, b)
	down := p.addNode("cuGraphAddMemcpyNode", g, []uint64{p.copyNode(memoryHost, p.host, memoryDevice, second), 0}, again)
	for _, x := range []uint64{second, beside, larger, third} {
		down = p.addNode("cuGraphAddMemFreeNode", g, []uint64{x}, down)
	}
	p.gives(cuda.ErrInvalidValue, "cuGraphAddMemFreeNode", p.out, g, p.words(down), 1, second)
	_, fourth := p.addAlloc(g, 64, free) // it is not behind the second use
	require.NotEqual(t, first, fourth)
	p.addNode("cuGraphAddMemFreeNode", g, []uint64{fourth}, free)
	exec := p.instantiate(g)
	for range 2 {
		p.ok("cuGraphLaunch", exec, p.stream)
		p.ok("cuStreamSynchronize", p.stream)
		require.EqualValues(t, 9|9<<32, p.word(p.host))
	}
	p.ok("cuGraphDestroy", g)
	p.ok("cuGraphExecDestroy", exec)
	require.Zero(t, p.graphMem(cuda.GraphMemReservedCurrent))
}

// What CUDA does not do with graphs that allocate. The results are an H100's.
func TestGraphsWithMemoryAreRefused(t *testing.T) {
	p := newGrapher(t)
	g, plain := p.word64("cuGraphCreate", 0), p.word64("cuGraphCreate", 0)
	alloc, addr := p.addAlloc(g, 64)
	gone := p.addNode("cuGraphAddMemFreeNode", g, []uint64{addr}, alloc)
	const refused = cuda.ErrNotSupported
	p.gives(refused, "cuGraphClone", p.out, g)
	p.gives(refused, "cuGraphAddChildGraphNode", p.out, plain, 0, 0, g)
	p.gives(refused, "cuGraphDestroyNode", gone)
	p.gives(refused, "cuGraphRemoveDependencies", g, p.words(alloc), p.words(gone), 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddMemFreeNode", p.out, g, p.words(alloc), 1, addr)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddMemFreeNode", p.out, g, 0, 0, p.data)
	exec := p.instantiate(g)
	p.gives(refused, "cuGraphInstantiateWithFlags", p.out, g, 0)
	p.begin(p.stream, 0)
	p.gives(900, "cuGraphLaunch", exec, p.stream)
	p.gives(901, "cuStreamEndCapture", p.stream, p.out)
	p.ok("cuGraphExecDestroy", exec)
	again := p.instantiate(g)
	same := p.words(0, 0, 0)
	p.ok("cuGraphExecUpdate_v2", again, g, same)
	twin := p.word64("cuGraphCreate", 0)
	a, at := p.addAlloc(twin, 64)
	p.addNode("cuGraphAddMemFreeNode", twin, []uint64{at}, a)
	p.gives(updateFailure, "cuGraphExecUpdate_v2", again, twin, same)
	require.EqualValues(t, updateNotSupported, uint32(p.word(same)))

	for _, bad := range []func(b []byte){
		func(b []byte) { b[0] = 0 },                 // no type
		func(b []byte) { b[4] = 1 },                 // for other processes
		func(b []byte) { b[12] = 9 },                // of no device
		func(b []byte) { clear(b[allocNodeSize:]) }, // of no bytes
		func(b []byte) { b[allocNodeCount+3] = 1 },  // millions of accesses
		func(b []byte) { b[allocNodeCount] = 1 },    // an access at no address
	} {
		b := make([]byte, allocNodeBytes)
		require.NoError(t, p.program.mem.Read(b, p.allocNode(64)))
		bad(b)
		require.NotEqual(t, cuda.Success, p.call("cuGraphAddMemAllocNode", p.out, plain, 0, 0, p.program.mem.Keep(b)))
	}
	require.Equal(t, cuda.ErrOutOfMemory, p.call("cuGraphAddMemAllocNode", p.out, plain, 0, 0, p.allocNode(1<<63)))
	require.Equal(t, cuda.ErrOutOfMemory, p.call("cuGraphAddMemAllocNode", p.out, plain, 0, 0, p.allocNode(^uint64(0))))
	n, _ := p.nodesOf("cuGraphGetNodes", plain)
	require.Zero(t, n)
}

// Allocations and frees in the order of a stream become nodes in a capture, and a capture that
// fails leaves none.
func TestCaptureOfMemory(t *testing.T) {
	p := newGrapher(t)
	free := p.freeMemory()
	p.begin(p.stream, 0)
	addr := p.word64("cuMemAllocAsync", 64, p.stream)
	p.ok("cuMemsetD32Async", addr, 3, 16, p.stream)
	p.ok("cuMemcpyAsync", addr+4, addr, 4, p.stream)
	p.ok("cuMemcpyAsync", p.host, addr, 64, p.stream)
	p.gives(cuda.ErrInvalidValue, "cuMemFreeAsync", p.data, p.stream)
	p.ok("cuMemFreeAsync", addr, p.stream)
	g := p.end(p.stream)
	exec := p.instantiate(g)
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	require.EqualValues(t, 3|3<<32, p.word(p.host))
	p.ok("cuGraphExecDestroy", exec)
	p.ok("cuGraphDestroy", g)
	p.ok("cuStreamSynchronize", p.stream)
	require.Equal(t, free, p.freeMemory())

	// A stream that joined the capture may go before the capture ends.
	p.begin(p.stream, 0)
	fork := p.word64("cuStreamCreate", streamNonBlocking)
	addr = p.word64("cuMemAllocAsync", 64, p.stream)
	p.ok("cuEventRecord", p.event, p.stream)
	p.ok("cuStreamWaitEvent", fork, p.event, 0)
	p.ok("cuMemsetD32Async", addr, 8, 16, fork)
	p.ok("cuMemcpyDtoHAsync_v2", p.host, addr, 64, fork)
	p.ok("cuMemFreeAsync", addr, fork)
	p.ok("cuEventRecord", p.event, fork)
	p.ok("cuStreamWaitEvent", p.stream, p.event, 0)
	p.ok("cuStreamDestroy_v2", fork)
	exec = p.instantiate(p.end(p.stream))
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	require.EqualValues(t, 8|8<<32, p.word(p.host))

	p.begin(p.stream, 0)
	pool := p.word64("cuDeviceGetDefaultMemPool", 0)
	addr = p.word64("cuMemAllocFromPoolAsync", 64, pool, p.stream)
	p.gives(cuda.ErrInvalidValue, "cuMemAllocFromPoolAsync", p.out, 64, pool+1, p.stream)
	p.ok("cuMemFreeAsync", addr, p.stream)
	p.ok("cuGraphDestroy", p.end(p.stream))

	p.begin(p.stream, 0)
	lost := p.word64("cuMemAllocAsync", 64, p.stream)
	p.gives(900, "cuStreamSynchronize", p.stream)
	p.gives(901, "cuStreamEndCapture", p.stream, p.out)
	p.gives(cuda.ErrInvalidValue, "cuMemsetD32_v2", lost, 0, 1)
}

// Memory that graphs keep and do not use goes where memory is short.
func TestGraphMemoryIsTakenBack(t *testing.T) {
	p := newGrapher(t)
	most := p.freeMemory() / 4 * 3
	var execs []uint64
	for range 2 {
		g := p.word64("cuGraphCreate", 0)
		alloc, addr := p.addAlloc(g, most)
		fill := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillAt(addr, 1), 0}, alloc)
		p.addNode("cuGraphAddMemFreeNode", g, []uint64{addr}, fill)
		execs = append(execs, p.instantiate(g))
	}
	for _, e := range append(execs, execs...) {
		p.ok("cuGraphLaunch", e, p.stream)
		p.ok("cuStreamSynchronize", p.stream)
	}
	large := p.word64("cuMemAlloc_v2", most)
	p.gives(cuda.ErrOutOfMemory, "cuGraphLaunch", execs[0], p.stream)
	p.ok("cuMemFree_v2", large)
	p.ok("cuGraphLaunch", execs[0], p.stream)
}

// A launch keeps its memory until the program has done its part, and may outlive its stream and the
// executable graph.
func TestGraphMemoryStaysForHostFunctions(t *testing.T) {
	p := newGrapher(t)
	begun, end := make(chan struct{}), make(chan struct{})
	p.lib.cfg.Invoke = func(_, _, _, _ uint64) uint64 {
		begun <- struct{}{}
		<-end
		return 0
	}
	g := p.word64("cuGraphCreate", 0)
	alloc, addr := p.addAlloc(g, 64)
	call := p.addNode("cuGraphAddHostNode", g, []uint64{p.words(8, 99)}, alloc)
	fill := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillAt(addr, 7), 0}, call)
	down := p.addNode("cuGraphAddMemcpyNode", g, []uint64{p.copyNode(memoryHost, p.host, memoryDevice, addr), 0}, fill)
	p.addNode("cuGraphAddMemFreeNode", g, []uint64{addr}, down)
	exec := p.instantiate(g)
	p.ok("cuGraphLaunch", exec, p.stream)
	<-begun
	p.ok("cuDeviceGraphMemTrim", 0)
	end <- struct{}{}
	p.ok("cuStreamSynchronize", p.stream)
	require.EqualValues(t, 7|7<<32, p.word(p.host))

	p.ok("cuGraphLaunch", exec, p.stream)
	<-begun
	p.ok("cuGraphDestroy", g)
	p.ok("cuGraphExecDestroy", exec)
	require.NotZero(t, p.graphMem(cuda.GraphMemReservedCurrent))
	end <- struct{}{}
	p.ok("cuStreamSynchronize", p.stream)
	require.Zero(t, p.graphMem(cuda.GraphMemReservedCurrent))
}

func TestGraphMemoryOutlivesStream(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	alloc, addr := p.addAlloc(g, 64)
	p.addNode("cuGraphAddMemFreeNode", g, []uint64{addr}, alloc)
	exec := p.instantiate(g)
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamDestroy_v2", p.stream)
	p.ok("cuGraphExecDestroy", exec)
	p.ok("cuGraphDestroy", g)
	require.Zero(t, p.graphMem(cuda.GraphMemReservedCurrent))
}
