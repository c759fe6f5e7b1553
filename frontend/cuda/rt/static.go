package rt

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// StaticLibrary leads the calls of NVIDIA's static CUDA runtime within a program to
// libcudart.so beside it; see frontend/cuda/rt/static.
const StaticLibrary = "libpvdrm-static.so"

// StubsEnv, if it is set to 1, has the StaticLibrary give programs PVDRM's libraries of the names of cuBLAS, cuDNN
// and others, which lie in cuda-libs below its directory (docs/cuda-libraries.md).
const StubsEnv = "PVDRM_CUDA_STUBS"

// WithStatic returns an environment in which the loader uses the StaticLibrary at a
// path, after the auditors that the environment has. It returns env as it is where
// there is no such file.
func WithStatic(env []string, path string) []string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return env
	}
	const name = "LD_AUDIT="
	all := path
	for _, v := range slices.Backward(env) { // the last one counts
		before, ok := strings.CutPrefix(v, name)
		if !ok {
			continue
		}
		if slices.Contains(strings.Split(before, ":"), path) {
			return env
		}
		if before != "" {
			all = before + ":" + path
		}
		break
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name) })
	return append(env, name+all)
}

// nvccFlags is the variable whose flags nvcc adds to those of its command line. With lineInfo,
// machine code has the PTX beside it that it was made from, so programs that run nvcc and load its
// cubin (PyCUDA) run on a device that takes PTX. See docs/cuda-programs.md, "Python".
const (
	nvccFlags = "NVCC_APPEND_FLAGS"
	lineInfo  = "-lineinfo"
)

// WithLineInfo returns an environment in which nvcc adds PTX to machine code. An empty variable
// stays as it is: so a user switches that off.
func WithLineInfo(env []string) []string {
	with := nvccFlags + "=" + lineInfo
	for _, v := range slices.Backward(env) { // the last one counts
		flags, ok := strings.CutPrefix(v, nvccFlags+"=")
		if !ok {
			continue
		}
		if flags == "" || slices.ContainsFunc(strings.Fields(flags), isLineInfo) {
			return env
		}
		with = v + " " + lineInfo
		break
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, nvccFlags+"=") })
	return append(env, with)
}

// isLineInfo reports whether a flag of nvcc makes it add PTX to machine code, or stands against one that does.
func isLineInfo(flag string) bool {
	return slices.Contains([]string{lineInfo, "--generate-line-info", "-G", "--device-debug"}, flag)
}

// cupyCache names the folder of CuPy's compiled kernels.
const cupyCache = "CUPY_CACHE_DIR"

// WithKernelCache returns an environment in which CuPy keeps its kernels in a folder below dir, where those that it
// compiled for a real GPU are not: these are machine code without PTX. A folder that the user has named stays.
func WithKernelCache(env []string, dir string) []string {
	if dir == "" {
		return env
	}
	return withDefault(env, cupyCache, filepath.Join(dir, "pvdrm", "cupy"))
}

// tritonLibrary names the folder in which Triton finds libcuda.so.1.
const tritonLibrary = "TRITON_LIBCUDA_PATH"

// WithTriton returns an environment in which Triton links what it compiles with the libcuda.so.1 in a folder. It
// looks in the loader's cache otherwise, which has none on a machine without NVIDIA's driver. A folder that the
// user has named stays.
func WithTriton(env []string, dir string) []string {
	return withDefault(env, tritonLibrary, dir)
}

// ncclMemory has NCCL make memory by cuMemCreate, with descriptors for other processes.
const ncclMemory = "NCCL_CUMEM_ENABLE"

// ncclPeers says how far apart two devices may be for NCCL to have one reach the other's memory.
const ncclPeers = "NCCL_P2P_LEVEL"

// WithNCCL returns an environment in which NCCL allocates by cudaMalloc, unless the user has chosen: it does not ask
// whether a device makes memory that has descriptors, and gives up where one refuses that. Devices reach each other's
// memory where they say so, however far apart the buses are on which they seem to be.
func WithNCCL(env []string) []string {
	return withDefault(withDefault(env, ncclMemory, "0"), ncclPeers, "SYS")
}

// withDefault adds a variable, unless it is set.
func withDefault(env []string, name, value string) []string {
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
		return env
	}
	return append(slices.Clip(env), name+"="+value)
}

// WithCompilers returns an environment in which what is compiled at run time has PTX: WithLineInfo, and
// WithKernelCache below the user's folder for caches.
func WithCompilers(env []string) []string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "" // there is no home
	}
	return WithKernelCache(WithLineInfo(env), dir)
}
