package virgl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/internal/hostmem"
)

// What BenchmarkScene takes from the environment, for its workers too. The device is PVDRM_TEST_RENDER_NODE, or
// the processors.
const (
	scenesEnv   = "PVDRM_SCENES"              // directory of recordings, *.scene
	lookEnv     = "PVDRM_SCENES_LOOK"         // WorkerConfig.Look
	backendEnv  = "PVDRM_SCENES_BACKEND_LOOK" // Config.Look
	freeEnv     = "PVDRM_SCENES_FREE"         // not empty: without the waits that the guest had
	confineEnv  = "PVDRM_SCENES_CONFINE"
	roleScene   = "scene"
	frameRepeat = 30 // frames that are measured, the last
	again       = 20 // how often they are replayed
)

// sceneConfig is how the workers of BenchmarkScene are started.
func sceneConfig() virgl.WorkerConfig {
	c := virgl.WorkerConfig{RenderNode: os.Getenv("PVDRM_TEST_RENDER_NODE"), Memory: 8 << 30, Confine: os.Getenv(confineEnv) != ""}
	c.Look, _ = time.ParseDuration(os.Getenv(lookEnv)) // without it, 0
	return c
}

// BenchmarkScene replays what Mesa in a guest asked of its renderer (virgltest.Recorder).
func BenchmarkScene(b *testing.B) {
	files, err := filepath.Glob(filepath.Join(os.Getenv(scenesEnv), "*.scene"))
	require.NoError(b, err)
	if os.Getenv(scenesEnv) == "" || len(files) == 0 {
		b.Skip(scenesEnv + " names no directory with recordings")
	}
	for _, path := range files {
		b.Run(strings.TrimSuffix(filepath.Base(path), ".scene"), func(b *testing.B) {
			f, err := os.Open(path)
			require.NoError(b, err)
			calls, err := virgltest.ReadCalls(f)
			require.NoError(b, err)
			require.NoError(b, f.Close())
			from, to, found, err := frames(calls)
			require.NoError(b, err)
			var took time.Duration
			for range b.N {
				took += replay(b, roleScene, calls, from, to)
			}
			b.ReportMetric(took.Seconds()*1e3/float64(b.N*again*frameRepeat), "ms/frame")
			b.ReportMetric(float64(found), "frames")
		})
	}
}

// frames finds the last frames: calls that repeat, by the smallest period that holds a command stream.
// They are calls from to to.
func frames(calls []virgltest.Call) (from, to, found int, err error) {
	const most = 256 // calls of a frame
	same := func(i, j int) bool { return calls[i].Op == calls[j].Op && len(calls[i].Stream) == len(calls[j].Stream) }
	for period := 1; period <= most; period++ {
		run, streams := 0, 0
		for i := period; i < len(calls); i++ {
			if !same(i, i-period) {
				run, streams = 0, 0
				continue
			}
			if calls[i].Op == virgltest.Submit {
				streams++
			}
			if run++; run >= frameRepeat*period && streams >= frameRepeat && run/period >= found {
				from, to, found = i+1-frameRepeat*period, i+1, run/period
			}
		}
		if found > 0 {
			return from, to, found, nil
		}
	}
	return 0, 0, 0, fmt.Errorf("%d calls: no %d frames of up to %d calls that repeat", len(calls), frameRepeat, most)
}

// replay makes the calls, those between from and to again and again, and returns how long these took.
func replay(b testing.TB, role string, calls []virgltest.Call, from, to int) time.Duration {
	b.Helper()
	look, _ := time.ParseDuration(os.Getenv(backendEnv)) // without it, 0
	r, err := virgl.New(virgl.Config{Keeper: command(roleKeeper + ":" + role), Look: look})
	require.NoError(b, err)
	p := &player{Renderer: r, b: b, backings: map[uint32][]byte{}}
	p.changed.L = &p.mu
	for i := range calls[:from] {
		p.wait(calls[i].Answered)
		p.play(&calls[i])
	}
	p.wait(from)
	free := os.Getenv(freeEnv) != ""
	began := time.Now()
	for n := range again {
		for i := from; i < to; i++ {
			if !free {
				p.wait(n*(to-from) + calls[i].Answered)
			}
			p.play(&calls[i])
		}
	}
	p.wait(from + again*(to-from))
	took := time.Since(began)
	require.NoError(b, p.failed)
	require.NoError(b, r.Close())
	return took
}

// player makes recorded calls.
type player struct {
	*virgl.Renderer
	b        testing.TB
	backings map[uint32][]byte

	mu       sync.Mutex
	changed  sync.Cond
	answered int
	failed   error // the first; the end of the renderer does not count
}

// wait waits until n calls were answered.
func (p *player) wait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.answered < n {
		p.changed.Wait()
	}
}

func (p *player) done(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered++
	if p.failed == nil {
		p.failed = err
	}
	p.changed.Signal()
}

func (p *player) play(c *virgltest.Call) {
	for _, page := range c.Pages {
		copy(p.backings[page.Resource][page.At:], page.Data)
	}
	switch c.Op {
	case virgltest.NewContext:
		p.CreateContext(c.Context, c.Name, p.done)
	case virgltest.CloseContext:
		p.DestroyContext(c.Context, p.done)
	case virgltest.CreateResource:
		p.CreateResource(c.Resource, c.Args, p.done)
	case virgltest.DestroyResource:
		p.DestroyResource(c.Resource, p.done)
	case virgltest.AttachBacking:
		p.AttachBacking(c.Resource, p.pages(c), p.done)
	case virgltest.DetachBacking:
		p.DetachBacking(c.Resource, p.done)
	case virgltest.Attach:
		p.AttachResource(c.Context, c.Resource, p.done)
	case virgltest.Detach:
		p.DetachResource(c.Context, c.Resource, p.done)
	case virgltest.Transfer:
		p.Transfer(c.Context, c.Transfer, p.done)
	case virgltest.Submit:
		p.Submit(c.Context, c.Stream, c.Fenced, p.done)
	case virgltest.ReadPixels:
		p.ReadPixels(c.Resource, c.Box[0], c.Box[1], c.Box[2], c.Box[3], func(_ []byte, err error) { p.done(err) })
	}
}

// pages makes memory for a backing.
func (p *player) pages(c *virgltest.Call) *virtgpu.Pages {
	size := (c.Size + 4095) &^ 4095
	fd, err := unix.MemfdCreate("ram", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(p.b, err)
	require.NoError(p.b, unix.Ftruncate(fd, int64(size)))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	require.NoError(p.b, err)
	region, err := hostmem.Map(fd, 0, size)
	require.NoError(p.b, err)
	table, err := hostmem.NewTable([]hostmem.Slot{{Region: region}})
	require.NoError(p.b, err)
	p.b.Cleanup(table.Release)
	pages, err := virtgpu.NewPages(table, []virtgpu.Entry{{Len: c.Size}})
	require.NoError(p.b, err)
	p.backings[c.Resource] = region.Bytes()
	return pages
}
