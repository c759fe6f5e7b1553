package cuda

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
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
		o.flush(f, &Driver{Output: &stdout, Errors: &stderr}, true)
		require.Equal(t, string(out), stdout.String())
		require.Equal(t, string(failed), stderr.String())
	})
}
