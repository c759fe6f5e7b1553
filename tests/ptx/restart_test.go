package ptx_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/tests/ptx/internal/fixture"
	"pvdrm/tests/ptx/internal/random"
)

// restarts counts the launches of a fixture by what became of them.
type restarts struct {
	again  int // stopped half-way, and begun again
	saved  int // of these, with what ptx.Effects has saved
	ended  int // ended before they could be stopped
	refuse int // cannot begin again
}

func (r *restarts) add(s restarts) {
	r.again, r.saved, r.ended, r.refuse = r.again+s.again, r.saved+s.saved, r.ended+s.ended, r.refuse+s.refuse
}

// runAgain runs a fixture as runExec does, but stops each launch that may begin again after it was
// preempted so many times, drops its state, puts back what was to be saved, and begins again.
func runAgain(f *fixture.Fixture, after int) (outputs [][]byte, n restarts, err error) {
	mod, err := ptx.Load(f.Name+".ptx", f.Source)
	if err != nil {
		return nil, n, err
	}
	next := 0
	outputs, err = runProgram(f, exec.Compile, func(k *exec.Kernel, l exec.Launch, m memory) error {
		name := f.Runs[next].Kernel
		next++
		fn := kernelOf(mod, name)
		save, refused := mod.Effects(fn).Restart(func(p ptx.Pointer) (uint64, bool) { return regionOf(fn, p, &l, m) })
		if refused != nil {
			n.refuse++
			return exec.Run(k, l, m, new(exec.Control), 1)
		}
		kept := map[uint64][]byte{}
		for _, region := range save {
			kept[region] = slices.Clone(m[region])
		}
		first := l
		for stops := 0; ; stops++ {
			c := new(exec.Control)
			err := exec.Run(k, l, pausing{m, c}, c, 1)
			var stopped *exec.Preempted
			if !errors.As(err, &stopped) {
				n.ended++
				return err
			}
			if stops == after {
				break
			}
			l.From = stopped.State
		}
		n.again++
		if len(save) > 0 {
			n.saved++
		}
		for region, was := range kept {
			copy(m[region], was)
		}
		return exec.Run(k, first, m, new(exec.Control), 1)
	})
	return outputs, n, err
}

func kernelOf(m *ptx.Module, name string) *ptx.Func {
	for _, d := range m.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Name == name && f.Entry {
			return f
		}
	}
	return nil
}

// regionOf returns the buffer that a pointer points into at a launch.
func regionOf(f *ptx.Func, p ptx.Pointer, l *exec.Launch, m memory) (uint64, bool) {
	if p.Var != nil {
		return dataBase >> regionBits, true
	}
	offset := 0
	for i, v := range f.Params {
		offset = (offset + int(v.Alignment()) - 1) / int(v.Alignment()) * int(v.Alignment())
		if i == p.Param {
			break
		}
		offset += int(v.Size())
	}
	offset += int(p.Offset)
	if offset+8 > len(l.Params) {
		return 0, false
	}
	region := binary.LittleEndian.Uint64(l.Params[offset:]) >> regionBits
	return region, m[region] != nil
}

// requireRestart compares what a fixture leaves with what it leaves when its launches begin again.
func requireRestart(t *testing.T, f *fixture.Fixture) (n restarts) {
	t.Helper()
	want, err := runExec(f, exec.NativeNever, 1)
	if err != nil {
		return n // a fault, or what the engine does not run
	}
	for _, after := range []int{0, 4, 30} {
		got, m, err := runAgain(f, after)
		require.NoError(t, err, f.Name)
		n.add(m)
		for i := range want {
			if !bytes.Equal(want[i], got[i]) {
				require.Fail(t, "a restart differs", "%s, output %d, after %d stops\n%s", f.Name, i, after, f.Source)
			}
		}
		if m.again == 0 {
			break // it stops no later than this
		}
	}
	return n
}

// TestRestartedKernels stops the corpus half-way and begins it again, where ptx.Effects says that
// that leaves the same.
func TestRestartedKernels(t *testing.T) {
	var all restarts
	folders := map[string]restarts{}
	of := 1 // one fixture of so many
	if testing.Short() {
		of = 3
	}
	for i, c := range readCorpus(t) {
		if i%of != 0 {
			continue
		}
		n := requireRestart(t, c.fixture)
		all.add(n)
		folder := c.fixture.Name[:slices.Index([]byte(c.fixture.Name), '/')]
		sum := folders[folder]
		sum.add(n)
		folders[folder] = sum
	}
	t.Logf("%+v", folders)
	require.Greater(t, all.again, 200/of, "few launches were stopped and begun again")
	require.Greater(t, all.saved, 20/of, "few launches had something saved")
}

// TestRestartedRandomKernels does the same with random kernels.
func TestRestartedRandomKernels(t *testing.T) {
	var all restarts
	for seed := range 60 {
		data := binary.LittleEndian.AppendUint64(nil, uint64(seed)*0x9e3779b97f4a7c15)
		for _, source := range []string{random.FromBytes(data), random.InClusters(data)} {
			f, err := fixture.Parse("random", []byte(source))
			require.NoError(t, err)
			all.add(requireRestart(t, f))
		}
	}
	require.Greater(t, all.again, 20)
}
