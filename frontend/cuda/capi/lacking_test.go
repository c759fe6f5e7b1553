package capi

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
	"pvdrm/internal/missing"
)

// A kernel that uses registered memory is told of as something that PVDRM lacks, once.
func TestLackingRegisteredMemory(t *testing.T) {
	at, strange := uint64(0), uint64(0)
	for _, own := range []bool{true, false} {
		c, err := missing.Listen(filepath.Join(t.TempDir(), "s"))
		require.NoError(t, err)
		t.Setenv(missing.Env, c.Address())
		p := newProgramInContext(t)
		at, strange = p.mem.Keep(make([]byte, 64)), p.mem.Keep(make([]byte, 64))
		p.gpu.AddKernel("fault", func(*cudatest.File, []byte) *cudatest.Fault {
			if own {
				return &cudatest.Fault{Cause: 1, Addr: at + 8}
			}
			return &cudatest.Fault{Cause: 1, Addr: strange}
		})
		p.ok("cuMemHostRegister_v2", at, 64, 0)
		p.gives(cuda.ErrNotSupported, "cuMemHostGetDevicePointer_v2", p.out, at, 0)
		p.ok("cuLaunchKernel", p.function("fault"), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
		for range 2 {
			p.gives(cuda.ErrIllegalAddress, "cuCtxSynchronize")
		}
		r := c.Close()
		if !own {
			require.Len(t, r.Lines, 1)
			continue
		}
		require.Len(t, r.Lines, 2)
		require.Regexp(t, `^cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: 0x[0-9a-f]+ is memory of cuMemHostRegister, which the device cannot map`, r.Lines[1])
	}
}

// What PVDRM lacks is told to what started the program, and mistakes of the program are not.
func TestLacking(t *testing.T) {
	c, err := missing.Listen(filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	t.Setenv(missing.Env, c.Address())
	p := newProgramInContext(t)
	for range 3 {
		p.gives(cuda.ErrNotSupported, "cuGreenCtxCreate", 0, 0, 0, 0)
	}
	p.gives(cuda.ErrInvalidPTX, "cuModuleLoadData", p.out, p.text("nonsense\nin two lines"))
	p.gives(noBinaryForGPU, "cuModuleLoadData", p.out, p.text("\x7fELF"))
	p.gives(cuda.ErrInvalidValue, "cuMemAlloc_v2", 0, 16)
	p.gives(cuda.ErrNotFound, "cuGetExportTable", p.out, p.words(1, 2))
	p.gives(cuda.ErrNotFound, "cuGetProcAddress", p.text("cuNothing"), p.out, 12000, 0)
	r := c.Close()
	require.Zero(t, r.More)
	require.Len(t, r.Lines, 4)
	require.Equal(t, "cuGreenCtxCreate: CUDA_ERROR_NOT_SUPPORTED: PVDRM has no cuGreenCtxCreate", r.Lines[0])
	require.Regexp(t, `^cuModuleLoadData: CUDA_ERROR_INVALID_PTX: [^\n]*nonsense`, r.Lines[1])
	require.Regexp(t, `^cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU: .*code=compute_XX, or -lineinfo\)$`, r.Lines[2])
	require.Regexp(t, `^cuGetExportTable: CUDA_ERROR_NOT_FOUND: private table 01000000000000000200000000000000$`, r.Lines[3])
}

// The first module without PTX is told of at once, for libraries that do not look at errors of launches.
func TestRefusedModuleIsSaid(t *testing.T) {
	p := newProgramInContext(t)
	var said []string
	p.lib.cfg.Logf = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	p.lib.logErrs, p.lib.logAll = false, false
	for range 2 {
		p.gives(noBinaryForGPU, "cuModuleLoadData", p.out, p.text("\x7fELF"))
	}
	require.Len(t, said, 1)
	require.Contains(t, said[0], "kernels of the program do not run: cuModuleLoadData: the image has machine code of NVIDIA's only")
}
