package ptx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/rewrite"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/tests/ptx/internal/fixture"
	"pvdrm/tests/ptx/internal/random"
)

// dividedProgram is a program whose kernels have twins.
type dividedProgram struct {
	*exec.Program
	kernels map[string]rewrite.Kernel
}

// dividedKernel is a kernel and its twin, nil where it has none.
type dividedKernel struct{ whole, twin *exec.Kernel }

// Kernel is part of program.
func (p dividedProgram) Kernel(name string) (k dividedKernel, ok bool) {
	if twin := p.kernels[name].Twin; twin != "" {
		if k.twin, ok = p.Program.Kernel(twin); !ok {
			return k, false
		}
	}
	k.whole, ok = p.Program.Kernel(name)
	return k, ok
}

// divide compiles a module whose kernels can be divided.
func divide(source []byte) func(*ptx.Module) (dividedProgram, error) {
	return func(m *ptx.Module) (p dividedProgram, err error) {
		r, err := rewrite.Split(nil, m, source)
		if err != nil {
			return p, err
		}
		p.kernels = map[string]rewrite.Kernel{}
		for _, k := range r.Kernels {
			p.kernels[k.Name] = k
		}
		if m, err = ptx.Load("divided.ptx", r.Source); err != nil {
			return p, err
		}
		p.Program, err = exec.Compile(m)
		return p, err
	}
}

// blocks is how many blocks a launch has.
func blocks(l *exec.Launch) uint64 { return uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2]) }

// runDivided runs a fixture in parts of so many blocks. It reports whether it divided anything.
func runDivided(f *fixture.Fixture, most uint64) (outputs [][]byte, divided bool, err error) {
	outputs, err = runProgram(f, divide(f.Source), func(k dividedKernel, l exec.Launch, m memory) error {
		if k.twin == nil || blocks(&l) < 2 {
			return exec.Run(k.whole, l, m, new(exec.Control), 1)
		}
		divided = true
		all, grid, params := blocks(&l), l.Grid, l.Params
		for from := uint64(0); from < all; from += most {
			l.Grid = [3]uint32{uint32(min(most, all-from)), 1, 1}
			l.Params = rewrite.AppendRange(append([]byte(nil), params...), from, grid)
			if err := exec.Run(k.twin, l, m, new(exec.Control), 1); err != nil {
				return err
			}
		}
		return nil
	})
	return outputs, divided, err
}

// TestDivided runs the fixtures of several blocks in parts: kernels have the same results as whole.
func TestDivided(t *testing.T) {
	equal, whole := 0, map[string]int{}
	for _, c := range readCorpus(t) {
		several := false
		for _, r := range c.fixture.Runs {
			several = several || r.Grid != [3]uint32{1, 1, 1}
		}
		if !several || c.recording == nil || c.recording.Fault != "" {
			continue
		}
		want, err := runExec(c.fixture, exec.NativeNever, 1)
		if err != nil {
			continue // TestCorpus reports it
		}
		for _, most := range []uint64{1, 3} {
			got, divided, err := runDivided(c.fixture, most)
			if err != nil {
				t.Errorf("%s, in parts of %d: %v", c.fixture.Name, most, err)
				break
			}
			if !divided {
				for _, k := range split(t, c.fixture.Source) {
					whole[k.Why]++
				}
				break
			}
			if diffs, _ := c.fixture.Compare(got, want); len(diffs) > 0 {
				t.Errorf("%s, in parts of %d: %d values differ: %v", c.fixture.Name, most, len(diffs), diffs[0])
			}
			equal++
		}
	}
	t.Logf("%d runs of fixtures in parts; left whole: %v", equal, whole)
	require.Greater(t, equal, 1000)
}

// split returns what became of the kernels of a source.
func split(t *testing.T, source []byte) []rewrite.Kernel {
	m, err := ptx.Load("split.ptx", source)
	require.NoError(t, err)
	r, err := rewrite.Split(nil, m, source)
	require.NoError(t, err)
	return r.Kernels
}

// TestDividedRandom runs random kernels in parts.
func TestDividedRandom(t *testing.T) {
	for seed := range uint64(60) {
		f, err := fixture.Parse(fmt.Sprintf("random%d", seed), []byte(random.Kernel(seed)))
		require.NoError(t, err)
		want, err := runExec(f, exec.NativeNever, 1)
		require.NoError(t, err, f.Name)
		got, divided, err := runDivided(f, 1+seed%3)
		require.NoError(t, err, f.Name)
		require.True(t, divided, "%s: %v", f.Name, split(t, f.Source))
		diffs, _ := f.Compare(got, want)
		require.Empty(t, diffs, f.Name)
	}
}

// TestDivisible holds which kernels of the suite are divided: those that are not may wait for other
// blocks.
func TestDivisible(t *testing.T) {
	files, err := filepath.Glob("../../internal/suite/kernels/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, k := range split(t, source) {
			require.NotEmpty(t, k.Twin, "%s: %s %s", filepath.Base(path), k.Name, k.Why)
		}
	}
}
