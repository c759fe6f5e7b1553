package ptx_test

import (
	"encoding/binary"
	"fmt"
	"math"
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

// suspendedProgram is a program whose kernels can be suspended.
type suspendedProgram struct {
	*exec.Program
	kernels map[string]rewrite.Suspended
}

// suspendedKernel is a kernel and its twin, nil where it has none.
type suspendedKernel struct {
	whole, twin *exec.Kernel
	is          rewrite.Suspended
}

// Kernel is part of program.
func (p suspendedProgram) Kernel(name string) (k suspendedKernel, ok bool) {
	k.is = p.kernels[name]
	if k.is.Twin != "" {
		if k.twin, ok = p.Program.Kernel(k.is.Twin); !ok {
			return k, false
		}
	}
	k.whole, ok = p.Program.Kernel(name)
	return k, ok
}

// eachLook has kernels look whenever they can, and count the looks.
var eachLook = rewrite.SuspendOptions{Interval: 1, Count: true}

// suspend compiles a module whose kernels can be suspended.
func suspend(source []byte) func(*ptx.Module) (suspendedProgram, error) {
	return func(m *ptx.Module) (p suspendedProgram, err error) {
		changed, list, err := rewrite.Suspend(nil, m, source, eachLook)
		if err != nil {
			return p, err
		}
		p.kernels = map[string]rewrite.Suspended{}
		for _, k := range list {
			p.kernels[k.Name] = k
		}
		if m, err = ptx.Load("suspended.ptx", changed); err != nil {
			return p, fmt.Errorf("%w\n%s", err, changed)
		}
		p.Program, err = exec.Compile(m)
		return p, err
	}
}

// Where the signal and the state of blocks lie.
const (
	signalBase = uint64(0xe0) << regionBits
	areaBase   = uint64(0xe1) << regionBits
)

// A launch is suspended so often at most, and then runs to its end. Its state takes so many bytes at most.
const (
	suspensions = 150
	areaMost    = 64 << 20
)

// runSuspended runs a fixture whose kernels are suspended at each k-th look. It returns how often.
func runSuspended(f *fixture.Fixture, k uint32, native exec.Native, workers int) (outputs [][]byte, times int, err error) {
	outputs, err = runProgram(f, suspend(f.Source), func(kernel suspendedKernel, l exec.Launch, m memory) error {
		l.Native = native
		stride := kernel.is.Stride(l.Block[0]*l.Block[1]*l.Block[2], l.SharedBytes)
		if kernel.twin == nil || blocks(&l)*stride > areaMost {
			return exec.Run(kernel.whole, l, m, new(exec.Control), workers)
		}
		delete(m, areaBase>>regionBits)
		m.add(areaBase, int(blocks(&l)*stride))
		signal := m.add(signalBase, 8)
		l.Params = rewrite.AppendState(append([]byte(nil), l.Params...), signalBase, areaBase, stride)
		for n := 0; ; n++ {
			look := k
			if n >= suspensions {
				look = math.MaxInt32
			}
			binary.LittleEndian.PutUint32(signal, look)
			binary.LittleEndian.PutUint32(signal[4:], 0)
			if err := exec.Run(kernel.twin, l, m, new(exec.Control), workers); err != nil {
				return err
			}
			if binary.LittleEndian.Uint32(signal[4:]) == 0 {
				return nil
			}
			times++
		}
	})
	return outputs, times, err
}

// suspendKernels returns what becomes of the kernels of a source that are to be suspended.
func suspendKernels(t testing.TB, source []byte) []rewrite.Suspended {
	m, err := ptx.Load("suspended.ptx", source)
	require.NoError(t, err)
	_, list, err := rewrite.Suspend(nil, m, source, eachLook)
	require.NoError(t, err)
	return list
}

// TestSuspended suspends the kernels of the fixtures, at each look, each third one and so on: results are
// as when they run through.
func TestSuspended(t *testing.T) {
	equal, often, why := 0, 0, map[string]int{}
	for _, c := range readCorpus(t) {
		if c.recording == nil || c.recording.Fault != "" {
			continue
		}
		list := suspendKernels(t, c.fixture.Source)
		some := false
		for _, k := range list {
			some = some || k.Points > 0
			if k.Twin == "" {
				why[k.Why]++
			}
		}
		if !some {
			continue
		}
		want, err := runExec(c.fixture, exec.NativeNever, 1)
		if err != nil {
			continue // TestCorpus reports it
		}
		for _, k := range []uint32{1, 3, 40} {
			got, times, err := runSuspended(c.fixture, k, []exec.Native{exec.NativeNever, exec.NativeAtOnce}[k%2], 1)
			if err != nil {
				t.Errorf("%s, at each look %d: %v", c.fixture.Name, k, err)
				break
			}
			if diffs, _ := c.fixture.Compare(got, want); len(diffs) > 0 {
				t.Errorf("%s, at each look %d: %d values differ: %v", c.fixture.Name, k, len(diffs), diffs[0])
			}
			equal++
			often += times
		}
	}
	t.Logf("%d runs of fixtures, suspended %d times; refused: %v", equal, often, why)
	require.Greater(t, equal, 500)
	require.Greater(t, often, equal)
}

// TestSuspendedRandom suspends random kernels, most of which have loops.
func TestSuspendedRandom(t *testing.T) {
	with := 0
	for seed := range 150 {
		with += suspendRandom(t, fmt.Append(nil, seed), uint32(1+seed%5))
	}
	require.Greater(t, with, 75)
}

// suspendRandom suspends a random kernel at each k-th look, and compares every bit. It returns 1 if the
// kernel was suspended at all.
func suspendRandom(t *testing.T, data []byte, k uint32) int {
	f, err := fixture.Parse("random", []byte(random.Lone(data)))
	require.NoError(t, err)
	want, err := runExec(f, exec.NativeNever, 1)
	require.NoError(t, err, "%s", f.Source)
	got, times, err := runSuspended(f, k, exec.NativeNever, 1)
	require.NoError(t, err, "%s", f.Source)
	diffs, _ := f.Compare(got, want)
	require.Empty(t, diffs, "at each look %d: %s", k, f.Source)
	return min(times, 1)
}

// FuzzSuspended suspends random kernels, which must have the same results.
func FuzzSuspended(f *testing.F) {
	for _, seed := range []string{"", "\x00\x80\xff", "loops in loops", "branches and barriers"} {
		f.Add([]byte(seed), byte(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, k byte) {
		if len(data) <= 4096 { // a kernel makes fewer choices
			suspendRandom(t, data, 1+uint32(k))
		}
	})
}

// TestSuspendable holds that all kernels of the suite can be suspended, in each of their loops.
func TestSuspendable(t *testing.T) {
	files, err := filepath.Glob("../../internal/suite/kernels/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, k := range suspendKernels(t, source) {
			require.NotEmpty(t, k.Twin, "%s: %s %s", filepath.Base(path), k.Name, k.Why)
			require.GreaterOrEqual(t, k.Points, k.Loops, "%s: %s", filepath.Base(path), k.Name)
		}
	}
}
