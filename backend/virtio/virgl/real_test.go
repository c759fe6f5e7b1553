package virgl_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/gem/quota"
)

func TestCapsets(t *testing.T) {
	g := genuine(t, virgl.Config{})
	sets := g.Capsets()
	require.Len(t, sets, 2)
	require.Equal(t, []uint32{1, 2}, []uint32{sets[0].ID, sets[1].ID})
	require.GreaterOrEqual(t, len(sets[1].Data), 1376, "VIRGL2 of version 0.10.4")
}

func TestClearReachesTheGuest(t *testing.T) {
	g := genuine(t, virgl.Config{})
	runs := g.canvas(1, 7)
	require.NoError(t, g.submit(1, paint(7, 1, 0, 0.5)))
	const at = 1<<12 - pixels/2 // so that the rows go on from one page to the other
	require.NoError(t, g.fetch(1, 7, whole, at))
	for i := range pixels {
		b := runs[(at+i)>>12][(at+i)&4095]
		require.InDelta(t, []byte{0x80, 0, 0xff, 0xff}[i%4], b, 1, "byte %d", i)
	}
	var part []byte
	g.ok(func(done func(error)) {
		g.ReadPixels(7, 4, 4, 3, 2, func(p []byte, err error) {
			part = append(part, p...)
			done(err)
		})
	})
	require.Len(t, part, 4*3*2)
	require.Equal(t, byte(0xff), part[4*3*2-2], "red")
	// Pixels that the guest wrote reach the host, and come back.
	runs[0][2], runs[0][1] = 0, 0x77
	g.ok(func(done func(error)) { g.Transfer(1, toHost(7), done) })
	clear(runs[0])
	require.NoError(t, g.fetch(1, 7, whole, 0))
	require.Equal(t, byte(0x77), runs[0][1])
	require.Positive(t, g.Stats().Busy)
}

// The kernel says that what renders has no privileges and a filter.
func TestWorkerIsConfined(t *testing.T) {
	g := genuine(t, virgl.Config{})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.workers()[0]))
	require.NoError(t, err)
	for _, line := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		require.Contains(t, string(status), line+"\n")
	}
}

// What a hostile guest does ends in an error, or in the guest's own context, and
// others go on.
func TestBadCommands(t *testing.T) {
	g := genuine(t, virgl.Config{})
	g.works(1, 1)
	t.Run("transfers outside", func(t *testing.T) {
		g := &guest{g.Renderer, t}
		g.canvas(4, 4)
		require.Error(t, g.fetch(4, 4, [6]uint32{1, 0, 0, side, side, 1}, 0))
		require.Error(t, g.fetch(4, 4, [6]uint32{0, 0, 0, 1 << 31, 1 << 31, 1 << 31}, 0))
		require.Error(t, g.fetch(4, 4, whole, 1<<12+pixels*4))
		require.Error(t, g.fetch(4, 4, whole, ^uint64(0)-100))
	})
	t.Run("resource of another context", func(t *testing.T) {
		g := &guest{g.Renderer, t}
		g.context(2)
		require.Error(t, g.fetch(2, 1, whole, 0))
		require.Error(t, g.submit(2, paint(1, 0, 0, 0)))
		g.context(3)
		require.Error(t, g.fetch(3, 4711, whole, 0))
		require.Error(t, g.fetch(4711, 1, whole, 0))
	})
	t.Run("shader that does not compile", func(t *testing.T) {
		g := &guest{g.Renderer, t}
		for i, text := range []string{"FRAG\nDCL OUT[0], COLOR\nMOV OUT[0], IN[", "", "VERT\n", "FRAG\n0: FROB TEMP[99999999]\nEND\n"} {
			g.context(uint32(10 + i))
			s := &virgltest.Stream{}
			s.Shader(1, text)
			_ = g.submit(uint32(10+i), s) // it may be found out later only, when it is used
		}
	})
	t.Run("resources that cannot be", func(t *testing.T) {
		g := &guest{g.Renderer, t}
		for i, change := range [][3]uint32{{1 << 31, 1 << 31, 1}, {0, 0, 0}, {side, side, 1 << 31}} {
			a := target
			a.Width, a.Height, a.Depth = change[0], change[1], change[2]
			require.Error(t, g.try(func(done func(error)) { g.CreateResource(uint32(100+i), a, done) }))
		}
		a := target
		a.Format, a.Target = ^uint32(0), ^uint32(0)
		require.Error(t, g.try(func(done func(error)) { g.CreateResource(110, a, done) }))
		require.Error(t, g.fetch(1, 110, whole, 0))
		g.ok(func(done func(error)) { g.DestroyResource(110, done) })
	})
	require.NoError(t, g.submit(1, paint(1, 1, 1, 1)), "the first context goes on")
	require.Zero(t, g.Stats().Lost)
}

