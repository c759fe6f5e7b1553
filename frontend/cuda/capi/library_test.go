package capi

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/internal/cudalibs"
	libhost "pvdrm/internal/cudalibs/host"
	"pvdrm/internal/cudalibs/libstest"
	"pvdrm/internal/progmem"
)

// libraryProgram is a program whose device calls the library of libstest, which gets addresses of a
// GPU that is none: only calls without elements are made.
type libraryProgram struct {
	*program
	calls int    // commands
	later bool   // they are held
	held  func() // runs the last one
}

func newLibraryProgram(t *testing.T) *libraryProgram {
	p := newFreshLibraryProgram(t)
	p.ok("cuInit", 0)
	p.ok("cuCtxCreate_v2", p.out, 0, 0)
	return p
}

// newFreshLibraryProgram is newLibraryProgram before cuInit.
func newFreshLibraryProgram(t *testing.T) *libraryProgram {
	m, err := libhost.NewMachine(libhost.Open([]string{libstest.Build(t)}), func() error { return nil })
	require.NoError(t, err)
	p := &libraryProgram{}
	p.program = newIdleProgram(t)
	p.gpu.Params[drm.ParamLibraries] = 0b11111
	p.gpu.Library = func(c drm.CallCmd, results []byte) {
		p.calls++
		args := bytes.Clone(c.Args)
		if p.held = func() { m.Run(args, results, 0x5712) }; !p.later {
			p.held()
		}
	}
	return p
}

// ask calls a function of a library, and returns what it returned.
func (p *libraryProgram) ask(name string, args ...uint64) uint64 {
	p.t.Helper()
	returned, r := p.tryLibrary(name, args...)
	require.NotEqual(p.t, cuda.Result(invalidContext), r)
	return returned
}

func (p *program) tryLibrary(name string, args ...uint64) (uint64, cuda.Result) {
	p.t.Helper()
	f := cudalibs.All().Named(name)
	require.NotNil(p.t, f, name)
	var all [MaxArgs]uint64
	all[0] = uint64(f.Index)
	copy(all[1:], args)
	r := p.lib.Call(symbolsByName()[libraryEntry], p.thread, &all, Stack{})
	if all[answered] == 0 {
		require.NotZero(p.t, r)
		return 0, r
	}
	return all[0], r
}

func (p *libraryProgram) log() string {
	text, err := progmem.ReadString(p.mem, p.ask("cublasGetStatusString", 999), maxText)
	require.NoError(p.t, err)
	return strings.TrimSpace(string(text))
}

func (p *libraryProgram) room(n int) uint64 { return p.mem.Keep(make([]byte, n)) }

func (p *libraryProgram) word(addr uint64) uint64 {
	b := make([]byte, 8)
	require.NoError(p.t, p.mem.Read(b, addr))
	return binary.LittleEndian.Uint64(b)
}

func (p *libraryProgram) create() uint64 {
	to := p.room(8)
	require.Zero(p.t, p.ask("cublasCreate_v2", to))
	return p.word(to)
}

// gemm is a product without elements.
func (p *libraryProgram) gemm(h uint64, m uint64) uint64 {
	one := p.room(16)
	return p.ask("cublasSgemm_v2", h, 0, 0, m, 0, 0, one, 0, 1, 0, 1, one, 0, 1)
}

func TestLibraryStateIsKeptInTheGuest(t *testing.T) {
	p := newLibraryProgram(t)
	h := p.create()
	p.log()
	before := p.calls
	p.ok("cuStreamCreate", p.out, 0)
	s := p.word(p.out)
	require.Zero(t, p.ask("cublasSetStream_v2", h, s))
	require.Zero(t, p.ask("cublasSetMathMode", h, 3))
	to := p.room(8)
	require.Zero(t, p.ask("cublasGetStream_v2", h, to))
	require.Equal(t, s, p.word(to))
	to = p.room(8)
	require.Zero(t, p.ask("cublasGetMathMode", h, to))
	require.EqualValues(t, 3, p.word(to))
	require.Zero(t, p.ask("cublasGetPointerMode_v2", h, to))
	require.Zero(t, p.word(to))
	require.Equal(t, before, p.calls, "none of it reaches the host")
	require.Zero(t, p.gemm(h, 0))
	require.Equal(t, "stream1 math3 sgemm0 math3 ws0", p.log())
	require.NotZero(t, p.ask("cublasSetStream_v2", h, 0xdead))
	require.EqualValues(t, 1, p.ask("cublasSetMathMode", h+16, 3))
	require.EqualValues(t, 1, p.ask("cublasSgemm_v2", 0xdead, 0, 0, 0, 0, 0, to, 0, 1, 0, 1, to, 0, 1))
	require.EqualValues(t, 7, p.ask("cublasSgemm_v2", h, 0, 0, 0, 0, 0, 16, 0, 1, 0, 1, to, 0, 1), "a wild pointer")
	require.EqualValues(t, 7, p.ask("cublasGetVersion_v2", h, 16), "likewise")
	require.Zero(t, p.ask("cublasDestroy_v2", h))
	require.EqualValues(t, 1, p.gemm(h, 0))
	require.Equal(t, "math0 stream0", p.log(), "the worker keeps it, as new")
}

// An error of a call that is not waited for comes with the next call of the library.
func TestLateLibraryErrors(t *testing.T) {
	p := newLibraryProgram(t)
	h := p.create()
	require.EqualValues(t, 7, p.gemm(h, 1<<32-1), "the fake device has run it by now")
	require.Zero(t, p.gemm(h, 0), "it is told once")
	d := p.room(8)
	require.Zero(t, p.ask("cublasLtMatmulDescCreate", d, 999, 0))
	require.EqualValues(t, 15, p.ask("cublasLtMatmulDescGetAttribute", p.word(d), 1, p.room(8), 4, p.room(8))|15)
}

