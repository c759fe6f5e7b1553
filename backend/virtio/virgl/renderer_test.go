package virgl_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

func toHost(res uint32) virtgpu.Transfer { return virtgpu.Transfer{Resource: res, Box: whole} }

func TestErrorsOfTheLibrary(t *testing.T) {
	g := fake(t, virgl.Config{})
	g.canvas(1, 1)
	require.NoError(t, g.say(1, 0))
	require.ErrorIs(t, g.say(1, virgl.FakeRefuse), unix.EINVAL)
	require.NoError(t, g.say(1, 0))
	require.Error(t, g.say(2, 0), "no such context")
	require.Error(t, g.try(func(done func(error)) { g.AttachResource(1, 9, done) }))
	require.Error(t, g.try(func(done func(error)) { g.CreateContext(1, "again", done) }))
	require.Error(t, g.try(func(done func(error)) { g.DestroyContext(2, done) }))
	require.Error(t, g.try(func(done func(error)) { g.CreateResource(1, target, done) }))
	require.Error(t, g.try(func(done func(error)) { g.DestroyResource(2, done) }))
	pages, err := virtgpu.NewPages(memory(t, 1<<12), []virtgpu.Entry{{Len: 1 << 12}})
	require.NoError(t, err)
	require.Error(t, g.try(func(done func(error)) { g.AttachBacking(1, pages, done) }), "it has pages")
	g.ok(func(done func(error)) { g.DetachBacking(1, done) })
	g.ok(func(done func(error)) { g.DetachBacking(1, done) })
}

// limit sets the limit for what comes next, in a guest that began with a long one: a busy machine
// may take any time for the rest.
func (g *guest) limit(d time.Duration) {
	g.t.Helper()
	g.ok(func(done func(error)) {
		g.DestroyContext(99, func(err error) {
			g.SetLimit(d)
			done(err)
		})
	})
}

// A worker that hangs is ended after the limit, and one that exits is missed at
// once; so is one whose fences do not signal.
func TestWorkersThatDoNotAnswer(t *testing.T) {
	for name, word := range map[string]uint32{"hang": virgl.FakeHang, "exit": virgl.FakeExit, "no fence": virgl.FakeNoFence} {
		t.Run(name, func(t *testing.T) {
			g := fake(t, virgl.Config{Limit: time.Hour})
			g.canvas(1, 1)
			g.context(2)
			g.context(99)
			g.limit(300 * time.Millisecond)
			require.Error(t, g.try(func(done func(error)) {
				g.Submit(1, binary.LittleEndian.AppendUint32(nil, word), true, func(err error) {
					g.SetLimit(time.Hour)
					done(err)
				})
			}))
			require.ErrorIs(t, g.say(2, 0), virgl.ErrLost, "context 2 was lost with it")
			require.ErrorIs(t, g.try(func(done func(error)) { g.Transfer(2, toHost(1), done) }), virgl.ErrLost)
			require.Equal(t, uint64(1), g.Stats().Lost)
			g.canvas(3, 3)
			require.NoError(t, g.say(3, 0))
			require.Len(t, g.workers(), 1)
		})
	}
}

// A fence that never signals is missed although the worker answers all else.
func TestFenceThatDoesNotSignal(t *testing.T) {
	g := fake(t, virgl.Config{Limit: time.Hour})
	g.canvas(1, 1)
	g.context(99)
	g.limit(300 * time.Millisecond)
	lost := make(chan error, 1)
	g.Submit(1, []byte{virgl.FakeNoFence, 0, 0, 0}, true, func(err error) { lost <- err })
	for len(lost) == 0 {
		_ = g.try(func(done func(error)) { g.Transfer(1, toHost(1), done) }) // works until the worker is ended
	}
	require.ErrorIs(t, <-lost, virgl.ErrLost)
	require.Equal(t, uint64(1), g.Stats().Lost)
}

// Reset comes back although the worker hangs, and the guest starts afresh.
func TestReset(t *testing.T) {
	g := fake(t, virgl.Config{Limit: time.Hour})
	for range 2 {
		runs := g.canvas(1, 1)
		require.Len(t, runs, 2)
		g.Submit(1, []byte{virgl.FakeHang, 0, 0, 0}, true, func(error) {})
		g.Submit(1, make([]byte, 200<<10), true, func(error) {})
		g.Submit(1, make([]byte, 200<<10), true, func(error) {}) // more than the socket takes
		g.Reset()
		require.Empty(t, g.workers(), "and has no page of the guest")
	}
	require.Zero(t, g.Stats().Lost, "nothing was lost that was not to be")
	g.canvas(1, 1)
	require.NoError(t, g.say(1, 0))
}

