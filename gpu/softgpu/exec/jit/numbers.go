package jit

import (
	"math"
	"slices"

	"pvdrm/gpu/softgpu/exec/tlb"
)

// The constants of approximations, as in Go's package math, whose results these are
// bit for bit: exp.go, log.go and sin.go, which follow FreeBSD's and Cephes's.
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
	pi4A  = 7.85398125648498535156e-1
	pi4B  = 3.77489470793079817668e-8
	pi4C  = 2.69515142907905952645e-15
)

var (
	expSeries = []float64{4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05,
		-2.77777777770155933842e-03, 1.66666666666666657415e-01}
	logOdd  = []float64{1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01}
	logEven = []float64{1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01}
	sines   = []float64{1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
		-1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1}
	cosines = []float64{-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
		2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2}
)

// wideNaN is the NaN of f32 arithmetic, as a float64.
const wideNaN = 0x7fffffffe0000000

// minNormal is the smallest normal float32. A number below flushLimit is below it after
// rounding to 24 bits with any exponent.
const (
	minNormal  = 0x1p-126
	flushLimit = 0x1p-126 - 0x1p-151
)

// theDoubles and theWords are the constants of operations, by their bits.
var (
	theDoubles = doubleBits(slices.Concat([]float64{1, 2, 0.5, -1, 1000, -1000, ln2Hi, -ln2Lo, ln2Lo, math.Sqrt2 / 2, 1 / math.Ln2,
		4 / math.Pi, 0x1p-32, overHalf, two52, pi4A, pi4B, pi4C, 1 << 52, 1 << 29, flushLimit, minNormal, 1 << 31, 1 << 63, 1 << 64}, expSeries, logOdd, logEven, sines, cosines),
		tlb.SharedBase, 1, 2, 1<<51, 1<<63, 1<<63-1, 0xffffffff, 0xffffffff<<32, 0xfff8<<48, wideNaN, (tableSites-1)<<siteBits, 48, 56, 63, 64, 0xffff, math.Float64bits(two52))
	theWords = []uint32{0, 1, 3, 31, 32, 0xff, 0xffff, 0x7fff, 0x8000, 0x7fc00000, 0x00800000, 0x7f800000, 0xff800000, 0x3f800000, 1 << 31,
		0x4e000000, 0x55555555, 0x33333333, 0x0f0f0f0f, 0x01010101, 0x03030303, 0x04040404, 0x80808080, 0xf0, 0xf00, 0xf000, 0xf, 0x007fffff, 1023 + 31,
		0x77800000, 0x0f800000, 0xc8000fff, 0x38800000, 0x3f000000, 0x47800000, 0x7c00, 0x00ff00ff,
		63, 64, 0x3c00, 0x3f80, 0x7f80, 0xfff, 1 << 12, 1 << 13, 0x7fffe000, 0x7f, 0x80, 0x7b800000, 0x46800000, 0x3c800000,
		0x43000000, 0x7e, 0x7b, (0x7ffff - 120<<23) & (1<<32 - 1), (0xfffff - 112<<23) & (1<<32 - 1), 0x80008000, 0x7fff0000, 0xffff0000, 0xffffe000, 0x7c007c00, 0x04000400, leastFactor, factorRange, leastSum, sumRange, 25 << 23, 279 << 23 & (1<<32 - 1)}
)

func doubleBits(list []float64, more ...uint64) (bits []uint64) {
	for _, x := range list {
		bits = append(bits, math.Float64bits(x))
	}
	return append(bits, more...)
}
