package ref

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/gpu/ptx"
)

// doubles and singles draw bits of all kinds: near each other, near the ends of
// the exponents, special ones.
func doubles() *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		fraction := rapid.Uint64().Draw(t, "fraction") & (1<<52 - 1) >> rapid.IntRange(0, 52).Draw(t, "shift")
		exp := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(1000, 1050), rapid.Uint64Range(0, 2047)).Draw(t, "exponent")
		return rapid.Uint64Range(0, 1).Draw(t, "sign")<<63 | exp<<52 | fraction
	})
}

func singles() *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		fraction := rapid.Uint64().Draw(t, "fraction") & (1<<23 - 1) >> rapid.IntRange(0, 23).Draw(t, "shift")
		exp := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(120, 140), rapid.Uint64Range(0, 255)).Draw(t, "exponent")
		return rapid.Uint64Range(0, 1).Draw(t, "sign")<<31 | exp<<23 | fraction
	})
}

// Formats of 4 and 6 bits: their numbers, and what is half way between them.
func TestSmallFormats(t *testing.T) {
	for n, want := range []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6} {
		x := e2m1.decode(uint64(n))
		require.Equal(t, math.Float64bits(want), double.encode(x, ptx.RN), n)
	}
	require.Equal(t, math.Float64bits(7.5), double.encode(e2m3.decode(0x1f), ptx.RN))
	require.Equal(t, math.Float64bits(-28), double.encode(e3m2.decode(0x3f), ptx.RN))
	require.Equal(t, math.Float64bits(0.0625), double.encode(e3m2.decode(1), ptx.RN))
	for x, want := range map[float32]uint64{0.25: 0, 0.75: 2, 1.25: 2, 1.75: 4, 2.5: 4, 3.5: 6, 5: 6, 5.01: 7, 6: 7, 1e30: 7, -0.3: 9, float32(math.Inf(-1)): 15, float32(math.NaN()): 7} {
		require.Equal(t, want, toClosed(&ptx.Mods{}, e2m1, uint64(math.Float32bits(x))), x)
	}
	require.Zero(t, toClosed(&ptx.Mods{Flags: ptx.Relu}, e2m1, uint64(math.Float32bits(-4))))
}

// To nearest, results are those of this machine's floating point.
func TestArithmeticIsThatOfTheHost(t *testing.T) {
	check := func(t *rapid.T, f format, got number, nan bool, bits uint64) {
		r := f.encode(got, ptx.RN)
		if nan {
			require.True(t, f.isNaN(r))
			return
		}
		require.Equal(t, bits, r)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := doubles().Draw(t, "a"), doubles().Draw(t, "b"), doubles().Draw(t, "c")
		x, y, z := math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c)
		m, n, o := double.decode(a), double.decode(b), double.decode(c)
		for _, r := range []struct {
			got  number
			want float64
		}{
			{m.add(n, ptx.RN), x + y}, {m.add(n.negate(), ptx.RN), x - y}, {m.mul(n), x * y}, {m.div(n), x / y}, {m.sqrt(), math.Sqrt(x)},
			{m.mul(n).add(o, ptx.RN), math.FMA(x, y, z)}, {m.integral(ptx.RNI), math.RoundToEven(x)}, {m.integral(ptx.RMI), math.Floor(x)},
			{m.integral(ptx.RPI), math.Ceil(x)}, {m.integral(ptx.RZI), math.Trunc(x)},
		} {
			check(t, double, r.got, r.want != r.want, math.Float64bits(r.want))
		}
		require.Equal(t, uint64(math.Float32bits(float32(x))), keepNaN(single.encode(m, ptx.RN), float32(x)))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := singles().Draw(t, "a"), singles().Draw(t, "b")
		x, y := math.Float32frombits(uint32(a)), math.Float32frombits(uint32(b))
		m, n := single.decode(a), single.decode(b)
		for _, r := range []struct {
			got  number
			want float32
		}{
			{m.add(n, ptx.RN), x + y}, {m.mul(n), x * y}, {m.div(n), x / y}, {m.sqrt(), float32(math.Sqrt(float64(x)))},
		} {
			check(t, single, r.got, r.want != r.want, uint64(math.Float32bits(r.want)))
		}
	})
}

