package softgpu

import (
	gocontext "context"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// The functions of a list of call targets must have the same parameters: the call was
// checked against the first and decoded by the last.
func TestUnlikeCallTargets(t *testing.T) {
	d, err := New(Config{})
	require.NoError(t, err)
	defer d.Close()
	c, err := d.NewContext("test")
	require.NoError(t, err)
	const functions = ".func f() { ret; }\n.func g(.param .b32 a, .param .b32 b) { ret; }\n.func (.param .b32 r) h() { ret; }\n"
	for _, list := range []string{"f, g", "f, h", "g, f"} {
		_, err = c.LoadModule(gocontext.Background(), "test.ptx", []byte(preamble+functions+
			".visible .entry k() {\n.reg .b64 %rd;\nmov.b64 %rd, f;\nT: .calltargets "+list+";\ncall %rd, T;\nret;\n}"), nil)
		var build *gpu.BuildError
		require.ErrorAs(t, err, &build, list)
	}
}
