package capi

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/missing"
)

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
