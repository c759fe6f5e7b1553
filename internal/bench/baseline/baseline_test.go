package baseline

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/internal/suite"
)

// Every program of the suite comes to its end on the floor: what is wrong in the
// end is the result, and no call. (A program whose result may be all zeroes is
// even right.)
func TestPrograms(t *testing.T) {
	drv, err := cuda.Init(func() (drm.File, error) { return Open(), nil })
	require.NoError(t, err)
	for _, b := range suite.All() {
		t.Run(b.Name, func(t *testing.T) {
			res, err := suite.Run(drv, b.Name, suite.Options{})
			require.NoError(t, err)
			require.NotContains(t, res.Error, "CUDA_ERROR")
			require.Positive(t, res.Seconds.Init)
			require.Positive(t, res.Seconds.Close)
		})
	}
}

func TestAttributes(t *testing.T) {
	const source = `
.visible .entry none()
{ ret; }
.visible .entry mixed(
	.param .u64 a,
	.param .f32 b,
	.param .s8 c,
	.param .b16 d,
	.param .f64 e
)
{ ret; }
.visible .entry struct(.param .align 8 .b8 s[16]) { ret; }
.visible .entry typo(.param .u65 s) { ret; }
.visible .entry open(.param .u64 s`
	a, err := attributes(source, "mixed")
	require.NoError(t, err)
	require.Equal(t, []drm.FunctionParam{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}, {Offset: 12, Size: 1}, {Offset: 14, Size: 2}, {Offset: 16, Size: 8}}, a.Params)
	require.EqualValues(t, 24, a.ParamBytes)
	a, err = attributes(source, "none")
	require.NoError(t, err)
	require.Empty(t, a.Params)
	for name, want := range map[string]error{
		"struct": syscall.EOPNOTSUPP, "typo": syscall.EINVAL, "open": syscall.ENOENT, "mixe": syscall.ENOENT,
	} {
		_, err = attributes(source, name)
		require.ErrorIs(t, err, want, name)
	}
}

func TestFlagsReadZero(t *testing.T) {
	f := Open()
	h, err := f.GemNew(1, drm.DomainSystem, 0)
	require.NoError(t, err)
	mem, err := f.GemMap(h)
	require.NoError(t, err)
	require.Len(t, mem, systemPage)
	for i := range mem {
		mem[i] = 1
	}
	require.NoError(t, f.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: h, Addr: systemBase, Range: systemPage}}, true))
	ch, err := f.ChannelAlloc()
	require.NoError(t, err)
	copyTo := func(dst, n uint64) {
		_, err := f.Exec(ch, drm.CopyCmd{Dst: dst, Src: vramBase, Width: n, Height: 1}.Append(nil), nil)
		require.NoError(t, err)
	}
	copyTo(systemBase+8, 4)
	copyTo(systemBase+systemPage-2, 4) // past the end
	copyTo(systemBase+64, flagBytes+1) // no flag
	copyTo(vramBase, 4)
	want := make([]byte, systemPage)
	for i := range want {
		if i < 8 || i >= 12 {
			want[i] = 1
		}
	}
	require.Equal(t, want, mem)
	require.NoError(t, f.Wait(drm.Point{Channel: ch, Seqno: 4}, -1))
	require.ErrorIs(t, f.Wait(drm.Point{Channel: ch, Seqno: 5}, -1), syscall.EINVAL)
	require.NoError(t, f.GemClose(h))
	copyTo(systemBase+8, 4)
	require.NoError(t, f.Close())
}
