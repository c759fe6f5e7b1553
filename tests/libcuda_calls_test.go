package tests

import (
	"encoding/binary"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/capi"
	"pvdrm/gpu/softgpu"
	"pvdrm/internal/progmem/progmemtest"
)

type programMemory = progmemtest.Memory

const memoryBase = progmemtest.Base

const addressedPTX = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .global .u32 v;\n" +
	".visible .entry nop(.param .u32 n)\n{\n\tret;\n}\n\x00"

// libcuda is the library of a program with a memory of its own.
func (h *host) libcuda(t *testing.T, mem capi.Memory) *capi.Library {
	return capi.New(capi.Config{
		Open: []cuda.Opener{func() (drm.File, error) {
			c, err := local.Open(h.socket)
			if err != nil {
				return nil, err
			}
			return frontend.New(c)
		}},
		Memory: mem,
		Symbol: func(i int) uint64 { return uint64(i) },
		Invoke: func(_, a, _, _ uint64) uint64 { return a },
		Logf:   t.Logf,
	})
}

// symbolsByName are the indices of entry points.
func symbolsByName() map[string]int {
	byName := map[string]int{}
	for i, s := range capi.Symbols() {
		byName[s.Name] = i
	}
	return byName
}

// Whatever is called with whatever arguments, by several threads, there is a
// CUresult, and no panic, hang or memory left behind. The arguments are those
// that come near to making sense: handles and addresses of earlier calls among them.
func TestCallsOfNonsense(t *testing.T) {
	symbols := capi.Symbols()
	byName := symbolsByName()
	var working []int // most of what is called does something
	for i, s := range symbols {
		// A stream may wait for a word that nothing writes, and then all that waits for the stream does.
		waits := strings.Contains(s.Name, "WaitValue") || strings.Contains(s.Name, "BatchMemOp")
		if !waits && (s.Works() || i%10 == 0) {
			working = append(working, i)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		h := startHost(t, softgpu.Config{VRAMBytes: 32 << 20})
		mem := &programMemory{}
		l := h.libcuda(t, mem)
		ptx, name, global := mem.Keep([]byte(addressedPTX)), mem.Keep([]byte("nop\x00")), mem.Keep([]byte("v\x00"))
		scratch := mem.Keep(make([]byte, 4096))
		known := []uint64{0xdead0000} // handles and addresses of earlier calls
		small := []uint64{0, 1, 2, 3, 4, 8, 16, 64}
		large := []uint64{1 << 20, 1 << 31, 1<<32 - 1, 1 << 63, ^uint64(0), memoryBase + 1<<16 - 4}
		pointers := []uint64{ptx, name, global, scratch, scratch + 8, scratch + 256}
		word := rapid.Custom(func(r *rapid.T) uint64 {
			from := [][]uint64{known, known, known, pointers, pointers, pointers, small, small, small, large}
			return rapid.SampledFrom(rapid.SampledFrom(from).Draw(r, "kind")).Draw(r, "word")
		})
		call := func(i int, thread uint64, args [capi.MaxArgs]uint64) cuda.Result {
			res := l.Call(i, thread, &args, capi.Stack{})
			require.True(t, res.Known(), "%s: %d", symbols[i].Name, int(res))
			return res
		}
		create := func() {
			if call(byName["cuCtxCreate_v2"], 1, [capi.MaxArgs]uint64{scratch}) == cuda.Success {
				known = append(known, mem.Word(scratch))
			}
		}
		call(byName["cuMemAlloc_v2"], 1, [capi.MaxArgs]uint64{scratch, 64})
		require.Equal(t, cuda.Success, call(byName["cuInit"], 1, [capi.MaxArgs]uint64{}))
		create()
		if call(byName["cuModuleLoadData"], 1, [capi.MaxArgs]uint64{scratch, ptx}) == cuda.Success {
			known = append(known, mem.Word(scratch))
			if call(byName["cuModuleGetFunction"], 1, [capi.MaxArgs]uint64{scratch, mem.Word(scratch), name}) == cuda.Success {
				known = append(known, mem.Word(scratch))
			}
		}
		for range rapid.IntRange(100, 400).Draw(r, "calls") {
			i := rapid.SampledFrom(working).Draw(r, "symbol")
			var args [capi.MaxArgs]uint64
			for a := range symbols[i].Args {
				args[a] = word.Draw(r, symbols[i].Name)
			}
			thread := rapid.Uint64Range(1, 3).Draw(r, "thread")
			if call(i, thread, args) == cuda.Success && symbols[i].Args > 0 {
				if v := mem.Word(args[0]); v > 1<<32 && len(known) < 60 {
					known = append(known, v)
				}
			}
		}
		for thread := range uint64(3) {
			l.ThreadEnd(thread + 1)
		}
		l.Close()
		require.NoError(t, h.stop())
	})
}

