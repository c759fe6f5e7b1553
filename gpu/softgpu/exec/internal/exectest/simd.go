//go:build goexperiment.simd && amd64

package exectest

import (
	"simd/archsimd"
	"testing"
)

func NeedSIMD(t testing.TB) {
	if !archsimd.X86.AVX2() || !archsimd.X86.FMA() {
		t.Skip("the processor lacks AVX2 or FMA: the portable functions are in use")
	}
}
