package capi

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// kernelNode is CUDA_KERNEL_NODE_PARAMS of version 2 for "add" of v to all numbers.
func (p *grapher) kernelNode(v uint32) uint64 {
	b := wordBytes([]uint64{p.add})
	for _, w := range []uint32{1, 1, 1, 1, 1, 1, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return p.program.mem.Keep(append(b, wordBytes([]uint64{p.params(16, v), 0, 0, 0})...))
}

// fillNode is CUDA_MEMSET_NODE_PARAMS for the first n numbers.
func (p *grapher) fillNode(v uint32, n uint64) uint64 {
	return p.words(p.data, 0, uint64(v)|4<<32, n, 1, 0)
}

// copyNode is CUDA_MEMCPY3D of 64 bytes to or from the program.
func (p *grapher) copyNode(dst uint32, to uint64, src uint32, from uint64) uint64 {
	return p.program.mem.Keep(line(dst, to, src, from, 64))
}

// deps is a list of nodes and its length.
func (p *grapher) deps(nodes ...uint64) (list, n uint64) {
	if len(nodes) == 0 {
		return 0, 0
	}
	return p.words(nodes...), uint64(len(nodes))
}

func (p *grapher) addNode(name string, g uint64, args []uint64, deps ...uint64) uint64 {
	p.t.Helper()
	list, n := p.deps(deps...)
	return p.word64(name, append([]uint64{g, list, n}, args...)...)
}

func (p *grapher) run(exec uint64) uint32 {
	p.t.Helper()
	p.ok("cuGraphLaunch", exec, p.stream)
	return p.first()
}

// A graph of all kinds of nodes does what they say, in the order of its edges and not of their making.
func TestExplicitGraph(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	down := p.addNode("cuGraphAddMemcpyNode", g, []uint64{p.copyNode(memoryHost, p.host, memoryDevice, p.data), 0})
	twice := p.addNode("cuGraphAddKernelNode_v2", g, []uint64{p.kernelNode(20)})
	fill := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillNode(7, 16), 0})
	once := p.addNode("cuGraphAddKernelNode", g, []uint64{p.kernelNode(100)}, fill)
	call := p.addNode("cuGraphAddHostNode", g, []uint64{p.words(8, 99)}, down)
	empty := p.addNode("cuGraphAddEmptyNode", g, nil, once)
	record := p.addNode("cuGraphAddEventRecordNode", g, []uint64{p.event}, empty)
	wait := p.addNode("cuGraphAddEventWaitNode", g, []uint64{p.event}, record)
	p.ok("cuGraphAddDependencies", g, p.words(wait, twice), p.words(twice, down), 2)
	exec := p.instantiate(g)
	require.EqualValues(t, 127, p.run(exec))
	require.EqualValues(t, 127, uint32(p.word(p.host)))
	require.Equal(t, []uint64{8, 99, 0, 0}, p.invoked)
	p.ok("cuEventQuery", p.event)

	for node, kind := range map[uint64]graph.Kind{
		down: graph.Copy, twice: graph.Kernel, fill: graph.Fill, call: graph.Host, empty: graph.Empty, record: graph.Record, wait: graph.Wait,
	} {
		require.EqualValues(t, kind, uint32(p.second64("cuGraphNodeGetType", node)))
	}
	require.Equal(t, p.event, p.second64("cuGraphEventRecordNodeGetEvent", record))
	p.gives(cuda.ErrInvalidValue, "cuGraphEventRecordNodeGetEvent", wait, p.out)
	require.Equal(t, p.event, p.second64("cuGraphEventWaitNodeGetEvent", wait))

	// The same nodes by the calls for any kind.
	both := p.word64("cuGraphCreate", 0)
	for _, kind := range []uint32{uint32(graph.Fill), uint32(graph.Kernel)} {
		from, n := p.fillNode(1, 16), fillNodeBytes
		if kind == uint32(graph.Kernel) {
			from, n = p.kernelNode(30), kernelNodeBytesV2
		}
		b := make([]byte, nodeParamsBytes)
		b[0] = byte(kind)
		require.NoError(t, p.program.mem.Read(b[nodeParamsUnion:][:n], from))
		_, last := p.nodesOf("cuGraphGetNodes", both)
		p.addNode("cuGraphAddNode", both, []uint64{p.program.mem.Keep(b)}, last...)
	}
	require.EqualValues(t, 31, p.run(p.instantiate(both)))
	p.gives(cuda.ErrNotSupported, "cuGraphAddNode", p.out, both, 0, 0, p.program.mem.Keep(append([]byte{14}, make([]byte, nodeParamsBytes)...)))
}

