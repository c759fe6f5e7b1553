package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// The stack of a function is its frame and that of the deepest function it calls, or as much
// as there may be.
func TestDepths(t *testing.T) {
	const source = `.version 8.0
.target sm_70
.address_size 64
.func leaf() { .local .b8 x[1000]; .reg .b64 a; mov.b64 a, x; ret; }
.func small() { ret; }
.func middle() { call small; call leaf; ret; }
.func again() { call again; ret; }
.visible .entry alone() { ret; }
.visible .entry deep() { call middle; call small; ret; }
.visible .entry endless() { call again; ret; }
.visible .entry through() { .reg .b64 f; mov.b64 f, small; T: .callprototype _ (); call f, (), T; ret; }
.visible .entry takes() { .reg .b64 a; alloca.u64 a, 16; ret; }
`
	mod, err := ptx.Load("d.ptx", []byte(source))
	require.NoError(t, err)
	p, err := Module(nil, mod, false)
	require.NoError(t, err)
	frame, depth := map[string]int{}, map[string]int{}
	for _, f := range p.Funcs {
		frame[f.Name], depth[f.Name] = f.FrameBytes, f.Depth
	}
	require.GreaterOrEqual(t, frame["leaf"], 1000)
	require.Equal(t, frame["alone"], depth["alone"])
	require.Equal(t, frame["deep"]+frame["middle"]+frame["leaf"], depth["deep"])
	for _, name := range []string{"endless", "through", "takes"} {
		require.Equal(t, ir.AnyDepth, depth[name], name)
	}
}
