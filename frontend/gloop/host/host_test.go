package host_test

import (
	"context"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
	"pvdrm/gpu/softgpu"
)

// newContext makes a context on a software GPU with so many multiprocessors.
func newContext(t testing.TB, sms int) *cuda.Context {
	return newContextOf(t, softgpu.Config{VRAMBytes: 64 << 20, SMs: sms})
}

func newContextOf(t testing.TB, device softgpu.Config) *cuda.Context {
	c := newContexts(t, 1, device)[0]
	t.Cleanup(func() { require.NoError(t, c.Destroy()) })
	return c
}

// newContexts makes contexts of as many programs on one software GPU.
func newContexts(t testing.TB, n int, config softgpu.Config) (all []*cuda.Context) {
	dev, err := softgpu.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	for range n {
		driver, err := cuda.Init(func() (drm.File, error) { return native.Open(dev, "gloop") })
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, driver.Close()) })
		d, err := driver.Device(0)
		require.NoError(t, err)
		c, err := d.CreateContext()
		require.NoError(t, err)
		all = append(all, c)
	}
	return all
}

// load loads testdata/NAME.ptx.
func load(t testing.TB, c *cuda.Context, name string) *cuda.Module {
	ptx, err := os.ReadFile("testdata/" + name + ".ptx")
	require.NoError(t, err)
	m, err := c.LoadModule(name, ptx)
	require.NoError(t, err)
	return m
}

// kinds are the versions that each source is compiled to.
var kinds = map[string]string{"shared": "", "noshared": ".noshared"}

// words makes zeroed device memory, and a function that reads it.
func words(t testing.TB, c *cuda.Context, n int) (cuda.DevicePtr, func() []uint32) {
	p, err := c.MemAlloc(uint64(4 * n))
	require.NoError(t, err)
	require.NoError(t, c.MemsetD32(p, 0, uint64(n)))
	return p, func() []uint32 {
		raw, out := make([]byte, 4*n), make([]uint32, n)
		require.NoError(t, c.MemcpyDtoH(raw, p))
		_, err := binary.Decode(raw, binary.LittleEndian, out)
		require.NoError(t, err)
		return out
	}
}

func minute(t testing.TB) context.Context {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

// Tasks run one after another, and logical blocks on fewer physical ones.
func TestThrottle(t *testing.T) {
	for name, kind := range kinds {
		for _, kernel := range []string{"throttle", "necessary"} {
			t.Run(kernel+" "+name, func(t *testing.T) {
				c := newContext(t, 2)
				n, blocks := uint32(20_000), 5
				out, read := words(t, c, blocks)
				cfg := host.Config{Context: c, Module: load(t, c, "throttle"+kind), Kernel: kernel,
					Grid: [3]uint32{uint32(blocks)}, Block: [3]uint32{1}}
				start := time.Now()
				stats, err := host.Run(minute(t), cfg, out, n)
				require.NoError(t, err)
				t.Logf("%v, %+v", time.Since(start), stats)
				for _, got := range read() {
					require.Equal(t, n, got)
				}
				require.Equal(t, 1, stats.Launches)
			})
		}
	}
}
