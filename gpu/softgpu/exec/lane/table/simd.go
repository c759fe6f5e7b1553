//go:build goexperiment.simd && amd64

package table

import "simd/archsimd"

// Where the processor can, rows compute several lanes at once.
func init() {
	if !archsimd.X86.AVX2() || !archsimd.X86.FMA() {
		return
	}
	for key, fn := range simdLanes {
		row := Lanes[key]
		row.Fn = fn
		Lanes[key] = row
	}
	for key, fn := range simdCompares {
		row := Compares[key]
		row.Fn = fn
		Compares[key] = row
	}
}
