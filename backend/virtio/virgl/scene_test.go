package virgl_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/backend/virtio/virtgpu"
)

// What a guest asks of its renderer is written down with its waits and the contents of its pages, and can be made again.
func TestRecordAndReplay(t *testing.T) {
	const drawn = 40 // frames
	g := fake(t, virgl.Config{})
	var file bytes.Buffer
	r, err := virgltest.Record(g.Renderer, &file)
	require.NoError(t, err)
	c, err := r.NewContext(1, "recorded")
	require.NoError(t, err)
	g.ok(func(done func(error)) { r.CreateResource(1, target, done) })
	pages, err := virtgpu.NewPages(memory(t, 2<<12), []virtgpu.Entry{{Len: 2 << 12}})
	require.NoError(t, err)
	written := pages.Runs()[0]
	g.ok(func(done func(error)) { r.AttachBacking(1, pages, done) })
	ended := make(chan error, 2)
	done := func(err error) { ended <- err }
	for i := range drawn {
		written[5000] = byte(1 + i)
		c.Transfer(toHost(1), done)
		c.Submit(make([]byte, 4), true, done)
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	}
	g.ok(func(done func(error)) { r.DestroyResource(1, done) })
	g.ok(c.Close)
	require.NoError(t, r.Close())

	calls, err := virgltest.ReadCalls(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	require.Len(t, calls, 3+2*drawn+2)
	last := calls[3+2*(drawn-1)]
	require.Equal(t, virgltest.Transfer, last.Op)
	require.Equal(t, 3+2*(drawn-1), last.Answered)
	require.Len(t, last.Pages, 1, "the page that was written since")
	require.Equal(t, uint64(4096), last.Pages[0].At)
	require.Equal(t, byte(drawn), last.Pages[0].Data[5000-4096])
	from, to, found, err := frames(calls)
	require.NoError(t, err)
	require.Equal(t, []int{3 + 2*(drawn-frameRepeat), 3 + 2*drawn}, []int{from, to})
	require.Equal(t, drawn-1, found)
	require.Positive(t, replay(t, roleFake, calls, from, to))

	_, err = virgltest.ReadCalls(bytes.NewReader(file.Bytes()[:file.Len()/2]))
	require.Error(t, err, "a recording that was cut off")
}
