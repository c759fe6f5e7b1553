package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// A cooperative launch has at most the blocks that occupancy promises to run at the same time.
func TestCooperativeLaunch(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	f, memory := p.function("add"), p.word64("cuMemAlloc_v2", 64)
	arguments := p.words(p.words(memory), p.halves(16), p.halves(1))
	each := p.word32("cuOccupancyMaxActiveBlocksPerMultiprocessor", f, 256, 0)
	require.Positive(t, each)
	most := uint64(each) * p.gpu.Params[drm.ParamMultiprocs]
	launch := func(want cuda.Result, x, y, z uint64) {
		t.Helper()
		p.gives(want, "cuLaunchCooperativeKernel", f, x, y, z, 256, 1, 1, 0, 0, arguments)
	}
	launch(cuda.Success, 1, 1, 1)
	launch(cuda.Success, most, 1, 1)
	launch(cuda.Success, most/2, 2, 1)
	launch(cuda.ErrCooperativeTooLarge, most+1, 1, 1)
	launch(cuda.ErrCooperativeTooLarge, 1, most, 2)
	launch(cuda.ErrCooperativeTooLarge, 1<<31-1, 65535, 65535)
	launch(cuda.ErrInvalidValue, 1, 0, 1)
	p.gives(cuda.ErrInvalidValue, "cuLaunchCooperativeKernel", f, 1, 1, 1, 1<<31, 1<<31, 4, 0, 0, arguments)
	p.gives(cuda.ErrInvalidValue, "cuLaunchCooperativeKernel", f, 1, 1, 1, 0, 1, 1, 0, 0, arguments)
	p.gives(cuda.Success, "cuLaunchKernel", f, most+1, 1, 1, 256, 1, 1, 0, 0, arguments, 0)
	p.ok("cuCtxSynchronize")

	p.ok("cuDeviceGetAttribute", p.out, uint64(cuda.AttributeCooperativeLaunch), 0)
	require.EqualValues(t, 1, uint32(p.word(p.out)))
}

// A device without them has attribute 95 as 0, and refuses them.
func TestNoCooperativeLaunch(t *testing.T) {
	p := newProgram(t)
	p.gpu.Params[drm.ParamCooperative] = 0
	p.lib.Close()
	p = reopened(p)
	p.gpu.KernelAdd()
	f, memory := p.function("add"), p.word64("cuMemAlloc_v2", 64)
	arguments := p.words(p.words(memory), p.halves(16), p.halves(1))
	p.gives(cuda.ErrNotSupported, "cuLaunchCooperativeKernel", f, 1, 1, 1, 32, 1, 1, 0, 0, arguments)
	p.ok("cuDeviceGetAttribute", p.out, uint64(cuda.AttributeCooperativeLaunch), 0)
	require.Zero(t, uint32(p.word(p.out)))
}

// A captured launch becomes a kernel node with the attribute, which other parameters leave.
func TestCaptureOfCooperativeLaunch(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	f, memory := p.function("add"), p.word64("cuMemAlloc_v2", 64)
	arguments := p.words(p.words(memory), p.halves(16), p.halves(1))
	s := p.word64("cuStreamCreate", 1)
	p.ok("cuStreamBeginCapture_v2", s, 0)
	p.ok("cuLaunchCooperativeKernel", f, 1, 1, 1, 32, 1, 1, 0, s, arguments)
	p.gives(cuda.ErrCooperativeTooLarge, "cuLaunchCooperativeKernel", f, 1<<20, 1, 1, 32, 1, 1, 0, s, arguments)
	p.ok("cuLaunchKernel", f, 1, 1, 1, 32, 1, 1, 0, s, arguments, 0)
	p.ok("cuStreamEndCapture", s, p.out)
	g := p.word(p.out)
	nodes, count := p.words(0, 0, 0), p.words(2)
	p.ok("cuGraphGetNodes", g, nodes, count)
	first, second := p.word(nodes), p.word(nodes+8)

	value := p.words(make([]uint64, 4)...)
	cooperative := func(node uint64) uint32 {
		p.ok("cuGraphKernelNodeGetAttribute", node, launchCooperative, value)
		return uint32(p.word(value))
	}
	require.EqualValues(t, 1, cooperative(first))
	require.Zero(t, cooperative(second))
	params := p.words(make([]uint64, 9)...)
	p.ok("cuGraphKernelNodeGetParams_v2", first, params)
	p.ok("cuGraphKernelNodeSetParams_v2", first, params)
	require.EqualValues(t, 1, cooperative(first), "parameters do not name attributes")
	p.ok("cuGraphKernelNodeCopyAttributes", second, first)
	require.EqualValues(t, 1, cooperative(second))
	p.ok("cuGraphKernelNodeSetAttribute", second, launchCooperative, p.words(make([]uint64, 4)...))
	require.Zero(t, cooperative(second))

	p.ok("cuGraphKernelNodeGetAttribute", first, launchPriority, value)
	p.ok("cuGraphKernelNodeGetAttribute", first, launchCluster, value)
	p.gives(cuda.ErrInvalidValue, "cuGraphKernelNodeGetAttribute", first, launchLast+1, value)
	p.gives(cuda.ErrInvalidValue, "cuGraphKernelNodeSetAttribute", first, launchUnused, value)
	p.gives(cuda.ErrNotSupported, "cuGraphKernelNodeSetAttribute", first, launchEvent, value)

	p.ok("cuGraphInstantiateWithFlags", p.out, g, 0)
	exec := p.word(p.out)
	p.ok("cuGraphLaunch", exec, s)
	p.ok("cuStreamSynchronize", s)
	p.ok("cuGraphExecKernelNodeSetParams_v2", exec, first, params)
	p.ok("cuGraphLaunch", exec, s)
	p.ok("cuCtxSynchronize")
}
