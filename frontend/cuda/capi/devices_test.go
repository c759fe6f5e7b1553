package capi

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
)

// What the environment of these tests says of the host's GPUs is not for the fake ones.
func init() {
	_ = os.Unsetenv(visibleEnv) // does not fail on Linux
	_ = os.Unsetenv(orderEnv)
}

// newProgramOnTwo is newProgram with a second GPU, which is larger and so offers a larger window of
// addresses. The environment says which devices the program sees.
func newProgramOnTwo(t *testing.T, environment ...string) *program {
	t.Helper()
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	second := cudatest.NewGPU(t) // whose end comes after that of the library
	p := newIdleProgram(t)
	second.Params[drm.ParamDevice] = 1
	second.Params[drm.ParamVRAMSize] *= 2
	p.second = second
	p.lib.cfg.Open = append(p.lib.cfg.Open, second.Opener)
	return p
}

// onTwo is newProgramOnTwo after cuInit, with the primary contexts of both.
func onTwo(t *testing.T) (p *program, contexts [2]uint64) {
	t.Helper()
	p = newProgramOnTwo(t)
	p.ok("cuInit", 0)
	for dev := range contexts {
		contexts[dev] = p.word64("cuDevicePrimaryCtxRetain", uint64(dev))
	}
	return p, contexts
}

func (p *program) uuid(dev uint64) string {
	p.t.Helper()
	p.ok("cuDeviceGetUuid_v2", p.out, dev)
	id := make([]byte, 16)
	require.NoError(p.t, p.mem.Read(id, p.out))
	return "GPU-" + uuidText(id)
}

func (p *program) busID(dev uint64) string {
	p.t.Helper()
	p.ok("cuDeviceGetPCIBusId", p.out, 13, dev)
	id := make([]byte, 12)
	require.NoError(p.t, p.mem.Read(id, p.out))
	return string(id)
}

func TestSeveralDevices(t *testing.T) {
	p := newProgramOnTwo(t)
	p.ok("cuInit", 0)
	require.EqualValues(t, 2, p.word32("cuDeviceGetCount"))
	require.EqualValues(t, 1, p.word32("cuDeviceGet", 1))
	p.gives(cuda.ErrInvalidDevice, "cuDeviceGet", p.out, 2)
	require.Equal(t, []string{"0000:00:00.0", "0000:01:00.0"}, []string{p.busID(0), p.busID(1)})
	require.NotEqual(t, p.uuid(0), p.uuid(1))
	require.EqualValues(t, 1, p.word32("cuDeviceGetByPCIBusId", p.text("01:00.0")))
	p.gives(cuda.ErrInvalidDevice, "cuDeviceGetByPCIBusId", p.out, p.text("02:00.0"))
	for dev := range uint64(2) {
		require.EqualValues(t, dev, p.word32("cuDeviceGetAttribute", 33, dev)) // PCI_BUS_ID
	}
	// Neither reaches the other.
	require.Zero(t, p.word32("cuDeviceCanAccessPeer", 0, 1))
	require.Zero(t, p.word32("cuDeviceGetP2PAttribute", 2, 0, 1))
	p.gives(cuda.ErrInvalidDevice, "cuDeviceGetP2PAttribute", p.out, 2, 1, 1)
	p.gives(cuda.ErrInvalidValue, "cuDeviceGetP2PAttribute", p.out, 6, 0, 1)
	p.gives(cuda.ErrInvalidDevice, "cuDeviceCanAccessPeer", p.out, 0, 2)
}

