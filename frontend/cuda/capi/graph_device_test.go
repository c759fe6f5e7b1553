package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// Which graphs kernels may launch, and what is wrong with the others, is as an H100 answers.
func TestGraphsForTheDevice(t *testing.T) {
	p := newProgramInContext(t)
	d := p.word64("cuMemAlloc_v2", 64)
	x := p.word64("cuCtxGetCurrent")
	instantiate := func(g, flags uint64) (result cuda.Result, reason uint32, node uint64) {
		params := p.words(flags, 0, 77, 77)
		result = p.call("cuGraphInstantiateWithParams", p.out, g, params)
		return result, uint32(p.word(params + 24)), p.word(params + 16)
	}
	fill := p.words(d, 0, 1<<32|7, 8, 1) // address, pitch, value and size of an element, width, height
	filled := func() uint64 {
		g := p.word64("cuGraphCreate", 0)
		p.ok("cuGraphAddMemsetNode", p.out, g, 0, 0, fill, x)
		return g
	}
	good := filled()
	for _, flags := range []uint64{instantiateDevice, instantiateDevice | instantiateUpload, instantiateDevice | 8} {
		result, reason, node := instantiate(good, flags)
		require.Equal(t, []any{cuda.Success, uint32(0), uint64(0)}, []any{result, reason, node})
		exec := p.word(p.out)
		p.ok("cuGraphExecGetFlags", exec, p.out)
		require.EqualValues(t, instantiateDevice, p.word(p.out))
		p.ok("cuGraphUpload", exec, 0)
		p.ok("cuGraphLaunch", exec, 0)
		p.ok("cuGraphExecDestroy", exec)
	}
	p.gives(cuda.ErrInvalidValue, "cuGraphInstantiateWithFlags", p.out, good, instantiateDevice|instantiateUpload)
	for _, flags := range []uint64{instantiateDevice, instantiateDevice | autoFreeOnLaunch} {
		g := p.word64("cuGraphCreate", 0)
		if flags&autoFreeOnLaunch != 0 {
			g = good
		}
		result, reason, node := instantiate(g, flags)
		require.Equal(t, []any{cuda.ErrInvalidValue, uint32(instantiateError), uint64(0)}, []any{result, reason, node})
	}
	child := p.word64("cuGraphCreate", 0)
	p.ok("cuGraphAddChildGraphNode", p.out, child, 0, 0, p.word64("cuGraphCreate", 0)) // without nodes
	p.ok("cuGraphAddChildGraphNode", p.out, child, 0, 0, good)
	result, _, _ := instantiate(child, instantiateDevice)
	require.Equal(t, cuda.Success, result)

	g := filled()
	wrong := p.word64("cuGraphAddEmptyNode", g, 0, 0)
	result, reason, node := instantiate(g, instantiateDevice)
	require.Equal(t, []any{cuda.ErrInvalidValue, uint32(instantiateOperation), wrong}, []any{result, reason, node})
	p.gives(cuda.ErrInvalidValue, "cuGraphInstantiateWithFlags", p.out, g, instantiateDevice)
	parent := p.word64("cuGraphCreate", 0)
	p.ok("cuGraphAddChildGraphNode", p.out, parent, 0, 0, g)
	_, reason, _ = instantiate(parent, instantiateDevice)
	require.EqualValues(t, instantiateOperation, reason)

	g = filled()
	h := p.mem.Keep(make([]byte, 16))
	p.ok("cuGraphAddMemcpyNode", p.out, g, 0, 0, p.mem.Keep(line(memoryDevice, d, memoryHost, h, 16)), x)
	_, reason, _ = instantiate(g, instantiateDevice)
	require.EqualValues(t, instantiateElsewhere, reason)
}

// A context takes a number of graphs for its kernels to launch, and more when some are gone.
func TestUploadedGraphsAreBounded(t *testing.T) {
	p := newProgramInContext(t)
	d := p.word64("cuMemAlloc_v2", 64)
	g := p.word64("cuGraphCreate", 0)
	p.ok("cuGraphAddMemsetNode", p.out, g, 0, 0, p.words(d, 0, 1<<32|7, 8, 1), p.word64("cuCtxGetCurrent"))
	var first uint64
	for range maxLaunchable {
		first = p.word64("cuGraphInstantiateWithFlags", g, instantiateDevice)
		p.ok("cuGraphUpload", first, 0)
		p.ok("cuGraphUpload", first, 0)
	}
	more := p.word64("cuGraphInstantiateWithFlags", g, instantiateDevice)
	p.gives(cuda.ErrOutOfMemory, "cuGraphUpload", more, 0)
	p.ok("cuGraphExecDestroy", first)
	p.ok("cuGraphUpload", more, 0)
}