// A CUkernel of a node runs in the context that the node names, or in the current one.
func TestContextOfKernelNode(t *testing.T) {
	p := newGrapher(t)
	first := p.word64("cuCtxGetCurrent")
	second := p.word64("cuCtxCreate_v2", 0, 0)
	lib := p.word64("cuLibraryLoadData", p.text(".entry add"), 0, 0, 0, 0, 0, 0)
	kernel := p.word64("cuLibraryGetKernel", lib, p.text("add"))
	g, shown := p.word64("cuGraphCreate", 0), p.words(make([]uint64, 9)...)
	node := func(ctx uint64) uint64 {
		b := make([]byte, kernelNodeBytesV2)
		require.NoError(t, p.program.mem.Read(b, p.kernelNode(1)))
		clear(b[:8])
		copy(b[56:], wordBytes([]uint64{kernel, ctx}))
		return p.program.mem.Keep(b)
	}
	for ctx, want := range map[uint64]uint64{0: second, first: first, second: second} {
		made := p.addNode("cuGraphAddKernelNode_v2", g, []uint64{node(ctx)})
		p.ok("cuGraphKernelNodeGetParams_v2", made, shown)
		require.Equal(t, want, p.word(shown+64))
	}
	p.gives(invalidContext, "cuGraphAddKernelNode_v2", p.out, g, 0, 0, node(5))
}

// nodesOf returns how many nodes a call has and the nodes.
func (p *grapher) nodesOf(name string, of uint64) (uint64, []uint64) {
	p.t.Helper()
	p.ok(name, of, 0, p.out)
	n := p.word(p.out)
	list, count := p.words(make([]uint64, n+2)...), p.words(n+2)
	p.ok(name, of, list, count)
	require.Equal(p.t, n, p.word(count))
	var all []uint64
	for i := range n + 2 {
		if h := p.word(list + 8*i); i < n {
			all = append(all, h)
		} else {
			require.Zero(p.t, h)
		}
	}
	return n, all
}

// Edges of kernels have data, which the queries without a place for it refuse. What data there may
// be is in tests/answers.
func TestEdgesWithData(t *testing.T) {
	const data = portProgrammatic | typeProgrammatic
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	a := p.addNode("cuGraphAddKernelNode_v2", g, []uint64{p.kernelNode(1)})
	params := make([]byte, nodeParamsBytes)
	require.NoError(t, p.program.mem.Read(params[nodeParamsUnion:][:kernelNodeBytesV2], p.kernelNode(2)))
	b := p.word64("cuGraphAddNode_v2", g, p.words(a), p.words(data), 1, p.program.mem.Keep(params))
	params[0] = byte(graph.Empty)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddNode_v2", p.out, g, p.words(a), p.words(data), 1, p.program.mem.Keep(params))
	c := p.word64("cuGraphAddNode_v2", g, p.words(b), p.words(0), 1, p.program.mem.Keep(params))
	nodes, seen, n := p.words(1, 1), p.words(1, 1), p.words(2)
	p.gives(lossyQuery, "cuGraphNodeGetDependencies", b, nodes, n)
	p.gives(lossyQuery, "cuGraphNodeGetDependencies_v2", b, nodes, 0, n)
	p.ok("cuGraphNodeGetDependencies", c, nodes, p.words(2))
	p.ok("cuGraphNodeGetDependencies_v2", b, nodes, seen, n)
	require.Equal(t, []uint64{a, data, 1}, []uint64{p.word(nodes), p.word(seen), p.word(n)})
	p.gives(cuda.ErrInvalidValue, "cuGraphRemoveDependencies_v2", g, p.words(a), p.words(b), p.words(portLaunchOrder), 1)
	exec := p.instantiate(p.word64("cuGraphClone", g))
	require.EqualValues(t, 3, p.run(exec))
	p.ok("cuGraphExecUpdate_v2", exec, g, p.words(0, 0, 0))
	p.ok("cuGraphRemoveDependencies_v2", g, p.words(a), p.words(b), p.words(data), 1)
	p.ok("cuGraphAddDependencies", g, p.words(a), p.words(b), 1)
	p.gives(updateFailure, "cuGraphExecUpdate_v2", exec, g, p.words(0, 0, 0))
	p.ok("cuGraphNodeGetDependencies", b, nodes, n)
}

