package lower

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// TestRunnable checks that the engine refuses, with its place, what PTX has and the engine does
// not run. Package ptx accepts all of it.
func TestRunnable(t *testing.T) {
	const head = ".version 7.0\n.target sm_70\n.address_size 64\n"
	for _, c := range []struct {
		name, source string
		want         []string
	}{
		{name: "instructions", source: head + ".visible .entry k(.param .u64 a)\n" +
			"{ .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;\n" +
			"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%r1, %r1}, %f3;\n" +
			"@%p1 st.bulk [%rd1], 16, 0;\n" +
			"redux.sync.min.f32 %f1, %f1, -1;\n" +
			"wgmma.fence.sync.aligned;\ntcgen05.fence::before_thread_sync;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];\n}\n",
			want: []string{
				"f:6:1: error: instruction 'tex.2d.v4.f32.f32' is not supported (PTX ISA 9.7.9)",
				"f:7:1: error: instruction 'st.bulk' is not supported (PTX ISA 9.7.8)",
				"f:8:1: error: instruction 'redux.sync.min.f32' is not supported (PTX ISA 9.7.12, needs sm_100)",
				"f:9:1: error: instruction 'wgmma.fence.sync.aligned' needs .target sm_90a",
				"f:10:1: error: instruction 'tcgen05.fence::before_thread_sync' is not supported (PTX ISA 9.7.14)",
				"f:11:1: error: instruction 'ldmatrix.sync.aligned.m8n8.x1.shared.b16' needs .target sm_75 or higher",
			}},
		{name: "texture", source: head + ".global .texref t; .global .samplerref s; .global .surfref u[2];",
			want: []string{
				"f:4:40: error: samplers, and textures and surfaces that are parameters, arrays or initialised, are not supported: 's' is .samplerref",
				"f:4:60: error: samplers, and textures and surfaces that are parameters, arrays or initialised, are not supported: 'u' is .surfref",
			}},
		{name: "cluster", source: head + ".entry k() .blocksareclusters { ret; }",
			want: []string{"f:4:8: error: directive .blocksareclusters of function 'k' is not supported"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ptx.Load("f", []byte(c.source))
			require.NoError(t, err)
			for _, refuse := range []func(*ptx.Module) error{
				Runnable,
				func(m *ptx.Module) error { _, err := Module(nil, m, false); return err },
			} {
				var build *gpu.BuildError
				require.ErrorAs(t, refuse(m), &build)
				var got []string
				for _, d := range build.Diagnostics {
					got = append(got, d.String())
				}
				require.Equal(t, c.want, got)
			}
		})
	}
}

// TestRunnableCorpus checks the verdict on modules that compilers made.
func TestRunnableCorpus(t *testing.T) {
	files, err := filepath.Glob("../../../ptx/testdata/clang/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		m, err := ptx.Load(file, source)
		require.NoError(t, err)
		require.Equal(t, strings.Contains(file, "/refused."), Runnable(m) != nil, file)
	}
}
