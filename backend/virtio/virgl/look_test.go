package virgl_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virgl"
)

// A worker and a backend that look before they sleep lose no reply, keep their order, and notice what ends.
func TestLook(t *testing.T) {
	virgl.LookAnyway()
	for name, look := range map[string]time.Duration{"worker": 0, "both": testLook, "for long": time.Hour} {
		t.Run(name, func(t *testing.T) { looks(t, roleFakeLook, look) })
	}
	t.Run("backend", func(t *testing.T) { looks(t, roleFake, testLook) })
}

func looks(t *testing.T, role string, look time.Duration) {
	const long = 2 * testLook // after which the worker sleeps
	g := start(t, role, virgl.Config{Look: look})
	g.canvas(1, 1)
	for i := range 20 {
		require.NoError(t, g.say(1, 0))
		if i%5 == 0 {
			time.Sleep(long)
		}
		require.ErrorIs(t, g.say(1, virgl.FakeRefuse), unix.EINVAL)
	}
	// Many at once: fences are answered in order.
	const n = 500
	ended := make(chan int, n)
	for i := range n {
		g.Submit(1, make([]byte, 4), true, func(err error) {
			if err != nil {
				i = -1
			}
			ended <- i
		})
	}
	for i := range n {
		require.Equal(t, i, <-ended)
	}

	// A worker that ends is noticed, and one that does not answer is given up.
	require.ErrorIs(t, g.say(1, virgl.FakeExit), virgl.ErrLost)
	g.canvas(2, 2)
	g.ok(func(done func(error)) {
		g.Submit(2, make([]byte, 4), true, func(err error) {
			g.SetLimit(100 * time.Millisecond)
			done(err)
		})
	})
	require.ErrorIs(t, g.say(2, virgl.FakeNoFence), virgl.ErrLost)
	g.context(3)
	require.NoError(t, g.say(3, 0))
	require.Equal(t, uint64(2), g.Stats().Lost)
}

// A worker whose backend hangs up while it looks ends. Close, and a new start, are such hang-ups: start checks that
// no process is left.
func TestLookUntilHangup(t *testing.T) {
	virgl.LookAnyway()
	g := start(t, roleFakeLook, virgl.Config{Look: testLook})
	g.canvas(1, 1)
	ended := make(chan error, 1)
	g.Submit(1, []byte{virgl.FakeNoFence, 0, 0, 0}, true, func(err error) { ended <- err })
	g.Reset() // while it looks for the fence
	require.Error(t, <-ended)
	g.context(2)
	require.NoError(t, g.say(2, 0))
}
