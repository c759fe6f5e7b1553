package virgl_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virgl"
	"pvdrm/backend/virgl/virgltest"
	"pvdrm/backend/virtgpu"
	"pvdrm/internal/hostmem"
)

// real starts a renderer on the library of this machine.
func real(t *testing.T, c virgl.Config) *guest {
	t.Helper()
	c.Keeper = command(roleKeeper + ":" + roleWorker)
	r, err := virgl.New(c)
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("no virglrenderer here (make deps installs it):", err)
	}
	require.NoError(t, err)
	return newGuest(t, r)
}

// guest is what a guest does with a renderer, one command at a time.
type guest struct {
	*virgl.Renderer
	t *testing.T
}

func newGuest(t *testing.T, r *virgl.Renderer) *guest {
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return &guest{r, t}
}

// try runs a command and returns how it ended.
func (g *guest) try(f func(done func(error))) error {
	g.t.Helper()
	ended := make(chan error, 1)
	f(func(err error) { ended <- err })
	return <-ended
}

func (g *guest) ok(f func(done func(error))) {
	g.t.Helper()
	require.NoError(g.t, g.try(f))
}

func (g *guest) submit(ctx uint32, s *virgltest.Stream) error {
	g.t.Helper()
	return g.try(func(done func(error)) { g.Submit(ctx, s.Bytes(), true, done) })
}

// ram is memory of the guest, of n bytes.
func ram(t *testing.T, n int) *hostmem.Table {
	t.Helper()
	fd, err := unix.MemfdCreate("ram", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, int64(n)))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	require.NoError(t, err)
	region, err := hostmem.Map(fd, 0, uint64(n))
	require.NoError(t, err)
	table, err := hostmem.NewTable([]hostmem.Slot{{Region: region}})
	require.NoError(t, err)
	t.Cleanup(table.Release)
	return table
}

const side = 16 // pixels of the render target

var target = virtgpu.Args{Target: virgltest.TargetTexture2D, Format: virgltest.FormatBGRA, Bind: virgltest.BindRenderTarget,
	Width: side, Height: side, Depth: 1, ArraySize: 1}

// canvas makes a context with a render target in guest pages, which it returns.
func (g *guest) canvas(ctx, res uint32) (pixels [][]byte) {
	g.t.Helper()
	table := ram(g.t, 8<<12)
	// Two pages that do not lie side by side.
	pages, err := virtgpu.NewPages(table, []virtgpu.Entry{{Addr: 5 << 12, Len: 1 << 12}, {Addr: 2 << 12, Len: 1 << 12}})
	require.NoError(g.t, err)
	runs := pages.Runs()
	g.ok(func(done func(error)) { g.CreateContext(ctx, "test", done) })
	g.ok(func(done func(error)) { g.CreateResource(res, target, done) })
	g.ok(func(done func(error)) { g.AttachBacking(res, pages, done) })
	g.ok(func(done func(error)) { g.AttachResource(ctx, res, done) })
	return runs
}

func paint(res uint32, r, gr, b, a float32) *virgltest.Stream {
	s := &virgltest.Stream{}
	s.Surface(1, res, virgltest.FormatBGRA)
	s.Framebuffer(1)
	s.Clear(r, gr, b, a)
	return s
}

func TestClearReachesTheGuest(t *testing.T) {
	g := real(t, virgl.Config{})
	pixels := g.canvas(1, 7)
	require.NoError(t, g.submit(1, paint(7, 1, 0, 0.5, 1)))
	// To the guest's pages, so that the rows go on from one page to the other.
	const at = 1<<12 - side*side*4/2
	g.ok(func(done func(error)) {
		g.Transfer(1, virtgpu.Transfer{FromHost: true, Resource: 7, Box: [6]uint32{0, 0, 0, side, side, 1}, Offset: at}, done)
	})
	for i := range side * side * 4 {
		b := pixels[(at+i)/4096][(at+i)%4096]
		want := []byte{0x80, 0, 0xff, 0xff}[i%4]
		require.InDelta(t, want, b, 1, "byte %d", i)
	}
	g.ok(func(done func(error)) {
		g.ReadPixels(7, 4, 4, 2, 2, func(p []byte, err error) {
			if err == nil && (len(p) != 16 || p[2] != 0xff) {
				err = errors.New("wrong pixels")
			}
			done(err)
		})
	})
}
