package opencl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/bench/clang"
	"pvdrm/internal/suite"
)

// Each program comes to the right result on PoCL, which a machine need not have: the benchmark
// says then what to install.
func TestPrograms(t *testing.T) {
	t.Setenv("POCL_CACHE_DIR", t.TempDir())
	for _, v := range Width(ptxexec.AVX2) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	p, err := Open()
	if err != nil {
		require.ErrorContains(t, err, "apt install pocl-opencl-icd")
		t.Skip(err) // in CI, too: no part of PVDRM but this comparison needs PoCL
	}
	require.NotEmpty(t, p.Version)
	require.Regexp(t, "haswell|x86-64-v3", p.Processor, "PoCL compiles for the width that is asked for")
	for _, name := range clang.Programs {
		if !Runs(name) {
			continue
		}
		res, err := suite.RunRaw(name, p.Device, suite.Options{})
		require.NoError(t, err)
		require.Empty(t, res.Error, name)
		require.True(t, res.Verified)
		t.Logf("%s %.3f ms", name, 1e3*res.Seconds.Launch)
	}
	require.False(t, Runs("hmmul"), "its kernel has instructions of PTX")
	res, err := suite.RunRaw("hmmul", p.Device, suite.Options{})
	require.NoError(t, err)
	require.Contains(t, res.Error, "PoCL cannot compile hmmul.cl")
	_, err = suite.RunRaw("nn", func() (suite.RawDevice, error) {
		d, err := p.Device()
		require.NoError(t, err)
		require.ErrorContains(t, d.Load("none", nil), `"none"`)
		require.NoError(t, d.Load("nn", nil))
		require.ErrorContains(t, d.Launch("hs_step", [2]uint32{1, 1}, [2]uint32{1, 1}, nil), "hs_step")
		require.ErrorContains(t, d.Launch("nn", [2]uint32{1, 1}, [2]uint32{1, 1}, nil), "parameters")
		return d, err
	}, suite.Options{})
	require.NoError(t, err)
}
