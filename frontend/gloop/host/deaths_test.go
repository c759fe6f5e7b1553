package host_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	backend "pvdrm/backend/carrier/local"
	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
	"pvdrm/gpu/softgpu"
)

// mortal is a context of a local guest whose backend can be killed.
type mortal struct {
	*cuda.Context
	kill   func() // ends the backend with its connections
	bury   func() // gives back what is left
	driver *cuda.Driver
}

func newMortal(t *testing.T) *mortal {
	dev, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20, SMs: 1})
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "pvdrm-") // a short path: sockets need one
	require.NoError(t, err)
	socket := filepath.Join(dir, "gpu")
	l, err := backend.Listen(socket)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := backend.NewServer(backend.Config{Device: dev, Log: zap.NewNop()}).Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	m := &mortal{kill: sync.OnceFunc(func() { stop(); served.Wait() })}
	m.driver, err = cuda.Init(func() (drm.File, error) {
		c, err := local.Open(socket)
		if err != nil {
			return nil, err
		}
		return frontend.New(c)
	})
	require.NoError(t, err)
	d, err := m.driver.Device(0)
	require.NoError(t, err)
	m.Context, err = d.CreateContext()
	require.NoError(t, err)
	m.bury = func() {
		_ = m.Destroy() // of a backend that may be gone
		_ = m.driver.Close()
		m.kill()
		require.NoError(t, dev.Close())
		require.NoError(t, os.RemoveAll(dir))
	}
	return m
}

// descriptors lists what this process has open.
func descriptors(t *testing.T) []string {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // the directory's own is gone
			all = append(all, to)
		}
	}
	return all
}

// leftovers returns the stacks of goroutines of the runtime.
func leftovers() (all []string) {
	buf := make([]byte, 1<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "pvdrm/frontend/gloop/host.(*program)") {
			all = append(all, stack)
		}
	}
	return all
}

// scene is a program that is at work until something dies: it returns Run's arguments, and waits
// until the program is where it is to die.
type scene func(t *testing.T, cfg *host.Config, ctx *cuda.Context) (args []any, reach func())

// computes never ends a chain of tasks.
func computes(t *testing.T, cfg *host.Config, ctx *cuda.Context) ([]any, func()) {
	*cfg = config(t, ctx, "throttle", "throttle")
	out, read := words(t, ctx, 1)
	return []any{out, uint32(1 << 31)}, func() {
		require.Eventually(t, func() bool { return read()[0] > 0 }, time.Minute, time.Millisecond)
	}
}

// serves waits for clients, of which none comes.
func serves(t *testing.T, cfg *host.Config, ctx *cuda.Context) ([]any, func()) {
	*cfg = config(t, ctx, "server", "echoServer")
	bound := make(chan struct{})
	cfg.Bound = func(string) { close(bound) }
	return []any{memory(t, cfg, true, 4096), uint32(1)}, func() {
		<-bound
		require.NoError(t, ctx.Synchronize(), "the kernel leaves")
	}
}

// stalled has a peer that takes nothing and says nothing.
func stalled(t *testing.T, cfg *host.Config, ctx *cuda.Context) ([]any, func()) {
	const size = 16 << 20
	stall, met := make(chan struct{}), make(chan struct{})
	port := listen(t, func(net.Conn) {
		close(met)
		<-stall
	})
	t.Cleanup(func() { close(stall) }) // before listen's
	*cfg = config(t, ctx, "server", "client")
	return []any{port, memory(t, cfg, false, 2*size), uint64(size), put(t, ctx, make([]int64, 4))}, func() { <-met }
}

// die runs a program until it dies.
func (s scene) die(t *testing.T, killed bool) {
	m, cfg := newMortal(t), host.Config{}
	args, reach := s(t, &cfg, m.Context)
	ctx, cancel := context.WithCancel(minute(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := host.Run(ctx, cfg, args...)
		ended <- err
	}()
	reach()
	want := error(context.Canceled)
	if killed {
		want = cuda.ErrDeviceUnavailable
		m.kill()
	} else {
		cancel()
	}
	require.ErrorIs(t, <-ended, want)
	require.Empty(t, leftovers())
	m.bury()
}

// A program whose context ends or whose backend dies returns an error, wherever it is, and leaves no
// goroutine and no descriptor.
func TestDeaths(t *testing.T) {
	newMortal(t).bury() // opens what a process keeps
	for name, scene := range map[string]scene{"computes": computes, "serves": serves, "stalled": stalled} {
		for _, killed := range []bool{false, true} {
			before := len(descriptors(t))
			end := map[bool]string{false: "canceled", true: "backend killed"}[killed]
			t.Run(name+", "+end, func(t *testing.T) { scene.die(t, killed) })
			require.LessOrEqual(t, len(descriptors(t)), before, "%s, %s: %q", name, end, descriptors(t))
		}
	}
}
