package exec

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

func runKernel(t testing.TB, k *Kernel, l Launch, m *exectest.Memory, workers int) {
	t.Helper()
	if preemptRuns {
		require.NoError(t, runPreempted(k, l, m, workers, 60))
		return
	}
	require.NoError(t, Run(k, l, m, new(Control), workers))
}

func TestMatrix(t *testing.T) {
	const n = 48
	r := rand.New(rand.NewPCG(1, 2))
	a := floats(n*n, func(int) float32 { return r.Float32()*4 - 2 })
	b := floats(n*n, func(int) float32 { return r.Float32()*4 - 2 })
	want := make([]float32, n*n)
	for i := range n {
		for j := range n {
			s := float32(0)
			for k := range n {
				s = fma32Exact(a[i*n+k], b[k*n+j], s)
			}
			want[i*n+j] = s
		}
	}
	for _, page := range []uint64{4096, 2 << 20} {
		for _, name := range []string{"fmmul", "fmmul_tiled"} {
			for _, workers := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%d/%d", name, page, workers), func(t *testing.T) {
					m := exectest.NewMemory(page)
					k := kernel(t, buildFile(t, "matrix.ptx", m), name)
					writeAll(m, exectest.BufA, a)
					writeAll(m, exectest.BufB, b)
					m.Map(exectest.BufC, 4*n*n)
					runKernel(t, k, Launch{Grid: grid(n/16, n/16, 1), Block: grid(16, 16, 1),
						Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint64(exectest.BufC), int32(n))}, m, workers)
					require.Equal(t, want, readAll[float32](m, exectest.BufC, n*n))
				})
			}
		}
	}
}

func TestCollatz(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "collatz")
	const n = 1000
	in, want := make([]int32, n), make([]int32, n)
	for i := range in {
		in[i] = int32(i + 1)
		for x := int64(i + 1); x != 1; want[i]++ {
			if x%2 != 0 {
				x = 3*x + 1
			} else {
				x /= 2
			}
		}
	}
	writeAll(m, exectest.BufA, in)
	m.Map(exectest.BufB, 4*n)
	runKernel(t, k, Launch{Grid: grid(4, 1, 1), Block: grid(256, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), int32(n))}, m, 2)
	require.Equal(t, want, readAll[int32](m, exectest.BufB, n))
}

func TestReduce(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "reduce")
	const n, blocks = 128, 5
	writeAll(m, exectest.BufA, floats(n*blocks, func(i int) float32 { return float32(i % 17) }))
	m.Map(exectest.BufB, 4*blocks)
	want := make([]float32, blocks)
	for i := range n * blocks {
		want[i/n] += float32(i % 17)
	}
	runKernel(t, k, Launch{Grid: grid(blocks, 1, 1), Block: grid(n, 1, 1), SharedBytes: 4 * n,
		Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint64(0))}, m, 2)
	require.Equal(t, want, readAll[float32](m, exectest.BufB, blocks))
}

func TestRecursion(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "ackermann")
	var ack func(m, n int32) int32
	ack = func(m, n int32) int32 {
		switch {
		case m == 0:
			return n + 1
		case n == 0:
			return ack(m-1, 1)
		}
		return ack(m-1, ack(m, n-1))
	}
	want := make([]int32, 64)
	for i := range want {
		want[i] = ack(int32(i%3), int32(i%5))
	}
	m.Map(exectest.BufA, 4*64)
	runKernel(t, k, Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1), Params: params(uint64(exectest.BufA))}, m, 1)
	require.Equal(t, want, readAll[int32](m, exectest.BufA, 64))
}

