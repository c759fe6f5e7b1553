package suite

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The references are checked here against the shortest form of the same
// computation, on small inputs.

func TestAffinePower(t *testing.T) {
	f := affine{mul: 1664525, add: 1013904223}
	x := uint32(12345)
	for n := range uint(200) {
		require.Equal(t, x, f.power(n).apply(12345), "after %d rounds", n)
		x = f.apply(x)
	}
}

func TestSlidingSums(t *testing.T) {
	const rows, cols, rounds = 16, 8, 3
	r := newRandom(1)
	a, b := r.words(rows*cols), r.words(rows*cols)
	got := slidingSums(a, b, rows, cols, rounds)
	for y := range rows {
		for x := range cols {
			var want int32
			for k := range rounds {
				i := (y+k)%rows*cols + x
				want += a[i] + b[i]
			}
			require.Equal(t, want, got[y*cols+x], "row %d, column %d", y, x)
		}
	}
}

func TestCheckProduct(t *testing.T) {
	const n = 16
	r := newRandom(1)
	a, b, c := make([]int32, n*n), make([]int32, n*n), make([]int32, n*n)
	for i := range a {
		a[i], b[i] = r.between(-mmulLimit, mmulLimit), r.between(-mmulLimit, mmulLimit)
	}
	for i := range n {
		for j := range n {
			for k := range n {
				c[i*n+j] += a[i*n+k] * b[k*n+j]
			}
		}
	}
	require.NoError(t, checkProduct(a, b, c, n))

	for i := range c {
		for _, flip := range []int32{1, math.MinInt32} {
			c[i] ^= flip
			require.Error(t, checkProduct(a, b, c, n), "element %d, bits %x", i, uint32(flip))
			c[i] ^= flip
		}
	}
	c[5*n+3]++
	require.EqualError(t, checkProduct(a, b, c, n),
		"c[5][3] is "+fmt.Sprint(c[5*n+3])+", want "+fmt.Sprint(c[5*n+3]-1)+" (in units of the last place)")
}

func TestHalves(t *testing.T) {
	require.Equal(t, []uint16{0, 0x3c00, 0xbc00, 0x3800, 0x2400, 0x3bf8, 0xbbf8, 0x7bff, 0x0400},
		halves([]float32{0, 1, -1, 0.5, 1.0 / 64, 255.0 / 256, -255.0 / 256, 65504, 1.0 / 16384}))
}

func TestLevels(t *testing.T) {
	const vertices = 64
	g := graph{first: make([]uint32, vertices+1)}
	r := newRandom(3)
	for v := range vertices {
		for range r.below(3) {
			g.edge = append(g.edge, r.below(vertices))
		}
		g.first[v+1] = uint32(len(g.edge))
	}

	// Bellman and Ford: lower levels along edges until none gets lower.
	want := slices.Repeat([]int32{math.MaxInt32 - 1}, vertices)
	want[0] = 0
	for range vertices {
		for v := range vertices {
			for _, w := range g.edge[g.first[v]:g.first[v+1]] {
				want[w] = min(want[w], want[v]+1)
			}
		}
	}
	reached := 0
	for i, l := range want {
		if l > vertices {
			want[i] = -1
		} else {
			reached++
		}
	}
	require.Greater(t, reached, 3)
	require.Less(t, reached, vertices)
	require.Equal(t, want, g.levels(0))
}

func TestNearest(t *testing.T) {
	r := newRandom(4)
	for range 50 {
		d := make([]float32, 20)
		for i := range d {
			d[i] = float32(r.below(12)) // with equal ones
		}
		sorted := slices.Sorted(slices.Values(d))
		var got []float32
		for _, i := range nearest(d, 5) {
			got = append(got, d[i])
		}
		require.Equal(t, sorted[:5], got)
	}
	require.Equal(t, []int{1, 0}, nearest([]float32{2, 1}, 5))
}

// The checks of nn must refuse a wrong distance and a wrong neighbour.
func TestCheckNN(t *testing.T) {
	places := []float32{30, 91, 30, 95, 30, 92, 30, 93, 30, 94, 30, 100, 30, 101}
	distance := []float32{1, 5, 2, 3, 4, 10, 11}
	require.NoError(t, checkNN(places, distance))
	distance[5] = 0.5
	require.Error(t, checkNN(places, distance))
	distance[5] = float32(math.NaN())
	require.Error(t, checkNN(places, distance))
}

// Gaussian elimination must find the planted factors.
func TestPlantFactors(t *testing.T) {
	const n = 32
	matrix, factors := plantFactors(newRandom(5), n)
	for k := range n {
		for i := k + 1; i < n; i++ {
			matrix[i*n+k] /= matrix[k*n+k]
			for j := k + 1; j < n; j++ {
				matrix[i*n+j] -= matrix[i*n+k] * matrix[k*n+j]
			}
		}
	}
	for i := range factors {
		require.Equal(t, factors[i], matrix[i]+0, "element %d", i) // +0 makes of -0 a 0
	}
}

