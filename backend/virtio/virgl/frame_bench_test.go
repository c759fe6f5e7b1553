package virgl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/virgl"
)

// BenchmarkFrame is a frame without any work, from the queueing of its commands to
// its fence: what the renderer being another process costs.
func BenchmarkFrame(b *testing.B) {
	for _, role := range []string{roleFake, roleWorker} {
		b.Run(role, func(b *testing.B) {
			if role == roleWorker {
				needLibrary(b)
			}
			r, err := virgl.New(virgl.Config{Keeper: command(roleKeeper + ":" + role)})
			require.NoError(b, err)
			ended := make(chan error, 1)
			done := func(err error) { ended <- err }
			r.CreateContext(1, "bench", done)
			require.NoError(b, <-ended)
			nothing := make([]byte, 4)
			for b.Loop() {
				r.Submit(1, nothing, true, done)
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, r.Close())
		})
	}
}