func TestGraphEdges(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	a := p.addNode("cuGraphAddEmptyNode", g, nil)
	b := p.addNode("cuGraphAddEmptyNode", g, nil, a)
	c := p.addNode("cuGraphAddEmptyNode", g, nil, a, b)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddDependencies", g, p.words(a), p.words(b), 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddDependencies", g, p.words(a), p.words(a), 1)
	_, nodes := p.nodesOf("cuGraphGetNodes", g)
	require.Equal(t, []uint64{a, b, c}, nodes)
	_, roots := p.nodesOf("cuGraphGetRootNodes", g)
	require.Equal(t, []uint64{a}, roots)
	_, before := p.nodesOf("cuGraphNodeGetDependencies", c)
	require.Equal(t, []uint64{a, b}, before)
	_, after := p.nodesOf("cuGraphNodeGetDependentNodes", a)
	require.Equal(t, []uint64{b, c}, after)
	from, to, n := p.words(1, 1, 1), p.words(1, 1, 1), p.words(3)
	p.ok("cuGraphGetEdges_v2", g, from, to, 0, n)
	require.Equal(t, []uint64{a, a, b}, []uint64{p.word(from), p.word(from + 8), p.word(from + 16)})
	require.Equal(t, []uint64{b, c, c}, []uint64{p.word(to), p.word(to + 8), p.word(to + 16)})
	p.ok("cuGraphGetEdges", g, from, to, p.words(1))
	p.gives(cuda.ErrInvalidValue, "cuGraphAddDependencies_v2", g, p.words(b), p.words(a), p.words(1), 1)

	// An H100 takes an edge that closes a cycle, and refuses the graph.
	p.ok("cuGraphAddDependencies", g, p.words(c), p.words(a), 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphInstantiateWithFlags", p.out, g, 0)
	params := p.words(0, 0, 1, 99)
	p.gives(cuda.ErrInvalidValue, "cuGraphInstantiateWithParams", p.out, g, params)
	require.EqualValues(t, instantiateInvalid, uint32(p.word(params+24)))
	p.ok("cuGraphRemoveDependencies", g, p.words(c), p.words(a), 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphRemoveDependencies", g, p.words(c), p.words(a), 1)
	p.ok("cuGraphInstantiateWithParams", p.out, g, params)
	require.Zero(t, uint32(p.word(params+24)))
	p.ok("cuGraphDestroyNode", b)
	p.gives(cuda.ErrInvalidValue, "cuGraphDestroyNode", b)
	p.gives(cuda.ErrInvalidValue, "cuGraphNodeGetType", b, p.out)

	clone := p.word64("cuGraphClone", g)
	twin := p.word64("cuGraphNodeFindInClone", a, clone)
	require.NotEqual(t, a, twin)
	p.gives(cuda.ErrInvalidValue, "cuGraphNodeFindInClone", p.out, twin, g)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddEmptyNode", p.out, g, p.words(twin), 1)

	path := filepath.Join(t.TempDir(), "g.dot")
	p.ok("cuGraphDebugDotPrint", g, p.text(path), 0)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "EMPTY")
	p.ok("cuGraphDestroy", g)
	p.gives(cuda.ErrInvalidValue, "cuGraphNodeGetType", a, p.out)
	p.gives(cuda.ErrInvalidValue, "cuGraphCreate", p.out, 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphInstantiateWithFlags", p.out, clone, 0xff00)
	p.gives(cuda.ErrInvalidValue, "cuGraphInstantiateWithFlags", p.out, clone, instantiateDevice)
}

// Nodes of a graph and of its executable copy change apart.
func TestGraphParams(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	fill := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillNode(1, 16), 0})
	k := p.addNode("cuGraphAddKernelNode_v2", g, []uint64{p.kernelNode(10)}, fill)
	inner := p.word64("cuGraphClone", g)
	exec := p.instantiate(g)
	require.EqualValues(t, 11, p.run(exec))
	p.ok("cuGraphExecKernelNodeSetParams_v2", exec, k, p.kernelNode(20))
	p.ok("cuGraphExecMemsetNodeSetParams", exec, fill, p.fillNode(2, 16), 0)
	require.EqualValues(t, 22, p.run(exec))
	p.ok("cuGraphNodeSetEnabled", exec, k, 0)
	require.EqualValues(t, 2, p.run(exec))
	p.ok("cuGraphNodeGetEnabled", exec, k, p.out)
	require.Zero(t, uint32(p.word(p.out)))
	p.begin(p.stream, 0)
	p.gives(cuda.ErrNotSupported, "cuGraphLaunch", exec, p.stream)
	p.gives(901, "cuStreamEndCapture", p.stream, p.out)
	p.ok("cuGraphNodeSetEnabled", exec, k, 1)
	require.EqualValues(t, 22, p.run(exec))
	require.EqualValues(t, 11, p.run(p.instantiate(g)), "the graph is as it was")

	p.ok("cuGraphKernelNodeSetParams_v2", k, p.kernelNode(30))
	p.ok("cuGraphMemsetNodeSetParams", fill, p.fillNode(3, 16))
	require.EqualValues(t, 22, p.run(exec))
	p.ok("cuGraphExecUpdate_v2", exec, g, p.words(1, 1, 1))
	require.EqualValues(t, 33, p.run(exec))

	to := p.words(make([]uint64, 9)...)
	p.ok("cuGraphKernelNodeGetParams_v2", k, to)
	require.Equal(t, p.add, p.word(to))
	require.EqualValues(t, 30, uint32(p.word(p.word(p.word(to+40)+16))), "the third argument")
	p.ok("cuGraphMemsetNodeGetParams", fill, to)
	require.Equal(t, p.data, p.word(to))
	require.EqualValues(t, 3|4<<32, p.word(to+16))

	// Other nodes cannot come in.
	p.addNode("cuGraphAddEmptyNode", g, nil)
	info := p.words(1, 1, 1)
	p.gives(updateFailure, "cuGraphExecUpdate_v2", exec, g, info)
	require.EqualValues(t, updateTopology, uint32(p.word(info)))
	require.EqualValues(t, 33, p.run(exec))
	stranger := p.word64("cuGraphCreate", 0)
	e := p.addNode("cuGraphAddEmptyNode", stranger, nil)
	other := p.addNode("cuGraphAddEmptyNode", stranger, nil, e)
	node, result := p.words(1), p.words(1)
	p.gives(updateFailure, "cuGraphExecUpdate", exec, stranger, node, result)
	require.EqualValues(t, updateKind, uint32(p.word(result)))
	require.Equal(t, other, p.word(node))
	p.gives(cuda.ErrInvalidValue, "cuGraphExecKernelNodeSetParams_v2", exec, other, p.kernelNode(1))
	p.gives(cuda.ErrInvalidValue, "cuGraphExecKernelNodeSetParams_v2", exec, fill, p.kernelNode(1))

	// A child is a copy, and its nodes can be changed in what was instantiated.
	parent := p.word64("cuGraphCreate", 0)
	child := p.addNode("cuGraphAddChildGraphNode", parent, []uint64{inner})
	p.addNode("cuGraphAddKernelNode_v2", parent, []uint64{p.kernelNode(100)}, child)
	p.ok("cuGraphDestroy", inner)
	outer := p.instantiate(parent)
	require.EqualValues(t, 111, p.run(outer))
	own := p.second64("cuGraphChildGraphNodeGetGraph", child)
	p.gives(cuda.ErrInvalidValue, "cuGraphDestroy", own)
	_, nodes := p.nodesOf("cuGraphGetNodes", own)
	p.ok("cuGraphExecMemsetNodeSetParams", outer, nodes[0], p.fillNode(5, 16), 0)
	require.EqualValues(t, 115, p.run(outer))
	p.ok("cuGraphExecChildGraphNodeSetParams", outer, child, own)
	require.EqualValues(t, 111, p.run(outer))

	// A graph that is launched into a capture is a child there.
	p.begin(p.stream, 0)
	p.ok("cuGraphLaunch", outer, p.stream)
	p.ok("cuGraphLaunch", exec, p.stream)
	require.EqualValues(t, 33, p.run(p.instantiate(p.end(p.stream))))
}

