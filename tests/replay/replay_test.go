package replay

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/local"
	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/drm/trace"
	"pvdrm/frontend"
	carrier "pvdrm/frontend/carrier/local"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// update records anew what this package records itself.
var update = flag.Bool("update", false, "record anew what this package records")

func device(t testing.TB) gpu.Device {
	t.Helper()
	d, err := softgpu.New(softgpu.Config{VRAMBytes: 256 << 20, LaunchLimit: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// openNative opens files directly on a device.
func openNative(d gpu.Device) func() (drm.File, error) {
	return func() (drm.File, error) {
		f, err := native.Open(d, "replay")
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

// openLocal opens files as a local guest of a backend.
func openLocal(t *testing.T, d gpu.Device) func() (drm.File, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	socket := filepath.Join(dir, "gpu")
	l, err := local.Listen(socket)
	require.NoError(t, err)
	server := local.NewServer(local.Config{Device: d, Log: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
		require.NoError(t, os.RemoveAll(dir))
	})
	return func() (drm.File, error) {
		c, err := carrier.Open(socket)
		if err != nil {
			return nil, err
		}
		f, err := frontend.New(c)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

func replay(t *testing.T, data []byte, open func() (drm.File, error)) trace.Report {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	report, err := trace.Replay(r, open)
	require.NoError(t, err)
	return report
}

// Every trace of the corpus replays as it was recorded, wherever.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("corpus/*.trace")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		t.Run(filepath.Base(file), func(t *testing.T) {
			for name, open := range map[string]func() (drm.File, error){"native": openNative(device(t)), "local": openLocal(t, device(t))} {
				report := replay(t, data, open)
				for _, d := range report.Differences {
					t.Errorf("%s: %s", name, d)
				}
				require.Positive(t, report.Calls)
			}
		})
	}
}

// made are the traces that this package records itself.
var made = map[string]func(t *testing.T, open func() drm.Driver){
	// What a program does that goes wrong goes wrong in the same way everywhere.
	"edges":   func(t *testing.T, open func() drm.Driver) { edges(t, open()) },
	"sharing": sharing,
}

func TestMadeTracesAreInTheCorpus(t *testing.T) {
	for name, program := range made {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := trace.NewWriter(&b)
			native := openNative(device(t))
			program(t, func() drm.Driver {
				f, err := native()
				require.NoError(t, err)
				return trace.Record(f, w)
			})
			require.NoError(t, w.Flush())
			path := "corpus/" + name + ".trace"
			if *update {
				require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			r1, err := trace.NewReader(bytes.NewReader(want))
			require.NoError(t, err)
			r2, err := trace.NewReader(&b)
			require.NoError(t, err)
			what, err := trace.Diff(r1, r2)
			require.NoError(t, err)
			require.Empty(t, what)
		})
	}
}

// altered is a trace with one event changed.
func altered(t *testing.T, data []byte, change func(*trace.Event) bool) []byte {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	var b bytes.Buffer
	w := trace.NewWriter(&b)
	done := false
	for {
		e, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		done = done || change(e)
		require.NoError(t, w.Write(e))
	}
	require.True(t, done, "no such event")
	require.NoError(t, w.Flush())
	return b.Bytes()
}

func TestReplayFindsWhatDiffers(t *testing.T) {
	data, err := os.ReadFile("corpus/edges.trace")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*trace.Event) bool
		says   string
	}{
		"errno": {func(e *trace.Event) bool {
			if e.Op != trace.OpGemNew || e.Errno == 0 {
				return false
			}
			e.Errno = syscall.EPERM
			return true
		}, "where the trace has EPERM"},
		"memory": {func(e *trace.Event) bool {
			if e.Op != trace.OpSeen {
				return false
			}
			e.OutBytes[0] = []byte{1, 2, 3, 4, 5, 6, 7, 8}
			return true
		}, "has another content"},
		"input": {func(e *trace.Event) bool {
			if e.Op != trace.OpWritten {
				return false
			}
			e.InBytes[0] = bytes.Repeat([]byte{7}, len(e.InBytes[0]))
			return true
		}, "has another content"},
	} {
		t.Run(name, func(t *testing.T) {
			report := replay(t, altered(t, data, c.change), openNative(device(t)))
			require.NotEmpty(t, report.Differences)
			require.Contains(t, report.Differences[0].String(), c.says)
		})
	}
}

// A replay on a device with other windows and numbers gets addresses that are right there.
func TestSymbolsAreTranslated(t *testing.T) {
	for _, name := range []string{"nn.trace", "edges.trace", "sharing.trace"} {
		data, err := os.ReadFile(filepath.Join("corpus", name))
		require.NoError(t, err)
		d := device(t)
		report := replay(t, data, func() (drm.File, error) {
			f, err := native.Open(d, "replay")
			if err != nil {
				return nil, err
			}
			return &elsewhere{Driver: f}, nil
		})
		require.Empty(t, report.Differences)
	}
}

// FuzzReplay replays what may be no trace at all.
func FuzzReplay(f *testing.F) {
	for name := range made {
		data, err := os.ReadFile("corpus/" + name + ".trace")
		require.NoError(f, err)
		f.Add(data[:len(data)/2])
	}
	d, err := softgpu.New(softgpu.Config{VRAMBytes: 16 << 20, LaunchLimit: 20 * time.Millisecond})
	require.NoError(f, err)
	empty := d.Stats().VRAMUsed
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := trace.NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := trace.Replay(r, openNative(d)); err != nil {
			require.ErrorIs(t, err, trace.ErrFormat)
		}
		require.Equal(t, empty, d.Stats().VRAMUsed, "something is left on the device")
	})
}
