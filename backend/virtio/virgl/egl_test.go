package virgl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/virgl"
)

// A device that EGL lists renders, in several contexts, and fences signal. Mesa lists one that is the processors.
func TestDeviceOfEGL(t *testing.T) {
	needLibrary(t)
	g := start(t, roleDevice, virgl.Config{})
	require.Len(t, g.Capsets(), 2)
	for id := range uint32(3) {
		runs := g.canvas(1+id, 7+id)
		require.NoError(t, g.submit(1+id, paint(7+id, 1, 0, 0.5)))
		require.NoError(t, g.fetch(1+id, 7+id, whole, 0))
		for i := range pixels {
			require.InDelta(t, []byte{0x80, 0, 0xff, 0xff}[i%4], runs[i>>12][i&4095], 1, "context %d, byte %d", id, i)
		}
	}
	g.ok(func(done func(error)) { g.DestroyContext(2, done) })
	require.NoError(t, g.submit(1, paint(7, 0, 0, 0)), "the others go on")
	require.Zero(t, g.Stats().Lost)
}
