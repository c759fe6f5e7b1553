package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// memOpParams is a CUstreamBatchMemOpParams.
func memOpParams(kind uint32, addr, value uint64, flags uint32) []byte {
	b := make([]byte, memOpBytes)
	binary.LittleEndian.PutUint32(b, kind)
	binary.LittleEndian.PutUint64(b[8:], addr)
	binary.LittleEndian.PutUint64(b[16:], value)
	binary.LittleEndian.PutUint32(b[24:], flags)
	if kind == memOpBarrier {
		binary.LittleEndian.PutUint32(b[4:], flags)
	}
	return b
}

func (p *program) device64(addr uint64) uint64 {
	p.ok("cuMemcpyDtoH_v2", p.out, addr, 8)
	return p.word(p.out)
}

func TestStreamMemOps(t *testing.T) {
	p := newProgramInContext(t)
	memory := p.word64("cuMemAlloc_v2", 64)
	p.ok("cuMemsetD32_v2", memory, 0, 16)
	p.ok("cuStreamWriteValue32_v2", 0, memory, 0xffffffff12345678, 0)
	p.ok("cuStreamWriteValue64_v2", 0, memory+8, 0xfedcba9876543210, writeUnordered)
	require.EqualValues(t, 0x12345678, p.device64(memory))
	require.EqualValues(t, uint64(0xfedcba9876543210), p.device64(memory+8))
	p.ok("cuStreamWaitValue32", 0, memory, 0x12345670, 0)
	p.ok("cuStreamWaitValue32_v2", 0, memory, 0x12345678, 1)
	p.ok("cuStreamWaitValue32_v2", 0, memory, 8, 2)
	p.ok("cuStreamWaitValue32_v2", 0, memory, 1, 3)
	p.ok("cuStreamWaitValue64_v2", 0, memory+8, 0xfedcba9876543210, 1)
	for _, name := range []string{"cuStreamWaitValue32_v2", "cuStreamWaitValue64_v2"} {
		p.gives(cuda.ErrInvalidValue, name, 0, memory, 0, 4)
		p.gives(cuda.ErrNotSupported, name, 0, memory, 0, waitFlush)
		p.gives(cuda.ErrInvalidValue, name, 0, memory+2, 0, 0)
		p.gives(cuda.ErrInvalidValue, name, 0, 0, 0, 0)
		p.gives(cuda.ErrInvalidHandle, name, 77, memory, 0, 0)
	}
	p.gives(cuda.ErrInvalidValue, "cuStreamWriteValue32_v2", 0, memory, 0, 2)
	p.gives(cuda.ErrInvalidValue, "cuStreamWriteValue64_v2", 0, memory+4, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuStreamWriteValue32_v2", 0, memory+4<<30, 0, 0)

	pinned := p.word64("cuMemAllocHost_v2", 64)
	p.ok("cuStreamWriteValue32_v2", 0, pinned, 9, 0)
	p.ok("cuStreamWaitValue32_v2", 0, pinned, 9, 1)
	p.ok("cuCtxSynchronize")
	for _, a := range []uint64{92, 93, 94, 122, 123} {
		require.EqualValues(t, 1, p.word32("cuDeviceGetAttribute", a, 0), a)
	}
}

func TestStreamBatchMemOp(t *testing.T) {
	p := newProgramInContext(t)
	memory := p.word64("cuMemAlloc_v2", 64)
	p.ok("cuMemsetD32_v2", memory, 0, 16)
	batch := func(ops ...[]byte) uint64 {
		var b []byte
		for _, op := range ops {
			b = append(b, op...)
		}
		return p.mem.Keep(b)
	}
	good := batch(memOpParams(memOpWrite32, memory, 1, 0), memOpParams(memOpBarrier, 0, 0, 1), memOpParams(memOpWait32, memory, 1, 1),
		memOpParams(memOpWrite64, memory+8, 1<<40, 0), memOpParams(memOpWait64, memory+8, 1<<40, 2))
	p.ok("cuStreamBatchMemOp_v2", 0, 5, good, 0)
	require.EqualValues(t, 1, p.device64(memory))
	require.EqualValues(t, 1<<40, p.device64(memory+8))
	p.ok("cuStreamBatchMemOp", 0, 0, good, 0)

	// Nothing of a batch is done if something of it is wrong.
	first := memOpParams(memOpWrite32, memory, 77, 0)
	for _, c := range []struct {
		bad  []byte
		want cuda.Result
	}{
		{bad: memOpParams(memOpWrite32, memory+1, 0, 0), want: cuda.ErrInvalidValue},
		{bad: memOpParams(7, memory, 0, 0), want: cuda.ErrInvalidValue},
		{bad: memOpParams(memOpBarrier, 0, 0, 2), want: cuda.ErrInvalidValue},
		{bad: memOpParams(memOpFlush, 0, 0, 0), want: cuda.ErrNotSupported},
		{bad: memOpParams(memOpWait32, memory, 0, 5), want: cuda.ErrInvalidValue},
	} {
		p.gives(c.want, "cuStreamBatchMemOp_v2", 0, 2, batch(first, c.bad), 0)
	}
	p.gives(cuda.ErrInvalidValue, "cuStreamBatchMemOp_v2", 0, cuda.MaxMemOps+1, good, 0)
	p.gives(cuda.ErrInvalidValue, "cuStreamBatchMemOp_v2", 0, 1, good, 1)
	require.EqualValues(t, 1, p.device64(memory))
}

// A captured operation becomes a node, which runs when the graph does.
func TestCaptureOfMemOps(t *testing.T) {
	p := newProgramInContext(t)
	memory := p.word64("cuMemAlloc_v2", 64)
	p.ok("cuMemsetD32_v2", memory, 0, 16)
	s := p.word64("cuStreamCreate", 1)
	p.ok("cuStreamBeginCapture_v2", s, 0)
	p.ok("cuStreamWriteValue32_v2", s, memory, 3, 0)
	p.ok("cuStreamWaitValue32_v2", s, memory, 3, 1)
	p.ok("cuStreamBatchMemOp_v2", s, 1, p.mem.Keep(memOpParams(memOpWrite64, memory+8, 4, 0)), 0)
	p.ok("cuStreamEndCapture", s, p.out)
	g := p.word(p.out)
	require.Zero(t, p.device64(memory))
	nodes := p.words(0, 0, 0, 0)
	p.ok("cuGraphGetNodes", g, nodes, p.words(3))
	for i := range uint64(3) {
		p.ok("cuGraphNodeGetType", p.word(nodes+8*i), p.out)
		require.EqualValues(t, 12, uint32(p.word(p.out)))
	}
	p.ok("cuGraphInstantiateWithFlags", p.out, g, 0)
	exec := p.word(p.out)
	p.ok("cuGraphLaunch", exec, s)
	p.ok("cuStreamSynchronize", s)
	require.EqualValues(t, 3, p.device64(memory))
	require.EqualValues(t, 4, p.device64(memory+8))
}

func TestNoStreamMemOps(t *testing.T) {
	p := newProgram(t)
	p.gpu.Params[drm.ParamWords] = 0
	p.lib.Close()
	p = reopened(p)
	memory := p.word64("cuMemAlloc_v2", 64)
	p.gives(cuda.ErrNotSupported, "cuStreamWriteValue32_v2", 0, memory, 0, 0)
	require.Zero(t, p.word32("cuDeviceGetAttribute", 92, 0))
}

// Operations that are added to a graph are what they were when they are asked for, and run.
func TestNodesOfMemOps(t *testing.T) {
	p := newGrapher(t)
	memory := p.word64("cuMemAlloc_v2", 64)
	p.ok("cuMemsetD32_v2", memory, 0, 16)
	ctx := p.word64("cuCtxGetCurrent")
	params := func(n uint64, ops ...byte) uint64 { return p.words(ctx, n, p.program.mem.Keep(ops), 0) }
	first := append(memOpParams(memOpWrite64, memory, 1<<40, 0), memOpParams(memOpWait32, memory+4, 256, 1)...)
	g := p.word64("cuGraphCreate", 0)
	node := p.addNode("cuGraphAddBatchMemOpNode", g, []uint64{params(2, first...)})
	room := p.words(0, 0, 0, 0)
	p.ok("cuGraphBatchMemOpNodeGetParams", node, room)
	require.EqualValues(t, 2, p.word(room+8))
	require.Equal(t, first, p.bytes(p.word(room+16), len(first)))
	exec := p.instantiate(g)
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	require.EqualValues(t, 1<<40, p.device64(memory))

	other := memOpParams(memOpWrite32, memory+8, 5, 0)
	p.ok("cuGraphExecBatchMemOpNodeSetParams", exec, node, params(1, other...))
	p.ok("cuGraphBatchMemOpNodeSetParams", node, params(1, other...))
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	require.EqualValues(t, 5, p.device64(memory+8))
	p.gives(cuda.ErrInvalidValue, "cuGraphAddBatchMemOpNode", p.out, g, 0, 0, p.words(0, 0, 0, 0))
	p.gives(cuda.ErrInvalidValue, "cuGraphAddBatchMemOpNode", p.out, g, 0, 0, params(1, memOpParams(memOpWrite32, memory+1, 0, 0)...))

	raw := make([]byte, nodeParamsBytes)
	raw[0] = 12
	require.NoError(t, p.program.mem.Read(raw[nodeParamsUnion:][:memOpNodeBytes], params(1, other...)))
	p.addNode("cuGraphAddNode", g, []uint64{p.program.mem.Keep(raw)}, node)
}