// Where no call of the library follows, the error comes with the call that waits for the work, so that a
// program does not go on with what the library has not written.
func TestLateLibraryErrorsWhenWaiting(t *testing.T) {
	p := newLibraryProgram(t)
	h, host := p.create(), p.room(8)
	p.ok("cuMemAlloc_v2", p.out, 8)
	d := p.word(p.out)
	for name, args := range map[string][]uint64{"cuCtxSynchronize": nil, "cuStreamSynchronize": {0}, "cuMemcpyDtoH_v2": {host, d, 8}} {
		for _, fails := range []bool{false, true, false} {
			m, want := uint64(0), cuda.Success
			if fails {
				m, want = 1<<32-1, cuda.ErrUnknown
			}
			p.later = true
			require.Zero(t, p.gemm(h, m))
			p.later = false
			p.held()
			p.gives(want, name, args...)
		}
	}
}

// Descriptors take no commands of their own.
func TestDescriptorsGoAlong(t *testing.T) {
	p := newLibraryProgram(t)
	h, list := p.room(8), p.room(64)
	require.Zero(t, p.ask("cudnnCreate", h))
	p.log()
	before := p.calls
	descriptor := func(kind uint64) uint64 {
		to := p.room(8)
		require.Zero(t, p.ask("cudnnBackendCreateDescriptor", kind, to))
		return p.word(to)
	}
	plan, pack := descriptor(5), descriptor(9)
	require.NoError(t, p.mem.Write(list, binary.LittleEndian.AppendUint64(nil, pack)))
	require.Zero(t, p.ask("cudnnBackendSetAttribute", plan, 1, 15, 1, list))
	require.EqualValues(t, 2002, p.ask("cudnnBackendSetAttribute", plan, 1, 31, 1, list), "an unknown type")
	require.NoError(t, p.mem.Write(list, binary.LittleEndian.AppendUint64(nil, 0xdead)))
	require.EqualValues(t, 1001, p.ask("cudnnBackendSetAttribute", plan, 1, 15, 1, list), "a descriptor that is none")
	require.Equal(t, before, p.calls)
	require.Zero(t, p.ask("cudnnBackendExecute", p.word(h), plan, pack))
	require.Equal(t, before+1, p.calls)
	require.Equal(t, "set1:15[1]d9 stream1 execute5:0", p.log())
	for range 200 { // more than wait for another call
		require.Zero(t, p.ask("cudnnBackendDestroyDescriptor", descriptor(7)))
	}
	require.Greater(t, p.calls, before+2)
	plans := p.room(8)
	n := p.room(8)
	require.Zero(t, p.ask("cufftPlanMany", plans, 1, n, 0, 1, 1, 0, 1, 1, 41, 1))
	plan = p.word(plans)
	require.Less(t, plan, uint64(1)<<31)
	require.Zero(t, p.ask("cufftXtExec", plan, 0, 0, 1))
	require.EqualValues(t, 1, p.ask("cufftXtExec", plan+1, 0, 0, 1))
}

// A call of a stream that is captured becomes a node, with the state that its handle has then.
func TestLibraryCallsInGraphs(t *testing.T) {
	p := newLibraryProgram(t)
	h := p.create()
	p.ok("cuStreamCreate", p.out, 1)
	s := p.word(p.out)
	p.ask("cublasSetStream_v2", h, s)
	p.ask("cublasSetMathMode", h, 2)
	p.log()
	p.ok("cuStreamBeginCapture_v2", s, 0)
	require.Zero(t, p.gemm(h, 0))
	p.ok("cuStreamEndCapture", s, p.out)
	graph := p.word(p.out)
	require.Empty(t, p.log())
	p.ask("cublasSetMathMode", h, 5)
	p.ok("cuGraphInstantiateWithFlags", p.out, graph, 0)
	exec := p.word(p.out)
	require.Zero(t, p.ask("cublasDestroy_v2", h), "the graph still has it")
	p.ok("cuGraphLaunch", exec, s)
	p.ok("cuGraphLaunch", exec, s)
	p.ok("cuStreamSynchronize", s)
	require.Equal(t, "stream1 math2 sgemm0 math2 ws0 sgemm0 math2 ws0", p.log())

	h = p.create()
	p.ask("cublasSetStream_v2", h, s)
	p.ok("cuStreamBeginCapture_v2", s, 0)
	require.NotZero(t, p.ask("cublasSdot_v2", h, 0, 0, 1, 0, 1, p.room(8)), "it returns a result")
	require.EqualValues(t, 901, p.call("cuStreamEndCapture", s, p.out))
}

func TestMissingLibraries(t *testing.T) {
	p := newLibraryProgram(t)
	require.EqualValues(t, 10, p.ask("cusparseCreate", p.room(8)))
	require.EqualValues(t, 15, p.ask("cublasGetMatrix", 0, 0, 0, 0, 0, 0, 0), "PVDRM does not support it")
	plain := newProgramInContext(t)
	returned, r := plain.tryLibrary("cublasCreate_v2", plain.out)
	require.EqualValues(t, 15, returned)
	require.Equal(t, cuda.ErrNotSupported, r)
	idle := newProgram(t)
	_, r = idle.tryLibrary("cublasCreate_v2", idle.out)
	require.EqualValues(t, invalidContext, r, "the stub makes a context current, and calls again")
	var args [MaxArgs]uint64
	args[0] = 1 << 20
	require.Equal(t, cuda.ErrNotFound, plain.lib.Call(symbolsByName()[libraryEntry], 1, &args, Stack{}))
}
