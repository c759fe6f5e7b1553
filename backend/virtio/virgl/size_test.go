package virgl

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/backend/virtio/virtgpu"
)

func TestSizeOf(t *testing.T) {
	for _, c := range []struct {
		args virtgpu.Args
		want uint64
	}{
		{virtgpu.Args{Target: targetBuffer, Format: 64, Width: 4096, Height: 1, Depth: 1, ArraySize: 1}, 4096},
		{virtgpu.Args{Target: 2, Format: 1, Width: 64, Height: 32, Depth: 1, ArraySize: 1}, 4 * 64 * 32},
		{virtgpu.Args{Target: 2, Format: 1, Width: 64, Height: 32}, 4 * 64 * 32},
		{virtgpu.Args{Target: 2, Format: 1, Width: 60, Height: 1, LastLevel: 5}, 320},
		{virtgpu.Args{Target: 4, Format: 94, Width: 8, Height: 8, Depth: 1, ArraySize: 6, Samples: 4}, 8 * 8 * 8 * 6 * 4},
		{virtgpu.Args{Target: 2, Format: 9999, Width: 2, Height: 2}, 4 * maxTexel},
	} {
		got, err := sizeOf(c.args)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c.args)
	}
}

// Whatever a guest says, the size is no small number by mistake.
func TestSizeOfDoesNotWrapAround(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := func(name string) uint32 { return rapid.Uint32().Draw(t, name) }
		a := virtgpu.Args{Target: 2, Format: u("format"), Width: u("w"), Height: u("h"), Depth: u("d"), ArraySize: u("a"), Samples: u("s"), LastLevel: u("l")}
		want := 1.0
		for _, f := range []uint32{a.Width, a.Height, a.Depth, a.ArraySize, a.Samples} {
			want *= float64(max(f, 1))
		}
		got, err := sizeOf(a)
		require.Equal(t, err == nil, got > 0)
		if err == nil {
			require.GreaterOrEqual(t, float64(got), want)
		} else {
			require.Greater(t, want*maxTexel, float64(maxResource))
		}
	})
}
