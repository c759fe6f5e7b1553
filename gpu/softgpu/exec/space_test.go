package exec

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

func writeAll[T any](m *exectest.Memory, va uint64, x []T) {
	b, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		panic(err)
	}
	m.Write(va, b)
}

func readAll[T any](m *exectest.Memory, va uint64, n int) []T {
	x := make([]T, n)
	if _, err := binary.Decode(m.Read(va, uint64(binary.Size(x))), binary.LittleEndian, x); err != nil {
		panic(err)
	}
	return x
}

// params lays out kernel parameters, each aligned to its size.
func params(values ...any) []byte {
	var b []byte
	for _, v := range values {
		n := binary.Size(v)
		for len(b)%n != 0 {
			b = append(b, 0)
		}
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return b
}

const dataBase = 0x7000_0000_0000 // where tests link modules

// verified parses and verifies; Compile itself must refuse what it does not run.
func verified(file string, src []byte) (*ptx.Module, error) {
	m, err := ptx.Parse(file, src)
	if err == nil {
		err = ptx.Verify(m)
	}
	return m, err
}

// build compiles and links PTX; the memory gets the module's variables.
func build(t testing.TB, file string, src []byte, m *exectest.Memory) *Program {
	t.Helper()
	mod, err := verified(file, src)
	require.NoError(t, err)
	p, err := Compile(mod)
	require.NoError(t, err)
	image, err := p.Link(dataBase)
	require.NoError(t, err)
	m.Write(dataBase, image)
	return p
}

func buildFile(t testing.TB, name string, m *exectest.Memory) *Program {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "ptx", name))
	require.NoError(t, err)
	return build(t, name, src, m)
}

func kernel(t testing.TB, p *Program, name string) *Kernel {
	t.Helper()
	k, ok := p.Kernel(name)
	require.True(t, ok, name)
	return k
}

func grid(x, y, z uint32) [3]uint32 { return [3]uint32{x, y, z} }

func floats(n int, f func(i int) float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = f(i)
	}
	return x
}

func fma32Exact(a, b, c float32) float32 {
	// The product is exact; round to odd, then to float32.
	p := float64(a) * float64(b)
	s := p + float64(c)
	e := scalar.SumError(p, float64(c), s)
	return math.Float32frombits(scalar.Encode(scalar.ToOdd(s, e), 23, 8, scalar.Rn))
}
