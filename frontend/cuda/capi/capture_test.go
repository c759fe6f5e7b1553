package capi

import (
	"encoding/binary"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// grapher is a program with a stream, and with memory to which the kernel "add" adds.
type grapher struct {
	*program
	stream, event uint64
	data, host    uint64 // of 16 and of 64 numbers
	add           uint64
}

func newGrapher(t *testing.T) *grapher {
	p := &grapher{program: newProgramInContext(t)}
	p.gpu.KernelAdd()
	p.stream = p.word64("cuStreamCreate", streamNonBlocking)
	p.event = p.word64("cuEventCreate", 0)
	p.data = p.word64("cuMemAlloc_v2", 64)
	p.host = p.words(make([]uint64, 32)...)
	p.add = p.function("add")
	p.ok("cuMemsetD32_v2", p.data, 0, 16)
	return p
}

// params are arguments of "add": v is added to n numbers.
func (p *grapher) params(n, v uint32) uint64 {
	return p.words(p.words(p.data), p.halves(n), p.halves(v))
}

func (p *grapher) launch(stream uint64, v uint32) cuda.Result {
	p.t.Helper()
	return p.call("cuLaunchKernel", p.add, 1, 1, 1, 1, 1, 1, 0, stream, p.params(16, v), 0)
}

func (p *grapher) begin(stream, mode uint64) {
	p.t.Helper()
	p.ok("cuStreamBeginCapture_v2", stream, mode)
}

func (p *grapher) end(stream uint64) uint64 {
	p.t.Helper()
	return p.second64("cuStreamEndCapture", stream)
}

func (p *grapher) instantiate(graph uint64) uint64 {
	p.t.Helper()
	return p.word64("cuGraphInstantiateWithFlags", graph, 0)
}

func (p *grapher) status(stream uint64) uint64 {
	p.t.Helper()
	return p.second64("cuStreamIsCapturing", stream) & 0xffffffff
}

// first reads the first number.
func (p *grapher) first() uint32 {
	p.t.Helper()
	p.ok("cuStreamSynchronize", p.stream)
	p.ok("cuMemcpyDtoH_v2", p.out, p.data, 4)
	return uint32(p.word(p.out))
}

// A captured launch does nothing until its graph is launched, and keeps the arguments that it had.
func TestCapture(t *testing.T) {
	p := newGrapher(t)
	p.begin(p.stream, 0)
	args := p.params(16, 5)
	p.ok("cuLaunchKernel", p.add, 1, 1, 1, 1, 1, 1, 0, p.stream, args, 0)
	require.NoError(t, p.mem.Write(p.word(args+16), binary.LittleEndian.AppendUint32(nil, 77)))
	p.ok("cuMemsetD32Async", p.data+4, 9, 1, p.stream)
	p.ok("cuMemcpyDtoDAsync_v2", p.data+8, p.data, 4, p.stream)
	require.EqualValues(t, 1, p.status(p.stream))
	g := p.end(p.stream)
	require.Zero(t, p.status(p.stream))
	require.Zero(t, p.first())

	exec := p.instantiate(g)
	for i := uint32(1); i <= 3; i++ {
		p.ok("cuGraphLaunch", exec, p.stream)
		require.Equal(t, 5*i, p.first())
	}
	p.ok("cuMemcpyDtoH_v2", p.host, p.data, 16)
	require.EqualValues(t, 9<<32|15, p.word(p.host))
	require.EqualValues(t, 15<<32|15, p.word(p.host+8))

	require.EqualValues(t, 3, p.nodes(g))
	p.ok("cuGraphDestroy", g)
	p.gives(cuda.ErrInvalidValue, "cuGraphDestroy", g)
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuGraphExecDestroy", exec)
	p.gives(cuda.ErrInvalidValue, "cuGraphLaunch", exec, p.stream)
}

// nodes counts the nodes of a graph.
func (p *grapher) nodes(g uint64) uint64 {
	p.t.Helper()
	p.ok("cuGraphGetNodes", g, 0, p.out)
	return p.word(p.out)
}

// What an H100 answers about a capture on one stream is in tests/answers.
func TestCaptureProhibits(t *testing.T) {
	p := newGrapher(t)
	spare := p.word64("cuMemAlloc_v2", 64)
	other := p.word64("cuStreamCreate", streamNonBlocking)
	p.gives(illegalState, "cuStreamEndCapture", p.stream, p.out)
	p.gives(captureUnsupported, "cuStreamBeginCapture_v2", 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuStreamBeginCapture_v2", p.stream, 3)
	for _, c := range []struct {
		name string
		args []uint64
		want cuda.Result
		// relaxed is what the call answers in a relaxed capture.
		relaxed cuda.Result
	}{
		{name: "cuStreamSynchronize", args: []uint64{p.stream}, want: 900, relaxed: 900},
		{name: "cuStreamQuery", args: []uint64{p.stream}, want: 900, relaxed: 900},
		{name: "cuStreamAddCallback", args: []uint64{p.stream, 8, 0, 0}, want: 900, relaxed: 900},
		{name: "cuStreamSynchronize", args: []uint64{other}, want: 900},
		{name: "cuMemAlloc_v2", args: []uint64{p.out, 64}, want: 900},
		{name: "cuMemFree_v2", args: []uint64{spare}, want: 900},
		{name: "cuCtxSynchronize", want: 900},
	} {
		p.begin(p.stream, 0)
		p.gives(illegalState, "cuStreamBeginCapture_v2", p.stream, 0)
		p.gives(c.want, c.name, c.args...)
		require.EqualValues(t, 2, p.status(p.stream), c.name)
		require.EqualValues(t, 901, p.launch(p.stream, 1))
		p.gives(901, "cuStreamEndCapture", p.stream, p.out)
		require.Zero(t, p.word(p.out))

		p.begin(p.stream, uint64(graph.Relaxed))
		p.gives(c.relaxed, c.name, c.args...)
		want := cuda.Success
		if c.relaxed != 0 {
			want = 901
		}
		p.gives(want, "cuStreamEndCapture", p.stream, p.out)
	}
	p.begin(p.stream, 0)
	require.Equal(t, cuda.Success, p.launch(0, 1), "the stream is not blocking")
	require.EqualValues(t, 1, p.status(p.stream))
	p.gives(cuda.ErrInvalidValue, "cuMemcpyHtoD_v2", 0, p.host, 4)
	p.end(p.stream)
	p.ok("cuStreamSynchronize", 0)
	require.EqualValues(t, 1, p.first())
}

// Threads are prohibited from calls by captures of others only if those and they are global.
func TestCaptureAndThreads(t *testing.T) {
	p := newGrapher(t)
	other := p.on(2)
	other.ok("cuCtxSetCurrent", p.word64("cuCtxGetCurrent"))
	for _, c := range []struct {
		mode, others uint32
		want         cuda.Result
	}{
		{mode: 0, others: 0, want: 900}, {mode: 0, others: 1}, {mode: 0, others: 2},
		{mode: 1, others: 0}, {mode: 2, others: 0},
	} {
		other.ok("cuThreadExchangeStreamCaptureMode", other.halves(c.others))
		p.begin(p.stream, uint64(c.mode))
		other.gives(c.want, "cuMemHostAlloc", other.out, 0, 0)
		wrong := cuda.Result(908)
		if c.mode == 2 {
			wrong = cuda.Success
		}
		other.gives(wrong, "cuStreamEndCapture", p.stream, other.out)
		if wrong != 0 {
			p.gives(map[bool]cuda.Result{true: 901}[c.want != 0], "cuStreamEndCapture", p.stream, p.out)
		}
		p.launch(p.stream, 0)
		p.first()
	}
}

// The legacy stream would wait for a stream that is captured, unless that is not blocking.
func TestCaptureAndLegacyStream(t *testing.T) {
	p := newGrapher(t)
	blocking := p.word64("cuStreamCreate", 0)
	for _, do := range []func() cuda.Result{
		func() cuda.Result { return p.launch(0, 1) },
		func() cuda.Result { return p.call("cuMemcpyHtoD_v2", p.program.words(0), p.host, 4) },
		func() cuda.Result { return p.call("cuStreamSynchronize", 0) },
		func() cuda.Result { return p.call("cuEventRecord", p.event, 0) },
		func() cuda.Result { return p.call("cuStreamWaitEvent", 0, p.event, 0) },
	} {
		p.begin(blocking, 0)
		p.gives(906, "cuStreamIsCapturing", 0, p.out)
		require.EqualValues(t, 1, p.status(blocking), "asking does no harm")
		require.EqualValues(t, 906, do())
		p.gives(901, "cuStreamEndCapture", blocking, p.out)
	}
	require.Zero(t, p.first())
}

// A stream joins a capture by an event and must be joined by one.
func TestForkAndJoin(t *testing.T) {
	p := newGrapher(t)
	side := p.word64("cuStreamCreate", streamNonBlocking)
	back := p.word64("cuEventCreate", 0)
	fork := func() {
		p.begin(p.stream, 0)
		require.Equal(t, cuda.Success, p.launch(p.stream, 1))
		p.ok("cuEventRecord", p.event, p.stream)
		p.ok("cuStreamWaitEvent", side, p.event, 0)
		require.EqualValues(t, 1, p.status(side))
		require.Equal(t, cuda.Success, p.launch(side, 10))
	}
	fork()
	p.gives(904, "cuStreamEndCapture", p.stream, p.out)
	require.Zero(t, p.status(side))

	fork()
	p.gives(903, "cuStreamEndCapture", side, p.out)
	p.gives(901, "cuStreamEndCapture", p.stream, p.out)

	fork()
	p.ok("cuEventRecord", back, side)
	p.gives(907, "cuEventQuery", back)
	p.gives(901, "cuStreamEndCapture", p.stream, p.out)

	fork()
	p.ok("cuEventRecord", back, side)
	p.ok("cuStreamWaitEvent", p.stream, back, 0)
	require.Equal(t, cuda.Success, p.launch(p.stream, 100))
	g := p.end(p.stream)
	p.gives(cuda.ErrInvalidValue, "cuEventQuery", back)
	p.gives(cuda.ErrInvalidValue, "cuEventSynchronize", back)
	p.ok("cuGraphGetEdges", g, 0, 0, p.out)
	require.EqualValues(t, 3, p.word(p.out), "first → side, first and side → last: one is implied but there")
	p.ok("cuGraphLaunch", p.instantiate(g), p.stream)
	require.EqualValues(t, 111, p.first())

	p.ok("cuEventRecord", back, side)
	p.ok("cuEventQuery", back)
	p.begin(p.stream, 0)
	p.gives(905, "cuStreamWaitEvent", p.stream, back, 0)
	p.gives(901, "cuStreamEndCapture", p.stream, p.out)

	p.begin(p.stream, 0)
	p.begin(side, 0)
	p.ok("cuEventRecord", p.event, p.stream)
	p.gives(902, "cuStreamWaitEvent", side, p.event, 0)
	p.gives(901, "cuStreamEndCapture", p.stream, p.out)
	p.gives(901, "cuStreamEndCapture", side, p.out)
}

// Host functions and copies of pageable memory run in the order of the stream, and the launch does
// not wait for them.
func TestGraphInProgram(t *testing.T) {
	p := newGrapher(t)
	release := make(chan struct{})
	var seen []uint32
	p.lib.cfg.Invoke = func(_, data, _, _ uint64) uint64 {
		<-release
		seen = append(seen, uint32(data))
		return 0
	}
	p.begin(p.stream, 0)
	p.ok("cuMemcpyHtoDAsync_v2", p.data, p.host, 64, p.stream)
	require.Equal(t, cuda.Success, p.launch(p.stream, 1))
	p.ok("cuLaunchHostFunc", p.stream, 8, 1)
	require.Equal(t, cuda.Success, p.launch(p.stream, 2))
	p.ok("cuLaunchHostFunc", p.stream, 8, 2)
	p.ok("cuMemcpyDtoHAsync_v2", p.host, p.data, 64, p.stream)
	g := p.end(p.stream)
	exec := p.instantiate(g)
	p.ok("cuGraphLaunch", exec, p.stream)
	p.gives(cuda.ErrNotReady, "cuStreamQuery", p.stream)
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	p.ok("cuStreamSynchronize", p.stream)
	require.Equal(t, []uint32{1, 2}, seen)
	require.EqualValues(t, 3, uint32(p.word(p.host)))
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	require.EqualValues(t, 6, uint32(p.word(p.host)))
}

func TestCaptureInfo(t *testing.T) {
	p := newGrapher(t)
	out := p.words(make([]uint64, 8)...)
	info := func() { p.ok("cuStreamGetCaptureInfo_v2", p.stream, out, out+8, out+16, out+24, out+32) }
	info()
	require.Zero(t, p.word(out)&0xffffffff)
	p.gives(illegalState, "cuStreamUpdateCaptureDependencies", p.stream, 0, 0, 0)
	p.begin(p.stream, 0)
	require.Equal(t, cuda.Success, p.launch(p.stream, 1))
	info()
	g, id := p.word(out+16), p.word(out+8)
	require.EqualValues(t, 1, p.word(out)&0xffffffff)
	require.EqualValues(t, 1, p.word(out+32))
	node := p.word(p.word(out + 24))
	require.Zero(t, p.second64("cuGraphNodeGetType", node)&0xffffffff)
	p.gives(cuda.ErrInvalidValue, "cuGraphDestroy", g)

	p.ok("cuStreamUpdateCaptureDependencies", p.stream, 0, 0, 1)
	p.ok("cuStreamGetCaptureInfo_v3", p.stream, out, out+8, out+16, out+24, out+40, out+32)
	require.Zero(t, p.word(out+32))
	require.NotZero(t, p.word(out+40))
	require.Equal(t, id, p.word(out+8))
	require.Equal(t, cuda.Success, p.launch(p.stream, 1))
	p.ok("cuStreamUpdateCaptureDependencies", p.stream, p.words(node), 1, 0)
	require.Equal(t, g, p.end(p.stream))
	p.ok("cuGraphGetRootNodes", g, 0, p.out)
	require.EqualValues(t, 2, p.word(p.out))

	p.ok("cuStreamBeginCaptureToGraph", p.stream, g, p.words(node), 0, 1, 0)
	require.Equal(t, cuda.Success, p.launch(p.stream, 1))
	require.Equal(t, g, p.end(p.stream))
	require.EqualValues(t, 3, p.nodes(g))
	p.ok("cuGraphNodeGetDependentNodes", node, 0, p.out)
	require.EqualValues(t, 1, p.word(p.out))
}

// A capture ends with its stream, its thread and its context, and leaves nothing behind.
func TestCapturesThatAreLeft(t *testing.T) {
	p := newGrapher(t)
	watched := func() uint32 { return p.lib.graphs.watched.Load() }
	p.begin(p.stream, 0)
	require.EqualValues(t, watchAll, watched())
	p.ok("cuEventRecord", p.event, p.stream)
	p.ok("cuStreamDestroy_v2", p.stream)
	require.EqualValues(t, watchEvents, watched())
	p.gives(cuda.ErrInvalidValue, "cuEventQuery", p.event)
	p.ok("cuEventDestroy_v2", p.event)
	require.EqualValues(t, watchNothing, watched())

	other := p.on(2)
	other.ok("cuCtxSetCurrent", p.word64("cuCtxGetCurrent"))
	other.ok("cuStreamBeginCapture_v2", streamPerThread, 0)
	p.gives(900, "cuCtxSynchronize")
	p.lib.ThreadEnd(2)
	require.EqualValues(t, watchNothing, watched())
	p.ok("cuCtxSynchronize")

	p.begin(p.word64("cuStreamCreate", 0), 0)
	p.ok("cuCtxDestroy_v2", p.word64("cuCtxGetCurrent"))
	require.EqualValues(t, watchNothing, watched())
	p.ok("cuCtxCreate_v2", p.out, 0, 0)
	p.ok("cuCtxSynchronize")
}

// failing is memory that cannot be written from some time on.
type failing struct {
	*fakeMemory
	now atomic.Bool
}

func (m *failing) Write(addr uint64, b []byte) error {
	if m.now.Load() {
		return syscall.EFAULT
	}
	return m.fakeMemory.Write(addr, b)
}

// A copy that fails after the launch has returned is an error of all later work.
func TestGraphFailsLate(t *testing.T) {
	p := newGrapher(t)
	mem := &failing{fakeMemory: p.program.mem}
	p.lib.cfg.Memory = mem
	p.lib.cfg.Invoke = func(_, _, _, _ uint64) uint64 { mem.now.Store(true); return 0 }
	p.begin(p.stream, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemcpyDtoHAsync_v2", 8, p.data, 64, p.stream)
	p.gives(cuda.ErrInvalidValue, "cuMemcpyHtoDAsync_v2", p.data, memoryBase+1<<16-60, 64, p.stream)
	p.ok("cuLaunchHostFunc", p.stream, 8, 0)
	p.ok("cuMemcpyDtoHAsync_v2", p.host, p.data, 64, p.stream)
	exec := p.instantiate(p.end(p.stream))
	p.ok("cuGraphLaunch", exec, p.stream)
	p.gives(cuda.ErrInvalidValue, "cuStreamSynchronize", p.stream)
	mem.now.Store(false)
	p.gives(cuda.ErrInvalidValue, "cuGraphLaunch", exec, p.stream)
	require.EqualValues(t, cuda.ErrInvalidValue, p.launch(p.stream, 1))
}

// A call for a stream that has no rule would run at once although its stream is captured.
func TestCallsForStreamsHaveRules(t *testing.T) {
	asks := regexp.MustCompile(`^cu(StreamGet|StreamSetAttribute|StreamCopyAttributes|StreamIsCapturing|Stream.*Capture|GraphInstantiate|GetProcAddress)`)
	seen := 0
	for _, f := range families {
		for _, e := range f.entries {
			if _, ok := captureRules[e.name]; !ok && e.perThread != "" && e.do != nil {
				require.Regexp(t, asks, e.name, "give it a row in captureRules")
			}
			if _, ok := captureRules[e.name]; ok {
				seen++
				require.True(t, e.do != nil, e.name)
			}
		}
	}
	require.Equal(t, len(captureRules), seen, "each rule is for the name of an entry")
}