// What is wrong with a node is told when it is made, and makes none.
func TestGraphNodesAreChecked(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	wide := p.kernelNode(1)
	require.NoError(t, p.program.mem.Write(wide+20, []byte{0, 0, 1, 0}))
	p.gives(cuda.ErrInvalidValue, "cuGraphAddKernelNode_v2", p.out, g, 0, 0, wide)
	p.gives(cuda.ErrInvalidHandle, "cuGraphAddKernelNode_v2", p.out, g, 0, 0, p.words(make([]uint64, 9)...))
	p.gives(cuda.ErrInvalidValue, "cuGraphAddMemsetNode", p.out, g, 0, 0, p.words(p.data, 0, 3<<32, 1, 1), 0)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddMemsetNode", p.out, g, 0, 0, p.words(p.data, 0, 4<<32, 1<<40, 1), 0)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddMemcpyNode", p.out, g, 0, 0, p.copyNode(memoryDevice, 8, memoryDevice, p.data), 0)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddHostNode", p.out, g, 0, 0, p.words(0, 0))
	p.gives(cuda.ErrInvalidHandle, "cuGraphAddEventRecordNode", p.out, g, 0, 0, 8)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddEmptyNode", p.out, g, p.words(8), 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddEmptyNode", p.out, g, 0, 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphAddEmptyNode", p.out, 8, 0, 0)
	require.Zero(t, p.nodes(g))

	// A module that is gone is told at the launch, and so is a context.
	module := p.word64("cuModuleLoadData", p.text("kernel add"))
	p.add = p.word64("cuModuleGetFunction", module, p.text("add"))
	p.addNode("cuGraphAddKernelNode_v2", g, []uint64{p.kernelNode(1)})
	exec := p.instantiate(g)
	require.EqualValues(t, 1, p.run(exec))
	p.ok("cuModuleUnload", module)
	p.gives(cuda.ErrInvalidHandle, "cuGraphLaunch", exec, p.stream)
	p.ok("cuCtxDestroy_v2", p.word64("cuCtxGetCurrent"))
	require.NotZero(t, p.call("cuGraphLaunch", exec, p.stream))
}

