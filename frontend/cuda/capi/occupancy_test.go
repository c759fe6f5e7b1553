package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
)

func words(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// h100 is what an H100 answers, as far as occupancy depends on it.
func h100(g *cudatest.GPU) {
	g.Params[drm.ParamComputeMajor], g.Params[drm.ParamComputeMinor] = 9, 0
	g.Params[drm.ParamMultiprocs], g.Params[drm.ParamMaxThreadsSM], g.Params[drm.ParamMaxBlocksSM] = 132, 2048, 32
	g.Params[drm.ParamRegsPerBlock], g.Params[drm.ParamSharedPerBlock] = 64<<10, 227<<10
}

// Blocks that fit on a multiprocessor, by the rules of NVIDIA's occupancy calculation: registers go
// to warps in units of 256, from one of four quarters; shared memory in units of 128 bytes, and
// 1 KiB of each block is the system's.
func TestOccupancy(t *testing.T) {
	p := newProgram(t)
	h100(p.gpu)
	p.lib.Close()
	p = reopened(p)
	fits := func(want, regs, shared uint32, threads, dynamic uint64) {
		t.Helper()
		k := p.gpu.AddKernel("k", nil)
		k.Attributes.Regs, k.Attributes.SharedBytes = regs, shared
		f := p.function("k")
		if want > 0 && dynamic > sharedDefault {
			require.Zero(t, p.word32("cuOccupancyMaxActiveBlocksPerMultiprocessor", f, threads, dynamic), "without asking")
			p.ok("cuFuncSetAttribute", f, funcMaxDynamic, dynamic)
		}
		require.Equal(t, want, p.word32("cuOccupancyMaxActiveBlocksPerMultiprocessor", f, threads, dynamic))
	}
	fits(32, 16, 0, 1, 0)     // the most blocks
	fits(2, 16, 0, 1024, 0)   // the most threads
	fits(2, 16, 0, 1000, 0)   // of which warps are whole
	fits(8, 32, 0, 256, 0)    // 64 warps
	fits(6, 33, 0, 256, 0)    // 40 registers a thread: 12 warps a quarter
	fits(2, 128, 0, 256, 0)   // 4 warps a quarter
	fits(1, 255, 0, 256, 0)   // 2
	fits(4, 168, 0, 96, 0)    // 3 warps a quarter: 12, where 65536 / (168 × 96) is also 4
	fits(3, 100, 0, 160, 0)   // 104 registers: 4 warps a quarter
	fits(4, 16, 0, 32, 48000) // four of 47.875 KiB
	fits(32, 16, 1024, 64, 0) // 2 KiB each, of 228: the most blocks again
	fits(3, 16, 64<<10, 64, 0)
	fits(2, 16, 0, 64, 112<<10) // 113 KiB each
	fits(1, 16, 0, 64, 113<<10+128)
	fits(1, 16, 0, 64, 227<<10)
	fits(0, 16, 1, 64, 227<<10)
	fits(0, 16, 0, 64, 1<<40)
	fits(0, 16, 16, 64, ^uint64(0))
	fits(0, 16, 0, 1025, 0)
}

// reopened is a program that looks at the device as it is now.
func reopened(p *program) *program {
	lib := New(p.lib.cfg)
	p.t.Cleanup(lib.Close)
	q := &program{t: p.t, gpu: p.gpu, mem: new(fakeMemory), thread: 1}
	lib.cfg.Memory = q.mem
	q.lib, q.out = lib, q.mem.Keep(make([]byte, 64))
	q.ok("cuInit", 0)
	q.ok("cuCtxCreate_v2", q.out, 0, 0)
	return q
}

// The software GPU runs one block on a multiprocessor, and counts more registers than there are.
func TestOccupancyOfOneBlock(t *testing.T) {
	p := newProgram(t)
	p.gpu.Params[drm.ParamMaxBlocksSM], p.gpu.Params[drm.ParamMaxThreadsSM] = 1, 1024
	p.lib.Close()
	p = reopened(p)
	k := p.gpu.AddKernel("k", nil)
	k.Attributes.Regs, k.Attributes.MaxThreads, k.Attributes.SharedBytes = 3000, 512, 1024
	f := p.function("k")
	for threads, want := range map[uint64]uint32{1: 1, 32: 1, 512: 1, 513: 0, 1024: 0} {
		require.Equal(t, want, p.word32("cuOccupancyMaxActiveBlocksPerMultiprocessor", f, threads, 0), threads)
	}
	require.EqualValues(t, 1, p.word32("cuDeviceGetAttribute", uint64(cuda.AttributeMaxBlocksPerMultiprocessor), 0))
	p.ok("cuOccupancyMaxPotentialBlockSize", p.out, p.out+8, f, 0, 0, 0)
	require.EqualValues(t, 4, uint32(p.word(p.out))) // one for each multiprocessor
	require.EqualValues(t, 512, uint32(p.word(p.out+8)))
	require.EqualValues(t, 47<<10, p.word64("cuOccupancyAvailableDynamicSMemPerBlock", f, 1, 512))
	p.gives(cuda.ErrInvalidValue, "cuOccupancyAvailableDynamicSMemPerBlock", p.out, f, 2, 64)

	// Attributes of a function are of use where they can be: registers that a thread can have, and
	// the shared memory that it has without asking.
	attribute := func(a uint64) int32 { return int32(p.word32("cuFuncGetAttribute", a, f)) }
	require.EqualValues(t, maxRegs, attribute(funcRegs))
	require.EqualValues(t, 47<<10, attribute(funcMaxDynamic))
	require.EqualValues(t, noCarveout, attribute(funcCarveout))
	p.ok("cuFuncSetAttribute", f, funcMaxDynamic, 0)
	p.ok("cuFuncSetAttribute", f, funcCarveout, 50)
	require.Zero(t, attribute(funcMaxDynamic))
	require.EqualValues(t, 50, attribute(funcCarveout))
	for attribute, value := range map[uint64]int64{funcMaxDynamic: 48 << 10, funcCarveout: 101, funcRegs: 1, 99: 0} {
		p.gives(cuda.ErrInvalidValue, "cuFuncSetAttribute", f, attribute, uint64(value))
	}
	p.gives(cuda.ErrInvalidValue, "cuFuncSetAttribute", f, funcMaxDynamic, ^uint64(0))
	p.gives(cuda.ErrInvalidValue, "cuFuncSetAttribute", f, funcClusterMustBeSet, 1)
	p.gives(cuda.ErrInvalidValue, "cuFuncGetAttribute", p.out, funcLast+1, f)
}

// What kernels have without asking is 48 KiB, however much there is.
func TestSharedMemoryAttributes(t *testing.T) {
	p := newProgram(t)
	h100(p.gpu)
	p.lib.Close()
	p = reopened(p)
	for attribute, want := range map[uint64]uint32{8: 48 << 10, attrSharedOptin: 227 << 10, attrSharedPerMultiprocessor: 228 << 10, attrSharedReserved: 1 << 10,
		attrSyncDomains: 4} {
		require.Equal(t, want, p.word32("cuDeviceGetAttribute", attribute, 0), attribute)
	}
	k := p.gpu.AddKernel("k", nil)
	k.Attributes.SharedBytes = 1024
	f := p.function("k")
	require.EqualValues(t, 47<<10, p.word32("cuFuncGetAttribute", funcMaxDynamic, f))
	p.ok("cuFuncSetAttribute", f, funcMaxDynamic, 226<<10)
	require.EqualValues(t, 226<<10, p.word32("cuFuncGetAttribute", funcMaxDynamic, f))
	p.gives(cuda.ErrInvalidValue, "cuFuncSetAttribute", f, funcMaxDynamic, 226<<10+1)
	k = p.gpu.AddKernel("static", nil)
	k.Attributes.SharedBytes = 100 << 10
	require.EqualValues(t, 127<<10, p.word32("cuFuncGetAttribute", funcMaxDynamic, p.function("static")), "more than 48 KiB anyway")
}

// A launch has no more dynamic shared memory than its kernel asked for, less than 48 KiB too; occupancy
// counts 48 KiB in any case. So answers an H100 (driver 580).
func TestSharedMemoryHasToBeAskedFor(t *testing.T) {
	p := newProgram(t)
	h100(p.gpu)
	p.gpu.Params[drm.ParamCooperative] = 1
	p.lib.Close()
	p = reopened(p)
	p.gpu.AddKernel("k", func(*cudatest.File, []byte) *cudatest.Fault { return nil })
	f := p.function("k")
	launch := func(name string, dynamic uint64) cuda.Result {
		return p.call(name, f, 1, 1, 1, 32, 1, 1, dynamic, 0, 0, 0)
	}
	require.Equal(t, cuda.Success, launch("cuLaunchKernel", 48<<10))
	require.Equal(t, cuda.ErrInvalidValue, launch("cuLaunchKernel", 48<<10+1))
	require.Equal(t, cuda.ErrCooperativeTooLarge, launch("cuLaunchCooperativeKernel", 48<<10+1))
	for _, asked := range []uint64{100, 50000, 227 << 10} {
		p.ok("cuFuncSetAttribute", f, funcMaxDynamic, asked)
		require.Equal(t, cuda.Success, launch("cuLaunchKernel", asked))
		require.Equal(t, cuda.Success, launch("cuLaunchCooperativeKernel", asked))
		require.Equal(t, cuda.ErrInvalidValue, launch("cuLaunchKernel", asked+1))
		require.Positive(t, p.word32("cuOccupancyMaxActiveBlocksPerMultiprocessor", f, 32, 48<<10))
	}
}
