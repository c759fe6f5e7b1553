package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// Calls check flags and numbers that have no effect here: a program that asks for what there is
// not is told so, as NVIDIA's manual says.
func TestFlagsAreChecked(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	f := p.function("add")
	event := p.word64("cuEventCreate", 0)
	managed, _ := p.managed()
	code, own := p.text("kernel add"), p.mem.Keep(make([]byte, 64))
	const gpuLocation, hostLocation, otherGPU = locationDevice, locationHost, locationDevice | 1<<32
	p.gives(cuda.ErrInvalidValue, "cuInit", 1)
	p.gives(cuda.ErrInvalidValue, "cuCtxSetFlags", 0x100)
	p.gives(cuda.ErrInvalidValue, "cuCtxSetFlags", 3)
	p.gives(cuda.Success, "cuCtxSetFlags", 4|8|0x10)
	p.gives(cuda.ErrInvalidValue, "cuDevicePrimaryCtxSetFlags_v2", 0, 5)
	p.gives(cuda.ErrInvalidValue, "cuCtxCreate_v2", p.out, 6, 0)
	p.gives(cuda.ErrInvalidValue, "cuEventCreate", p.out, 8)
	p.gives(cuda.ErrNotSupported, "cuEventCreate", p.out, eventInterprocess|eventDisableTiming)
	p.gives(cuda.Success, "cuEventRecordWithFlags", event, 0, 0)
	p.gives(illegalState, "cuEventRecordWithFlags", event, 0, eventExternal)
	p.gives(cuda.ErrInvalidValue, "cuEventRecordWithFlags", event, 0, 2)
	p.gives(cuda.Success, "cuStreamWaitEvent", 0, event, 0)
	p.gives(illegalState, "cuStreamWaitEvent", 0, event, eventExternal)
	p.gives(cuda.ErrInvalidValue, "cuStreamWaitEvent", 0, event, 2)
	p.gives(cuda.ErrInvalidValue, "cuStreamAddCallback", 0, 0x1234, 0, 1)
	p.gives(cuda.ErrInvalidValue, "cuStreamCreate", p.out, 2)
	p.gives(cuda.ErrInvalidValue, "cuMemHostAlloc", p.out, 64, 8)
	p.gives(cuda.ErrInvalidValue, "cuMemHostRegister_v2", own, 64, 0x10)
	p.gives(cuda.ErrInvalidValue, "cuMemHostRegister_v2", own, 64, registerIOMemory)
	p.gives(cuda.ErrInvalidValue, "cuMemAllocManaged", p.out, 64, 3)
	p.gives(cuda.ErrInvalidValue, "cuMemAdvise", managed, 4096, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemAdvise", managed, 4096, 7, 0)
	p.gives(cuda.ErrInvalidDevice, "cuMemAdvise", managed, 4096, 5, 1)
	p.gives(cuda.Success, "cuMemAdvise", managed, 4096, 1, 1) // has no device
	p.gives(cuda.Success, "cuMemAdvise", managed, 4096, 5, 0xffffffff)
	p.gives(cuda.Success, "cuMemAdvise_v2", managed, 4096, 3, gpuLocation)
	p.gives(cuda.Success, "cuMemAdvise_v2", managed, 4096, 3, hostLocation)
	p.gives(cuda.ErrInvalidValue, "cuMemAdvise_v2", managed, 4096, 3, otherGPU)
	p.gives(cuda.ErrInvalidValue, "cuMemAdvise_v2", managed, 4096, 3, 0)
	p.gives(cuda.ErrInvalidDevice, "cuMemPrefetchAsync", managed, 4096, 1, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemPrefetchAsync_v2", managed, 4096, gpuLocation, 1, 0)
	p.gives(cuda.Success, "cuMemPrefetchAsync_v2", managed, 4096, gpuLocation, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemPrefetchAsync_v2", managed, 4096, 9, 0, 0)
	p.gives(cuda.Success, "cuStreamAttachMemAsync", 0, managed, 0, attachGlobal)
	p.gives(cuda.ErrInvalidValue, "cuStreamAttachMemAsync", 0, managed, 0, attachSingle) // the null stream
	p.gives(cuda.ErrInvalidValue, "cuStreamAttachMemAsync", 0, managed, 0, 3)
	p.gives(cuda.ErrInvalidValue, "cuFuncSetCacheConfig", f, 4)
	p.gives(cuda.Success, "cuFuncSetCacheConfig", f, 3)
	p.gives(cuda.ErrInvalidValue, "cuFuncSetSharedMemConfig", f, 3)
	p.gives(cuda.ErrInvalidValue, "cuCtxSetCacheConfig", 4)
	p.gives(cuda.ErrInvalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", p.out, f, 32, 0, 2)
	p.gives(cuda.ErrInvalidValue, "cuOccupancyMaxPotentialBlockSizeWithFlags", p.out, p.out, f, 0, 0, 0, 2)
	p.gives(cuda.ErrInvalidDevice, "cuKernelGetAttribute", p.out, 0, f, 1)
	p.gives(cuda.ErrInvalidDevice, "cuKernelSetAttribute", funcMaxDynamic, 0, f, 1)
	p.gives(cuda.ErrInvalidDevice, "cuKernelSetCacheConfig", f, 0, 1)
	p.gives(cuda.ErrInvalidValue, "cuModuleLoadDataEx", p.out, code, 1, p.halves(jitOptionCount), p.words(0))
	p.gives(cuda.ErrInvalidValue, "cuLibraryLoadData", p.out, code, p.halves(jitOptionCount), p.words(0), 1, 0, 0, 0)
	p.gives(cuda.Success, "cuLibraryLoadData", p.out, code, 0, 0, 0, p.halves(libraryPreserved), p.words(1), 1)
	p.gives(cuda.ErrInvalidValue, "cuLibraryLoadData", p.out, code, 0, 0, 0, p.halves(libraryOptionCount), p.words(0), 1)
	p.gives(cuda.ErrNotSupported, "cuLibraryLoadData", p.out, code, 0, 0, 0, p.halves(libraryUniversalTable), p.words(0), 1)
	p.gives(cuda.ErrInvalidValue, "cuLibraryLoadData", p.out, code, 0, 0, 0, 0, 0, maxLibraryOptions+1)
	p.gives(cuda.ErrInvalidValue, "cuLibraryLoadFromFile", p.out, p.text("/dev/null"), 0, 0, 0, p.halves(libraryPreserved), p.words(1), 1)
}

// Attributes of a launch that say more than a hint are refused, and unknown ones, too: those of a
// newer CUDA may change what the launch means.
func TestLaunchAttributes(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	f, memory := p.function("add"), p.word64("cuMemAlloc_v2", 64)
	arguments := p.words(p.words(memory), p.halves(16), p.halves(1))
	launch := func(want cuda.Result, attribute, value uint32) {
		t.Helper()
		attributes := make([]uint32, launchAttributeBytes/4)
		attributes[0], attributes[2] = attribute, value
		if attribute == launchCluster {
			attributes[3], attributes[4] = 1, 1
		}
		config := p.halves(1, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
		require.NoError(t, p.mem.Write(config+40, words(p.halves(attributes...), 1)))
		p.gives(want, "cuLaunchKernelEx", config, f, arguments, 0)
	}
	launch(cuda.Success, 0, 0)
	launch(cuda.Success, launchCooperative, 0)
	launch(cuda.Success, launchCooperative, 1)
	launch(cuda.Success, launchCluster, 1)
	launch(cuda.ErrInvalidClusterSize, launchCluster, 2)
	launch(cuda.Success, launchDependent, 1)
	launch(cuda.ErrNotSupported, launchEvent, 0)
	launch(cuda.ErrNotSupported, launchDone, 0)
	launch(cuda.ErrNotSupported, launchUpdatable, 1)
	launch(cuda.ErrInvalidValue, launchUnused, 0)
	launch(cuda.ErrInvalidValue, launchWaiting, 0)
	launch(cuda.ErrInvalidValue, launchWaiting, 1)
	launch(cuda.ErrInvalidValue, launchLast+1, 0)
	launch(cuda.Success, launchSignal, 0)
	launch(cuda.ErrInvalidValue, launchSignal+1, 0)
}

// What there is not is so only for a program that has called cuInit.
func TestUnsupportedCallsBeforeInit(t *testing.T) {
	p := newProgram(t)
	fresh := &program{t: t, gpu: p.gpu, mem: p.mem, lib: New(p.lib.cfg), thread: 1, out: p.out}
	for _, name := range []string{"cuGraphCreate", "cuStreamBeginCapture_v2", "cuArrayCreate_v2", "cuCtxSynchronize"} {
		fresh.gives(notInitialized, name)
	}
	fresh.ok("cuDriverGetVersion", p.out)
}

// What has no handler is refused, whatever its arguments.
func TestUnsupportedCalls(t *testing.T) {
	p := newProgramInContext(t)
	for _, s := range symbols {
		if s.entry.do == nil {
			p.gives(cuda.ErrNotSupported, s.Name, p.out, p.out, p.out, p.out, p.out)
		}
	}
}

// A thread's mode of capture is its own, and comes back as it was set.
func TestCaptureMode(t *testing.T) {
	p := newProgramInContext(t)
	mode := p.halves(2)
	other := p.on(2)
	for _, want := range []uint32{0, 2, 1} {
		p.ok("cuThreadExchangeStreamCaptureMode", mode)
		require.Equal(t, want, uint32(p.word(mode)))
		require.NoError(t, p.mem.Write(mode, []byte{byte(want+1) % 3}))
		if want == 0 {
			require.NoError(t, p.mem.Write(mode, []byte{1}))
		}
	}
	theirs := p.halves(1)
	other.ok("cuThreadExchangeStreamCaptureMode", theirs)
	require.Zero(t, uint32(p.word(theirs)))
	p.gives(cuda.ErrInvalidValue, "cuThreadExchangeStreamCaptureMode", p.halves(3))
}
