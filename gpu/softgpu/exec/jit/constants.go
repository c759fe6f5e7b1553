//go:build amd64 && linux

package jit

import (
	"fmt"
	"math"
	"slices"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// double is where a constant lies, f64 where one of float64 does, and word one of 32 bits.
func double(bits uint64) x86.Mem {
	i := slices.Index(theDoubles, bits)
	if i < 0 {
		panic(fmt.Sprintf("exec: native code has no constant %#x", bits)) // a bug of this package
	}
	return constant(offDoubles + 8*int32(i))
}

func f64(x float64) x86.Mem { return double(math.Float64bits(x)) }

func word(bits uint32) x86.Mem {
	i := slices.Index(theWords, bits)
	if i < 0 {
		panic(fmt.Sprintf("exec: native code has no constant %#x", bits)) // a bug of this package
	}
	return constant(offWords + 4*int32(i))
}