func TestContextsOfSeveralDevices(t *testing.T) {
	p, contexts := onTwo(t)
	require.NotEqual(t, contexts[0], contexts[1])
	var memory, streams, events [2]uint64
	for dev, x := range contexts {
		p.ok("cuCtxSetCurrent", x)
		require.EqualValues(t, dev, p.word32("cuCtxGetDevice"))
		memory[dev] = p.word64("cuMemAlloc_v2", 4096)
		streams[dev], events[dev] = p.word64("cuStreamCreate", 0), p.word64("cuEventCreate", 0)
		p.ok("cuEventRecord", events[dev], streams[dev])
		require.EqualValues(t, dev, p.second64("cuStreamGetDevice", streams[dev])&0xffffffff)
	}
	require.NotEqual(t, memory[0], memory[1])
	for dev, at := range memory {
		require.EqualValues(t, dev, p.word32("cuPointerGetAttribute", pointerOrdinal, at))
		require.Equal(t, contexts[dev], p.word64("cuPointerGetAttribute", pointerContext, at))
	}
	p.ok("cuMemsetD8_v2", memory[0], 5, 4096)
	p.ok("cuMemcpyPeer", memory[1], contexts[1], memory[0], contexts[0], 4096)
	host := p.mem.Keep(make([]byte, 4))
	p.ok("cuMemcpyDtoH_v2", host, memory[1]+4092, 4)
	require.EqualValues(t, 0x05050505, uint32(p.word(host)))
	p.gives(cuda.ErrPeerAccessUnsupported, "cuCtxEnablePeerAccess", contexts[0], 0)
	// The addresses count, and not the contexts that are named.
	p.ok("cuMemcpyPeer", memory[1], contexts[0], memory[0], contexts[1], 4096)
	p.ok("cuMemcpyPeer", memory[1], 0, memory[0], 0, 4096)
	p.ok("cuMemcpyPeerAsync", memory[0], 0, memory[1], contexts[0], 4096, streams[1])
	p.gives(invalidContext, "cuMemcpyPeer", memory[1], 99, memory[0], contexts[0], 4096)
	p.ok("cuMemsetD8Async", memory[0], 6, 4096, streams[1])
	p.ok("cuMemcpyDtoH_v2", host, memory[0]+4092, 4)
	require.EqualValues(t, 0x06060606, uint32(p.word(host)))
	p.gives(cuda.ErrPeerAccessNotEnabled, "cuCtxDisablePeerAccess", contexts[0])

	// What an H100 answers for two contexts; the second is current.
	p.gives(cuda.ErrInvalidHandle, "cuEventRecord", events[0], streams[1])
	p.gives(cuda.ErrInvalidHandle, "cuEventRecord", events[0], 0)
	p.gives(cuda.ErrInvalidHandle, "cuEventElapsedTime", p.out, events[0], events[1])
	p.ok("cuStreamWaitEvent", streams[1], events[0], 0)
	p.ok("cuStreamWaitEvent", 0, events[0], 0)
	p.ok("cuStreamSynchronize", streams[1])
	for dev := range uint64(2) {
		p.ok("cuDevicePrimaryCtxReset_v2", dev)
	}
	require.Zero(t, p.second64("cuDevicePrimaryCtxGetState", 0, p.out+8)&0xffffffff)
}

// Pinned memory of one device is there for all.
func TestPinnedMemoryOfAnotherDevice(t *testing.T) {
	p, contexts := onTwo(t)
	p.ok("cuCtxSetCurrent", contexts[0])
	pinned := p.word64("cuMemHostAlloc", 4096, 0)
	here := p.word64("cuMemHostGetDevicePointer_v2", pinned, 0)
	p.ok("cuCtxSetCurrent", contexts[1])
	require.Equal(t, here, p.word64("cuMemHostGetDevicePointer_v2", pinned, 0))
	p.ok("cuMemFreeHost", pinned)
	p.gives(cuda.ErrInvalidValue, "cuMemHostGetDevicePointer_v2", p.out, pinned, 0)
}

