package exec

import (
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lane"
)

// ISA names what the engine uses of the processor. GODEBUG (cpu.avx512f=off, cpu.avx2=off, cpu.sse42=off) can
// take instructions away from it.
type ISA string

const (
	AVX512 ISA = "avx512" // kernels that run often are compiled, to vectors of 512 bits
	AVX2   ISA = "avx2"   // to pairs of vectors of 256 bits
	Plain  ISA = "plain"  // to vectors of 128 bits, of x86-64-v2; without SSE4.2, all are interpreted, lane by lane
)

// UseISA makes the process compile for an ISA kernels that are launched for the first time from now
// on, and reports whether the processor has it. Tests use it to run all of them on one machine.
func UseISA(isa ISA) bool {
	return jit.Use(map[ISA]jit.ISA{AVX512: jit.AVX512, AVX2: jit.AVX2, Plain: jit.Plain}[isa])
}

// InUse returns what this process uses.
func InUse() ISA {
	switch {
	case jit.NativeCode() == nil:
		return ISA(jit.InUse().String())
	case lane.Vectors:
		return AVX2
	}
	return Plain
}
