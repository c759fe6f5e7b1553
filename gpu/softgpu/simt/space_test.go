package simt

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// memory is an address space of pages of one size.
type memory struct {
	mu    sync.RWMutex
	size  uint64
	pages map[uint64][]byte
	prot  map[uint64]gpu.Prot
}

func newMemory(page uint64) *memory {
	return &memory{size: page, pages: map[uint64][]byte{}, prot: map[uint64]gpu.Prot{}}
}

func (m *memory) Lookup(va uint64) ([]byte, uint64, gpu.Prot, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	base := va &^ (m.size - 1)
	p, ok := m.pages[base]
	return p, base, m.prot[base], ok
}

// mapRange maps zero pages for [va, va+n).
func (m *memory) mapRange(va, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for base := va &^ (m.size - 1); base < va+n; base += m.size {
		if m.pages[base] == nil {
			m.pages[base] = wordBytes(make([]uint64, m.size/8))
			m.prot[base] = gpu.ProtRead | gpu.ProtWrite
		}
	}
}

func (m *memory) write(va uint64, b []byte) {
	m.mapRange(va, uint64(len(b)))
	for i := range b {
		m.pages[(va+uint64(i))&^(m.size-1)][(va+uint64(i))&(m.size-1)] = b[i]
	}
}

func (m *memory) read(va, n uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = m.pages[(va+uint64(i))&^(m.size-1)][(va+uint64(i))&(m.size-1)]
	}
	return b
}

func writeAll[T any](m *memory, va uint64, x []T) {
	b, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		panic(err)
	}
	m.write(va, b)
}

func readAll[T any](m *memory, va uint64, n int) []T {
	x := make([]T, n)
	if _, err := binary.Decode(m.read(va, uint64(binary.Size(x))), binary.LittleEndian, x); err != nil {
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
func build(t testing.TB, file string, src []byte, m *memory) *Program {
	t.Helper()
	mod, err := verified(file, src)
	require.NoError(t, err)
	p, err := Compile(mod)
	require.NoError(t, err)
	image, err := p.Link(dataBase)
	require.NoError(t, err)
	m.write(dataBase, image)
	return p
}

func buildFile(t testing.TB, name string, m *memory) *Program {
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
	e := sumError(p, float64(c), s)
	return math.Float32frombits(encode(toOdd(s, e), 23, 8, rn))
}
