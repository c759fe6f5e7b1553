package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/png"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
)

// guest is a virtual machine with a backend in this process.
type guest struct {
	*vmm.VM
	device  gpu.Device
	gpu     *virtgpu.Device
	machine *virtio.Guest
	gl      *virgl.Renderer // nil without
	empty   uint64          // bytes of VRAM that the device itself needs
	idle    int             // contexts of the idle guest: its console has one
	close   func() error
}

var (
	sharedGuest     = sync.OnceValues(bootGuest)
	sharedGuestUsed bool
)

// programs is a directory for what tests build once.
var programs string

// TestMain ends the machine that the tests share, and removes what they built.
func TestMain(m *testing.M) {
	serveRenderer()
	flag.Parse()
	err := leaveOutUnwatched()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if programs, err = os.MkdirTemp("", "pvdrm-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if sharedGuestUsed {
		if g, err := sharedGuest(); err == nil {
			if err := g.close(); err != nil {
				fmt.Fprintln(os.Stderr, "ending the shared guest:", err)
				code = 1
			}
		}
	}
	if err := os.RemoveAll(programs); err != nil {
		fmt.Fprintln(os.Stderr, "removing what the tests built:", err)
		code = 1
	}
	os.Exit(code)
}

// leaveOutUnwatched skips unwatched tests unless the command names tests.
func leaveOutUnwatched() error {
	if flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	return flag.Set("test.skip", unwatched)
}

// vmGuest returns a running machine, shared by all tests that do not end it.
func vmGuest(t *testing.T) *guest {
	t.Helper()
	sharedGuestUsed = true
	g, err := sharedGuest()
	require.NoError(t, err)
	return g
}

// vmGuestWith returns a machine of the test's own with one more program, whose kernels have a limit.
func vmGuestWith(t *testing.T, limit time.Duration, program string) *guest {
	t.Helper()
	g, err := bootOn(limit, nil, nil, guestimage.Program{Name: filepath.Base(program), Path: program})
	require.NoError(t, err)
	return g
}

// guestImage builds an image that the tests boot.
func guestImage(programs ...guestimage.Program) (guestimage.Image, error) {
	return guestimage.Build(context.Background(), guestimage.Config{Programs: append(programs, guestimage.Program{Name: "gdev"})})
}

func bootGuest() (*guest, error) { return boot(nil) }

// boot starts a backend, with a renderer for OpenGL if that is not nil, and a machine. Its close ends both and checks that
// nothing of the guest is left in the backend.
func boot(renderer func(*quota.Set) (*virgl.Renderer, error), programs ...guestimage.Program) (*guest, error) {
	return bootOn(30*time.Second, nil, renderer, programs...)
}

// bootOn is boot with a limit of launches, and with a device that stands between the backend and the software GPU, if
// around is not nil.
func bootOn(limit time.Duration, around func(gpu.Device) gpu.Device, renderer func(*quota.Set) (*virgl.Renderer, error), programs ...guestimage.Program) (*guest, error) {
	img, err := guestImage(programs...)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	if err != nil {
		return nil, err
	}
	g := &guest{}
	if g.device, err = softgpu.New(softgpu.Config{VRAMBytes: 1 << 30, LaunchLimit: limit}); err != nil {
		return nil, err
	}
	if around != nil {
		g.device = around(g.device)
	}
	g.empty = g.device.Stats().VRAMUsed
	log := zap.NewNop()
	g.machine = &virtio.Guest{Device: g.device, Log: log}
	cfg := virtgpu.Config{Components: []virtgpu.Component{pvdrm.Component{Guest: g.machine}}, Log: log}
	if renderer != nil {
		if g.gl, err = renderer(g.machine.Quotas()); err != nil {
			return nil, err
		}
		cfg.Components = append(cfg.Components, g.gl)
	}
	if g.gpu, err = virtgpu.New(cfg); err != nil {
		return nil, err
	}
	g.machine.Counts = func() (uint64, uint64) { s := g.gpu.Stats(); return s.Kicks, s.Interrupts }
	socket := filepath.Join(dir, "gpu")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.gpu.Serve(ctx, l) }()
	console := &bytes.Buffer{}
	g.VM, err = vmm.Start(ctx, vmm.Config{Kernel: img.Kernel, Initrd: img.Initrd, GPUSocket: socket, Console: console,
		MemoryMiB: 768, CPUs: 2, Append: "vt.global_cursor_default=0", CacheDir: guestimage.DefaultCacheDir(), BootTimeout: patience})
	if err != nil {
		cancel()
		return nil, err
	}
	g.close = func() error {
		end, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
		if err := g.Shutdown(end); err != nil {
			return fmt.Errorf("shutdown: %w; console:\n%s", err, console)
		}
		cancel()
		if err := <-served; err != nil && ctx.Err() == nil {
			return err
		}
		if g.gl != nil {
			if err := g.gl.Close(); err != nil {
				return err
			}
		}
		if st := g.gpu.Stats(); st.Resources != 0 || st.Entries != 0 || st.MapRuns != 0 {
			return fmt.Errorf("the guest's pages are still in use: %+v", st)
		}
		if n := g.machine.Open(); n != 0 {
			return fmt.Errorf("%d contexts of the guest are left", n)
		}
		if st := g.device.Stats(); st.VRAMUsed != g.empty || st.Channels != 0 {
			return fmt.Errorf("left on the device: %+v", st)
		}
		return g.device.Close()
	}
	if err := g.WaitReady(ctx); err != nil {
		return nil, fmt.Errorf("%w; console:\n%s", err, console)
	}
	g.idle = g.machine.Open()
	return g, nil
}

