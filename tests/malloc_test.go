package tests

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/softgpu"
)

// heapPTX is a kernel that stores what malloc gives it.
const heapPTX = `.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 n);
.visible .entry take(.param .u64 out, .param .u64 n)
{
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [out]; ld.param.u64 %d2, [n];
	{ .param .b64 q; .param .b64 s; st.param.b64 [s], %d2; call.uni (q), malloc, (s); ld.param.b64 %d3, [q]; }
	st.global.u64 [%d1], %d3;
	ret;
}
` + "\x00"

const heapLimit = 2 // CU_LIMIT_MALLOC_HEAP_SIZE

// takes returns what malloc of n bytes in a kernel gives.
func (p *driverProgram) takes(kernel, n uint64) uint64 {
	out := p.handle("cuMemAlloc_v2", 8)
	arguments := p.mem.Keep(words(p.mem.Keep(words(out)), p.mem.Keep(words(n))))
	p.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0)
	p.call("cuMemcpyDtoH_v2", p.out, out, 8)
	return p.mem.Word(p.out)
}

// TestHeapLimit sets the heap of malloc from a program, and has kernels find it.
func TestHeapLimit(t *testing.T) {
	for _, limit := range []uint64{0, 1 << 20, 64 << 20} {
		p := startHost(t, softgpu.Config{SMs: 1}).driverProgram(t)
		size := uint64(8 << 20)
		if limit != 0 {
			p.call("cuCtxSetLimit", heapLimit, limit)
			size = limit
		}
		require.Equal(t, size, p.handle("cuCtxGetLimit", heapLimit))
		module := p.handle("cuModuleLoadData", p.mem.Keep([]byte(heapPTX)))
		require.Equal(t, cuda.ErrInvalidValue, p.result("cuCtxSetLimit", heapLimit, 3<<20))
		kernel := p.handle("cuModuleGetFunction", module, p.mem.Keep([]byte("take\x00")))
		require.Zero(t, p.takes(kernel, 2*size))
		require.NotZero(t, p.takes(kernel, size))
		require.Zero(t, p.takes(kernel, size), "it was the only one")
		p.call("cuModuleUnload", module)
		module = p.handle("cuModuleLoadData", p.mem.Keep([]byte(heapPTX)))
		kernel = p.handle("cuModuleGetFunction", module, p.mem.Keep([]byte("take\x00")))
		require.Zero(t, p.takes(kernel, size), "the heap outlives the module")
	}
	p := startHost(t, softgpu.Config{SMs: 1}).driverProgram(t)
	require.Equal(t, cuda.ErrOutOfMemory, p.result("cuCtxSetLimit", heapLimit, 1<<40))
	p.call("cuCtxSetLimit", heapLimit, 240<<20)
	require.Equal(t, cuda.ErrOutOfMemory, p.result("cuModuleLoadData", p.out, p.mem.Keep([]byte(heapPTX))), "it does not fit")
}
