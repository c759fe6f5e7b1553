package ptx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu"
	"pvdrm/gpu/points"
	"pvdrm/gpu/ptx/rewrite"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/hostmem"
	"pvdrm/internal/suite"
	"pvdrm/tests/ptx/internal/fixture"
	"pvdrm/tests/ptx/internal/random"
)

// inPieces is a software GPU that ends each piece of a kernel at its k-th look, up to so many times a launch.
func inPieces(t testing.TB, k uint32, interval, pieces int) *points.Device {
	soft, err := softgpu.New(softgpu.Config{})
	require.NoError(t, err)
	d, err := points.New(soft, points.Config{Force: true, Short: -1, Look: k, Pieces: pieces, Options: rewrite.SuspendOptions{Interval: interval, Count: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// The programs of the suite have the same results when the device runs their kernels in pieces.
func TestSuiteInPieces(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for _, k := range []uint32{1, 100} {
		t.Run(fmt.Sprintf("each look %d", k), func(t *testing.T) {
			d := inPieces(t, k, 1, 6)
			verifySuite(t, d)
			twins, wholes, pieces := d.Counts()
			t.Logf("%d launches in %d pieces, %d as they are", twins, twins+pieces, wholes)
			require.Positive(t, pieces)
		})
	}
}

// runOnDevice runs a fixture in a context of its own.
func runOnDevice(f *fixture.Fixture, d gpu.Device) (outputs [][]byte, err error) {
	c, err := d.NewContext(f.Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // the first error is the one to tell
	return runInContext(f, d, c)
}

// runInContext runs a fixture, whose buffers lie in granted memory, and leaves the context as it was. Where the fixture does
// not end it does not return.
func runInContext(f *fixture.Fixture, d gpu.Device, c gpu.Context) (outputs [][]byte, err error) {
	m, err := c.LoadModule(context.Background(), f.Name+".ptx", f.Source, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	var regions []*hostmem.Region
	var maps []gpu.Memory
	defer func() {
		for _, x := range maps {
			_ = x.Close() // before what it has mapped
		}
		for _, r := range regions {
			r.Release()
		}
	}()
	address := func(buffer int) uint64 { return d.Properties().System.Base + uint64(buffer)<<24 }
	for i := range f.Buffers {
		b := &f.Buffers[i]
		r, err := hostmem.New((uint64(b.Bytes()) + 4095) &^ 4095)
		if err != nil {
			return nil, err
		}
		regions = append(regions, r)
		copy(r.Bytes(), b.Initial())
		sys, err := c.NewSystem([][]byte{r.Bytes()})
		if err != nil {
			return nil, err
		}
		maps = append(maps, sys)
		if err := c.Map(address(i), sys, 0, sys.Size(), gpu.ProtRead|gpu.ProtWrite); err != nil {
			return nil, err
		}
	}
	if err := launchAll(f, c, m, address); err != nil {
		return nil, err
	}
	for i := range f.Buffers {
		if b := &f.Buffers[i]; b.Output {
			outputs = append(outputs, append([]byte(nil), regions[i].Bytes()[:b.Bytes()]...))
		}
	}
	return outputs, nil
}

// launchAll launches the kernels of a fixture and waits for them.
func launchAll(f *fixture.Fixture, c gpu.Context, m gpu.Module, address func(int) uint64) error {
	ch, err := c.NewChannel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	var cmds []gpu.Command
	for i := range f.Runs {
		r := &f.Runs[i]
		k, err := m.Function(r.Kernel)
		if err != nil {
			return err
		}
		params := r.Params(address, nil)
		cmds = append(cmds, &gpu.Launch{Func: k, Grid: r.Grid, Block: r.Block, SharedBytes: r.Shared, Params: params[:min(len(params), k.Attributes().ParamBytes)]})
	}
	done := make(chan gpu.Result, 1)
	if err := ch.Submit(cmds, func(r gpu.Result) { done <- r }); err != nil {
		return err
	}
	return (<-done).Err
}

// plain reports whether a fixture needs nothing but buffers.
func plain(f *fixture.Fixture) bool {
	for i := range f.Buffers {
		if b := &f.Buffers[i]; b.Object != nil || b.Bytes() == 0 || b.Bytes() > 1<<24 {
			return false
		}
	}
	return len(f.Tensors) == 0
}

// TestFixturesInPieces runs the fixtures with loops on a device that ends pieces at each k-th look: results are as
// when they run through.
func TestFixturesInPieces(t *testing.T) {
	equal, looks := 0, []uint32{3, 1, 40}
	if testing.Short() {
		looks = looks[:1]
	}
	for _, k := range looks {
		d := inPieces(t, k, 1, suspensions)
		for _, c := range readCorpus(t) {
			if c.recording == nil || c.recording.Fault != "" || !plain(c.fixture) || !hasPoints(suspendKernels(t, c.fixture.Source)) {
				continue
			}
			want, err := runExec(c.fixture, exec.NativeNever, 1)
			if err != nil {
				continue // TestCorpus reports it
			}
			got, err := runOnDevice(c.fixture, d)
			if err != nil {
				t.Errorf("%s, at each look %d: %v", c.fixture.Name, k, err)
				continue
			}
			if diffs, _ := c.fixture.Compare(got, want); len(diffs) > 0 {
				t.Errorf("%s, at each look %d: %d values differ: %v", c.fixture.Name, k, len(diffs), diffs[0])
			}
			equal++
		}
		twins, wholes, pieces := d.Counts()
		t.Logf("each look %d: %d launches in %d pieces, %d as they are", k, twins, twins+pieces, wholes)
		require.Positive(t, pieces)
	}
	require.Greater(t, equal, 66*len(looks))
}

// hasPoints reports whether a kernel of a module looks at its signal.
func hasPoints(list []rewrite.Suspended) bool {
	for i := range list {
		if list[i].Points > 0 {
			return true
		}
	}
	return false
}

// TestRandomInPieces runs random kernels on a device that ends pieces at each k-th look, and compares every bit.
func TestRandomInPieces(t *testing.T) {
	for k := uint32(1); k <= 5; k += 2 {
		d := inPieces(t, k, 1, suspensions)
		for seed := range rounds(20, 60, 60) {
			f, err := fixture.Parse("random", []byte(random.Lone(fmt.Append(nil, seed))))
			require.NoError(t, err)
			want, err := runExec(f, exec.NativeNever, 1)
			require.NoError(t, err, "%s", f.Source)
			got, err := runOnDevice(f, d)
			require.NoError(t, err, "%s", f.Source)
			diffs, _ := f.Compare(got, want)
			require.Empty(t, diffs, "at each look %d: %s", k, f.Source)
		}
		_, _, pieces := d.Counts()
		require.Positive(t, pieces)
	}
}

// BenchmarkSuiteInPieces compares the processor time that kernels of programs of the suite take with kernels that
// look at their signal, which stays clear, and with kernels as they are, in turns.
func BenchmarkSuiteInPieces(b *testing.B) {
	for _, name := range []string{"loop", "mmul", "fmmul", "bp", "hs", "lud", "srad", "long-madd"} {
		b.Run(name, func(b *testing.B) {
			var used [2]time.Duration
			for range b.N {
				for i := range used {
					soft, err := softgpu.New(softgpu.Config{})
					require.NoError(b, err)
					meter := &metered{Device: soft}
					var d gpu.Device = meter
					if i == 1 {
						d, err = points.New(meter, points.Config{Force: true, Short: -1})
						require.NoError(b, err)
					}
					drv, err := cuda.Init(func() (drm.File, error) { return native.Open(d, "suite") })
					require.NoError(b, err)
					result, err := suite.Run(drv, name, suite.Options{})
					require.NoError(b, err)
					require.True(b, result.Verified)
					require.NoError(b, drv.Close())
					used[i] += meter.used
					require.NoError(b, d.Close())
				}
			}
			b.ReportMetric(float64(used[1])/float64(used[0]), "times")
			b.ReportMetric(float64(used[0].Microseconds())/float64(b.N), "us/as-it-is")
		})
	}
}