// A change of a weight must go down the slope of the error, as found by trying.
func TestTrain(t *testing.T) {
	const inputs = 6
	r := newRandom(6)
	in := []float32{0.1, 0.9, 0.4, 0.7, 0.2, 0.5, 1}
	net := randomNetwork(r, inputs)
	for i := range net.weight {
		net.weight[i] *= 200
	}
	got := net.train(in)

	loss := func() float64 {
		o := net.train(in).output
		return (bpTarget - o) * (bpTarget - o) / 2
	}
	slope := func(w *float32) float64 {
		const step = 1.0 / 256
		old := *w
		*w = old + step
		above := loss()
		*w = old - step
		below := loss()
		*w = old
		return (above - below) / (2 * step)
	}
	for i := range net.weight {
		change := got.delta[i] - bpMomentum*float64(net.delta[i])
		require.InDelta(t, -bpRate*slope(&net.weight[i]), change, 1e-5, "weight %d", i)
		require.InDelta(t, float64(net.weight[i])+got.delta[i], got.weight[i], 1e-12)
	}
	for i := range net.outWeight {
		change := got.outDelta[i] - bpMomentum*float64(net.outDelta[i])
		require.InDelta(t, -bpRate*slope(&net.outWeight[i]), change, 1e-5, "output weight %d", i)
		require.InDelta(t, float64(net.outWeight[i])+got.outDelta[i], got.outWeight[i], 1e-12)
	}
}

// at reads m[y][x], where what lies beyond the edge is like the edge.
func at(m []float64, rows, cols, y, x int) float64 {
	return m[min(max(y, 0), rows-1)*cols+min(max(x, 0), cols-1)]
}

func TestFlow(t *testing.T) {
	const side, steps = 8, 5
	r := newRandom(7)
	temperature, power := make([]float32, side*side), make([]float32, side*side)
	now := make([]float64, side*side)
	for i := range now {
		temperature[i], power[i] = 320+20*r.unit(), 0.1*r.unit()
		now[i] = float64(temperature[i])
	}
	h := chipHeat(512)
	for range steps {
		next := make([]float64, len(now))
		for i, v := range now {
			y, x := i/side, i%side
			next[i] = v + float64(h.power)*float64(power[i]) +
				float64(h.y)*(at(now, side, side, y-1, x)+at(now, side, side, y+1, x)-2*v) +
				float64(h.x)*(at(now, side, side, y, x-1)+at(now, side, side, y, x+1)-2*v) +
				float64(h.air)*(float64(h.airTemperature)-v)
		}
		now = next
	}
	require.InDeltaSlice(t, now, h.flow(temperature, power, side, steps), 1e-9)
}

func TestSradReference(t *testing.T) {
	const rows, cols = 9, 7
	r := newRandom(8)
	d := speckled{
		rows: rows, cols: cols, regionRows: 4, regionCols: 5,
		iterations: 3, lambda: 0.5, pixels: make([]float32, rows*cols),
	}
	now := make([]float64, rows*cols)
	for i := range now {
		d.pixels[i] = r.unit()
		now[i] = math.Exp(float64(d.pixels[i]))
	}
	for range d.iterations {
		var values []float64
		for y := range d.regionRows {
			values = append(values, now[y*cols:y*cols+d.regionCols]...)
		}
		mean, variance := 0.0, 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		for _, v := range values {
			variance += (v - mean) * (v - mean) / float64(len(values))
		}
		q0 := variance / (mean * mean)

		c, next := make([]float64, len(now)), make([]float64, len(now))
		for i, v := range now {
			y, x := i/cols, i%cols
			north, south := at(now, rows, cols, y-1, x)-v, at(now, rows, cols, y+1, x)-v
			west, east := at(now, rows, cols, y, x-1)-v, at(now, rows, cols, y, x+1)-v
			gradient := (north*north + south*south + west*west + east*east) / (v * v)
			laplace := (north + south + west + east) / v
			q := (gradient/2 - laplace*laplace/16) / math.Pow(1+laplace/4, 2)
			c[i] = min(1, max(0, 1/(1+(q-q0)/(q0*(1+q0)))))
		}
		for i, v := range now {
			y, x := i/cols, i%cols
			north, south := at(now, rows, cols, y-1, x)-v, at(now, rows, cols, y+1, x)-v
			west, east := at(now, rows, cols, y, x-1)-v, at(now, rows, cols, y, x+1)-v
			next[i] = v + float64(d.lambda)/4*(c[i]*(north+west)+
				at(c, rows, cols, y+1, x)*south+at(c, rows, cols, y, x+1)*east)
		}
		now = next
	}
	require.InDeltaSlice(t, now, d.reference(1), 1e-9)
}

func TestPatternIsChecked(t *testing.T) {
	b := make([]byte, 4096)
	fillPattern(b)
	require.NoError(t, checkPattern(b))
	for _, at := range []int{0, 1000, 4095} {
		b[at] ^= 1
		require.Error(t, checkPattern(b), "byte %d", at)
		b[at] ^= 1
	}
}

func TestChecks(t *testing.T) {
	require.NoError(t, checkEqual("x", []int32{1, 2}, []int32{1, 2}))
	require.EqualError(t, checkEqual("x", []int32{1, 3}, []int32{1, 2}), "x[1] is 3, want 2")
	require.EqualError(t, checkEqual("x", []int32{1}, []int32{1, 2}), "x has 1 elements, want 2")
	require.NoError(t, checkClose("x", []float32{1}, []float64{1.5}, 0.5))
	require.Error(t, checkClose("x", []float32{1}, []float64{1.5}, 0.25))
	require.Error(t, checkClose("x", []float32{float32(math.NaN())}, []float64{1}, 10))
	require.Error(t, checkClose("x", nil, []float64{1}, 10))
}

func TestRandom(t *testing.T) {
	r := newRandom(1)
	seen := map[int32]int{}
	for range 1000 {
		seen[r.between(-2, 2)]++
		require.Less(t, r.below(3), uint32(3))
		u := r.unit()
		require.GreaterOrEqual(t, u, float32(0))
		require.Less(t, u, float32(1))
	}
	require.Len(t, seen, 5)
	require.Equal(t, newRandom(9).words(8), newRandom(9).words(8))
	require.NotEqual(t, newRandom(9).words(8), newRandom(10).words(8))
}