// Work on a stream that waits for an event of another device begins when that is reached.
func TestStreamWaitsForAnotherDevice(t *testing.T) {
	p, contexts := onTwo(t)
	p.ok("cuCtxSetCurrent", contexts[0])
	event, stream := p.word64("cuEventCreate", 0), p.word64("cuStreamCreate", 0)
	at := p.word64("cuMemAlloc_v2", 4096)
	p.gpu.Lazy = true
	p.ok("cuMemsetD8Async", at, 1, 4096, stream)
	p.ok("cuEventRecord", event, stream)
	p.gives(cuda.ErrNotReady, "cuEventQuery", event)
	p.ok("cuCtxSetCurrent", contexts[1])
	other := p.word64("cuMemAlloc_v2", 4096)
	waiting := p.word64("cuStreamCreate", 0)
	p.ok("cuStreamWaitEvent", waiting, event, 0)
	p.ok("cuMemsetD8Async", other, 1, 4096, waiting)
	p.ok("cuEventQuery", event)
	p.ok("cuEventDestroy_v2", event)
	p.gives(cuda.ErrInvalidHandle, "cuStreamWaitEvent", waiting, event, 0)
}

func TestFunctionsOfSeveralDevices(t *testing.T) {
	p, contexts := onTwo(t)
	p.ok("cuCtxSetCurrent", contexts[0])
	p.gpu.Kernels["k"] = &cudatest.Kernel{Run: func(*cudatest.File, []byte) *cudatest.Fault { return nil }}
	f := p.function("k")
	launch := func(stream uint64) cuda.Result {
		return p.call("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
	}
	own := p.word64("cuStreamCreate", 0)
	require.Equal(t, cuda.Success, launch(0))
	p.ok("cuCtxSetCurrent", contexts[1])
	other := p.word64("cuStreamCreate", 0)
	require.Equal(t, cuda.ErrInvalidHandle, launch(0))
	require.Equal(t, cuda.ErrInvalidHandle, launch(other))
	require.Equal(t, cuda.Success, launch(own))
}

// Memory that a program asks for by a device comes from that one, or not at all.
func TestMemoryByDevice(t *testing.T) {
	p, contexts := onTwo(t)
	location := func(dev uint32) []uint32 { return []uint32{locationDevice, dev} }
	prop := func(dev uint32) uint64 {
		return p.halves(append([]uint32{allocationPinned, 0}, append(location(dev), 0, 0, 0, 0)...)...)
	}
	access := func(dev, flags uint32) uint64 { return p.halves(append(location(dev), flags)...) }
	p.ok("cuCtxSetCurrent", contexts[1])
	p.gives(invalidContext, "cuMemCreate", p.out, 2<<20, prop(0), 0) // the fake GPU's memory is of contexts
	handle := p.word64("cuMemCreate", 2<<20, prop(1), 0)
	at := p.word64("cuMemAddressReserve", 2<<20, 0, 0, 0)
	p.ok("cuMemMap", at, 2<<20, 0, handle, 0)
	p.gives(cuda.ErrInvalidDevice, "cuMemSetAccess", at, 2<<20, access(0, 3), 1)
	p.ok("cuMemSetAccess", at, 2<<20, access(1, 3), 1)
	require.EqualValues(t, 3, p.word64("cuMemGetAccess", p.halves(location(1)...), at))
	require.Zero(t, p.word64("cuMemGetAccess", p.halves(location(0)...), at))
	p.ok("cuMemGetAllocationPropertiesFromHandle", p.out, handle)
	require.EqualValues(t, 1, p.word(p.out+propLocation)>>32)

	pool := p.word64("cuDeviceGetDefaultMemPool", 1)
	require.NotEqual(t, pool, p.word64("cuDeviceGetDefaultMemPool", 0))
	p.ok("cuMemPoolSetAccess", pool, access(0, 0), 1)
	p.gives(cuda.ErrInvalidDevice, "cuMemPoolSetAccess", pool, access(0, 3), 1)
	require.Zero(t, p.word32("cuMemPoolGetAccess", pool, p.halves(location(0)...)))
	require.EqualValues(t, 3, p.word32("cuMemPoolGetAccess", pool, p.halves(location(1)...)))
	p.gives(cuda.ErrInvalidValue, "cuDeviceSetMemPool", 0, pool)
}

// The rules of the list are an H100's, of driver 580, as far as one device shows them.
func TestVisibleDevices(t *testing.T) {
	ids := []string{"d2de862c-d6e9-a8e3-f75d-7b734f6a5a55", "d2ffffff-0000-0000-0000-000000000000", "aa000000-0000-0000-0000-000000000000"}
	for list, want := range map[string][]int{
		"": nil, "-1": nil, "3": nil, "a0": nil, ",0": nil, ",,": nil, "none": nil, "all": nil, "NoDevFiles": nil,
		"0": {0}, "2,0": {2, 0}, "0,3,1": {0}, "1,-1,0": {1}, "0,0": {0, 0}, "0 ,0": {0, 0}, " 1": {1}, "1 ": {1}, "01": {1}, "+1": {1}, "1a": {1}, "1.2": {1},
		"1;0": {1}, "0x1": {0}, "4294967297": {1}, "2147483648": nil, "99999999999999999999": nil, "1,,0": {1}, "0,GPU-aa": {0},
		"GPU-" + ids[0]: {0}, "GPU-a": {2}, "GPU-AA,GPU-d2d": {2, 0}, "GPU-": nil, "GPU": nil, ids[0]: nil, "gpu-aa": nil, " GPU-aa": nil, "GPU-d2": nil,
		"GPU-" + strings.ToUpper(ids[0]): {0}, "GPU-" + ids[0] + "-,GPU-aa": {0, 2}, "GPU-" + ids[0] + " ": {0}, "GPU-aa ": nil, "GPU-aa,0": {2},
		"GPU-aa,GPU-ff,GPU-d2d": {2}, "MIG-aa": {2}, "MIG-GPU-" + ids[0] + "/0/0": nil,
	} {
		require.Equal(t, want, visible(list, ids), "%q", list)
	}
}

func TestProgramThatSeesSomeDevices(t *testing.T) {
	p := newProgramOnTwo(t)
	p.ok("cuInit", 0)
	second := p.uuid(1)
	for _, list := range []string{"1,0", second + "," + p.uuid(0)} {
		p := newProgramOnTwo(t, visibleEnv+"="+list, orderEnv+"=PCI_BUS_ID")
		p.ok("cuInit", 0)
		require.EqualValues(t, 2, p.word32("cuDeviceGetCount"), list)
		require.Equal(t, second, p.uuid(0))
		require.Equal(t, "0000:01:00.0", p.busID(0))
		require.Zero(t, p.word32("cuDeviceGetByPCIBusId", p.text("0000:01:00.0")))
		p.ok("cuCtxSetCurrent", p.word64("cuDevicePrimaryCtxRetain", 1))
		require.EqualValues(t, 1, p.word32("cuCtxGetDevice"))
	}
	p = newProgramOnTwo(t, visibleEnv+"=1")
	p.ok("cuInit", 0)
	require.EqualValues(t, 1, p.word32("cuDeviceGetCount"))
	require.Equal(t, second, p.uuid(0))
	p.gives(cuda.ErrInvalidDevice, "cuDeviceGet", p.out, 1)
	p.gives(cuda.ErrInvalidDevice, "cuDeviceGetByPCIBusId", p.out, p.text("00:00.0"))

	for setting, want := range map[string]cuda.Result{
		visibleEnv + "=": cuda.ErrNoDevice, visibleEnv + "=2": cuda.ErrNoDevice, visibleEnv + "=1,1": cuda.ErrInvalidDevice, orderEnv + "=bogus": cuda.ErrInvalidDevice,
	} {
		t.Run(setting, func(t *testing.T) {
			t.Setenv(visibleEnv, "0")
			p := newProgramOnTwo(t, setting)
			p.gives(want, "cuInit", 0)
			p.gives(notInitialized, "cuDeviceGetCount", p.out)
		})
	}
}
