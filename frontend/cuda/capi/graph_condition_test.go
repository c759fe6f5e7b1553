package capi

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// conditionNode is CUgraphNodeParams of a conditional node.
func (p *grapher) conditionNode(handle uint64, kind, size uint32) uint64 {
	b := wordBytes([]uint64{uint64(graph.Conditional), 0, handle, uint64(size)<<32 | uint64(kind), 0, p.word64("cuCtxGetCurrent")})
	return p.mem.Keep(append(b, make([]byte, nodeParamsBytes-len(b))...))
}

// conditional adds a conditional node and returns it with its bodies.
func (p *grapher) conditional(g, handle uint64, kind, size uint32) (node uint64, bodies []uint64) {
	p.t.Helper()
	params := p.conditionNode(handle, kind, size)
	node = p.addNode("cuGraphAddNode", g, []uint64{params})
	at := p.word(params + conditionalBodies)
	for i := range uint64(size) {
		bodies = append(bodies, p.word(at+8*i))
	}
	return node, bodies
}

func (p *grapher) handle(g, value, flags uint64) uint64 {
	p.t.Helper()
	return p.word64("cuGraphConditionalHandleCreate", g, p.word64("cuCtxGetCurrent"), value, flags)
}

// Handles go with the graph that they were made for, and with the executable graphs that have them:
// no other graph gets them before.
func TestConditionalHandles(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	h := p.handle(g, 1, 1)
	_, bodies := p.conditional(g, h, conditionIf, 2)
	p.addNode("cuGraphAddKernelNode_v2", bodies[0], []uint64{p.kernelNode(5)})
	exec := p.instantiate(g)
	p.ok("cuGraphDestroy", g)
	p.gives(cuda.ErrInvalidValue, "cuGraphGetNodes", bodies[0], 0, p.out)
	require.EqualValues(t, 5, p.run(exec))
	require.EqualValues(t, 10, p.run(exec))

	other := p.word64("cuGraphCreate", 0)
	second := p.handle(other, 0, 1)
	require.NotEqual(t, h, second)
	node, bodies := p.conditional(other, second, conditionIf, 2)
	p.addNode("cuGraphAddKernelNode_v2", bodies[1], []uint64{p.kernelNode(100)})
	otherExec := p.instantiate(other)
	require.EqualValues(t, 110, p.run(otherExec))
	p.ok("cuGraphExecDestroy", otherExec)
	p.ok("cuGraphExecDestroy", exec)
	p.ok("cuStreamSynchronize", p.stream) // they are given back behind the launch
	require.Equal(t, h, p.handle(other, 0, 0), "handles are used again")
	p.gives(cuda.ErrInvalidValue, "cuGraphInstantiateWithFlags", p.out, other, 0)
	p.ok("cuGraphDestroyNode", node)
	p.ok("cuGraphDestroy", other)
	g = p.word64("cuGraphCreate", 0)
	x, ok := find[*context](p.lib, p.word64("cuCtxGetCurrent"))
	require.True(t, ok)
	x.conditions.next = maxConditions - 1
	for range len(x.conditions.free) {
		p.handle(g, 0, 0)
	}
	p.gives(cuda.ErrOutOfMemory, "cuGraphAddNode", p.out, g, 0, 0, p.conditionNode(p.handle(g, 0, 0), conditionSwitch, maxBodies+1))
	for range 2 {
		p.gives(cuda.ErrOutOfMemory, "cuGraphConditionalHandleCreate", p.out, g, x.handle, 0, 0)
	}
	p.ok("cuGraphDestroy", g)
}

// An update takes what the bodies do and the handle, but not the value that it begins with, as on
// an H100.
func TestUpdateOfConditions(t *testing.T) {
	p := newGrapher(t)
	build := func(value uint64, v uint32) uint64 {
		g := p.word64("cuGraphCreate", 0)
		_, bodies := p.conditional(g, p.handle(g, value, 1), conditionSwitch, 2)
		for i, body := range bodies {
			p.addNode("cuGraphAddKernelNode_v2", body, []uint64{p.kernelNode(v + uint32(i))})
		}
		return g
	}
	g, h := build(1, 1), build(0, 1000)
	exec := p.instantiate(g)
	require.EqualValues(t, 2, p.run(exec))
	p.ok("cuGraphExecUpdate_v2", exec, h, p.words(0, 0, 0))
	require.EqualValues(t, 1003, p.run(exec), "the default stays")
	p.ok("cuGraphDestroy", h)
	require.EqualValues(t, 2004, p.run(exec))
	p.ok("cuGraphExecDestroy", exec)
}

// What threads launch on one stream runs one launch after the other, and a wait for the stream waits
// for all: what each fills, its body changes before the next one fills it.
func TestLaunchesOfSeveralThreads(t *testing.T) {
	p := newGrapher(t)
	ctx := p.word64("cuCtxGetCurrent")
	var execs []uint64
	for range 16 {
		g := p.word64("cuGraphCreate", 0)
		fill := p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillNode(1, 16), 0})
		params := p.conditionNode(p.handle(g, 1, 1), conditionIf, 1)
		p.addNode("cuGraphAddNode", g, []uint64{params}, fill)
		p.addNode("cuGraphAddKernelNode_v2", p.word(p.word(params+conditionalBodies)), []uint64{p.kernelNode(5)})
		execs = append(execs, p.instantiate(g))
	}
	for range 50 {
		var all sync.WaitGroup
		for i, exec := range execs {
			q := p.on(uint64(10 + i))
			all.Go(func() {
				q.ok("cuCtxSetCurrent", ctx)
				q.ok("cuGraphLaunch", exec, p.stream)
			})
		}
		all.Wait()
		require.EqualValues(t, 6, p.first())
	}
}
