package exec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

const tallied = `.version 8.0
.target sm_90
.address_size 64
.visible .entry NAME(.param .u64 p)
{
	.reg .u32 %r<4>; .reg .u64 %rd<3>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
	add.u32 %r2, %r1, 1;
	mov.u32 %r3, %clock;
	bar.sync 0;
	st.global.u32 [%rd1], %r2;
	ret;
}
`

// tally launches a kernel, with blocks of two warps.
func tally(t *testing.T, to *Tally, name string, native Native) {
	m := exectest.NewMemory(4096)
	m.Map(exectest.BufA, 4096)
	k := kernel(t, build(t, "k.ptx", []byte(strings.Replace(tallied, "NAME", name, 1)), m), name)
	l := Launch{Grid: grid(3, 1, 1), Block: grid(64, 1, 1), Params: params(uint64(exectest.BufA)), Native: native, Tally: to}
	require.NoError(t, Run(k, l, m, new(Control), 2))
}

// A tally has each launch, and each instruction that was interpreted, by cause.
func TestTally(t *testing.T) {
	var to Tally
	tally(t, &to, "k", NativeNever)
	tally(t, &to, "k", NativeNever)
	rows := to.Rows()
	require.Len(t, rows, 1)
	require.Equal(t, "k", rows[0].Kernel)
	require.Equal(t, uint64(2), rows[0].Launches)
	require.Zero(t, rows[0].Entered)
	require.NotZero(t, rows[0].Interpreted[jit.Unavailable])
	require.Equal(t, rows[0].All(), rows[0].Interpreted[jit.Unavailable])
	require.Zero(t, rows[0].All()%12, "two launches of six warps that all run the same")
}

// Where a kernel is compiled, its tally says why warps left native code.
func TestTallyNative(t *testing.T) {
	if err := NativeCode(); err != nil {
		t.Skip(err)
	}
	var cold, compiled Tally
	tally(t, &cold, "k", NativeHot)
	require.NotZero(t, cold.Rows()[0].Interpreted[jit.Cold])

	tally(t, &compiled, "k", NativeAtOnce)
	row := compiled.Rows()[0]
	require.NotZero(t, row.Entered)
	require.Zero(t, row.Interpreted[jit.Unavailable]+row.Interpreted[jit.Cold]+row.Interpreted[jit.Beyond])
	require.Equal(t, uint64(6), row.Interpreted[jit.Ends])
	require.Zero(t, row.Interpreted[jit.Barrier], "warps wait for each other in native code")
	require.NotZero(t, row.Interpreted[jit.Page])
	require.Equal(t, uint64(6), row.Interpreted[jit.Operation], "%%clock is not compiled")
	require.Len(t, row.Lines, 1)
	require.Equal(t, int32(10), row.Lines[0].Number)
}

// A guest with many kernels of long names does not make a tally large.
func TestTallyBounds(t *testing.T) {
	var to Tally
	const kernels = 300
	long := strings.Repeat("n", 400)
	for i := range kernels {
		tally(t, &to, fmt.Sprintf("k%d%s", i, long), NativeNever)
	}
	rows := to.Rows()
	require.Len(t, rows, 257)
	launches := uint64(0)
	for _, r := range rows {
		launches += r.Launches
		require.LessOrEqual(t, len(r.Kernel), 128)
	}
	require.Equal(t, uint64(kernels), launches)
	require.Equal(t, "(other kernels)", rows[0].Kernel)
}
