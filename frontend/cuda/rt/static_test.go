package rt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithStatic(t *testing.T) {
	path := filepath.Join(t.TempDir(), StaticLibrary)
	require.Equal(t, []string{"A=b"}, WithStatic([]string{"A=b"}, path), "there is no such file")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.Equal(t, []string{"A=b", "LD_AUDIT=" + path}, WithStatic([]string{"A=b"}, path))
	require.Equal(t, []string{"LD_AUDIT=" + path}, WithStatic([]string{"LD_AUDIT="}, path))
	// The last one counts, and it is kept.
	env := []string{"LD_AUDIT=/first.so", "A=b", "LD_AUDIT=/of/the/user.so:/too.so"}
	once := WithStatic(env, path)
	require.Equal(t, []string{"A=b", "LD_AUDIT=/of/the/user.so:/too.so:" + path}, once)
	require.Equal(t, once, WithStatic(once, path))
	require.Len(t, env, 3)
	require.Equal(t, "LD_AUDIT=/first.so", env[0], "the caller's stays as it was")
}

func TestWithLineInfo(t *testing.T) {
	require.Equal(t, []string{"A=b", "NVCC_APPEND_FLAGS=-lineinfo"}, WithLineInfo([]string{"A=b"}))
	env := []string{"NVCC_APPEND_FLAGS=-O0", "A=b", "NVCC_APPEND_FLAGS=-O1"}
	once := WithLineInfo(env)
	require.Equal(t, []string{"A=b", "NVCC_APPEND_FLAGS=-O1 -lineinfo"}, once, "the last one counts")
	require.Equal(t, once, WithLineInfo(once))
	for _, stays := range []string{"", "-G", "-O3 --generate-line-info"} {
		env := []string{"NVCC_APPEND_FLAGS=" + stays}
		require.Equal(t, env, WithLineInfo(env))
	}
}

func TestWithKernelCache(t *testing.T) {
	require.Equal(t, []string{"A=b", "CUPY_CACHE_DIR=/c/pvdrm/cupy"}, WithKernelCache([]string{"A=b"}, "/c"))
	for _, v := range []string{"CUPY_CACHE_DIR=", "CUPY_CACHE_DIR=/mine"} {
		require.Equal(t, []string{v}, WithKernelCache([]string{v}, "/c"))
	}
	require.Equal(t, []string{"A=b"}, WithKernelCache([]string{"A=b"}, ""), "the user has no home")
}

func TestWithTriton(t *testing.T) {
	require.Equal(t, []string{"A=b", "TRITON_LIBCUDA_PATH=/lib/pvdrm"}, WithTriton([]string{"A=b"}, "/lib/pvdrm"))
	require.Equal(t, []string{"A=b", "NCCL_CUMEM_ENABLE=0", "NCCL_P2P_LEVEL=SYS"}, WithNCCL([]string{"A=b"}))
	require.Equal(t, []string{"NCCL_CUMEM_ENABLE=1", "NCCL_P2P_LEVEL=LOC"}, WithNCCL([]string{"NCCL_CUMEM_ENABLE=1", "NCCL_P2P_LEVEL=LOC"}))
	mine := []string{"TRITON_LIBCUDA_PATH=/mine"}
	require.Equal(t, mine, WithTriton(mine, "/lib/pvdrm"))
}