// sh runs a shell script in the guest and returns what it printed.
func (g *guest) sh(t *testing.T, script string) string {
	t.Helper()
	out, code := g.try(t, script)
	require.Zero(t, code, "%s\n%s", script, out)
	return out
}

func (g *guest) try(t *testing.T, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code, err := g.Run(ctx, []string{"sh", "-c", script}, nil, &out, &out)
	require.NoError(t, err, out.String())
	return out.String(), code
}

func TestGuestFindsItsGPU(t *testing.T) {
	g := vmGuest(t)
	require.Contains(t, g.sh(t, "ls /dev/dri"), "renderD128")
	require.Contains(t, g.sh(t, "dmesg"), "+virgl")
}

// suiteResult is one line of `gdev run --json`.
type suiteResult struct {
	Bench     string             `json:"bench"`
	Verified  bool               `json:"verified"`
	Seconds   map[string]float64 `json:"seconds"`
	Doorbells uint64             `json:"doorbells"`
	Error     string             `json:"error"`
}

// suite are the programs of the thesis's Table 4.2 and bfs of the earlier paper.
var suite = strings.Fields("nop loop madd mmul fmadd fmmul cpy pincpy bp bfs hs lud nn srad srad2 long-madd")

func checkSuite(t *testing.T, output string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(output) {
		var r suiteResult
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.True(t, r.Verified, line)
		require.Empty(t, r.Error, line)
		for _, phase := range []string{"init", "htod", "launch", "dtoh", "close"} {
			require.Contains(t, r.Seconds, phase, line)
		}
		seen[r.Bench] = true
		t.Logf("%-10s %5d doorbells, launch %.3f s", r.Bench, r.Doorbells, r.Seconds["launch"])
	}
	for _, name := range suite {
		require.True(t, seen[name], "%s is missing", name)
	}
}

func TestSuiteInAVirtualMachine(t *testing.T) {
	g := vmGuest(t)
	checkSuite(t, g.sh(t, "gdev run --all --json"))
	require.Eventually(t, func() bool { return g.machine.Open() == g.idle }, patience, 10*time.Millisecond, "contexts are left")
	require.Equal(t, g.empty, g.device.Stats().VRAMUsed)
}

func TestKilledGuestProgramLeavesNothing(t *testing.T) {
	g := vmGuest(t)
	before := g.device.Stats().Launches
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { // kill it in the middle of its work
			for g.device.Stats().Launches < before+3 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		_, _ = g.Run(ctx, []string{"gdev", "run", "--repeat", "1000", "loop", "madd"}, nil, nil, nil) // it is killed
	}()
	<-done
	require.Eventually(t, func() bool {
		return g.machine.Open() == g.idle && g.device.Stats().VRAMUsed == g.empty && g.device.Stats().Channels == 0
	},
		patience, 10*time.Millisecond, "a killed program left something in the backend")
	require.Contains(t, g.sh(t, "gdev run --json madd"), `"verified":true`)
}

func TestConsolePicture(t *testing.T) {
	g := vmGuest(t)
	g.sh(t, "for i in 1 2 3 4 5; do echo PVDRM PVDRM PVDRM > /dev/tty0; done")
	path := filepath.Join(t.TempDir(), "console.png")
	var img image.Image
	require.Eventually(t, func() bool {
		if err := g.Screenshot(t.Context(), path); err != nil {
			t.Log(err)
			return false
		}
		f, err := os.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		img, err = png.Decode(f)
		require.NoError(t, err)
		return litPixels(img) > 500
	}, patience, 200*time.Millisecond, "the guest's screen stays black")
	require.GreaterOrEqual(t, img.Bounds().Dx(), 640)
	require.GreaterOrEqual(t, img.Bounds().Dy(), 480)
}

// litPixels counts what is not black.
func litPixels(img image.Image) (n int) {
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if r, g, b, _ := img.At(x, y).RGBA(); r|g|b > 0x4000 {
				n++
			}
		}
	}
	return n
}

// The traces of the corpus replay in a virtual machine as they were recorded
// natively, and a program in it can be recorded.
func TestReplayInAVirtualMachine(t *testing.T) {
	g := vmGuest(t)
	files, err := filepath.Glob("replay/corpus/*.trace")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var out bytes.Buffer
		code, err := g.Run(t.Context(), []string{"gdev", "replay", "-"}, bytes.NewReader(data), &out, &out)
		require.NoError(t, err)
		require.Zero(t, code, "%s: %s", file, out.String())
		require.Contains(t, out.String(), "all as recorded")
	}
	out := g.sh(t, "PVDRM_TRACE=/tmp/t gdev run nn >&2; gdev replay --json /tmp/t; rm /tmp/t")
	require.Contains(t, out, `"differences":[]`)
}
