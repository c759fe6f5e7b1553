package capi

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// A user object lives as long as references to it, of which copies of a graph have their own.
func TestUserObjects(t *testing.T) {
	p := newGrapher(t)
	create := func(value uint64) uint64 {
		return p.word64("cuUserObjectCreate", value, 70, 1, userObjectNoDestructorSync)
	}
	o := create(1)
	p.ok("cuUserObjectRetain", o, 2)
	p.ok("cuUserObjectRelease", o, 2)
	p.gives(cuda.ErrInvalidValue, "cuUserObjectRelease", o, 2)
	require.Empty(t, p.invoked)
	p.ok("cuUserObjectRelease", o, 1)
	require.Equal(t, []uint64{70, 1, 0, 0}, p.invoked)
	p.gives(cuda.ErrInvalidValue, "cuUserObjectRelease", o, 1)

	p.invoked = nil
	g, o := p.word64("cuGraphCreate", 0), create(2)
	p.ok("cuGraphRetainUserObject", g, o, 1, graphUserObjectMove)
	p.gives(cuda.ErrInvalidValue, "cuGraphRetainUserObject", g, o, 2, graphUserObjectMove)
	p.gives(cuda.ErrInvalidValue, "cuGraphRetainUserObject", g, o, 1, 2)
	clone := p.word64("cuGraphClone", g)
	parent := p.word64("cuGraphCreate", 0)
	p.addNode("cuGraphAddChildGraphNode", parent, []uint64{g})
	exec, idle := p.instantiate(parent), p.instantiate(g)
	p.ok("cuGraphReleaseUserObject", g, o, 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphReleaseUserObject", g, o, 1)
	for _, h := range []uint64{g, clone, parent} {
		p.ok("cuGraphDestroy", h)
	}
	p.ok("cuGraphExecDestroy", idle)
	p.ok("cuGraphLaunch", exec, p.stream)
	require.Empty(t, p.invoked)
	p.ok("cuGraphExecDestroy", exec)
	p.ok("cuStreamSynchronize", p.stream)
	require.Equal(t, []uint64{70, 2, 0, 0}, p.invoked)

	for _, bad := range [][]uint64{{p.out, 1, 0, 1, 1}, {p.out, 1, 70, 0, 1}, {p.out, 1, 70, 1, 0}, {0, 1, 70, 1, 1}} {
		p.gives(cuda.ErrInvalidValue, "cuUserObjectCreate", bad...)
	}
	p.gives(cuda.ErrInvalidValue, "cuUserObjectRetain", 5, 1)
	p.gives(cuda.ErrInvalidValue, "cuGraphRetainUserObject", 5, o, 1, 0)
}

// A capture that fails, or whose stream goes, takes its graph along, with user objects and memory. A
// graph that the program had made stays.
func TestUserObjectsOfCaptures(t *testing.T) {
	p := newGrapher(t)
	info := p.words(0, 0, 0, 0, 0)
	end := func(s uint64) { p.gives(901, "cuStreamEndCapture", s, p.out) }
	for value, fail := range []func(s uint64){
		end,
		func(s uint64) { p.ok("cuStreamDestroy_v2", s) },
		func(s uint64) { p.ok("cuCtxDestroy_v2", p.word64("cuCtxGetCurrent")) },
	} {
		s := p.word64("cuStreamCreate", streamNonBlocking)
		p.begin(s, 0)
		addr := p.word64("cuMemAllocAsync", 64, s)
		p.ok("cuStreamGetCaptureInfo_v2", s, info, info+8, info+16, info+24, info+32)
		g, node := p.word(info+16), p.word(p.word(info+24))
		o := p.word64("cuUserObjectCreate", uint64(value), 70, 1, userObjectNoDestructorSync)
		p.ok("cuGraphRetainUserObject", g, o, 1, graphUserObjectMove)
		p.gives(900, "cuStreamSynchronize", s)
		p.invoked = nil
		fail(s)
		require.Equal(t, []uint64{70, uint64(value), 0, 0}, p.invoked)
		p.gives(cuda.ErrInvalidValue, "cuGraphDestroy", g)
		p.gives(cuda.ErrInvalidValue, "cuGraphNodeGetType", node, p.out)
		require.NotEqual(t, cuda.Success, p.call("cuMemsetD32_v2", addr, 0, 1))
	}

	p = newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	p.ok("cuStreamBeginCaptureToGraph", p.stream, g, 0, 0, 0, 0)
	p.gives(900, "cuStreamSynchronize", p.stream)
	end(p.stream)
	p.ok("cuGraphDestroy", g)
}

// What an update puts into an executable graph keeps the user objects that it came with; those from
// before go.
func TestUserObjectsOfUpdates(t *testing.T) {
	p := newGrapher(t)
	with := func(value uint64) uint64 {
		g := p.word64("cuGraphCreate", 0)
		p.addNode("cuGraphAddMemsetNode", g, []uint64{p.fillNode(7, 16), 0})
		o := p.word64("cuUserObjectCreate", value, 70, 1, userObjectNoDestructorSync)
		p.ok("cuGraphRetainUserObject", g, o, 1, graphUserObjectMove)
		return g
	}
	update := func(exec, with uint64) { p.ok("cuGraphExecUpdate_v2", exec, with, p.words(0, 0, 0)) }
	destroyed := func(do func()) (values []uint64) {
		t.Helper()
		p.invoked = nil
		do()
		p.ok("cuStreamSynchronize", p.stream)
		for i := 1; i < len(p.invoked); i += 4 {
			values = append(values, p.invoked[i])
		}
		return slices.Sorted(slices.Values(values))
	}
	first, second, third := with(1), with(2), with(3)
	exec := p.instantiate(first)
	require.Equal(t, []uint64{1}, destroyed(func() {
		update(exec, second)
		p.ok("cuGraphDestroy", first)
		p.ok("cuGraphDestroy", second)
	}))
	require.Equal(t, []uint64{2}, destroyed(func() {
		p.ok("cuGraphLaunch", exec, p.stream)
		update(exec, third)
		p.ok("cuGraphDestroy", third)
	}))
	require.Equal(t, []uint64{3}, destroyed(func() { p.ok("cuGraphExecDestroy", exec) }))

	parent, child := p.word64("cuGraphCreate", 0), with(4)
	node := p.addNode("cuGraphAddChildGraphNode", parent, []uint64{child})
	exec = p.instantiate(parent)
	other, next := with(5), with(6)
	p.ok("cuGraphExecChildGraphNodeSetParams", exec, node, other)
	raw := make([]byte, nodeParamsBytes)
	raw[0] = byte(graph.Child)
	binary.LittleEndian.PutUint64(raw[nodeParamsUnion:], next)
	p.ok("cuGraphNodeSetParams", node, p.program.mem.Keep(raw))
	require.Empty(t, destroyed(func() {
		for _, g := range []uint64{child, other, next} {
			p.ok("cuGraphDestroy", g)
		}
	}))
	require.Equal(t, []uint64{6}, destroyed(func() { p.ok("cuGraphDestroy", parent) }))
	require.Equal(t, []uint64{4, 5}, destroyed(func() { p.ok("cuGraphExecDestroy", exec) }))
}
