package virgl_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
)

// FuzzSubmit submits any stream to virglrenderer. It may be refused or end the
// renderer, but it must be answered, and a context that is made afterwards works.
func FuzzSubmit(f *testing.F) {
	needLibrary(f)
	r, err := virgl.New(virgl.Config{Keeper: command(roleKeeper + ":" + roleWorker)})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, r.Close()) })
	const resource = 1
	f.Add([]byte{})
	f.Add(paint(resource, 1, 0, 1).Bytes())
	s := &virgltest.Stream{}
	s.Shader(1, "FRAG\nDCL OUT[0], COLOR\nIMM[0] FLT32 { 1, 1, 1, 1 }\n0: MOV OUT[0], IMM[0]\n1: END\n")
	f.Add(s.Bytes())
	f.Fuzz(func(t *testing.T, stream []byte) {
		stream = stream[:min(len(stream), 4096)]
		g := &guest{r, t}
		end := func(ids ...uint32) {
			for _, id := range ids {
				g.ok(func(done func(error)) { g.DestroyContext(id, done) })
			}
		}
		g.canvas(1, resource)
		_ = g.try(func(done func(error)) { g.Submit(1, stream, true, done) })
		end(1)
		g.ok(func(done func(error)) { g.DestroyResource(resource, done) })
		if err := g.try(func(done func(error)) { g.CreateContext(2, "next", done) }); err != nil {
			g.context(3) // the renderer had ended behind its answer, so this makes another
			end(3)
		}
		end(2)
	})
}
