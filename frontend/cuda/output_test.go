package cuda

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
)

// pieces is a file that prints, piece by piece.
type pieces struct {
	drm.File
	list [][]byte
}

func (p *pieces) ReadOutput() (b []byte, err error) {
	if len(p.list) > 0 {
		b, p.list = p.list[0], p.list[1:]
	}
	return b, nil
}

// TestOutputGoesApart cuts output anywhere: marked lines reach standard error, and all else
// standard output.
func TestOutputGoesApart(t *testing.T) {
	const mark = drm.StderrMark
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"text", "line\n", "\x00", "\x00pvdrm", mark[:len(mark)-1] + "!", mark + "failed\n", mark + "\n"})).Draw(t, "parts")
		var all, out, failed []byte
		for _, s := range parts {
			all = append(all, s...)
			if rest, ok := bytes.CutPrefix([]byte(s), []byte(mark)); ok {
				failed = append(failed, rest...)
			} else {
				out = append(out, s...)
			}
		}
		f := &pieces{}
		for len(all) > 0 {
			n := rapid.IntRange(1, len(all)).Draw(t, "n")
			f.list = append(f.list, all[:n:n])
			all = all[n:]
		}
		var stdout, stderr bytes.Buffer
		var o output
		o.flush(f, &Driver{Output: &stdout, Errors: &stderr})
		require.Equal(t, string(out), stdout.String())
		require.Equal(t, string(failed), stderr.String())
	})
}

// asked counts how often it is asked for text.
type asked struct {
	drm.File
	times int
}

func (a *asked) ReadOutput() ([]byte, error) {
	a.times++
	return nil, nil
}

// TestTextIsAskedForWhereAKernelMayPrint waits after kernels that print and after others: an answer takes time.
func TestTextIsAskedForWhereAKernelMayPrint(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.AddKernel("k", func(*cudatest.File, []byte) *cudatest.Fault { return nil })
	c := newContext(t, g)
	a := &asked{File: c.file}
	c.file = a
	defer func() { c.file = a.File }()
	quiet := mustFunction(t, c, "k")
	loud := *quiet
	loud.prints = true
	one, other := mustStream(t, c), mustStream(t, c)
	config := func(s *Stream) LaunchConfig {
		return LaunchConfig{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Stream: s}
	}
	step := func(times int, what string, do func() error) {
		t.Helper()
		before := a.times
		require.NoError(t, do())
		require.Equal(t, times, a.times-before, what)
	}
	launch := func(f *Function, s *Stream) func() error {
		return func() error { return f.Launch(config(s)) }
	}
	step(0, "a kernel", launch(quiet, one))
	step(0, "nothing may print", one.Synchronize)
	step(0, "a kernel that may print", launch(&loud, one))
	step(1, "it may have printed", other.Synchronize)
	step(1, "it has ended", one.Synchronize)
	step(0, "its text is taken", one.Synchronize)
	b := c.NewBatch()
	require.NoError(t, b.AddKernel(&loud, config(nil), make([]byte, quiet.attr.ParamBytes)))
	step(0, "a graph with one", func() error { return b.Queue(one) })
	step(1, "all streams", c.Synchronize)
	step(0, "its text is taken", c.Synchronize)
	require.NoError(t, launch(&loud, other)())
	step(1, "a stream that goes", other.Destroy)
	step(0, "its text is taken", one.Synchronize)
}
