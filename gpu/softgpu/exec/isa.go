package exec

import (
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lane"
)

// ISA names what the engine uses of the processor. GODEBUG (cpu.avx512f=off, cpu.avx2=off) can
// take instructions away from it.
type ISA string

const (
	AVX512 ISA = "avx512" // kernels that run often are compiled
	AVX2   ISA = "avx2"   // interpreted, several lanes at once
	Plain  ISA = "plain"  // interpreted, lane by lane
)

// InUse returns what this process uses.
func InUse() ISA {
	switch {
	case jit.NativeCode() == nil:
		return AVX512
	case lane.Vectors:
		return AVX2
	}
	return Plain
}
