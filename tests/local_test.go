package tests

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	backend "pvdrm/backend/carrier/local"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// host is a backend for local guests.
type host struct {
	device gpu.Device
	server *backend.Server
	socket string
	stop   func() error // ends the backend; may be called again
}

// startHost starts a backend in this process with a device of its own.
func startHost(t testing.TB, cfg softgpu.Config) *host {
	t.Helper()
	if cfg.VRAMBytes == 0 {
		cfg.VRAMBytes = 256 << 20
	}
	device, err := softgpu.New(cfg)
	require.NoError(t, err)
	return startHostOn(t, device)
}

// startLimitedHost starts a backend that grants at most so many bytes.
func startLimitedHost(t *testing.T, bytes uint64) *host {
	t.Helper()
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20})
	require.NoError(t, err)
	return startServer(t, backend.Config{Device: device, MaxMemory: bytes})
}

// startHostOn starts a backend on a device.
func startHostOn(t testing.TB, device gpu.Device) *host {
	t.Helper()
	return startServer(t, backend.Config{Device: device})
}

// startServer starts a backend, and checks at the end of the test that it ends
// cleanly with nothing left behind.
func startServer(t testing.TB, cfg backend.Config) *host {
	t.Helper()
	device := cfg.Device
	// Not t.TempDir: its path may be too long for a socket's name.
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	empty := device.Stats().VRAMUsed // what the device itself needs
	h := &host{device: device, socket: filepath.Join(dir, "gpu")}
	l, err := backend.Listen(h.socket)
	require.NoError(t, err)
	if cfg.Log == nil {
		cfg.Log = zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	}
	h.server = backend.NewServer(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.server.Serve(ctx, l) }()
	h.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		require.NoError(t, h.stop())
		st := device.Stats()
		require.Equal(t, empty, st.VRAMUsed, "VRAM left behind")
		require.Zero(t, st.Channels, "channels left behind")
		require.Zero(t, h.server.Stats().GrantedBytes, "granted memory left behind")
		require.NoError(t, device.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	return h
}

// open opens a DRM file.
func (h *host) open(t testing.TB) *frontend.File {
	t.Helper()
	c, err := local.Open(h.socket)
	require.NoError(t, err)
	f, err := frontend.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() }) // a test may have closed it
	return f
}
