package gputest

import (
	"context"
	_ "embed"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/internal/hostmem"
)

//go:embed kernels.ptx
var kernels []byte

// rig is a device under test with the helpers that the subtests share. Its
// methods fail the test when the device does.
type rig struct {
	*testing.T
	dev   gpu.Device
	props gpu.Properties
	open  func(t *testing.T) gpu.Device
	host  []*hostmem.Region // given back after the device has been closed
}

func newRig(t *testing.T, open func(t *testing.T) gpu.Device) *rig {
	r := &rig{T: t, dev: open(t), open: open}
	r.props = r.dev.Properties()
	t.Cleanup(func() {
		require.NoError(t, r.dev.Close())
		for _, region := range r.host {
			region.Release()
		}
	})
	return r
}

// pages returns n bytes of zeroed, page-aligned host memory.
func (r *rig) pages(n uint64) []byte {
	region, err := hostmem.New(n)
	require.NoError(r, err)
	r.host = append(r.host, region)
	return region.Bytes()
}

// client is a context with a channel and the suite's kernels.
type client struct {
	*rig
	gpu.Context
	ch    gpu.Channel
	mod   gpu.Module
	vram  uint64 // next free address of each window
	sys   uint64
	stage buffer // for read and write
}

func (r *rig) client() *client {
	c := &client{rig: r, vram: r.props.VRAM.Base, sys: r.props.System.Base}
	var err error
	c.Context, err = r.dev.NewContext(r.Name())
	require.NoError(r, err)
	c.ch, err = c.NewChannel()
	require.NoError(r, err)
	return c
}

// buffer is memory that is mapped whole.
type buffer struct {
	gpu.Memory
	va   uint64
	host []byte // of system memory
}

const readWrite = gpu.ProtRead | gpu.ProtWrite

// roundUp rounds n up to a multiple of the window's page.
func roundUp(n uint64, w gpu.Window) uint64 { return (n + w.Page - 1) &^ (w.Page - 1) }

// device allocates and maps at least n bytes of VRAM.
func (c *client) device(n uint64) buffer {
	n = roundUp(n, c.props.VRAM)
	m, err := c.NewVRAM(n)
	require.NoError(c, err)
	b := buffer{Memory: m, va: c.vram}
	require.NoError(c, c.Map(b.va, m, 0, n, readWrite))
	c.vram += n + c.props.VRAM.Page
	return b
}

// system maps at least n bytes of host memory.
func (c *client) system(n uint64) buffer {
	n = roundUp(n, c.props.System)
	host := c.pages(n)
	m, err := c.NewSystem([][]byte{host})
	require.NoError(c, err)
	b := buffer{Memory: m, va: c.sys, host: host}
	require.NoError(c, c.Map(b.va, m, 0, n, readWrite))
	c.sys += n + c.props.System.Page
	return b
}

// submit queues a batch; its result comes on the channel returned.
func (c *client) submit(ch gpu.Channel, cmds ...gpu.Command) <-chan gpu.Result {
	results := make(chan gpu.Result, 1)
	require.NoError(c, ch.Submit(cmds, func(r gpu.Result) { results <- r }))
	return results
}

// do runs a batch on the client's channel. It must succeed.
func (c *client) do(cmds ...gpu.Command) gpu.Result {
	c.Helper()
	r := <-c.submit(c.ch, cmds...)
	require.NoError(c, r.Err)
	return r
}

// try runs a batch that may fail, on a channel of its own.
func (c *client) try(cmds ...gpu.Command) gpu.Result {
	c.Helper()
	ch, err := c.NewChannel()
	require.NoError(c, err)
	r := <-c.submit(ch, cmds...)
	require.NoError(c, ch.Close())
	return r
}

// staging returns system memory of at least n bytes for transfers to and from
// the test. It is the same one while it is large enough.
func (c *client) staging(n uint64) buffer {
	c.Helper()
	if uint64(len(c.stage.host)) < n {
		c.stage = c.system(n)
	}
	return c.stage
}

// read copies n bytes at va to the host.
func (c *client) read(va, n uint64) []byte {
	c.Helper()
	b := c.staging(n)
	c.do(&gpu.Copy{Dst: b.va, Src: va, Width: n, Height: 1})
	return slices.Clone(b.host[:n])
}

// write copies data to va.
func (c *client) write(va uint64, data []byte) {
	c.Helper()
	n := uint64(len(data))
	b := c.staging(n)
	copy(b.host, data)
	c.do(&gpu.Copy{Dst: va, Src: b.va, Width: n, Height: 1})
}

// function finds one of the suite's kernels.
func (c *client) function(name string) gpu.Function {
	c.Helper()
	if c.mod == nil {
		var err error
		c.mod, err = c.LoadModule(context.Background(), "kernels.ptx", kernels, nil)
		require.NoError(c, err)
	}
	f, err := c.mod.Function(name)
	require.NoError(c, err)
	return f
}

// kernel is a launch of one of the suite's kernels by one thread. Arguments
// are uint64 and uint32.
func (c *client) kernel(name string, args ...any) *gpu.Launch {
	c.Helper()
	f := c.function(name)
	attrs := f.Attributes()
	require.Len(c, attrs.Params, len(args))
	params := make([]byte, attrs.ParamBytes)
	for i, arg := range args {
		at := params[attrs.Params[i].Offset:]
		switch v := arg.(type) {
		case uint64:
			binary.LittleEndian.PutUint64(at, v)
		case uint32:
			binary.LittleEndian.PutUint32(at, v)
		default:
			require.FailNow(c, "bad argument", "%T", arg)
		}
	}
	return &gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: params}
}

// running launches a kernel that never ends by itself, and waits until it runs.
// The kernel's first parameter is the word in which it says so.
func (c *client) running(ch gpu.Channel, name string, args ...any) <-chan gpu.Result {
	c.Helper()
	ready := c.system(8)
	results := c.submit(ch, c.kernel(name, append([]any{ready.va}, args...)...))
	c.waitWord(ready, 0)
	return results
}

// waitWord waits until the device has written something to a word of a buffer.
func (c *client) waitWord(b buffer, off int) {
	c.Helper()
	for !wordSet(b.host, off) {
		pause()
	}
}

// pause lets others run before the next look at what they do.
func pause() { time.Sleep(100 * time.Microsecond) }

// alive checks that the device serves this client.
func (c *client) alive() {
	c.Helper()
	require.NoError(c, c.Err())
	b := c.system(256)
	l := c.kernel("store", b.va, uint32(100))
	l.Block[0] = 32
	c.do(l)
	require.Equal(c, uint32(131), binary.LittleEndian.Uint32(b.host[31*4:]))
	require.NoError(c, b.Close())
}

// lost checks that an error is a fault of the given kind.
func (r *rig) lost(err error, cause gpu.LostCause) *gpu.LostError {
	r.Helper()
	var lost *gpu.LostError
	require.ErrorAs(r, err, &lost)
	require.Equal(r, cause, lost.Cause, "%v", err)
	return lost
}
