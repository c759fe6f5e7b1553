package suite

import (
	"fmt"
	"math"
)

var mmulBench = Bench{
	Name:        "mmul",
	Description: "multiplication of integer matrices",
	Input:       "1024 x 1024",
	Run:         runMmul,
}

var fmmulBench = Bench{
	Name:        "fmmul",
	Description: "multiplication of 32-bit floating-point matrices",
	Input:       "1024 x 1024",
	Run:         runFmmul,
}

var hmmulBench = Bench{
	Name:         "hmmul",
	Description:  "multiplication of 16-bit floating-point matrices, with 32-bit sums",
	Input:        "1024 x 1024",
	Instructions: true,
	Run:          runHmmul,
}

// mmulTile is the side of the tile that one block of 16 x 16 threads makes.
const mmulTile = 128

// Bounds of the elements at 1024 rows. No sum of 1024 products of integers up to mmulLimit
// overflows 32 bits; and none up to fmmulLimit needs more than the 24 bits of a
// float's significand, so that the floating-point product is exact in any order
// of summation, with fused multiply-adds and without. With k times as many rows
// the bounds are divided by the square root of k, so the sums have the same bound.
const (
	mmulLimit  = 1023
	fmmulLimit = 127
	fmmulUnit  = 1.0 / 128 // fmmul's elements are integers times this
	hmmulLimit = 63        // so that bits are left where hardware adds several products at a time
	hmmulUnit  = 1.0 / 64
)

// randomBelow makes a matrix of n rows.
func randomBelow(r *random, n int, limit float64) []int32 {
	most := int32(limit / math.Sqrt(float64(n)/matrixSide))
	s := make([]int32, n*n)
	for i := range s {
		s[i] = r.between(-most, most)
	}
	return s
}

func runMmul(e *Env) error {
	n := e.side(matrixSide)
	a, b := randomBelow(newRandom(4), n, mmulLimit), randomBelow(newRandom(5), n, mmulLimit)
	c := make([]int32, n*n)
	if err := multiply(e, "mmul", n, a, b, c); err != nil {
		return err
	}
	return checkProduct(a, b, c, n)
}

func runFmmul(e *Env) error {
	n := e.side(matrixSide)
	a, b := randomBelow(newRandom(6), n, fmmulLimit), randomBelow(newRandom(7), n, fmmulLimit)
	product := make([]float32, n*n)
	if err := multiply(e, "fmmul", n, scaled(a, fmmulUnit), scaled(b, fmmulUnit), product); err != nil {
		return err
	}
	return checkUnits(a, b, product, fmmulUnit, n)
}

func runHmmul(e *Env) error {
	n := e.side(matrixSide)
	a, b := randomBelow(newRandom(37), n, hmmulLimit), randomBelow(newRandom(38), n, hmmulLimit)
	product := make([]float32, n*n)
	if err := multiply(e, "hmmul", n, halves(scaled(a, hmmulUnit)), halves(scaled(b, hmmulUnit)), product); err != nil {
		return err
	}
	return checkUnits(a, b, product, hmmulUnit, n)
}

// checkUnits checks the product of a times unit and b times unit, of n rows.
func checkUnits(a, b []int32, product []float32, unit float32, n int) error {
	c := make([]int32, n*n)
	for i, v := range product {
		v /= unit * unit // exact: a power of two
		c[i] = int32(v)
		if float32(c[i]) != v {
			return fmt.Errorf("c[%d][%d] is %v, which is no sum of products", i/n, i%n, product[i])
		}
	}
	return checkProduct(a, b, c, n)
}

func scaled(ints []int32, unit float32) []float32 {
	s := make([]float32, len(ints))
	for i, v := range ints {
		s[i] = float32(v) * unit
	}
	return s
}

// halves makes binary16 of numbers that it holds exactly: zeros, and those of at most 11 bits from 2^-14 to 2^15.
func halves(floats []float32) []uint16 {
	s := make([]uint16, len(floats))
	for i, v := range floats {
		bits := math.Float32bits(v)
		s[i] = uint16(bits >> 16 & 0x8000)
		if v != 0 {
			s[i] |= uint16((bits&0x7fffffff - 112<<23) >> 13) // the exponents' biases are 127 and 15
		}
	}
	return s
}

// multiply runs the kernel on a and b of n rows, and copies the product to c.
func multiply[T, R number](e *Env, kernel string, n int, a, b []T, c []R) error {
	tiles := uint32(n / mmulTile)
	s := e.begin(kernel, len(bytesOf(a)), len(bytesOf(b)), len(bytesOf(c)))
	s.htod(s.mem[0], bytesOf(a))
	s.htod(s.mem[1], bytesOf(b))
	s.launch(kernel, dim{tiles, tiles}, dim{16, 16},
		s.mem[0], s.mem[1], s.mem[2], uint32(n))
	s.sync()
	s.dtoh(bytesOf(c), s.mem[2])
	return s.end()
}

// Of checkProduct: the random vectors, and the bound of their elements.
const (
	productVectors = 3
	productRange   = 1 << 20
)

// checkProduct says whether c = a * b for square matrices of n rows whose product
// fits into 32 bits, by Freivalds' method:
// compare c * x with a * (b * x) for random vectors x. It takes a multiple of
// n*n steps, where computing the product takes n*n*n.
//
// A right product always passes. A wrong one has a wrong row d = row of (c - a*b),
// with some d[j] != 0; whatever the other elements of x are, d * x = 0 for at most
// one value of x[j], so it passes with a probability of at most 1/productRange for
// each vector, 2^-60 for three. That holds modulo 2^64, too, which is what the sums
// are: |d[j]| < 2^32, so d[j] * x[j] differs for each x[j] below 2^20. The vectors
// are pseudo-random, and unknown to the kernel.
func checkProduct(a, b, c []int32, n int) error {
	type vec [productVectors]int64
	multiply := func(m []int32, x []vec) []vec {
		y := make([]vec, n)
		for i := range y {
			var sum vec
			for j, v := range m[i*n : (i+1)*n] {
				for k := range sum {
					sum[k] += int64(v) * x[j][k]
				}
			}
			y[i] = sum
		}
		return y
	}

	r := newRandom(8)
	x := make([]vec, n)
	for i := range x {
		for k := range x[i] {
			x[i][k] = int64(r.below(productRange))
		}
	}
	want, got := multiply(a, multiply(b, x)), multiply(c, x)
	for i := range want {
		if got[i] != want[i] {
			return wrongElement(a, b, c, n, i)
		}
	}
	return nil
}

// wrongElement names the first wrong element of row i of c.
func wrongElement(a, b, c []int32, n, i int) error {
	for j := range n {
		var want int64
		for k := range n {
			want += int64(a[i*n+k]) * int64(b[k*n+j])
		}
		if int64(c[i*n+j]) != want {
			return fmt.Errorf("c[%d][%d] is %d, want %d (in units of the last place)", i, j, c[i*n+j], want)
		}
	}
	return fmt.Errorf("row %d of c is wrong", i)
}