// keepNaN is x, or the bits of want where that is NaN, of which there are many.
func keepNaN(x uint64, want float32) uint64 {
	if want != want {
		return uint64(math.Float32bits(want))
	}
	return x
}

// In every mode, results are those of math/big.
func TestRoundingModes(t *testing.T) {
	modes := map[ptx.Rounding]big.RoundingMode{ptx.RN: big.ToNearestEven, ptx.RZ: big.ToZero, ptx.RM: big.ToNegativeInf, ptx.RP: big.ToPositiveInf,
		ptx.RNA: big.ToNearestAway}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := singles().Draw(t, "a"), singles().Draw(t, "b"), singles().Draw(t, "c")
		x, y, z := single.decode(a), single.decode(b), single.decode(c)
		if max(x.kind, y.kind, z.kind) > finite || min(x.kind, y.kind, z.kind) == zero {
			return
		}
		float := func(n uint64) *big.Float {
			return new(big.Float).SetPrec(2000).SetFloat64(float64(math.Float32frombits(uint32(n))))
		}
		for _, f := range []format{half, bfloat, single, double, tensor32, e4m3, e5m2} {
			for mode, bigMode := range modes {
				exact := new(big.Float).SetPrec(2000).Mul(float(a), float(b))
				exact.Add(exact, float(c))
				got := f.encode(x.mul(y).add(z, mode), mode)
				require.Equal(t, rounded(f, exact, mode, bigMode), got, "%v %v: %x·%x+%x", f, mode, a, b, c)
			}
		}
	})
}

// rounded rounds an exact number the plain way: with the precision that its
// exponent leaves.
func rounded(f format, x *big.Float, mode ptx.Rounding, bigMode big.RoundingMode) uint64 {
	if x.Sign() == 0 {
		if mode == ptx.RM {
			return f.sign()
		}
		return 0
	}
	least := f.least() - f.fraction // exponent of the smallest subnormal
	unit := max(x.MantExp(nil)-1-f.fraction, least)
	steps := new(big.Float).SetMantExp(x, -unit)
	n, _ := steps.Int(nil) // cut
	rest := new(big.Float).SetPrec(4000).Sub(steps, new(big.Float).SetInt(n))
	half := new(big.Float).SetFloat64(0.5)
	cmp, away := new(big.Float).Abs(rest).Cmp(half), int64(x.Sign())
	up := false
	switch bigMode {
	case big.ToNearestEven:
		up = cmp > 0 || cmp == 0 && n.Bit(0) == 1
	case big.ToNearestAway:
		up = cmp >= 0
	case big.ToNegativeInf:
		up = rest.Sign() < 0
	case big.ToPositiveInf:
		up = rest.Sign() > 0
	}
	if up {
		n.Add(n, big.NewInt(away))
	}
	value := new(big.Float).SetMantExp(new(big.Float).SetInt(n), unit)
	digits, top := uint64(2)<<f.fraction-1, 1<<(f.exponent-1)-1 // of the largest number
	if f.finite {
		digits, top = digits-1, top+1
	}
	most := new(big.Float).SetMantExp(big.NewFloat(float64(digits)), top-f.fraction)
	sign := uint64(0)
	if x.Sign() < 0 {
		sign = f.sign()
	}
	if new(big.Float).Abs(value).Cmp(most) > 0 {
		toZero := bigMode == big.ToZero || bigMode == big.ToNegativeInf && x.Sign() > 0 || bigMode == big.ToPositiveInf && x.Sign() < 0
		return sign | (f.infinity() - bit(toZero))
	}
	m := new(big.Int).Abs(n).Uint64()
	return sign | (m + uint64(unit-least)<<f.fraction)
}
