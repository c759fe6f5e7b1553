package capi

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
)

// execs launches a graph, waits for it and returns how many EXECs that took.
func (p *grapher) execs(exec uint64) int {
	p.t.Helper()
	before := p.gpu.Calls["Exec"]
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	return p.gpu.Calls["Exec"] - before
}

// chain adds n kernels to a graph, each behind the one before, which add 1 each.
func (p *grapher) chain(g uint64, n int, before ...uint64) (nodes []uint64) {
	p.t.Helper()
	for range n {
		before = []uint64{p.addNode("cuGraphAddKernelNode_v2", g, []uint64{p.kernelNode(1)}, before...)}
		nodes = append(nodes, before[0])
	}
	return nodes
}

// The work of a graph on the device takes one EXEC, whatever kinds of nodes and branches it has.
func TestGraphTakesOneExec(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	nodes := p.chain(g, 10)
	exec := p.instantiate(g)
	for i := range uint32(3) {
		require.Equal(t, 1, p.execs(exec))
		require.Equal(t, 10*(i+1), p.first())
	}
	// Changes of the executable graph take effect, and the next launch takes one EXEC again.
	p.ok("cuGraphExecKernelNodeSetParams_v2", exec, nodes[4], p.kernelNode(100))
	require.Equal(t, 1, p.execs(exec))
	require.EqualValues(t, 30+109, p.first())
	p.ok("cuGraphNodeSetEnabled", exec, nodes[4], 0)
	require.Equal(t, 1, p.execs(exec))
	require.EqualValues(t, 139+9, p.first())

	mixed := p.word64("cuGraphCreate", 0)
	fill := p.addNode("cuGraphAddMemsetNode", mixed, []uint64{p.fillNode(7, 16), 0})
	left, right := p.chain(mixed, 2, fill), p.chain(mixed, 3, fill)
	child := p.addNode("cuGraphAddChildGraphNode", mixed, []uint64{g}, left[1], right[2])
	to := p.word64("cuMemAlloc_v2", 64)
	p.addNode("cuGraphAddMemcpyNode", mixed, []uint64{p.copyNode(memoryDevice, to, memoryDevice, p.data), 0}, child)
	require.Equal(t, 1, p.execs(p.instantiate(mixed)))
	p.ok("cuMemcpyDtoH_v2", p.out, to, 4)
	require.EqualValues(t, 7+5+10, uint32(p.word(p.out)))

	empty := p.word64("cuGraphCreate", 0)
	require.Zero(t, p.execs(p.instantiate(empty)))
}

// Events and host functions end an EXEC, and so does the bound on its bytes.
func TestGraphTakesSeveralExecs(t *testing.T) {
	p := newGrapher(t)
	g := p.word64("cuGraphCreate", 0)
	a := p.chain(g, 5)
	record := p.addNode("cuGraphAddEventRecordNode", g, []uint64{p.event}, a[4])
	p.chain(g, 5, record)
	require.Equal(t, 3, p.execs(p.instantiate(g)), "five kernels, the time, five kernels")

	g = p.word64("cuGraphCreate", 0)
	a = p.chain(g, 5)
	p.chain(g, 5, p.addNode("cuGraphAddHostNode", g, []uint64{p.words(8, 0)}, a[4]))
	exec := p.instantiate(g)
	require.EqualValues(t, 20, p.run(exec))
	require.Equal(t, 2, p.execs(exec))

	const n = 1000
	p.begin(p.stream, 0)
	args := p.params(16, 1)
	for range n {
		p.ok("cuLaunchKernel", p.add, 1, 1, 1, 1, 1, 1, 0, p.stream, args, 0)
	}
	exec = p.instantiate(p.end(p.stream))
	params := p.gpu.Kernels["add"].Attributes.ParamBytes
	each := len(drm.LaunchCmd{Params: make([]byte, params)}.Append(nil))
	fit := drm.MaxExecBytes / each
	require.Equal(t, (n+fit-1)/fit, p.execs(exec))
	require.EqualValues(t, 30+n, p.first())
}

// A kernel of a graph that faults gives the error that it gives without a graph, and those behind it do
// not run. An EXEC that fails is the error of the launch, and none of its nodes has run.
func TestFailingNode(t *testing.T) {
	failing := func(start func(p *grapher)) (ran int, result cuda.Result) {
		p := newGrapher(t)
		p.gpu.KernelFault(1)
		p.gpu.AddKernel("count", func(*cudatest.File, []byte) *cudatest.Fault { ran++; return nil })
		count, fault := p.function("count"), p.function("fault")
		p.begin(p.stream, 0)
		for _, f := range []uint64{count, count, fault, count} {
			p.ok("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, p.stream, 0, 0)
		}
		exec := p.instantiate(p.end(p.stream))
		if start != nil {
			start(p)
			require.NotEqual(t, cuda.Success, p.call("cuGraphLaunch", exec, p.stream))
			require.Zero(t, ran)
		}
		p.ok("cuGraphLaunch", exec, p.stream)
		result = p.call("cuStreamSynchronize", p.stream)
		require.Equal(t, result, p.call("cuGraphLaunch", exec, p.stream), "the context is lost")
		return ran, result
	}
	plain := newGrapher(t)
	plain.gpu.KernelFault(1)
	plain.ok("cuLaunchKernel", plain.function("fault"), 1, 1, 1, 1, 1, 1, 0, plain.stream, 0, 0)
	want := plain.call("cuStreamSynchronize", plain.stream)
	require.NotEqual(t, cuda.Success, want)

	ran, result := failing(nil)
	require.Equal(t, 2, ran)
	require.Equal(t, want, result)
	ran, result = failing(func(p *grapher) { p.gpu.FailNext(1, "Exec", syscall.ENOMEM) })
	require.Equal(t, 2, ran)
	require.Equal(t, want, result)
}
