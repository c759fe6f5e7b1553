package virgl_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/internal/hostmem"
)

// start starts a renderer whose workers have a role.
func start(t *testing.T, role string, c virgl.Config) *guest {
	t.Helper()
	c.Keeper = command(roleKeeper + ":" + role)
	r, err := virgl.New(c)
	require.NoError(t, err)
	g := &guest{r, t}
	t.Cleanup(func() {
		keeper := r.KeeperPID()
		workers := g.workers()
		require.NoError(t, r.Close())
		require.ErrorIs(t, g.try(func(done func(error)) { g.CreateContext(99, "late", done) }), virgl.ErrClosed)
		for _, pid := range append(workers, keeper) {
			require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "process %d is left", pid)
		}
	})
	return g
}

// descriptors are what this process has open, apart from what Go itself opens.
func descriptors(t *testing.T) (open []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.Contains(to, "eventpoll") && !strings.Contains(to, "eventfd") && !strings.HasPrefix(to, "/proc/") {
			open = append(open, e.Name()+" "+to)
		}
	}
	return open
}

// fake starts a renderer on the fake library.
func fake(t *testing.T, c virgl.Config) *guest {
	t.Helper()
	return start(t, roleFake, c)
}

// needLibrary skips a test where there is no virglrenderer, but not in CI.
func needLibrary(t testing.TB) {
	if err := virgl.Probe(); err != nil && os.Getenv("CI") == "" {
		t.Skip("`make deps PVDRM_DEPS=test` installs it:", err)
	}
}

// genuine starts a renderer on the library of this machine.
func genuine(t *testing.T, c virgl.Config) *guest {
	t.Helper()
	needLibrary(t)
	return start(t, roleWorker, c)
}

// guest is what a guest does with a renderer, one command at a time.
type guest struct {
	*virgl.Renderer
	t *testing.T
}

// workers are the processes that render, one or none.
func (g *guest) workers() (pids []int) {
	g.t.Helper()
	k := g.KeeperPID()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", k))
	require.NoError(g.t, err)
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", k, task.Name()))
		if err != nil {
			continue // a thread that has ended
		}
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			require.NoError(g.t, err)
			pids = append(pids, pid)
		}
	}
	return pids
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

// say submits one word, which tells the fake library what to do.
func (g *guest) say(ctx, word uint32) error {
	g.t.Helper()
	return g.try(func(done func(error)) { g.Submit(ctx, binary.LittleEndian.AppendUint32(nil, word), true, done) })
}

func (g *guest) context(id uint32) {
	g.t.Helper()
	g.ok(func(done func(error)) { g.CreateContext(id, "test", done) })
}

// fetch transfers part of a resource to the guest.
func (g *guest) fetch(ctx, res uint32, box [6]uint32, at uint64) error {
	g.t.Helper()
	return g.try(func(done func(error)) {
		g.Transfer(ctx, virtgpu.Transfer{FromHost: true, Resource: res, Box: box, Offset: at}, done)
	})
}

// memory is RAM of the guest, of n bytes.
func memory(t *testing.T, n int) *hostmem.Table {
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

const (
	side   = 16 // pixels of the render target
	pixels = 4 * side * side
)

var target = virtgpu.Args{Target: virgltest.TargetTexture2D, Format: virgltest.FormatBGRA, Bind: virgltest.BindRenderTarget,
	Width: side, Height: side, Depth: 1, ArraySize: 1}

// whole is a box around all of a target.
var whole = [6]uint32{0, 0, 0, side, side, 1}

// resource makes a render target in guest pages, which it returns: two pages that
// do not lie side by side.
func (g *guest) resource(id uint32) [][]byte {
	g.t.Helper()
	pages, err := virtgpu.NewPages(memory(g.t, 8<<12), []virtgpu.Entry{{Addr: 5 << 12, Len: 1 << 12}, {Addr: 2 << 12, Len: 1 << 12}})
	require.NoError(g.t, err)
	runs := pages.Runs()
	g.ok(func(done func(error)) { g.CreateResource(id, target, done) })
	g.ok(func(done func(error)) { g.AttachBacking(id, pages, done) })
	return runs
}

// canvas makes a context with a render target.
func (g *guest) canvas(ctx, res uint32) [][]byte {
	g.t.Helper()
	g.context(ctx)
	runs := g.resource(res)
	g.ok(func(done func(error)) { g.AttachResource(ctx, res, done) })
	return runs
}

// paint is a stream that fills a target.
func paint(res uint32, r, g, b float32) *virgltest.Stream {
	s := &virgltest.Stream{}
	s.Surface(1, res, virgltest.FormatBGRA)
	s.Framebuffer(1)
	s.Clear(r, g, b, 1)
	return s
}

// works checks that a guest can make a context and render.
func (g *guest) works(ctx, res uint32) {
	g.t.Helper()
	runs := g.canvas(ctx, res)
	require.NoError(g.t, g.submit(ctx, paint(res, 0, 1, 0)))
	require.NoError(g.t, g.fetch(ctx, res, whole, 0))
	require.Equal(g.t, []byte{0, 0xff, 0, 0xff}, runs[0][:4])
}
