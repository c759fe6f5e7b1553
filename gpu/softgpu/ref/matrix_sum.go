package ref

import (
	"math/big"
	"math/bits"

	"pvdrm/gpu/ptx"
)

// keptBits is how many bits below the unit of the largest exponent a tensor core keeps, and
// blockSize how many products it adds up at once, if sums does not say less; see docs/ptx.md.
const (
	keptBits  = 25
	blockSize = 16
)

// floats adds products to a sum as an H100 does. Where its tensor cores have no such
// instruction, the driver's compiler makes it of others, which shows in the result.
func floats(i *ptx.Instr, x, y []uint64, z uint64) uint64 {
	a, b := i.Element(ptx.FragmentA), i.Element(ptx.FragmentB)
	c, d := i.Element(ptx.FragmentC), i.Element(ptx.FragmentD)
	quads := i.Op == ptx.OpMma && i.Mods.Shape == ptx.ShapeM8N8K4
	sums := single
	if c == ptx.F16 && d == ptx.F16 && !quads {
		sums = half
	} else if c == ptx.F16 {
		z = single.encode(half.decode(z), ptx.RN)
	}
	size, byteFormats := blockSize, a == ptx.E4M3 || a == ptx.E5M2
	switch {
	case i.Op == ptx.OpWmma && a == ptx.TF32:
		size = 4
	case byteFormats && len(x) == 16:
		size = 8
	}
	switch {
	case quads:
		z = plus(sums, chain(x, y), z)
	case byteFormats:
		x, y = lowerPairsFirst(x), lowerPairsFirst(y)
		z = plus(sums, blocks(a, b, sums, size, x, y, 0), z)
	default:
		z = blocks(a, b, sums, size, x, y, z)
	}
	if d == ptx.F16 && sums != half {
		return half.encode(single.decode(z), ptx.RN)
	}
	return z
}

// blocks adds products to a sum as a tensor core does, a block after another.
func blocks(a, b ptx.Type, sums format, size int, x, y []uint64, z uint64) uint64 {
	for at := 0; at < len(x); at += size {
		end := min(at+size, len(x))
		z = atOnce(a, b, sums, x[at:end], y[at:end], z)
	}
	return z
}

// plus is a sum with one rounding.
func plus(f format, x, y uint64) uint64 {
	return f.encode(f.decode(x).add(f.decode(y), ptx.RN), ptx.RN)
}

// chain adds products of f16 in f32, one after another.
func chain(x, y []uint64) (z uint64) {
	for k := range x {
		product := half.decode(x[k]).mul(half.decode(y[k]))
		z = single.encode(product.add(single.decode(z), ptx.RN), ptx.RN)
	}
	return z
}

// lowerPairsFirst puts the lower pairs of all words of four before the upper ones.
func lowerPairsFirst(x []uint64) (list []uint64) {
	for part := range 2 {
		for k, v := range x {
			if k/2%2 == part {
				list = append(list, v)
			}
		}
	}
	return list
}

// term is a summand: value·2^(exponent-fraction bits), with the exponent of the unit bit of
// its significand.
type term struct {
	number
	exponent int
}

// termOf decodes a value of a format, whose exponent is not normalised.
func termOf(f format, x uint64) term {
	n := f.decode(x)
	return term{number: n, exponent: n.exp + f.fraction}
}

// tensorSum is how a tensor core adds products of two types.
type tensorSum struct {
	a, b     ptx.Type
	sums     format // of what they are added to
	result   format // the sum has that format's bits, and the exponent of sums
	kept     int    // bits below the unit of the largest exponent
	negative bool   // products are subtracted
	native   bool   // elements of 8 bits keep their exponents
}

// fewBits is kept of wgmma of 8-bit floating point.
const fewBits = 13

// atOnce is the sum of z and some products, each truncated to the bits that are kept.
func atOnce(a, b ptx.Type, sums format, x, y []uint64, z uint64) uint64 {
	t := tensorSum{a: a, b: b, sums: sums, result: sums, kept: keptBits}
	return t.add(x, y, z)
}

// add is the sum of z and some products.
func (t tensorSum) add(x, y []uint64, z uint64) uint64 {
	var terms []term
	sums := t.sums
	start := termOf(sums, z)
	special := number{kind: zero}
	if start.kind != finite && start.kind != zero {
		special = start.number
	}
	if start.kind == finite {
		terms = append(terms, start)
	}
	for k := range x {
		p, q := t.term(t.a, x[k]), t.term(t.b, y[k])
		r := p.mul(q.number)
		r.neg = r.neg != t.negative
		switch r.kind {
		case finite:
			terms = append(terms, term{number: r, exponent: p.exponent + q.exponent})
		case infinite, notANumber:
			special = special.add(r, ptx.RN)
		}
	}
	if special.kind != zero {
		return sums.encode(special, ptx.RN)
	}
	if len(terms) == 0 {
		return 0
	}
	top := terms[0].exponent
	for _, t := range terms {
		top = max(top, t.exponent)
	}
	total, kept := new(big.Int), t.kept
	for _, t := range terms {
		value := new(big.Int).Lsh(new(big.Int).SetUint64(t.m.hi), 64)
		value.Or(value, new(big.Int).SetUint64(t.m.lo))
		if n := t.exp - (top - kept); n >= 0 {
			value.Lsh(value, uint(n))
		} else {
			value.Rsh(value, uint(-n))
		}
		if t.neg {
			value.Neg(value)
		}
		total.Add(total, value)
	}
	if total.Sign() == 0 {
		return 0
	}
	sum := number{kind: finite, neg: total.Sign() < 0, exp: top - kept}
	sum.m.lo = new(big.Int).Abs(total).Uint64() // 32 terms of 27 bits
	if sums == half {
		return half.encode(sum, ptx.RN)
	}
	if sum.exp+bits.Len64(sum.m.lo)-1 > 127 {
		sum.kind = infinite
	}
	return t.result.encode(sum, ptx.RZ) << (sums.fraction - t.result.fraction)
}

// term decodes an element of a matrix.
func (t tensorSum) term(ty ptx.Type, x uint64) term {
	switch {
	case t.native && ty == ptx.E4M3:
		return termOf(e4m3, x)
	case t.native && ty == ptx.E5M2:
		return termOf(e5m2, x)
	}
	return tensorTerm(ty, x)
}

// tensorTerm decodes an element of a matrix: the upper 19 bits of tf32; formats of 8 bits
// become f16 first.
func tensorTerm(ty ptx.Type, x uint64) term {
	switch ty {
	case ptx.BF16:
		return termOf(bfloat, x)
	case ptx.TF32:
		return termOf(tensor32, x>>13)
	case ptx.E4M3:
		return termOf(half, half.encode(e4m3.decode(x), ptx.RN))
	case ptx.E5M2:
		return termOf(half, half.encode(e5m2.decode(x), ptx.RN))
	}
	return termOf(half, x)
}
