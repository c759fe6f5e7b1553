package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
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
