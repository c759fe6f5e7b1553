package nvidia_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/cudalibs"
	"pvdrm/internal/cudalibs/libstest"
)

// caller calls libraries on a device whose worker has the one of libstest. Its memory is granted pages,
// which stand for VRAM too: the fake's library computes on the processor.
type caller struct {
	*fakeClient
	libstest.Guest
	mem []byte
	va  uint64
}

const (
	callerBytes = 1 << 20
	resultsAt   = callerBytes / 2 // and the GPU's memory behind them
	resultsMost = callerBytes / 4
)

func newCaller(t *testing.T) *caller {
	t.Setenv("PVDRM_TEST_CUDA_LIBS", libstest.Build(t))
	c := &caller{fakeClient: newFakeClient(t, nvidia.Config{})}
	c.reopen()
	return c
}

// reopen gives the client's context memory.
func (c *caller) reopen() {
	c.mem, c.va = c.granted(callerBytes)
	c.Guest = libstest.Guest{TB: c.T, Mem: c.mem, Base: c.va, GPU: c.va + resultsAt + resultsMost}
}

// command is a call with those that wait for it.
func (c *caller) command(name string, args ...uint64) (*gpu.Call, *cudalibs.Call) {
	batch, call := c.Encode(name, args...)
	if batch == nil {
		return nil, call
	}
	clear(c.mem[resultsAt:][:call.Results])
	return &gpu.Call{Function: call.Function.Index, Args: batch, Results: c.va + resultsAt, Bytes: uint32(call.Results)}, call
}

// call runs a call, and returns the status that the library returned.
func (c *caller) call(name string, args ...uint64) uint32 {
	cmd, call := c.command(name, args...)
	if cmd == nil {
		return 0
	}
	require.NoError(c.T, c.do(cmd).Err)
	c.Take(call, c.mem[resultsAt:])
	return binary.LittleEndian.Uint32(c.mem[resultsAt:])
}

func (c *caller) made(name string, before ...uint64) uint64 {
	args, handle := c.Made(name, before...)
	require.Zero(c.T, c.call(name, args...))
	return handle()
}

func TestLibrariesOfAWorker(t *testing.T) {
	c := newCaller(t)
	require.EqualValues(t, 0b00011111, c.props.Libraries, "those that libstest stands in for")
	h := c.made("cublasCreate_v2")
	one, _ := c.Floats(false, 2)
	zero, _ := c.Floats(false, 0)
	a, _ := c.Floats(true, 1, 2, 3, 4)
	b, _ := c.Floats(true, 1, 0, 0, 1)
	to, got := c.Floats(true, 9, 9, 9, 9)
	gemm := func(m uint64) uint32 {
		return c.call("cublasSgemm_v2", h, 0, 0, m, 2, 2, one, a, 2, b, 2, zero, to, 2)
	}
	require.Zero(t, gemm(2))
	require.Equal(t, []float32{2, 4, 6, 8}, got())
	require.EqualValues(t, 7, gemm(math.MaxUint32))
	require.EqualValues(t, 7, binary.LittleEndian.Uint32(c.mem[resultsAt+8:]), "an error that no one waits for is kept")
	version, mem := c.Room(4, false)
	require.Zero(t, c.call("cublasGetVersion_v2", h, version))
	require.EqualValues(t, 130000, binary.LittleEndian.Uint32(mem))

	// A large batch lies in granted memory.
	cmd, _ := c.command("cublasSgemm_v2", h, 0, 0, 1, 1, 1, one, a, 1, b, 1, zero, to, 1)
	copy(c.mem[resultsAt+4096:], cmd.Args)
	cmd.ArgsVA, cmd.ArgsBytes, cmd.Args = c.va+resultsAt+4096, uint32(len(cmd.Args)), nil
	require.NoError(t, c.do(cmd).Err)
	require.Equal(t, float32(2), got()[0])
}

// Each context has a worker with libraries of its own: handles of one mean nothing in another, and a
// library that crashes ends its context alone.
func TestCrashOfALibrary(t *testing.T) {
	c := newCaller(t)
	h := c.made("cublasCreate_v2")
	first := c.ctx
	version, _ := c.Room(4, false)
	old, _ := c.command("cublasGetVersion_v2", h, version)
	require.NoError(t, c.do(old).Err)

	c.open()
	c.reopen()
	cmd := &gpu.Call{Function: old.Function, Args: old.Args, Results: c.va + resultsAt, Bytes: old.Bytes}
	require.NoError(t, c.do(cmd).Err)
	require.EqualValues(t, cudalibs.All().Libraries[0].Codes.Handle, binary.LittleEndian.Uint32(c.mem[resultsAt:]))
	require.EqualValues(t, cudalibs.ResultDone|cudalibs.ResultRefused, binary.LittleEndian.Uint32(c.mem[resultsAt+4:]))

	h = c.made("cublasCreate_v2")
	c.call("cublasSetSmCountTarget", h, 666)
	x, _ := c.Floats(true, 1)
	cmd, _ = c.command("cublasSdot_v2", h, 1, x, 1, x, 1, x)
	var lost *gpu.LostError
	require.ErrorAs(t, c.do(cmd).Err, &lost)
	require.Equal(t, gpu.LostDevice, lost.Cause)
	require.NoError(t, first.Err(), "the other lives")
}

func TestBadCalls(t *testing.T) {
	c := newCaller(t)
	h := c.made("cublasCreate_v2")
	version, _ := c.Room(4, false)
	good, _ := c.command("cublasGetVersion_v2", h, version)
	for name, change := range map[string]func(*gpu.Call){
		"no arguments":            func(x *gpu.Call) { x.Args = nil },
		"too many":                func(x *gpu.Call) { x.Args = make([]byte, c.props.MaxParamBytes+1) },
		"results not aligned":     func(x *gpu.Call) { x.Results++ },
		"results of no bytes":     func(x *gpu.Call) { x.Bytes = 0 },
		"results in VRAM":         func(x *gpu.Call) { x.Results = c.props.VRAM.Base },
		"results that wrap":       func(x *gpu.Call) { x.Results = math.MaxUint64 - 7 },
		"too many results":        func(x *gpu.Call) { x.Bytes = 1 << 30 },
		"arguments in VRAM":       func(x *gpu.Call) { x.ArgsVA, x.ArgsBytes = c.props.VRAM.Base, 64 },
		"a task":                  nil,
		"too long, at an address": func(x *gpu.Call) { x.ArgsVA, x.ArgsBytes = c.va, 1<<30 },
	} {
		bad := *good
		cmds := []gpu.Command{&bad}
		if change != nil {
			change(&bad)
		} else {
			cmds = []gpu.Command{&gpu.Task{}, &bad}
		}
		require.ErrorIs(t, c.do(cmds...).Err, gpu.ErrInvalid, name)
		require.NoError(t, c.ch.Close())
		var err error
		c.ch, err = c.ctx.NewChannel()
		require.NoError(t, err)
	}
	var lost *gpu.LostError
	bad := *good
	bad.Results = c.va + 2*callerBytes
	require.ErrorAs(t, c.do(&bad).Err, &lost, "what is not mapped is a fault, as for other commands")
	require.Equal(t, gpu.LostAddress, lost.Cause)
}

func TestNoLibraries(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	require.Zero(t, c.props.Libraries)
	err := c.do(&gpu.Call{Args: make([]byte, 16)}).Err
	require.ErrorIs(t, err, gpu.ErrInvalid)
	require.ErrorContains(t, err, "--cuda-libs")
	require.NoError(t, c.ctx.Err())
}
