//go:build goexperiment.simd && amd64

package lane

import "simd/archsimd"

func init() {
	if !archsimd.X86.AVX2() || !archsimd.X86.FMA() {
		return
	}
	Vectors = true
	for key, fn := range simdAccesses {
		AccessFuncs[key] = fn
	}
	for key, fn := range simdElements {
		ElementFuncs[key] = fn
	}
	addProducts, addIntegers, gatherHalvesA, gatherHalvesB = addVector, integersVector, halvesA, halvesB
	decodeF32, encodeSums = decodeVector, encodeVector
	blend32, blend64 = blendW, blendQ
	fill32, fill64 = fillW, fillQ
}
