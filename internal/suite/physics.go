package suite

import (
	"math"
	"math/bits"
	"math/cmplx"
)

var (
	fftBench = Bench{
		Name: "fft", Description: "fast Fourier transforms", Input: "1,024 of 1,024 complex numbers", Fixed: true,
		Run: runFFT,
	}
	nbodyBench = Bench{
		Name: "nbody", Description: "the gravity of bodies on each other", Input: "4,096 bodies", Fixed: true,
		Run: runNBody,
	}
)

// fftLength is the number of points of a transform.
const fftLength = 1024

func runFFT(e *Env) error {
	const count = 1024
	in := unitFloats(newRandom(30), 2*fftLength*count, -1, 2) // real and imaginary parts in turn
	turn := make([]float32, 2*fftLength)
	for k := range fftLength {
		w := cmplx.Rect(1, -2*math.Pi*float64(k)/fftLength)
		turn[2*k], turn[2*k+1] = float32(real(w)), float32(imag(w))
	}
	want, got := make([]float64, len(in)), make([]float32, len(in))
	for i := 0; i < len(in); i += 2 * fftLength {
		transform(want[i:i+2*fftLength], in[i:])
	}

	s := e.begin("fft", 4*len(in), 4*len(in), 4*len(turn))
	s.htod(s.mem[0], bytesOf(in))
	s.htod(s.mem[2], bytesOf(turn))
	s.launch("fft", dim{count, 1}, inRow, s.mem[0], s.mem[1], s.mem[2])
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	// A result is a sum of 1,024 numbers below 1.5, whose errors of 2^-24 of what they are go
	// through five steps.
	return checkClose("points", got, want, 1e-3)
}

// transform is the Fourier transform of the first fftLength numbers of in, by the radix-2 method
// that begins with the bits of the indices reversed.
func transform(out []float64, in []float32) {
	x := make([]complex128, fftLength)
	shift := 64 - bits.TrailingZeros(fftLength)
	for i := range x {
		x[bits.Reverse64(uint64(i))>>shift] = complex(float64(in[2*i]), float64(in[2*i+1]))
	}
	for half := 1; half < fftLength; half *= 2 {
		step := cmplx.Rect(1, -math.Pi/float64(half))
		for first := 0; first < fftLength; first += 2 * half {
			w := complex128(1)
			for k := first; k < first+half; k++ {
				a, b := x[k], x[k+half]*w
				x[k], x[k+half] = a+b, a-b
				w *= step
			}
		}
	}
	for i, v := range x {
		out[2*i], out[2*i+1] = real(v), imag(v)
	}
}

func runNBody(e *Env) error {
	const count, soft = 4096, 0.01
	body := unitFloats(newRandom(31), 4*count, 0, 1) // x, y, z, mass
	want, got := make([]float64, len(body)), make([]float32, len(body))
	for i := range count {
		here, sum := body[4*i:], want[4*i:]
		for j := range count {
			b := body[4*j:]
			x, y, z := float64(b[0])-float64(here[0]), float64(b[1])-float64(here[1]), float64(b[2])-float64(here[2])
			near := 1 / math.Sqrt(x*x+y*y+z*z+soft)
			m := float64(b[3]) * near
			pull := m * near * near
			sum[0], sum[1], sum[2], sum[3] = sum[0]+pull*x, sum[1]+pull*y, sum[2]+pull*z, sum[3]+m
		}
	}

	s := e.begin("nbody", 4*len(body), 4*len(body))
	s.htod(s.mem[0], bytesOf(body))
	s.launch("nbody", over(count), inRow, s.mem[0], s.mem[1], uint32(count), float32(soft))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	// Pulls and potentials add up to thousands, of terms that are each right to some 2^-21.
	return checkClose("pulls", got, want, 0.5)
}