// Threads share the primary context, and each has one of its own beside it.
func TestCallsOfManyThreads(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	mem := &programMemory{}
	l := h.libcuda(t, mem)
	byName := symbolsByName()
	ptx, name := mem.Keep([]byte(addressedPTX)), mem.Keep([]byte("nop\x00"))
	var wg sync.WaitGroup
	for thread := range uint64(4) {
		scratch := mem.Keep(make([]byte, 1024))
		wg.Go(func() {
			call := func(symbol string, args ...uint64) uint64 {
				var all [capi.MaxArgs]uint64
				copy(all[:], args)
				if r := l.Call(byName[symbol], thread+1, &all, capi.Stack{}); r != cuda.Success {
					t.Errorf("%s: %v", symbol, r)
				}
				return mem.Word(scratch)
			}
			call("cuInit")
			for range 10 {
				shared := call("cuDevicePrimaryCtxRetain", scratch, 0)
				call("cuCtxSetCurrent", shared)
				own := call("cuCtxCreate_v2", scratch, 0, 0)
				call("cuCtxGetDevice_v2", scratch, own)
				call("cuCtxSynchronize_v2", own)
				call("cuCtxSynchronize_v2", 0)
				for range 2 { // in the own context, then in the shared one
					m := call("cuModuleLoadData", scratch, ptx)
					f := call("cuModuleGetFunction", scratch, m, name)
					p := call("cuMemAlloc_v2", scratch, 512)
					args := scratch + 64
					if err := mem.Write(args, binary.LittleEndian.AppendUint64(nil, scratch)); err != nil {
						t.Error(err)
					}
					call("cuMemcpyHtoDAsync_v2_ptsz", p, scratch+512, 512)
					call("cuLaunchKernel_ptsz", f, 1, 1, 1, 32, 1, 1, 0, 0, args)
					call("cuLaunchHostFunc_ptsz", 0, 1, 2)
					call("cuStreamSynchronize_ptsz", 0)
					call("cuMemFree_v2", p)
					call("cuModuleUnload", m)
					if own != 0 {
						call("cuCtxDestroy_v2", own)
						own = 0
					}
				}
				call("cuDevicePrimaryCtxRelease_v2", 0)
			}
			l.ThreadEnd(thread + 1)
		})
	}
	wg.Wait()
	l.Close()
}

// Programs for CUDA 13 give cuCtxCreate a struct, which says nothing as a rule.
func TestParametersOfContexts(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	mem := &programMemory{}
	l := h.libcuda(t, mem)
	byName := symbolsByName()
	ctx, params := mem.Keep(make([]byte, 8)), mem.Keep(make([]byte, 24))
	call := func(symbol string, args ...uint64) cuda.Result {
		var all [capi.MaxArgs]uint64
		copy(all[:], args)
		return l.Call(byName[symbol], 1, &all, capi.Stack{})
	}
	require.Equal(t, cuda.Success, call("cuInit", 0))
	for at, want := range map[uint64]cuda.Result{0: cuda.Success, 8: cuda.ErrInvalidValue, 16: cuda.ErrNotSupported} {
		require.NoError(t, mem.Write(params, make([]byte, 24)))
		require.NoError(t, mem.Write(params+at, []byte{1}))
		require.Equal(t, want, call("cuCtxCreate_v4", ctx, params, 0, 0), "word at %d", at)
	}
	require.Equal(t, cuda.Success, call("cuCtxCreate_v4", ctx, 0, 0, 0))
	require.Equal(t, cuda.ErrInvalidValue, call("cuCtxCreate_v4", ctx, 1, 0, 0))
	require.Equal(t, cuda.Success, call("cuCtxCreate_v3", ctx, params, 0, 0, 0))
	require.Equal(t, cuda.Result(224), call("cuCtxCreate_v3", ctx, params, 1, 0, 0), "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, as on an H100")
	l.Close()
}

// What a kernel was compiled for is its PTX's target, whatever the device is: CUB chooses by it
// what to launch the kernel with, and sorts wrong otherwise. What it is compiled to is the device's.
// NVIDIA's driver 580.159 answers 50 and 90 on an H100.
func TestAttributesTellTheTargetOfTheKernel(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	mem, symbols := &programMemory{}, symbolsByName()
	lib := h.libcuda(t, mem)
	t.Cleanup(lib.Close)
	call := func(name string, args ...uint64) {
		t.Helper()
		var a [capi.MaxArgs]uint64
		copy(a[:], args)
		require.Equal(t, cuda.Success, lib.Call(symbols[name], 1, &a, capi.Stack{}), name)
	}
	to := mem.Keep(make([]byte, 8))
	text, name := mem.Keep([]byte(addressedPTX)), mem.Keep([]byte("nop\x00"))
	call("cuInit", 0)
	call("cuCtxCreate_v2", to, 0, 0)
	call("cuModuleLoadData", to, text)
	call("cuModuleGetFunction", to, mem.Word(to), name)
	function := mem.Word(to)
	attribute := func(number uint64) uint32 {
		call("cuFuncGetAttribute", to, number, function)
		return uint32(mem.Word(to))
	}
	call("cuDeviceGetAttribute", to, uint64(cuda.AttributeComputeCapabilityMajor), 0)
	device := 10 * uint32(mem.Word(to))
	call("cuDeviceGetAttribute", to, uint64(cuda.AttributeComputeCapabilityMinor), 0)
	device += uint32(mem.Word(to))
	const ptxVersion, binaryVersion = 5, 6
	require.EqualValues(t, 50, attribute(ptxVersion))
	require.Equal(t, device, attribute(binaryVersion))
}