func TestStructs(t *testing.T) {
	type rec struct {
		A int32
		_ int32
		B int64
		C int16
		D int8
		_ [5]byte
	}
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "structs")
	in, want := make([]rec, 40), make([]rec, 40)
	for i := range in {
		in[i] = rec{A: int32(i), B: int64(i) * 1e10, C: int16(-i), D: int8(i * 3)}
		c := uint8(i * 7)
		want[i] = rec{A: in[i].A + int32(c), B: in[i].B * int64(c), C: in[i].C - int16(c), D: in[i].D ^ int8(c)}
	}
	writeAll(m, exectest.BufA, in)
	runKernel(t, k, Launch{Grid: grid(1, 1, 1), Block: grid(40, 1, 1), Params: params(uint64(exectest.BufA))}, m, 1)
	got := readAll[rec](m, exectest.BufA, 40)
	for i := range got {
		require.Equal(t, [4]int64{int64(want[i].A), want[i].B, int64(want[i].C), int64(want[i].D)},
			[4]int64{int64(got[i].A), got[i].B, int64(got[i].C), int64(got[i].D)})
	}
}

func TestLocalArrays(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "sort")
	r := rand.New(rand.NewPCG(3, 4))
	data := make([]int32, 64*16)
	for i := range data {
		data[i] = int32(r.Uint32())
	}
	writeAll(m, exectest.BufA, data)
	runKernel(t, k, Launch{Grid: grid(2, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), int32(16))}, m, 2)
	for i := 0; i < len(data); i += 16 {
		slices.Sort(data[i : i+16])
	}
	require.Equal(t, data, readAll[int32](m, exectest.BufA, len(data)))
}

func TestHistogram(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "histogram")
	r := rand.New(rand.NewPCG(5, 6))
	in, want := make([]byte, 5000), make([]int32, 256)
	for i := range in {
		in[i] = byte(r.NormFloat64()*20 + 100)
		want[in[i]]++
	}
	m.Write(exectest.BufA, in)
	m.Map(exectest.BufB, 1024)
	runKernel(t, k, Launch{Grid: grid(7, 1, 1), Block: grid(96, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), int32(len(in)))}, m, 4)
	require.Equal(t, want, readAll[int32](m, exectest.BufB, 256))
}

func TestTypes(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "types")
	in := []int32{0, 1, -1, 7, 100, -100, 12345, -54321, 1 << 30, -1 << 31, 1<<31 - 1, 255, 256, 65535, -32768, 99}
	for len(in) < 32 {
		in = append(in, int32(len(in)*-1234567))
	}
	table := [8]int64{3, 1, 4, 1, 5, 9, 2, 6}
	want := make([]int64, len(in))
	for i, x := range in {
		u, s, c := uint32(x), int16(x), uint8(x)
		d, f := float64(x), float32(x)
		r := table[x&7]
		r += int64(uint32(x/7+x%7) + u/5 + u%5 + uint32(int32(s)/3) + uint32(int32(c)%11))
		r ^= int64(x) * int64(x)
		r += int64(d*0.5) - int64(f/3)
		r = r*31 + int64(x<<3) + int64(x>>2) + int64(u>>5)
		// r/31 + … above mixes int and unsigned: x<<3 and x>>2 are int, u>>5 unsigned.
		if x > 3 && s < 100 {
			r += int64(min(x, 50))
		} else {
			r += int64(max(x, -50))
		}
		lz := 0
		if u != 0 {
			lz = bits.LeadingZeros32(u)
		}
		r += int64(bits.OnesCount32(u) + lz)
		want[i] = r + r/12345 - r%77
	}
	writeAll(m, exectest.BufA, in)
	m.Map(exectest.BufB, 8*32)
	runKernel(t, k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB))}, m, 1)
	require.Equal(t, want, readAll[int64](m, exectest.BufB, 32))
}

func TestVectors(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "mixed.ptx", m), "vectors")
	in := floats(64*4, func(i int) float32 { return float32(i) / 3 })
	idx := make([]int32, 2*64)
	want := make([]float32, 64*4)
	for i := range 64 {
		idx[2*i], idx[2*i+1] = int32(i*7%64), int32(i*13%64)
		for j := range 4 {
			want[4*i+j] = fma32Exact(in[idx[2*i]*4+int32(j)], in[idx[2*i+1]*4+int32(j)], float32(j+1))
		}
	}
	writeAll(m, exectest.BufA, in)
	writeAll(m, exectest.BufC, idx)
	m.Map(exectest.BufB, 64*16)
	runKernel(t, k, Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint64(exectest.BufC))}, m, 1)
	require.Equal(t, want, readAll[float32](m, exectest.BufB, 64*4))
}