func TestQuotas(t *testing.T) {
	group := &quota.Set{}
	var limits quota.Limits
	limits[quota.VRAM], limits[quota.Granted], limits[quota.Contexts] = 10*pixels, 3<<12, 2
	group.SetLimits(limits)
	used := func(r quota.Resource) uint64 {
		for _, q := range group.Stats() {
			if q.Resource == r.String() {
				return q.Used
			}
		}
		return 0
	}
	g := fake(t, virgl.Config{Quota: group})
	create := func(id uint32) error {
		return g.try(func(done func(error)) { g.CreateResource(id, target, done) })
	}
	for id := range uint32(10) {
		require.NoError(t, create(id+1))
	}
	require.ErrorIs(t, create(11), unix.ENOMEM)
	require.Equal(t, uint64(10*pixels), used(quota.VRAM))
	g.ok(func(done func(error)) { g.DestroyResource(11, done) })
	g.ok(func(done func(error)) { g.DestroyResource(1, done) })
	require.NoError(t, create(11))
	pages, err := virtgpu.NewPages(memory(t, 4<<12), []virtgpu.Entry{{Len: 4 << 12}})
	require.NoError(t, err)
	require.ErrorIs(t, g.try(func(done func(error)) { g.AttachBacking(2, pages, done) }), unix.ENOMEM)
	for range 2 {
		pages, err = virtgpu.NewPages(memory(t, 3<<12), []virtgpu.Entry{{Len: 3 << 12}})
		require.NoError(t, err)
		g.ok(func(done func(error)) { g.AttachBacking(2, pages, done) })
		require.Equal(t, uint64(3<<12), used(quota.Granted))
		g.ok(func(done func(error)) { g.DetachBacking(2, done) })
		require.Zero(t, used(quota.Granted))
	}
	pages, err = virtgpu.NewPages(memory(t, 3<<12), []virtgpu.Entry{{Len: 3 << 12}})
	require.NoError(t, err)
	g.ok(func(done func(error)) { g.AttachBacking(2, pages, done) })
	g.context(1)
	g.context(2)
	require.ErrorIs(t, g.try(func(done func(error)) { g.CreateContext(3, "", done) }), unix.EBUSY)
	require.Error(t, g.say(1, virgl.FakeExit))
	require.Zero(t, used(quota.VRAM), "what was lost is not charged")
	require.Zero(t, used(quota.Granted))
	g.Reset()
	require.Zero(t, used(quota.Contexts))
}

func TestNoWorkerNoRenderer(t *testing.T) {
	_, err := virgl.New(virgl.Config{Keeper: command(roleKeeper + ":none")})
	require.ErrorContains(t, err, "waiting for the renderer to start")
	_, err = virgl.New(virgl.Config{Keeper: []string{"/nonexistent"}})
	require.ErrorContains(t, err, "keeper")
}

// slowGate is a gate that reports each step and opens when the test opens it.
type slowGate struct {
	steps chan string
	open  chan struct{}
}

func (g *slowGate) Enter(gpu.Engine, bool) <-chan struct{} {
	g.steps <- "enter"
	return g.open
}
func (g *slowGate) Cancel(gpu.Engine)                             { g.steps <- "cancel" }
func (g *slowGate) Wanted(gpu.Engine) bool                        { return true }
func (g *slowGate) Alone(gpu.Engine) bool                         { return false }
func (g *slowGate) Turn(gpu.Engine) bool                          { return false }
func (g *slowGate) Revoked(gpu.Engine, time.Duration) bool        { return false }
func (g *slowGate) Preempted(gpu.Engine) bool                     { return false }
func (g *slowGate) Charge(gpu.Engine, time.Duration, uint64)      {}
func (g *slowGate) Leave(gpu.Engine, time.Duration, uint64, bool) { g.steps <- "leave" }

func TestSubmissionsWaitAtTheGate(t *testing.T) {
	gate := &slowGate{make(chan string, 100), make(chan struct{})}
	g := fake(t, virgl.Config{Gate: gate})
	g.canvas(1, 1) // which takes no time of the GPU
	require.Empty(t, gate.steps)
	ended := make(chan error, 1)
	g.Submit(1, make([]byte, 4), false, func(err error) { ended <- err })
	require.Equal(t, "enter", <-gate.steps)
	require.Empty(t, ended)
	gate.open <- struct{}{}
	require.NoError(t, <-ended)
	require.Equal(t, "leave", <-gate.steps)
	require.Positive(t, g.Stats().Busy)

	g.Submit(1, make([]byte, 4), true, func(err error) { ended <- err })
	require.Equal(t, "enter", <-gate.steps)
	g.Reset()
	require.ErrorIs(t, <-ended, virtgpu.ErrGone)
	require.Equal(t, "cancel", <-gate.steps)

	// Who is lost while it uses the GPU leaves it.
	g.canvas(1, 1)
	g.Submit(1, []byte{virgl.FakeExit, 0, 0, 0}, true, func(err error) { ended <- err })
	require.Equal(t, "enter", <-gate.steps)
	gate.open <- struct{}{}
	require.Error(t, <-ended)
	require.Equal(t, "leave", <-gate.steps)
}
