package opencl

import "pvdrm/internal/suite"

// Runs says whether PoCL can run a program: OpenCL C has words for all that its kernels do.
func Runs(program string) bool {
	b, err := suite.Find(program)
	return err == nil && !b.Instructions
}
