package softgpu

import (
	"bytes"
	gocontext "context"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// Instructions that only later GPUs have run on a device of their capability.
func TestDerivedInstructions(t *testing.T) {
	for _, text := range []string{"fma.rn.f32x2 %rd1, %rd1, %rd1, %rd1;", "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];"} {
		source := []byte(".version 8.8\n.target sm_100\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<9>; .reg .b64 %rd<3>;\n" + text + "\nret;\n}")
		require.NoError(t, Check(t.Context(), Config{Capability: 100}, "f", source))
		require.ErrorContains(t, Check(t.Context(), Config{Capability: 90}, "f", source), "needs compute capability 10.0; the device has 9.0")
		var build *gpu.BuildError
		require.ErrorAs(t, Check(t.Context(), Config{Capability: 100}, "f", bytes.Replace(source, []byte("sm_100"), []byte("sm_90"), 1)), &build)
	}
}

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