// Neither descriptors nor mappings are left of a guest that is gone. That its
// processes are gone is checked at the end of every test.
func TestNothingIsLeft(t *testing.T) {
	genuine(t, virgl.Config{}) // Go's own descriptors come with the first
	before := descriptors(t)
	t.Run("guest", func(t *testing.T) {
		g := genuine(t, virgl.Config{})
		g.works(1, 1)
		g.canvas(2, 2)
		g.ok(func(done func(error)) { g.ReadPixels(1, 0, 0, side, side, func(_ []byte, err error) { done(err) }) })
		require.NoError(t, unix.Kill(g.workers()[0], unix.SIGKILL))
		require.Error(t, g.fetch(2, 2, whole, 0))
		g.works(3, 3)
	})
	require.ElementsMatch(t, before, descriptors(t))
}

// Ten thousand contexts are too many, and that harms nobody.
func TestTooManyContexts(t *testing.T) {
	const most = 16
	var limits quota.Limits
	limits[quota.Contexts] = most
	group := &quota.Set{}
	group.SetLimits(limits)
	g := genuine(t, virgl.Config{Quota: group})
	g.works(1, 1)
	refused := 0
	for id := range uint32(10000) {
		err := g.try(func(done func(error)) { g.CreateContext(id+2, "many", done) })
		if err != nil {
			require.ErrorIs(t, err, unix.EBUSY)
			refused++
		}
	}
	require.Equal(t, 10000-most+1, refused)
	require.NoError(t, g.submit(1, paint(1, 1, 1, 1)))
	for id := range uint32(10000) {
		g.ok(func(done func(error)) { g.DestroyContext(id+2, done) })
	}
	g.works(20000, 2)
}

// A renderer that is killed while it works takes the contexts of its guest with it.
func TestKilledRenderer(t *testing.T) {
	g := genuine(t, virgl.Config{})
	other := genuine(t, virgl.Config{})
	other.works(1, 1)
	for round := range uint32(3) {
		ctx := 10 * (round + 1)
		g.works(ctx, ctx)
		ended := make(chan error, 100)
		for range cap(ended) {
			g.Submit(ctx, paint(ctx, 0, 0, 1).Bytes(), true, func(err error) { ended <- err })
		}
		require.NoError(t, unix.Kill(g.workers()[0], unix.SIGKILL))
		for range cap(ended) {
			<-ended // each fence ends, most of them with an error
		}
		require.ErrorIs(t, g.submit(ctx, paint(ctx, 0, 0, 1)), virgl.ErrLost)
		require.ErrorIs(t, g.fetch(ctx, ctx, whole, 0), virgl.ErrLost)
		g.ok(func(done func(error)) { g.DetachBacking(ctx, done) })
		g.ok(func(done func(error)) { g.DestroyResource(ctx, done) })
		g.ok(func(done func(error)) { g.DestroyContext(ctx, done) })
		g.works(ctx+1, ctx+1)
	}
	require.Equal(t, uint64(3), g.Stats().Lost)
	require.NoError(t, other.submit(1, paint(1, 1, 1, 1)))
	require.Zero(t, other.Stats().Lost)
}

// mutate changes a stream here and there.
func mutate(b []byte, random *rand.Rand) {
	for range 1 + random.IntN(4) {
		b[random.IntN(len(b))] = byte(random.Uint32())
	}
}

func TestMutatedStreams(t *testing.T) {
	g := genuine(t, virgl.Config{})
	random := rand.New(rand.NewPCG(7, 7))
	for i := range uint32(200) {
		ctx := 100 + i
		g.canvas(ctx, ctx)
		s := paint(ctx, 1, 1, 1)
		s.Shader(2, "FRAG\nDCL OUT[0], COLOR\nIMM[0] FLT32 { 1, 1, 1, 1 }\n0: MOV OUT[0], IMM[0]\n1: END\n")
		b := s.Bytes()
		mutate(b, random)
		_ = g.try(func(done func(error)) { g.Submit(ctx, b, true, done) }) // an error, or a lost renderer: either is the guest's own
		g.ok(func(done func(error)) { g.DestroyContext(ctx, done) })
		g.ok(func(done func(error)) { g.DestroyResource(ctx, done) })
	}
	g.works(1, 1)
}
