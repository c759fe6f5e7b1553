package nvidia_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// held is a source that the fake's compiler holds, with the file that is there meanwhile.
type held struct{ path, source string }

func newHeld(t *testing.T) held {
	path := filepath.Join(t.TempDir(), "held")
	return held{path, fakeSource + nvidia.HeldBy + path + "\n"}
}

// wait waits until the compiler has come to the source.
func (h held) wait(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(h.path); return err == nil }, 5*time.Minute, time.Millisecond)
}

// loading is a module that is being loaded.
type loading struct {
	mod gpu.Module
	err error
}

func (c *fakeClient) load(ctx context.Context, source string) chan loading {
	done := make(chan loading, 1)
	go func() {
		m, err := c.ctx.LoadModule(ctx, "held.ptx", []byte(source), nil)
		done <- loading{m, err}
	}()
	return done
}

// works does everything that a context does while something else of it is compiled.
func (c *fakeClient) works() {
	c.Helper()
	m, err := c.ctx.NewVRAM(c.props.VRAM.Page)
	require.NoError(c, err)
	va := c.props.VRAM.Base
	require.NoError(c, c.ctx.Map(va, m, 0, m.Size(), gpu.ProtRead|gpu.ProtWrite))
	require.NoError(c, c.do(c.store(va, 1)).Err)
	ch, err := c.ctx.NewChannel()
	require.NoError(c, err)
	require.NoError(c, ch.Close())
	require.NoError(c, c.ctx.Unmap(va, m.Size()))
	require.NoError(c, m.Close())
	mod, err := c.ctx.LoadModule(context.Background(), "fake.ptx", []byte(fakeSource), nil)
	require.NoError(c, err, "what was compiled before is there")
	require.NoError(c, mod.Close())
}

func TestOthersGoOnWhileACompilationIsHeld(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	h := newHeld(t)
	done := c.load(context.Background(), h.source)
	h.wait(t)
	c.works()
	require.Empty(t, done)
	require.NoError(t, os.Remove(h.path))
	l := <-done
	require.NoError(t, l.err)
	_, err := l.mod.Function("store")
	require.NoError(t, err)
}

// A caller that gives up waits neither for the compiler nor for its turn at it, and the next one is
// served.
func TestCompilationIsCanceled(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	before := compilerOf(t)
	h, queued := newHeld(t), newHeld(t)
	why := errors.New("the test gives up")
	ctx, cancel := context.WithCancelCause(context.Background())
	done := c.load(ctx, h.source)
	h.wait(t)
	waiting, leave := context.WithCancelCause(context.Background())
	second := c.load(waiting, queued.source)
	leave(why)
	require.ErrorIs(t, (<-second).err, why)
	require.NoFileExists(t, queued.path, "it never had its turn")
	require.Equal(t, before, compilerOf(t), "the compilation of another was not ended")

	cancel(why)
	require.ErrorIs(t, (<-done).err, why)
	require.NoError(t, c.ctx.Err())
	c.works()
	again, err := c.ctx.LoadModule(context.Background(), "next.ptx", []byte(fakeSource+"// another\n"), nil)
	require.NoError(t, err)
	require.NoError(t, again.Close())
	require.NotEqual(t, before, compilerOf(t))
	require.ErrorIs(t, unix.Kill(before, 0), unix.ESRCH)
}

func TestCompilationIsCanceledBeforeItBegins(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	h := newHeld(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, (<-c.load(ctx, h.source)).err, context.Canceled)
	require.NoFileExists(t, h.path)
}

// A compiler that ends by itself, as one does that its source has made crash, costs that source
// only.
func TestCompilerDies(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	h := newHeld(t)
	done := c.load(context.Background(), h.source)
	h.wait(t)
	require.NoError(t, unix.Kill(compilerOf(t), unix.SIGKILL))
	require.ErrorContains(t, (<-done).err, "the driver's compiler ended")
	c.works()
	mod, err := c.ctx.LoadModule(context.Background(), "next.ptx", []byte(fakeSource+"// another\n"), nil)
	require.NoError(t, err)
	require.NoError(t, mod.Close())
	// While it had nothing to do, too: at most the source that comes before that is noticed fails.
	require.NoError(t, unix.Kill(compilerOf(t), unix.SIGKILL))
	require.Eventually(t, func() bool {
		mod, err := c.ctx.LoadModule(context.Background(), "next.ptx", []byte(fakeSource+"// a third\n"), nil)
		return err == nil && mod.Close() == nil
	}, 5*time.Minute, time.Millisecond)
}

// A context that is closed ends its compilations, and a device those of its contexts.
func TestClosingEndsCompilations(t *testing.T) {
	for _, test := range []struct {
		name  string
		close func(c *fakeClient) error
	}{
		{name: "context", close: func(c *fakeClient) error { return c.ctx.Close() }},
		{name: "device", close: func(c *fakeClient) error { return c.dev.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newFakeClient(t, nvidia.Config{})
			h := newHeld(t)
			done := c.load(context.Background(), h.source)
			h.wait(t)
			require.NoError(t, test.close(c))
			require.ErrorIs(t, (<-done).err, gpu.ErrClosed)
		})
	}
}

// The variables of a module are reserved before anything is compiled.
func TestReserveComesFirst(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	h := newHeld(t)
	refused := errors.New("no")
	source := h.source + ".visible .global .align 4 .b8 table[4096];\n"
	_, err := c.ctx.LoadModule(context.Background(), "x.ptx", []byte(source), func(n uint64) error {
		require.EqualValues(t, 4096, n)
		return refused
	})
	require.ErrorIs(t, err, refused)
	require.NoFileExists(t, h.path)
}