// Launches of one graph on two streams do not overlap, also behind a host function.
func TestLaunchesWaitForEachOther(t *testing.T) {
	p := newGrapher(t)
	other := p.word64("cuStreamCreate", streamNonBlocking)
	release := make(chan struct{})
	p.lib.cfg.Invoke = func(_, _, _, _ uint64) uint64 { <-release; return 0 }
	g := p.word64("cuGraphCreate", 0)
	call := p.addNode("cuGraphAddHostNode", g, []uint64{p.words(8, 0)})
	p.addNode("cuGraphAddKernelNode_v2", g, []uint64{p.kernelNode(1)}, call)
	exec := p.instantiate(g)
	p.ok("cuGraphLaunch", exec, p.stream)
	done := make(chan cuda.Result)
	go func() { done <- p.call("cuGraphLaunch", exec, other) }()
	close(release)
	require.Equal(t, cuda.Success, <-done)
	p.ok("cuStreamSynchronize", other)
	require.EqualValues(t, 2, p.first())
}

// A graph that is longer than one EXEC can take is queued in parts, in order.
func TestLongGraph(t *testing.T) {
	p := newGrapher(t)
	p.begin(p.stream, 0)
	const n = 1000
	params := p.params(16, 1)
	for range n {
		p.ok("cuLaunchKernel", p.add, 1, 1, 1, 1, 1, 1, 0, p.stream, params, 0)
	}
	exec := p.instantiate(p.end(p.stream))
	p.ok("cuGraphUpload", exec, p.stream)
	require.EqualValues(t, n, p.run(exec))
	require.EqualValues(t, 2*n, p.run(exec))
}
