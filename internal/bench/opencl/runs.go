package opencl

import (
	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/bench/clang"
	"pvdrm/internal/suite"
)

// Runs says whether PoCL can run a program: OpenCL C has words for all that its kernels do.
func Runs(program string) bool {
	b, err := suite.Find(program)
	return err == nil && !b.Instructions
}

// variants are the libraries of functions of distributions' builds of PoCL, each for processors with vectors as wide.
var variants = map[ptxexec.ISA]string{ptxexec.AVX512: "avx512", ptxexec.AVX2: "avx2", ptxexec.Plain: "sse41"}

// Width is the environment in which PoCL compiles for a processor with the instructions given. Builds of distributions
// choose a processor by their library of functions and do not look at its name.
func Width(isa ptxexec.ISA) []string {
	return []string{"POCL_LLVM_CPU_NAME=" + clang.Processors[isa], "POCL_KERNELLIB_NAME=" + variants[isa]}
}
